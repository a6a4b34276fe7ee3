package app

import (
	"context"
	"fmt"

	"harborgate/trials"
)

// carryOver finds out what of the job's spending is not in the ledger of the proxy that
// is open: earlier processes may have had another one.
func (m *models) carryOver() error {
	ctx, cancel := context.WithTimeout(context.Background(), revokeLimit)
	defer cancel()
	here, err := m.open.spent(ctx, "job/"+m.job)
	if err != nil {
		return fmt.Errorf("what the job has spent is not known: %w", err)
	}
	m.elsewhere = max(0, m.before-here)
	m.total = here + m.elsewhere
	return nil
}

func (m *models) spentElsewhere() USD {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.elsewhere
}

// add tells what the job has come to after a grant that cost usd.
func (m *models) add(usd USD) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total += usd
	if m.told != nil {
		m.told(m.total.String())
	}
}

// spent is what the job has come to: by the ledger, kills and repeated tries included,
// and by what earlier processes spent elsewhere; "" when no proxy was opened, or does
// not say.
func (m *models) spent() string {
	m.mu.Lock()
	p, elsewhere := m.open, m.elsewhere
	m.mu.Unlock()
	if p == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeLimit)
	defer cancel()
	usd, err := p.spent(ctx, "job/"+m.job)
	if err != nil {
		m.log.Warn("what the job has spent is not known", "error", err)
		return ""
	}
	return (usd + elsewhere).String()
}

// spent is what the job's result says that its processes have spent; nil has none.
func (p *Past) spent() (usd USD, err error) {
	if p == nil || p.Result.Harborgate == nil || p.Result.Harborgate.SpentUSD == "" {
		return 0, nil
	}
	if err := usd.UnmarshalText([]byte(p.Result.Harborgate.SpentUSD)); err != nil {
		return 0, fmt.Errorf("what the job has spent (harborgate.spent_usd) is damaged in its result.json: %w: correct it there, as dollars in quotes, or take it out", err)
	}
	return usd, nil
}

// over takes from what a job was told before what set does not say.
func (s Settings) over(past *Past) (Settings, error) {
	if past == nil || past.Result.Harborgate == nil || past.Result.Harborgate.Budgets == nil {
		return s, nil
	}
	was := past.Result.Harborgate.Budgets
	for to, text := range map[*USD]string{&s.Budget: was.Job, &s.TrialBudget: was.Trial} {
		if *to > 0 || text == "" {
			continue
		}
		if err := to.UnmarshalText([]byte(text)); err != nil {
			return s, fmt.Errorf("the budget that the job was given is damaged in its result.json: %w: give it again, with --budget-usd or --trial-budget-usd", err)
		}
	}
	return s, nil
}

func (s Settings) budgets() *trials.Budgets {
	b := trials.Budgets{}
	if s.Budget > 0 {
		b.Job = s.Budget.String()
	}
	if s.TrialBudget > 0 {
		b.Trial = s.TrialBudget.String()
	}
	if b == (trials.Budgets{}) {
		return nil
	}
	return &b
}
