package app

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"sync"

	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// Plan is a job before it runs: its trials, and what was left out of it.
type Plan struct {
	Config trials.JobConfig
	ID     string
	Trials []PlannedTrial // those to run
	Past   *Past          // nil when the job is new; see App.Continue
	// Invalid are tasks that cannot run, with all that is wrong with them.
	Invalid []tasks.Found
	// Passed are trials of source jobs that left nothing to grade.
	Passed []string
	// Diff says of every trial that is wanted what it needs, for a job that is compared
	// with earlier ones; Trials are those that need something.
	Diff []Diff
	// Warnings are about tasks that run.
	Warnings tasks.Problems

	all []PlannedTrial // also those that an earlier process finished
}

// PlannedTrial is one trial of a plan.
type PlannedTrial struct {
	trials.Planned
	Task *plannedTask

	earlier int // tries before the first of this process
	retries int // of them, those that failed by themselves
	stands  *standing
}

// standing is the result that a trial has although it runs once more: it counts until
// the next try begins.
type standing struct {
	stats.Trial
	// comesBack says that a next try which has no final result of its own leaves it in
	// force: it was no result of another version of the task, and not cancelled itself.
	comesBack bool
	archived  int // its number among the earlier tries while it is one, 0 in its place
}

// Total is how many trials the job has, run or to be run.
func (p *Plan) Total() int {
	n := len(p.Trials)
	if p.Past != nil {
		n += len(p.Past.Kept)
	}
	return n
}

// plannedTask is a task with its digests, which are computed when they are first
// asked for and then kept: reading a thousand tasks twice takes its time.
type plannedTask struct {
	*tasks.Task
	checksum func() (string, error)
	content  func() (string, error)
	verdict  func() (string, error) // of what decides a verdict
	solution func() (string, error) // the same, with the solution
}

func newPlannedTask(t *tasks.Task) *plannedTask {
	return &plannedTask{
		Task:     t,
		checksum: sync.OnceValues(func() (string, error) { return tasks.Checksum(t.Dir) }),
		content:  sync.OnceValues(func() (string, error) { return tasks.ContentHash(t.Dir) }),
		verdict:  sync.OnceValues(func() (string, error) { return verdictDigest(t.Dir, verdictDirs) }),
		solution: sync.OnceValues(func() (string, error) {
			return verdictDigest(t.Dir, append(verdictDirs[:len(verdictDirs):len(verdictDirs)], tasks.SolutionDir))
		}),
	}
}

// byKey counts the trials of each arm and data set.
func (p *Plan) byKey() map[stats.Key]int {
	out := map[stats.Key]int{}
	for _, t := range p.Trials {
		out[stats.KeyOf(t.Config.Agent, t.Config.Task.Source)]++
	}
	if p.Past != nil {
		for _, t := range p.Past.Kept {
			out[t.Row]++
		}
	}
	return out
}

// lock is the record of a trial's task and configuration.
func (p PlannedTrial) lock() (trials.TrialLock, error) {
	hash, err := p.Task.content()
	if err != nil {
		return trials.TrialLock{}, fmt.Errorf("digest of task %s: %w", p.Task.Dir, err)
	}
	version := ""
	if p.Task.Config.Package != nil {
		version = p.Task.Config.Package.Version
	}
	mode := ""
	if !p.Task.Multistep() {
		mode = string(p.Task.VerifierMode(nil))
	}
	l := trials.NewTrialLock(p.Config.Task.Lock(p.Task.Name, version, hash), mode, p.Own())
	l.SourceTrial = p.sourceLock()
	l.ExtraInstructions, err = instructionLocks(*p.Config)
	return l, err
}

