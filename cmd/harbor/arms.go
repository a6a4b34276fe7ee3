package main

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// arm is one arm of a job on disk, over all its data sets.
type arm struct {
	side stats.Side
	job  string // directory
	name string // agent, model and settings

	reused int // trials of earlier jobs whose verdicts stand for this one
}

// armQuery says which arms are wanted.
type armQuery struct {
	jobsDir string
	tasks   []string // globs of task names; none is all
}

// find reads the arms that arguments name: JOB for all of a job, JOB:ARM for those
// whose name contains ARM. Their sides are named as briefly as tells them apart.
func (q armQuery) find(e *env, args []string) ([]arm, error) {
	for _, glob := range q.tasks {
		if _, err := path.Match(glob, ""); err != nil {
			return nil, usageError{fmt.Errorf("--task %s: %w: write a glob like 'py-*'", glob, err)}
		}
	}
	var out []arm
	loaded := map[string][]arm{}
	for _, a := range args {
		dir, only, err := q.split(e, a)
		if err != nil {
			return nil, err
		}
		if loaded[dir] == nil {
			if loaded[dir], err = q.arms(e, dir); err != nil {
				return nil, err
			}
		}
		picked, err := pick(loaded[dir], only, a)
		if err != nil {
			return nil, err
		}
		out = append(out, picked...)
	}
	return out, nameSides(out, loaded)
}

// split takes ":ARM" off, unless the whole is a job.
func (q armQuery) split(e *env, arg string) (dir, only string, err error) {
	dir, err = findJob(e, q.jobsDir, arg)
	if i := strings.LastIndexByte(arg, ':'); err != nil && i > 0 {
		only = arg[i+1:]
		dir, err = findJob(e, q.jobsDir, arg[:i])
	}
	return dir, only, err
}

func pick(all []arm, only, arg string) ([]arm, error) {
	var out []arm
	var names []string
	for _, a := range all {
		names = append(names, a.name)
		if a.name == only {
			return []arm{a}, nil
		}
		if strings.Contains(a.name, only) {
			out = append(out, a)
		}
	}
	if len(out) == 0 {
		return nil, nothingRan("%s: no arm is called like %q: the job has %s", arg, only, strings.Join(names, ", "))
	}
	return out, nil
}

// arms reads the arms of a job, in order of their names.
func (q armQuery) arms(e *env, dir string) ([]arm, error) {
	s, all, err := e.loadWarning(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]*arm{}
	of := func(name string) *arm {
		if found[name] == nil {
			found[name] = &arm{job: dir, name: name}
		}
		return found[name]
	}
	left := q.planned(dir)
	add := func(r *trials.Result) (plannedTask, *arm) {
		t := stats.Of(r)
		if !q.wants(t.Task) {
			return plannedTask{}, nil
		}
		t.Settings = stats.SettingsOf(r)
		a := of(t.Row.Arm())
		a.side.Trials = append(a.side.Trials, t)
		return plannedTask{t.Row, t.Task}, a
	}
	for _, r := range all {
		if p, a := add(r); a != nil {
			left[p]--
		}
	}
	for _, r := range e.reused(dir, s.Result) { // no part of the job's own plan
		if _, a := add(r); a != nil {
			a.reused++
		}
	}
	for p, n := range left {
		for range n { // none when there are more results than the lock knows
			a := of(p.row.Arm())
			a.side.Pending = append(a.side.Pending, stats.Trial{Task: p.task, Row: p.row})
		}
	}
	if len(found) == 0 {
		return nil, nothingRan("%s has no trials that could be compared: run it first, or correct --task", dir)
	}
	var out []arm
	for _, name := range sortedNames(found) {
		out = append(out, *found[name])
	}
	return out, nil
}

