package app

import (
	"cmp"
	"context"
	"fmt"

	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/trials"
)

// budget is what trials may declare together at a site, in this job and over all
// processes of the host. CPUs may be promised several times over, which the result tells.
// What is not known is no limit, and the error says why.
func (j *Job) budget(ctx context.Context, s *site) (scheduler.Resources, error) {
	has, budget, err := j.app.hold(ctx, s.Provider, j.Dir)
	if has != budget {
		s.promised.Do(func() {
			j.note("overcommit_cpus", j.at(s)+fmt.Sprintf("trials that run at once may declare %g CPUs together, there are %g (overcommit_cpus %g): what depends on time may end differently",
				budget.CPUs, has.CPUs, j.app.Host.Providers[s.name].Limits.OvercommitCPUs))
		})
	}
	return budget, err
}

// hold says whom the pool of a provider serves from here on, and holds it to what may be
// declared there together: what the provider has, CPUs as many times over as configured.
// Jobs, trials and builds must hold to the same: who has less to go by is refused as long
// as the others use more. One that the App has not opened is shared with nobody.
func (a *App) hold(ctx context.Context, p providers.Provider, label string) (has, budget scheduler.Resources, err error) {
	name := p.Info().Name
	l := a.Host.Providers[name].Limits
	has, err = a.room(ctx, p)
	budget = has
	budget.CPUs *= cmp.Or(l.OvercommitCPUs, 1)
	if pool := a.pool(name); pool != nil {
		most := needOf(budget)
		most.Sandboxes = l.Sandboxes
		pool.For(label, most)
	}
	return has, budget, err
}

// room is what a provider has: what is configured, or what its host has, if it knows.
// Zero is not known. The error is of one that knows and did not say.
func (a *App) room(ctx context.Context, p providers.Provider) (scheduler.Resources, error) {
	r := a.configured(p)
	sizer, ok := providers.As[providers.Sizer](p)
	if !ok || r.CPUs > 0 && r.MemoryMiB > 0 {
		return r, nil
	}
	size, err := sizer.Size(ctx)
	r.CPUs, r.MemoryMiB = cmp.Or(r.CPUs, size.CPUs), cmp.Or(r.MemoryMiB, size.MemoryMiB)
	return r, err
}

func (a *App) configured(p providers.Provider) scheduler.Resources {
	l := a.Host.Providers[p.Info().Name].Limits
	return scheduler.Resources{CPUs: l.CPUs, MemoryMiB: l.MemoryMiB, DiskMiB: l.DiskMiB, GPUs: l.GPUs}
}

// TooLarge names the tasks that declare more than any provider that could run them has,
// once each. Their trials ask for it nevertheless, and say what they are told.
func (a *App) TooLarge(ctx context.Context, f Fleet, p *Plan) []trials.Note {
	has := a.Suited(ctx, f).has
	told := map[string]bool{}
	var notes []trials.Note
	for _, t := range p.Trials {
		if told[t.Task.Name] {
			continue
		}
		why, fits := "", false
		for i, m := range f {
			if Unsupported(m.Info(), t) == "" {
				lack := lacks(t.limits(), has[i])
				fits = fits || lack == ""
				why = cmp.Or(why, m.Info().Name+" has "+lack)
			}
		}
		if !fits && why != "" {
			told[t.Task.Name] = true
			notes = append(notes, trials.Note{Code: "too_large", Message: fmt.Sprintf(
				"task %s declares more than there is and will probably be refused: %s; --override-cpus and --override-memory-mb ask for less", t.Task.Name, why)})
		}
	}
	return notes
}

// limits are what a trial's sandbox is made with, of what the trial declares.
func (p PlannedTrial) limits() scheduler.Resources {
	r, c := p.needs(), p.Config.Environment
	if c.CPUEnforcementPolicy == "ignore" {
		r.CPUs = 0
	}
	if c.MemoryEnforcementPolicy == "ignore" {
		r.MemoryMiB = 0
	}
	return r
}

// lacks says of what a provider has less than one trial needs, "" when it has all.
func lacks(needs, has scheduler.Resources) string {
	switch {
	case has.CPUs > 0 && needs.CPUs > has.CPUs:
		return fmt.Sprintf("%g CPUs, not %g", has.CPUs, needs.CPUs)
	case has.MemoryMiB > 0 && needs.MemoryMiB > has.MemoryMiB:
		return fmt.Sprintf("%d MiB of memory, not %d", has.MemoryMiB, needs.MemoryMiB)
	case has.DiskMiB > 0 && needs.DiskMiB > has.DiskMiB:
		return fmt.Sprintf("%d MiB of disk, not %d", has.DiskMiB, needs.DiskMiB)
	}
	return ""
}

// at begins a sentence that is about one of several sites.
func (j *Job) at(s *site) string {
	if len(j.sites) == 1 {
		return ""
	}
	return "provider " + s.name + ": "
}

// note keeps something about the job as a whole that changes no verdict: in its
// result, its log and its events.
func (j *Job) note(code, message string) {
	j.log.Warn("note", "code", code, "message", message)
	j.tally.note(code, message)
	j.Events.Emit(trials.NewEvent(trials.EventNote, "", 0, 0, map[string]string{"code": code, "message": message}))
}
