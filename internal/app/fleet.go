package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"harborgate/providers"
	"harborgate/trials"
)

// Fleet are the providers that a job may use, in their order.
type Fleet []Member

// Member is one of them.
type Member struct {
	providers.Provider
	// One of a higher rank takes what those of lower ranks cannot take. Those of one
	// rank share trials by their weights.
	Rank, Weight int
	Down         error // why it does not answer at the moment
}

// Alone is a fleet of one provider.
func Alone(p providers.Provider) Fleet { return Fleet{{Provider: p}} }

// Names are the providers' names, with commas between them.
func (f Fleet) Names() string {
	names := make([]string, len(f))
	for i, m := range f {
		names[i] = m.Info().Name
	}
	return strings.Join(names, ",")
}

// Unsupported says what a planned trial needs and no provider of the fleet has, of each
// of them; "" when one has it all.
func (f Fleet) Unsupported(t PlannedTrial) string {
	var all []string
	for _, m := range f {
		why := Unsupported(m.Info(), t)
		if why == "" {
			return ""
		}
		if !slices.Contains(all, why) { // what an agent lacks, it lacks everywhere
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// Open opens the providers that a configuration names, without contacting them.
func (a *App) Open(c trials.EnvironmentConfig) (Fleet, error) {
	choices, err := a.Host.Choices(EnvironmentName(c))
	if err != nil {
		return nil, err
	}
	var out Fleet
	for _, c := range choices {
		p, err := a.Provider(c.Provider)
		if err != nil {
			return nil, err
		}
		out = append(out, Member{Provider: p, Rank: c.Rank, Weight: c.Weight})
	}
	return out, nil
}

// Check contacts the providers of a fleet, and notes which do not answer. It is an error
// when none does.
func (f Fleet) Check(ctx context.Context) ([]trials.Note, error) {
	var wg sync.WaitGroup
	for i := range f {
		wg.Go(func() { f[i].Down = answers(ctx, f[i]) })
	}
	wg.Wait()
	var notes []trials.Note
	var errs []error
	for _, m := range f {
		if m.Down != nil {
			errs = append(errs, m.Down)
			notes = append(notes, trials.Note{Code: "provider_down", Message: fmt.Sprintf(
				"provider %s does not answer, the job begins without it: %s", m.Info().Name, providers.Bare(m.Down, m.Info().Name))})
		}
	}
	if len(errs) == len(f) {
		return nil, errors.Join(errs...)
	}
	return notes, nil
}

// Sweep removes what dead owners left at the providers that answer.
func (f Fleet) Sweep(ctx context.Context, a *App) error {
	var errs []error
	for _, m := range f {
		if m.Down == nil {
			errs = append(errs, a.Sweep(ctx, m))
		}
	}
	return errors.Join(errs...)
}
