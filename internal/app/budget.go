package app

import (
	"context"
	"fmt"

	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/trials"
)

// budget is what trials may declare together: what is configured, or what the
// provider's host has, if it knows. CPUs may be promised several times over, which
// the result tells.
func (j *Job) budget(ctx context.Context, s *site) scheduler.Resources {
	l := j.app.Host.Providers[s.name].Limits
	b := scheduler.Resources{CPUs: l.CPUs, MemoryMiB: l.MemoryMiB, DiskMiB: l.DiskMiB, GPUs: l.GPUs}
	if b.CPUs == 0 || b.MemoryMiB == 0 {
		size := j.size(ctx, s)
		if b.CPUs == 0 {
			b.CPUs = size.CPUs
		}
		if b.MemoryMiB == 0 {
			b.MemoryMiB = size.MemoryMiB
		}
	}
	if l.OvercommitCPUs > 0 && l.OvercommitCPUs != 1 && b.CPUs > 0 {
		has := b.CPUs
		b.CPUs *= l.OvercommitCPUs
		j.note("overcommit_cpus", j.at(s)+fmt.Sprintf("trials that run at once may declare %g CPUs together, there are %g (overcommit_cpus %g): what depends on time may end differently",
			b.CPUs, has, l.OvercommitCPUs))
	}
	return b
}

// size is zero where the provider does not know it.
func (j *Job) size(ctx context.Context, s *site) providers.Resources {
	sizer, ok := providers.As[providers.Sizer](s.Provider)
	if !ok || s.Down != nil {
		return providers.Resources{}
	}
	size, err := sizer.Size(ctx)
	if err != nil {
		j.log.Warn("the provider's size is not known, declared CPU and memory are not held against it", "provider", s.name, "error", err)
	}
	return size
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
