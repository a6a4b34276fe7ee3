package app

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"harborgate/authproxy"
	"harborgate/trials"
)

// BudgetError is why a job stopped whose money is used up.
type BudgetError struct {
	Name string // "job" or "day"
	Why  string
}

func (e *BudgetError) Error() string {
	next := "`harbor job resume` with a larger --budget-usd goes on with it"
	if e.Name == "day" {
		next = "`harbor job resume` goes on with it tomorrow (UTC), or with a larger budgets.day"
	}
	return fmt.Sprintf("the job was stopped: %s; %s", e.Why, next)
}

// failure is what the end of the last request means for the phase: models that were
// out of reach cost the verdict, whatever the agent made of it. Of what came before,
// agents recover. late says that the phase's time was over: who hangs up before that
// does so by choice.
func (m *models) failure(p trials.Phase, t authproxy.Totals, late bool) *trials.Failure {
	why := ""
	switch last := t.Last; {
	case t.Gone:
		why = "its token was revoked while it was at work"
	case last.Budget != "":
		return m.overBudget(p, last)
	case last.Refused == authproxy.KeyRefused:
		return trials.NewFailure(p, trials.CauseModelKey, "", last.Why+": see `harbor auth check`")
	case slices.Contains(authproxy.OwnTrouble(), last.Refused):
		why = last.Why
	case t.Answered == 0:
		why = neverAnswered(t, late)
	}
	if why == "" {
		why = brokenOff(t.Last)
	}
	if why == "" {
		return nil
	}
	return trials.NewFailure(p, trials.CauseModels, "", why)
}

// neverAnswered says why no answer came at all; it is "" of what was the client's doing.
func neverAnswered(t authproxy.Totals, late bool) string {
	switch last := t.Last; {
	case t.Partial:
		return "the auth proxy was killed, and no answer of a model came since"
	case last.End != "" && last.Refused == "" && last.Status == 0 && (late || last.End != authproxy.ClientGone):
		return "no answer of a model came before the phase ended"
	default:
		return denied(last)
	}
}

// silence is how long an upstream says nothing until it is to blame for a client that
// hangs up. Agents wait for five minutes.
const silence = time.Minute

// brokenOff says what was wrong with the answer to the last request; it is "" when that
// was answered, or ended by the client's doing.
func brokenOff(last authproxy.Ending) string {
	ends := []authproxy.End{authproxy.Cut, authproxy.Truncated, authproxy.Idle, authproxy.Broken, authproxy.Stopped}
	switch {
	case last.Refused != "":
		return ""
	case last.Status >= 500 || last.Status == 429:
		return fmt.Sprintf("the last request for a model was answered with %d by the upstream", last.Status)
	case last.End == authproxy.Failed:
		return "the last request for a model was answered with an error by the upstream, under the status of success"
	case slices.Contains(ends, last.End):
		return "the last answer broke off"
	case last.End == authproxy.ClientGone && last.Status == 0 && last.DurMS >= silence.Milliseconds():
		return fmt.Sprintf("the upstream was silent for %s, and the client gave up", (time.Duration(last.DurMS) * time.Millisecond).Round(time.Second))
	}
	return ""
}

// denied says why no model would answer whatever is asked of it: for its name, the
// account or the configuration. It is "" of other ends.
func denied(last authproxy.Ending) string {
	switch {
	case last.Refused == authproxy.Forbidden:
		return fmt.Sprintf("no model answered: the auth proxy refused requests for %s: %s", last.Model, last.Why)
	case last.Refused == authproxy.Unlisted:
		return fmt.Sprintf("no model answered: the auth proxy turned down what was asked: %s; the model's name or a base URL of the agent's own settings is wrong", last.Why)
	case last.Refused != "":
		return ""
	case last.Status == http.StatusNotFound:
		return fmt.Sprintf("no model answered: the upstream does not know %s (404): correct the model's name, or the upstream's base_url", last.Model)
	case last.Status == http.StatusForbidden:
		return fmt.Sprintf("no model answered: the upstream does not let its key use %s (403): see `harbor auth check`", last.Model)
	}
	return ""
}

// overBudget is what a budget that is used up means: the trial's own is the agent's
// to keep, the job's and the day's end the job.
func (m *models) overBudget(p trials.Phase, last authproxy.Ending) *trials.Failure {
	switch {
	case last.Refused == authproxy.Forbidden: // there is no price to count with
		return trials.NewFailure(p, trials.CauseModels, "", last.Why)
	case last.Budget == "job" || last.Budget == "day":
		if m.stop != nil {
			m.stop(&BudgetError{last.Budget, last.Why})
		}
		return trials.NewFailure(p, trials.CauseCancelled, "", last.Why)
	}
	return trials.NewFailure(p, trials.CauseBudget, "", last.Why)
}
