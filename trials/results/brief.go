package results

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"harborgate/trials"
)

// Found is a trial's directory as it stands on disk.
type Found struct {
	Dir string
	// Result is nil when there is none, or none that can be read; Err says why:
	// fs.ErrNotExist when the trial runs, waits or was cut off.
	Result *trials.Result
	Err    error
}

// Name is the trial's.
func (f Found) Name() string { return filepath.Base(f.Dir) }

// ReadTrials reads the trials of a job, in order of their names. Results are
// brief, because there may be thousands: of the configuration they have the task,
// the agent and the name alone, and they lack steps, notes and rollouts. Results
// of Harbor, which knows no blame, get that of their exception.
func ReadTrials(job string) ([]Found, error) { return readAll(job, parseBrief) }

// ReadWholeTrials is ReadTrials with all that results hold.
func ReadWholeTrials(job string) ([]Found, error) { return readAll(job, ParseTrialResult) }

func readAll(job string, parse func([]byte, string) (*trials.Result, error)) ([]Found, error) {
	names, err := candidates(job)
	if err != nil {
		return nil, err
	}
	out := make([]Found, len(names))
	var g errgroup.Group
	workers := min(2*runtime.GOMAXPROCS(0), len(names))
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(names); i += workers {
				out[i] = find(filepath.Join(job, names[i]), parse)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in out
	out = slices.DeleteFunc(out, func(f Found) bool { return f.Dir == "" })
	slices.SortFunc(out, func(a, b Found) int { return cmp.Compare(a.Name(), b.Name()) })
	return out, nil
}

// oldTrialsDir is where old versions of Harbor had trials.
const oldTrialsDir = "trials"

func candidates(job string) ([]string, error) {
	names, err := subdirs(job)
	if err != nil {
		return nil, err
	}
	i := slices.Index(names, oldTrialsDir)
	if i < 0 || isTrial(filepath.Join(job, oldTrialsDir)) {
		return names, nil
	}
	old, err := subdirs(filepath.Join(job, oldTrialsDir))
	names = slices.Delete(names, i, i+1)
	for _, n := range old {
		names = append(names, filepath.Join(oldTrialsDir, n))
	}
	return names, err
}

func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// find returns the zero Found for a directory that is no trial's.
func find(dir string, parse func([]byte, string) (*trials.Result, error)) Found {
	name := filepath.Join(dir, ResultFile)
	b, err := os.ReadFile(name)
	var r *trials.Result
	if err == nil {
		r, err = parse(b, name)
	}
	if errors.Is(err, fs.ErrNotExist) && !isTrial(dir) {
		return Found{}
	}
	return Found{Dir: dir, Result: r, Err: err}
}

// isTrial reports whether a directory has what every trial begins with.
func isTrial(dir string) bool {
	return slices.ContainsFunc([]string{ConfigFile, LockFile, TrialLogFile, TriesDir}, func(f string) bool {
		_, err := os.Lstat(filepath.Join(dir, f))
		return err == nil
	})
}

// briefly says what of a member is taken: all of it, or some of its members.
var briefly = map[string][]string{
	"schema_version": nil, "id": nil, "task_name": nil, "trial_name": nil, "trial_uri": nil, "source": nil,
	"task_checksum": nil, "agent_info": nil, "verifier_result": nil, "started_at": nil, "finished_at": nil,
	"environment_setup": nil, "agent_setup": nil, "agent_execution": nil, "verifier": nil, "reward_valid": nil,
	"verifier_environment_mode": nil,
	"config":                    {"task", "trial_name", "trials_dir", "agent", "override_error_policy", "job_id"},
	"agent_result":              {"n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd"},
	"exception_info":            {"exception_type", "exception_message", "occurred_at", "policy", "policy_override"},
	"harborgate": {"provider", "attempt", "try", "retries", "failure", "suspect", "wait_sec", "snapshot_sec",
		"task_digest"},
}

// parseBrief reads what of a trial's result.json a list of trials needs.
func parseBrief(b []byte, name string) (*trials.Result, error) {
	var dense bytes.Buffer
	dense.Grow(len(b) / 2)
	if err := shorten(&dense, b); err != nil {
		return nil, wrapUnreadable(name, err)
	}
	r, err := ParseTrialResult(dense.Bytes(), name)
	if err != nil {
		return nil, err
	}
	if r.FinishedAt == nil {
		return nil, wrapUnreadable(name, errors.New("finished_at is missing"))
	}
	fillBlame(r)
	return r, nil
}

// shorten copies the members of a result that briefly has.
func shorten(w *bytes.Buffer, b []byte) error {
	w.WriteByte('{')
	err := members(b, func(key string, value []byte) error {
		some, ok := briefly[key]
		if !ok {
			return nil
		}
		writeKey(w, key)
		if some == nil || value[0] != '{' {
			w.Write(value)
			return nil
		}
		w.WriteByte('{')
		err := members(value, func(key string, value []byte) error {
			if slices.Contains(some, key) {
				writeKey(w, key)
				w.Write(value)
			}
			return nil
		})
		w.WriteByte('}')
		return err
	})
	w.WriteByte('}')
	return err
}

func writeKey(w *bytes.Buffer, key string) {
	if last := w.Bytes()[w.Len()-1]; last != '{' {
		w.WriteByte(',')
	}
	w.WriteByte('"')
	w.WriteString(key)
	w.WriteString(`":`)
}

// fillBlame completes files of Harbor, which blames nobody.
func fillBlame(r *trials.Result) {
	if r.ExceptionInfo == nil || r.Harborgate != nil {
		return
	}
	e := r.ExceptionInfo
	r.Harborgate = &trials.Extra{Failure: &trials.Failure{
		Exception: e.Type, Message: e.Message, Blame: trials.BlameOf(e.Type),
	}}
}