// NewPlan finds a job's tasks and expands its trials. It touches no provider.
func NewPlan(cfg trials.JobConfig, id string) (*Plan, error) {
	p := &Plan{Config: cfg, ID: id}
	opt := tasks.LoadOptions{NoVerification: cfg.Verifier.Disable || cfg.InstallOnly}
	var configs []trials.TaskConfig
	found := map[string]*plannedTask{}
	add := func(f tasks.Found, c trials.TaskConfig) {
		if f.Task == nil {
			p.Invalid = append(p.Invalid, f)
			return
		}
		p.Warnings = append(p.Warnings, f.Problems.Least(tasks.SeverityWarning)...)
		found[c.Reference()] = newPlannedTask(f.Task)
		configs = append(configs, c)
	}
	for _, c := range cfg.Tasks {
		if err := local(c); err != nil {
			return nil, err
		}
		fs, problems := tasks.Find([]string{*c.Path}, opt)
		if err := problems.Err(); err != nil {
			return nil, err
		}
		for _, f := range fs {
			if f.Dataset != "" {
				return nil, fmt.Errorf("task %s is a directory of tasks: name it under datasets, or name one of its tasks", *c.Path)
			}
			add(f, c)
		}
	}
	chosen, err := newFilters(cfg.Datasets)
	if err != nil {
		return nil, err
	}
	for _, d := range cfg.Datasets {
		fs, err := dataset(d, opt, chosen)
		if err != nil {
			return nil, err
		}
		for _, f := range fs {
			add(f, trials.TaskConfig{Path: &f.Path, Source: &f.Dataset, Overwrite: d.Overwrite, DownloadDir: d.DownloadDir})
		}
	}
	p.Warnings = append(p.Warnings, chosen.unused()...)
	return p, p.expand(configs, found)
}

func (p *Plan) expand(configs []trials.TaskConfig, found map[string]*plannedTask) error {
	if len(p.Config.SourceJobs) > 0 && !isDiff(p.Config.SourceJobs) {
		return p.expandSources(configs, found)
	}
	planned, err := trials.Expand(p.Config, p.ID, configs, rand.Reader)
	if err != nil {
		return err
	}
	if isDiff(p.Config.SourceJobs) {
		return p.expandDiff(planned, found)
	}
	p.take(planned, found)
	return nil
}

// take makes the plan's trials.
func (p *Plan) take(planned []trials.Planned, found map[string]*plannedTask) {
	for _, t := range planned {
		p.all = append(p.all, PlannedTrial{Planned: t, Task: found[t.Config.Task.Reference()]})
	}
	p.Trials = p.all
}

// local refuses tasks that are not on this host.
func local(c trials.TaskConfig) error {
	switch {
	case c.GitURL != nil:
		return fmt.Errorf("task %s: tasks from git are not supported yet: clone the repository and give the directory with -p", c)
	case c.Name != nil:
		return fmt.Errorf("task %s: package tasks are not supported yet: give a local directory with -p", c)
	case c.Path == nil || *c.Path == "":
		return fmt.Errorf("a task has no path")
	}
	return nil
}

// dataset finds the tasks of a local directory. Filters come first: of tasks that are not
// wanted nothing but the name is looked at.
func dataset(d trials.DatasetConfig, opt tasks.LoadOptions, chosen *filters) ([]tasks.Found, error) {
	if d.Path == nil {
		what := "registry"
		if d.Repo != nil {
			what = "git repository"
		}
		return nil, fmt.Errorf("a data set from a %s is not supported yet: download it and give the directory with -p", what)
	}
	all, problems := tasks.List([]string{*d.Path})
	if err := problems.Err(); err != nil {
		return nil, err
	}
	source := filepath.Base(abs(*d.Path))
	var out []tasks.Found
	for _, f := range all {
		if f.Dataset == "" {
			f.Dataset = source
		}
		if chosen.want(d, f.Path) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil, chosen.noMatch(d, all)
	}
	if d.NTasks != nil && *d.NTasks < len(out) {
		out = out[:*d.NTasks]
	}
	tasks.LoadAll(out, opt)
	return out, nil
}

func abs(p string) string {
	if a, err := filepath.Abs(p); err == nil {
		return a
	}
	return p
}
