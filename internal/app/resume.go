package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// Redo says which finished trials of a job run once more, whatever their verdict.
type Redo struct {
	Exceptions []string // exception names
	Blames     []trials.Blame
}

func (r Redo) wants(t stats.Trial) bool {
	return t.Exception != "" && (slices.Contains(r.Exceptions, t.Exception) || slices.Contains(r.Blames, t.Blame))
}

// Past is what earlier processes did of a job.
type Past struct {
	Kept  []stats.Trial // finished, their verdicts stand
	Again []Again       // trials that run once more
	// Left are kept trials that the configuration no longer asks for.
	Left   []string
	Copies []string         // directories that are copies of trials; they count nothing
	Result trials.JobResult // as the last process left it; RestoredResult when it cannot be read

	files       *results.Job
	environment string   // that the job had
	empty       []string // directories of trials that had not begun
	redo        Redo
}

// Again is a trial that runs once more.
type Again struct {
	Trial string
	Task  string
	Why   Reason
	Err   error // of a result that cannot be read
}

// Reason is why a trial runs once more.
type Reason string

// Reasons.
const (
	CutOff     Reason = "cut off"
	Unreadable Reason = "with an unreadable result"
	Edited     Reason = "with an edited task"
	Selected   Reason = "selected"
)

// Finished reports whether nothing of a job is left to do, its own result included.
func (p *Plan) Finished() bool {
	return p.Past != nil && len(p.Trials) == 0 && p.Past.Result.FinishedAt != nil &&
		p.Past.Result.NTotalTrials == p.Total() && p.Past.Result.Stats.Completed == p.Total()
}

// Summary is that of a job of which nothing is left to do.
func (p *Plan) Summary() Summary {
	return Summary{Result: p.Past.Result, Trials: p.Past.Kept, Planned: p.Total(), ByKey: p.byKey()}
}

// Dir is the job's directory.
func (p *Plan) Dir() string { return filepath.Join(p.Config.JobsDir, p.Config.JobName) }

// Close gives a job free that Continue holds and no Job took over.
func (p *Plan) Close() error {
	if p.Past == nil || p.Past.files == nil {
		return nil
	}
	return p.Past.files.Close()
}

// Continue looks whether the plan's job is there already. If so, it holds it for
// this process until the plan is closed or its Job is, and takes out of the plan
// what is done: trials with a result that redo does not want and whose task is the
// same. It refuses a configuration under which verdicts would mean something
// else, and a job that another process runs.
func (a *App) Continue(p *Plan, redo Redo) error {
	dir := p.Dir()
	if !results.HoldsJob(dir) {
		return nil
	}
	files, err := results.OpenJob(dir)
	if err != nil {
		return lacking(dir, err)
	}
	p.Past = &Past{files: files, redo: redo}
	if err := a.takeUp(p, redo); err != nil {
		return errors.Join(err, p.Close())
	}
	return nil
}

func (a *App) takeUp(p *Plan, redo Redo) error {
	dir := p.Past.files.Dir
	changes, err := a.changes(p, dir)
	if err != nil {
		return err
	}
	found, err := results.ReadTrials(dir)
	if err != nil {
		return fmt.Errorf("read the trials of job %s: %w", dir, err)
	}
	if err := p.Past.readJob(dir); err != nil {
		return err
	}
	if id := p.Past.id(found); id != "" {
		p.adopt(id)
	}
	m := newMatch(p, redo, a.opt.Lookup)
	if err := m.run(found); err != nil {
		return err
	}
	if len(changes) > 0 && len(found) > 0 && m.met == 0 {
		return fmt.Errorf("job %s has none of these trials: %s: choose another --job-name", dir, list(changes))
	}
	return nil
}

// changes compares the configuration with the one on disk, and refuses those that
// change verdicts.
func (a *App) changes(p *Plan, dir string) ([]trials.Change, error) {
	now := p.Config
	was, err := results.ReadJobConfig(dir)
	if err != nil {
		return nil, fmt.Errorf("job %s cannot go on without its configuration: %w: restore config.json, or choose another --job-name", dir, err)
	}
	p.Past.environment = EnvironmentName(was.Environment)
	all, err := trials.Changes(was.Redacted(a.opt.Lookup), now.Redacted(a.opt.Lookup))
	if err != nil {
		return nil, err
	}
	var grows, others []trials.Change
	for _, c := range all {
		if strings.HasPrefix(c.Key, "source_jobs") && (isDiff(was.SourceJobs) || isDiff(now.SourceJobs)) {
			return nil, fmt.Errorf("job %s was made %s, and cannot go on %s: `harbor job resume %s` goes on as it was made, or choose another --job-name",
				dir, diffFlags(was.SourceJobs), diffFlags(now.SourceJobs), dir)
		}
		if c.Grows() {
			grows = append(grows, c)
		} else {
			others = append(others, c)
		}
	}
	if len(others) > 0 {
		return nil, fmt.Errorf("job %s cannot go on with another configuration: %s: take the earlier one, or choose another --job-name", dir, list(others))
	}
	return grows, nil
}

// diffFlags are the source jobs of a comparison as flags.
func diffFlags(sources []trials.SourceJob) string {
	if !isDiff(sources) {
		return "without --diff"
	}
	var names []string
	for _, s := range sources {
		names = append(names, "--diff "+filepath.Base(*s.Path))
	}
	return "with " + strings.Join(names, " ")
}

func list(changes []trials.Change) string {
	parts := make([]string, len(changes))
	for i, c := range changes {
		parts[i] = c.String()
	}
	return strings.Join(parts, "; ")
}

// readJob reads what the job says about itself. A result that cannot be read is
// made anew from the trials and the events.
func (p *Past) readJob(dir string) error {
	var err error
	if p.Result, err = results.ReadJobResult(dir); err != nil {
		p.Result = RestoredResult(dir)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
		return err
	}
	return nil
}

// id is the job's, or what its trials say that it is.
func (p *Past) id(found []results.Found) string {
	if p.Result.ID != "" {
		return p.Result.ID
	}
	for _, f := range found {
		if f.Result != nil && f.Result.Config.JobID != nil {
			return *f.Result.Config.JobID
		}
	}
	return ""
}

// adopt gives the plan the id that the job has.
func (p *Plan) adopt(id string) {
	p.ID = id
	for i := range p.all {
		p.all[i].Config.JobID = &id
	}
}

// clear removes the directories of trials that had not begun.
func (p *Past) clear() error {
	for _, dir := range p.empty {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what a killed process left: %w", err)
		}
	}
	return nil
}
