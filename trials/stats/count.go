package stats

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"harborgate/trials"
)

// Counts say what became of trials. Every planned one is in exactly one of
// Graded, Ungraded, Unblamed, Installed, Cancelled and Pending.
type Counts struct {
	Planned   int                  `json:"planned"`
	Graded    int                  `json:"graded"`              // have a verdict that counts
	Ungraded  map[trials.Blame]int `json:"ungraded"`            // ended without one, by blame; all blames are there
	Unblamed  int                  `json:"unblamed"`            // ended without one and without blame: verification was off
	Installed int                  `json:"installed,omitempty"` // were set up, and no more was asked for
	Cancelled int                  `json:"cancelled"`           // on request
	Pending   int                  `json:"pending"`             // have no result: they run, wait, or never started
	Coverage  *float64             `json:"coverage"`            // graded of planned

	Suspect int            `json:"suspect"` // of the graded ones
	Doubts  map[string]int `json:"doubts"`  // suspect ones by code; one may have several

	Retries int `json:"retries"` // tries beyond the first
	Retried int `json:"retried"` // trials that needed one
}

func count(group []*Trial, planned int) Counts {
	c := Counts{Planned: max(planned, len(group)), Ungraded: map[trials.Blame]int{}, Doubts: map[string]int{}}
	for _, b := range trials.Blames() {
		c.Ungraded[b] = 0
	}
	for _, t := range group {
		c.add(t)
	}
	c.Pending = c.Planned - len(group)
	if c.Planned > 0 {
		c.Coverage = finite(float64(c.Graded) / float64(c.Planned))
	}
	return c
}

func (c *Counts) add(t *Trial) {
	switch {
	case t.Valid:
		c.Graded++
		c.doubt(t)
	case t.Cancelled:
		c.Cancelled++
	case t.Installed:
		c.Installed++
	case t.Blame == trials.BlameNone:
		c.Unblamed++
	default:
		c.Ungraded[t.Blame]++
	}
	if t.Tries > 1 {
		c.Retried++
		c.Retries += t.Tries - 1
	}
}

func (c *Counts) doubt(t *Trial) {
	if !t.Suspect {
		return
	}
	c.Suspect++
	for _, code := range slices.Compact(slices.Sorted(slices.Values(t.Doubts))) {
		c.Doubts[code]++
	}
}

// Failure is an exception and the trials that had it. A trial that has a verdict
// all the same (its agent ran out of time, say) counts here and among the graded.
type Failure struct {
	Exception string       `json:"exception"` // "" for no verdict without a reason
	Blame     trials.Blame `json:"blame"`     // "" when cancelled, or not known
	N         int          `json:"n"`
	Graded    int          `json:"graded"`
	Reason    string       `json:"reason,omitempty"` // of most of the trials
	Others    int          `json:"other_reasons,omitempty"`
	Trials    []string     `json:"trials"` // names, in order
}

// commonReason is the reason of most trials, the first one of several, and how many
// others there are. Those that differ in numbers are one: of seconds, as a rule.
func commonReason(all []*Trial) (reason string, others int) {
	n := map[string]int{}
	kind := func(t *Trial) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, t.Reason)
	}
	for _, t := range all {
		n[kind(t)]++
	}
	reason = slices.MaxFunc(all, func(a, b *Trial) int { return cmp.Compare(n[kind(a)], n[kind(b)]) }).Reason
	return reason, len(n) - 1
}

func failures(group []*Trial) []Failure {
	type kind struct {
		exception string
		blame     trials.Blame
	}
	found := map[kind][]*Trial{}
	for _, t := range group {
		if t.Exception != "" || !t.Valid && !t.Installed {
			k := kind{t.Exception, t.Blame}
			found[k] = append(found[k], t)
		}
	}
	out := make([]Failure, 0, len(found))
	for k, all := range found {
		slices.SortFunc(all, func(a, b *Trial) int { return cmp.Compare(a.Name, b.Name) })
		f := Failure{Exception: k.exception, Blame: k.blame, N: len(all)}
		f.Reason, f.Others = commonReason(all)
		for _, t := range all {
			f.Trials = append(f.Trials, t.Name)
			if t.Valid {
				f.Graded++
			}
		}
		out = append(out, f)
	}
	order := map[trials.Blame]int{trials.BlameNone: len(trials.Blames())}
	for i, b := range trials.Blames() {
		order[b] = i
	}
	slices.SortFunc(out, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(order[a.Blame], order[b.Blame]), cmp.Compare(b.N, a.N), cmp.Compare(a.Exception, b.Exception))
	})
	return out
}