// reused reads the trials of earlier jobs whose verdicts stand for a job, and says which
// are gone.
func (e *env) reused(dir string, job trials.JobResult) []*trials.Result {
	if job.Harborgate == nil {
		return nil
	}
	var out []*trials.Result
	for _, at := range job.Harborgate.Reused {
		r, err := results.ReadTrialResult(at)
		if err != nil {
			fmt.Fprintln(e.err, "harbor:", oneLine(fmt.Sprintf("%s reused a verdict that is not there any more: %v", dir, err)))
			continue
		}
		out = append(out, r)
	}
	return out
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// plannedTask is a task of an arm.
type plannedTask struct {
	row  stats.Key
	task string
}

// planned counts the attempts that a job's lock knows, nothing when it has none.
func (q armQuery) planned(dir string) map[plannedTask]int {
	out := map[plannedTask]int{}
	lock, err := results.ReadJobLock(dir)
	if err != nil {
		return out
	}
	for _, t := range lock.Trials {
		if q.wants(t.Task.Name) {
			out[plannedTask{stats.KeyOf(t.Agent, t.Task.Source), t.Task.Name}]++
		}
	}
	return out
}

func (q armQuery) wants(task string) bool {
	return len(q.tasks) == 0 || slices.ContainsFunc(q.tasks, func(glob string) bool {
		ok, err := path.Match(glob, task)
		short, err2 := path.Match(glob, path.Base(task))
		return err == nil && ok || err2 == nil && short
	})
}

// longestName is how much of an arm's name a table can take.
const longestName = 40

// nameSides calls arms by their job, by their name within the only job, or by both.
// Long names are cut, and numbered where that makes them alike.
func nameSides(arms []arm, loaded map[string][]arm) error {
	bases := map[string]int{}
	for dir := range loaded {
		bases[jobName(dir)]++
	}
	type identity struct{ job, name string }
	seen, alike := map[identity]bool{}, map[string]int{}
	for i := range arms {
		a := &arms[i]
		job := jobName(a.job)
		if bases[job] > 1 {
			job = a.job
		}
		name := job + ":" + a.name
		switch {
		case len(loaded) == 1:
			name = a.name
		case len(loaded[a.job]) == 1:
			name = job
		}
		if seen[identity{a.job, a.name}] {
			return nothingRan("%s is given twice: name each arm once", name)
		}
		seen[identity{a.job, a.name}] = true
		a.side.Name = middle(oneLine(name), longestName)
		if alike[a.side.Name]++; alike[a.side.Name] > 1 {
			a.side.Name += fmt.Sprintf(" #%d", alike[a.side.Name])
		}
	}
	return nil
}

func jobName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		return filepath.Base(abs)
	}
	return filepath.Base(dir)
}

// armFacts say what an arm came to: no mean without its coverage, bounds and doubts.
func armFacts(r *stats.Row) []string {
	var out []string
	for i := range r.Rewards {
		if i == mostListed {
			out = append(out, fmt.Sprintf("and %d more keys, see --json", len(r.Rewards)-i))
			break
		}
		out = append(out, columnFacts(r, &r.Rewards[i])...)
	}
	if len(r.Rewards) == 0 {
		out = append(out, "mean "+stats.Unknown)
	}
	out = append(out, r.Words()...)
	if r.Suspect > 0 {
		out = append(out, fmt.Sprintf("%d suspect", r.Suspect))
	}
	if r.Retries > 0 {
		out = append(out, fmt.Sprintf("%d retries", r.Retries))
	}
	return out
}

func columnFacts(r *stats.Row, c *stats.Column) []string {
	out := []string{fmt.Sprintf("%s mean %s (%s)", c.Key, c.Text(), behind(c.Estimate))}
	out = append(out, lackingTexts(r, c)...)
	if c.Interval != nil {
		out = append(out, "95 % interval "+c.Interval.Text()+" ("+methods[c.Interval.Method]+")")
	}
	if b := c.Bounds; b != nil {
		out = append(out, boundsText(b))
	}
	if e := c.WithoutSuspect; e != nil {
		out = append(out, fmt.Sprintf("without suspect ones %s (%s)", e.Text(), behind(*e)))
	}
	if r.Attempts > 1 {
		out = append(append(out, atKTexts("pass@", c.PassAtK)...), atKTexts("pass^", c.PassAllK)...)
	}
	return out
}

// behind says how many tasks a mean and its ± are over, and of how many verdicts.
func behind(e stats.Estimate) string {
	return fmt.Sprintf("n = %s, %s", plural(e.Tasks, "task"), plural(e.N, "verdict"))
}

// lackingTexts say that some verdicts have no value of a key, if so: they are graded, and
// still missing in its mean.
func lackingTexts(r *stats.Row, c *stats.Column) []string {
	switch n := r.Graded - c.N; {
	case n <= 0:
		return nil
	case n == 1:
		return []string{"1 verdict lacks this key"}
	default:
		return []string{fmt.Sprintf("%d verdicts lack this key", n)}
	}
}

// checkReward refuses a reward key that none of the rows has, if they have any.
func checkReward(key string, rows []stats.Row) error {
	known := map[string]bool{}
	for _, r := range rows {
		for _, c := range r.Rewards {
			known[c.Key] = true
		}
	}
	if key == "" || known[key] || len(known) == 0 {
		return nil
	}
	return nothingRan("--reward %s: no verdict has a reward of that name: write one of %s", key, strings.Join(sortedNames(known), ", "))
}

func boundsText(b *stats.Bounds) string {
	return fmt.Sprintf("bounds %.3f to %.3f with the %d missing as 0 or as 1", b.Low, b.High, b.Missing)
}

// agentVersions are the versions that an arm's results name.
func agentVersions(all []*trials.Result) map[string][]string {
	out := map[string][]string{}
	for _, r := range all {
		a := r.AgentInfo
		if a.Version != "" && a.Version != "unknown" && !slices.Contains(out[a.Name], a.Version) {
			out[a.Name] = append(out[a.Name], a.Version)
		}
	}
	return out
}
