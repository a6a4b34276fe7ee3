package app

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/snapshots"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// site is one provider of a job, with all that the job has there.
type site struct {
	Member
	name     string
	store    *snapshots.Store
	images   *runner.Images
	runner   *runner.Runner
	outage   *outage
	bounded  bool // there are limits of what it has at once
	requests map[string]snapshots.Request
	promised sync.Once // that it has more CPUs than there are was told
}

// openSites makes the job's sites.
func (j *Job) openSites(fleet Fleet) error {
	j.fleet = fleet
	for _, m := range fleet {
		s := &site{Member: m, name: m.Info().Name, requests: map[string]snapshots.Request{}}
		s.bounded = j.app.Host.Providers[s.name].Limits.Room()
		j.sites = append(j.sites, s)
		var err error
		if s.store, err = j.app.snapshotStore(s.name); err != nil {
			return err
		}
		s.images = j.newImages(m.Provider, s.store)
	}
	return nil
}

// openRunners come last: they need all the rest.
func (j *Job) openRunners() {
	for _, s := range j.sites {
		s.runner = j.app.newRunner(s.Provider, s.images, j, j.models, j.log, func(trial string, id providers.ID, err error) {
			if err != nil {
				j.tally.cleanupFailed(fmt.Sprintf("%s of %s: %v", id, trial, err))
			}
		})
	}
}

// scheduled describes the sites to the scheduler. One of which it is not known what it
// has begins with its recovery, which asks again.
func (j *Job) scheduled(ctx context.Context) []scheduler.Site {
	out := make([]scheduler.Site, len(j.sites))
	for k, s := range j.sites {
		limits := j.app.limits(s.name)
		budget, unknown := j.app.configured(s.Provider), s.Down
		if s.Down == nil {
			budget, unknown = j.budget(ctx, s)
		}
		out[k] = scheduler.Site{
			Name: s.name, Rank: s.Rank, Weight: s.Weight, MaxBuilds: limits.Builds, Budget: budget,
			Down: unknown != nil, Shares: j.app.leases(s.name), Health: s.outage,
		}
	}
	return out
}

// schedule describes the trials to the scheduler. Attempts share what they ask for.
func (j *Job) schedule() []scheduler.Trial {
	type kind struct {
		task   *plannedTask
		config *trials.TrialConfig
	}
	demands := map[kind]*scheduler.Demand{}
	ts := make([]scheduler.Trial, len(j.Plan.Trials))
	for i, t := range j.Plan.Trials {
		k := kind{t.Task, t.Config}
		if demands[k] == nil {
			demands[k] = j.demand(t)
		}
		ts[i] = scheduler.Trial{Name: t.Name, Demand: demands[k]}
	}
	return ts
}

// demand is what a trial asks of each site. One that no site can run has the first, to
// fail there and say why.
func (j *Job) demand(t PlannedTrial) *scheduler.Demand {
	d := &scheduler.Demand{Pool: pool(t.Config.Agent), Needs: t.needs(), Places: make([]scheduler.Place, len(j.sites))}
	able := 0
	for k, s := range j.sites {
		place := &d.Places[k]
		if place.Bar = runner.Unsupported(s.Info(), t.Task.Task, *t.Config); place.Bar != "" {
			continue // it fails before it needs an image
		}
		able++
		place.Builds = s.builds(t)
		if c, ok := providers.As[providers.Coster](s.Provider); ok {
			place.Cost, _ = c.CostPerHour(providers.Spec{Resources: providers.Resources{CPUs: d.Needs.CPUs, MemoryMiB: d.Needs.MemoryMiB, DiskMiB: d.Needs.DiskMiB}})
		}
	}
	if able == 0 {
		d.Places[0].Bar = ""
	}
	return d
}

// builds are the keys of the images that a trial needs at a site.
func (s *site) builds(t PlannedTrial) []string {
	reqs, err := s.needed(t)
	if err != nil {
		return nil // the trial meets the same error and reports it
	}
	var keys []string
	for _, r := range reqs {
		key := string(r.Key)
		if first, ok := s.requests[key]; ok {
			key = string(first.Key) // one string for all trials
		} else {
			s.requests[key] = r
		}
		keys = append(keys, key)
	}
	return keys
}

// needed lists the images of a trial; one that is graded again has no environment.
func (s *site) needed(t PlannedTrial) ([]snapshots.Request, error) {
	if t.Config.SourceTrial == nil {
		return s.images.Needed(t.Task.Task, *t.Config, 1)
	}
	r, err := s.images.Verifier(t.Task.Task, *t.Config, 1)
	return []snapshots.Request{r}, err
}

// removeLost removes what a provider that went away made of this job and could not tell
// of: a Create without an answer leaves nobody who knows the sandbox, be it a trial's or,
// without a job, a build's. Nothing of the job runs any more. Where the provider does not
// answer, the next start's sweep does it.
func (j *Job) removeLost(ctx context.Context, s *site) {
	if !s.outage.seen() {
		return
	}
	ctx, cancel := providers.Cleanup(ctx, sweepLimit, checkLimit)
	defer cancel()
	found, err := s.List(ctx, providers.Selector{
		Labels:     map[string]string{providers.LabelOwner: j.app.owner.ID},
		NamePrefix: providers.NamePrefix,
	})
	if err != nil {
		j.log.Warn("what is left at a provider that was away is not known", "provider", s.name, "error", err)
	}
	for _, r := range found {
		if of := r.Labels[providers.LabelJob]; of != "" && of != j.Plan.Config.JobName {
			continue
		}
		if err := s.Destroy(ctx, r.ID); err != nil {
			j.tally.cleanupFailed(fmt.Sprintf("%s of %s: %v", r.ID, cmp.Or(r.Labels[providers.LabelTrial], "a build"), err))
		}
	}
}

// placed tells where a try runs, and why there.
func (j *Job) placed(t *PlannedTrial, a scheduler.Assignment, number int) {
	data := map[string]any{"provider": j.sites[a.Site].name, "reason": j.reason(a)}
	passed := map[string]string{}
	for _, p := range a.Passed {
		passed[j.sites[p.Site].name] = p.Why
	}
	if j.fleet.Unsupported(*t) != "" { // it has a site only to fail there
		delete(data, "provider")
		data["reason"] = "no provider can run it"
		for _, m := range j.fleet {
			passed[m.Info().Name] = Unsupported(m.Info(), *t)
		}
	}
	if len(passed) > 0 {
		data["passed"] = passed
	}
	j.Events.Emit(trials.NewEvent(trials.EventPlaced, t.Name, t.Attempt, number, data))
}

// reason is one sentence.
func (j *Job) reason(a scheduler.Assignment) string {
	s := j.sites[a.Site]
	switch {
	case len(j.sites) == 1:
		return "the job's only provider"
	case len(a.Passed) > 0:
		return "first that can take it"
	case s.Weight > 0:
		return "its share is the smallest for its weight"
	default:
		return "first choice"
	}
}
