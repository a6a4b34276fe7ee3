package providertest

import (
	"context"
	"fmt"

	"harborgate/providers"
)

func capabilityCases() []Case {
	return []Case{
		{"provider/info-is-static", nil, infoStatic},
		{"provider/capabilities-agree", nil, capabilitiesAgree},
		{"provider/check", nil, checkWorks},
	}
}

func infoStatic(_ context.Context, e *Env) {
	a, b := e.Provider.Info(), e.Provider.Info()
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		e.Errorf("two answers: %+v and %+v", a, b)
	}
	if a.Name == "" || a.Type == "" || len(a.Can.Sources) == 0 || len(a.Can.Networks) == 0 {
		e.Errorf("incomplete: %+v", a)
	}
	p, done := e.other()
	defer done()
	if c := p.Info(); fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", c) {
		e.Errorf("another instance says %+v, not %+v", c, a)
	}
}

// decorated hides everything optional of what it wraps, as decorators do.
type decorated struct{ providers.Provider }

func (d decorated) Unwrap() providers.Provider { return d.Provider }

func capabilitiesAgree(_ context.Context, e *Env) {
	can := e.Provider.Info().Can
	for _, p := range []providers.Provider{e.Provider, decorated{decorated{e.Provider}}} {
		for what, pair := range map[string][2]bool{
			"Snapshotter":  {can.Snapshots, implements[providers.Snapshotter](p)},
			"ImageBuilder": {can.Builds, implements[providers.ImageBuilder](p)},
			"Attacher":     {can.Attach, implements[providers.Attacher](p)},
			"Stopper":      {can.Stops, implements[providers.Stopper](p)},
			"Coster":       {can.Costs, implements[providers.Coster](p)},
			"Dialer":       {can.Dials, implements[providers.Dialer](p)},
			"Sizer":        {can.Sizes, implements[providers.Sizer](p)},
		} {
			if pair[0] != pair[1] {
				e.Errorf("%s: declared %v, implemented %v (in %T)", what, pair[0], pair[1], p)
			}
		}
	}
}

func implements[T any](p providers.Provider) bool {
	_, ok := providers.As[T](p)
	return ok
}

func checkWorks(ctx context.Context, e *Env) {
	if err := e.Provider.Check(ctx); err != nil {
		e.Errorf("check: %v", err)
	}
	e.wantNothing(ctx)
}
