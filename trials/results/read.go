package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"harborgate/trials"
)

// ReadJobResult reads a job's result.json, of ours or of Harbor from 0.5 on.
func ReadJobResult(dir string) (trials.JobResult, error) {
	var r trials.JobResult
	name := filepath.Join(dir, ResultFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, syscall.EISDIR) {
		err = fmt.Errorf("%w: remove it, then `harbor job resume` writes the file anew", err)
	}
	if err != nil {
		return r, err
	}
	if err := isOf(b, name, "job"); err != nil {
		return r, err
	}
	if err := decode(b, &r, name); err != nil {
		return r, err
	}
	return r, fillOldStats(b, &r, name)
}

// isOf reports a result.json that belongs to the other kind of directory.
func isOf(b []byte, name, want string) error {
	var probe struct {
		TrialName *string         `json:"trial_name"`
		Stats     json.RawMessage `json:"stats"`
	}
	if err := decode(b, &probe, name); err != nil {
		return err
	}
	switch {
	case want == "trial" && (probe.TrialName == nil || *probe.TrialName == ""):
		return fmt.Errorf("%s: it is no trial's result: trial_name is missing", name)
	case want == "job" && probe.TrialName != nil:
		return fmt.Errorf("%s: it is a trial's result, not a job's", name)
	}
	return nil
}

// fillOldStats reads the names that Harbor 0.5 had for a job's numbers.
func fillOldStats(b []byte, r *trials.JobResult, name string) error {
	var old struct {
		Stats struct {
			Completed *int `json:"n_completed_trials"`
			Trials    int  `json:"n_trials"`
			Errors    int  `json:"n_errors"`
		}
	}
	if err := decode(b, &old, name); err != nil || old.Stats.Completed != nil {
		return err
	}
	r.Stats.Completed, r.Stats.Errored = old.Stats.Trials, old.Stats.Errors
	r.Stats.Pending = r.NTotalTrials - r.Stats.Completed
	if r.UpdatedAt == nil {
		r.UpdatedAt = cmp.Or(r.FinishedAt, r.StartedAt)
	}
	return nil
}

// ReadJobLock reads a job's lock.json.
func ReadJobLock(dir string) (trials.JobLock, error) {
	var l trials.JobLock
	b, err := os.ReadFile(filepath.Join(dir, LockFile))
	if err != nil {
		return l, err
	}
	return l, decode(b, &l, filepath.Join(dir, LockFile))
}

// ReadTrialResult reads a trial's result.json.
func ReadTrialResult(dir string) (*trials.Result, error) {
	name := filepath.Join(dir, ResultFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return ParseTrialResult(b, name)
}

// ParseTrialResult reads the content of a trial's result.json; name is for
// errors.
func ParseTrialResult(b []byte, name string) (*trials.Result, error) {
	if err := isOf(b, name, "trial"); err != nil {
		return nil, err
	}
	r := &trials.Result{}
	if err := decode(b, r, name); err != nil {
		return nil, err
	}
	fillPolicy(r)
	return r, nil
}

// fillPolicy completes files of Harbor 0.5, which had neither the policy nor
// reward_valid.
func fillPolicy(r *trials.Result) {
	e := r.ExceptionInfo
	if e != nil && e.Policy == nil {
		p := trials.PolicyOf(e.Type, r.Config.OverrideErrorPolicy)
		e.Policy = &p
		r.RewardValid = hasRewards(r) && p.HasValidReward
	}
	if e == nil && r.SchemaVersion == 0 {
		r.RewardValid = hasRewards(r)
	}
}

func hasRewards(r *trials.Result) bool {
	return r.VerifierResult != nil && len(r.VerifierResult.Rewards) > 0
}

func decode(b []byte, into any, name string) error {
	if err := json.Unmarshal(b, into); err != nil {
		return wrapUnreadable(name, err)
	}
	return nil
}

func wrapUnreadable(name string, err error) error {
	return fmt.Errorf("%s cannot be read: %w", name, err)
}

// ReadJobConfig reads a job's config.json, of ours or of Harbor from 0.5 on.
func ReadJobConfig(dir string) (trials.JobConfig, error) {
	name := filepath.Join(dir, ConfigFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return trials.JobConfig{}, err
	}
	c, err := trials.ReadJobConfig(b)
	if err != nil {
		err = wrapUnreadable(name, err)
	}
	return c, err
}

// ReadTrialConfig reads a trial's config.json.
func ReadTrialConfig(dir string) (trials.TrialConfig, error) {
	name := filepath.Join(dir, ConfigFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return trials.TrialConfig{}, err
	}
	c, err := trials.ReadTrialConfig(b)
	if err != nil {
		err = wrapUnreadable(name, err)
	}
	return c, err
}

// ReadTrialLock reads a trial's lock.json.
func ReadTrialLock(dir string) (trials.TrialLock, error) {
	var l trials.TrialLock
	name := filepath.Join(dir, LockFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return l, err
	}
	return l, decode(b, &l, name)
}

// TrialDirs lists the directories of a job that are trials, in order of their
// names. The old trials/ sub-directory is looked into as well.
func TrialDirs(job string) ([]string, error) {
	out, err := trialDirs(job)
	if err != nil {
		return nil, err
	}
	old, err := trialDirs(filepath.Join(job, "trials"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return append(out, old...), nil
}

func trialDirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		d := filepath.Join(dir, e.Name())
		if slices.ContainsFunc([]string{ConfigFile, LockFile, ResultFile}, func(f string) bool {
			_, err := os.Stat(filepath.Join(d, f))
			return err == nil
		}) {
			out = append(out, d)
		}
	}
	return out, nil
}
