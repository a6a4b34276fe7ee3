package app

import (
	"context"

	"harborgate/scheduler"
)

// Suited knows which providers of a fleet could take which trials.
type Suited struct {
	fleet Fleet
	has   []scheduler.Resources // in the fleet's order
}

// Suited asks what the providers have.
func (a *App) Suited(ctx context.Context, f Fleet) Suited {
	s := Suited{fleet: f, has: make([]scheduler.Resources, len(f))}
	for i, m := range f {
		if s.has[i] = a.configured(m.Provider); m.Down == nil {
			s.has[i], _ = a.room(ctx, m.Provider) // what is not known is not told
		}
	}
	return s
}

// Of lists the providers that could take a trial, in their order, and says of the others
// why not: they lack what it needs, or have less than it declares while another has
// enough.
func (s Suited) Of(t PlannedTrial) (able []string, not map[string]string) {
	able, not = []string{}, map[string]string{}
	small, fits := map[string]string{}, false
	for i, m := range s.fleet {
		name := m.Info().Name
		if why := Unsupported(m.Info(), t); why != "" {
			not[name] = why
		} else if lack := lacks(t.limits(), s.has[i]); lack != "" {
			small[name] = "it has " + lack
		} else {
			fits = true
		}
	}
	for _, m := range s.fleet {
		name := m.Info().Name
		if why := small[name]; why != "" && fits {
			not[name] = why
		}
		if not[name] == "" {
			able = append(able, name)
		}
	}
	return able, not
}
