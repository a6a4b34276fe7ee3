package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Jobs that share a provider: so many, and so many sandboxes of it together.
const (
	sharers     = 3
	sharedLimit = 60
)

// sharedConfig makes trials of some seconds.
var sharedConfig = fmt.Sprintf("version: 1\nproviders:\n  fake:\n    type: fake\n    limits: {sandboxes: %d}\n    options: {create_sec: 0.2, exec_sec: 1}\n", sharedLimit)

// benchShared has several processes use one provider's limit: how much of it they
// use together, at most and on average, and how soon the others have what one had
// that is killed.
func benchShared(ctx context.Context, w *workbench) (out []figure, err error) {
	set, err := w.manyTasks(100)
	if err != nil {
		return nil, err
	}
	s := &sharedBench{w: w, env: append(os.Environ(), "HARBOR_CONFIG="+filepath.Join(w.work, "shared.yaml"), "XDG_STATE_HOME="+filepath.Join(w.work, "shared-state"))}
	if err := os.WriteFile(filepath.Join(w.work, "shared.yaml"), []byte(sharedConfig), 0o644); err != nil {
		return nil, err
	}
	var jobs []*exec.Cmd
	defer func() {
		for _, j := range jobs {
			_ = j.Process.Kill() // of those that were killed already too
			_ = j.Wait()
		}
	}()
	for i := range sharers {
		cmd := exec.CommandContext(ctx, w.harbor(), "run", "-p", set, "-k", "50", "-n", fmt.Sprint(sharedLimit), "-e", "fake", "-q", "--job-name", fmt.Sprintf("shared-%d", i), "-o", filepath.Join(w.work, "jobs"))
		cmd.Env = s.env
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		jobs = append(jobs, cmd)
	}
	if _, err := s.until(ctx, func(st sharedState) bool {
		return len(st.Owners) == sharers && st.least() > 0 && st.Use.Sandboxes >= sharedLimit/2 // no longer builds alone
	}); err != nil {
		return nil, err
	}
	most, mean, err := s.watch(ctx)
	if err != nil {
		return nil, err
	}
	victim := jobs[0].Process.Pid
	_ = jobs[0].Process.Kill()
	took, err := s.until(ctx, func(st sharedState) bool { return st.Use.Sandboxes >= sharedLimit*95/100 && !st.has(victim) })
	return []figure{
		{fmt.Sprintf("%d processes, one limit: most at once of %d", sharers, sharedLimit), float64(most), sharedLimit, true, "sandboxes"},
		{"  used on average", 100 * mean / sharedLimit, 95, false, "%"},
		{"  one killed: the others have its share after", took.Seconds(), 10, true, "s"},
	}, err
}

type sharedBench struct {
	w   *workbench
	env []string
}

// sharedState is what harbor env status says of a provider.
type sharedState struct {
	Provider string `json:"provider"`
	Use      struct {
		Sandboxes int `json:"sandboxes"`
	} `json:"use"`
	Owners []struct {
		PID int `json:"pid"`
		Use struct {
			Sandboxes int `json:"sandboxes"`
		} `json:"use"`
	} `json:"owners"`
}

func (s sharedState) least() int {
	least := sharedLimit
	for _, o := range s.Owners {
		least = min(least, o.Use.Sandboxes)
	}
	return least
}

func (s sharedState) has(pid int) bool {
	for _, o := range s.Owners {
		if o.PID == pid {
			return true
		}
	}
	return false
}

func (s *sharedBench) look(ctx context.Context) (sharedState, error) {
	cmd := exec.CommandContext(ctx, s.w.harbor(), "env", "status", "--json")
	cmd.Env = s.env
	text, err := cmd.Output()
	if err != nil {
		return sharedState{}, fmt.Errorf("harbor env status: %w", err)
	}
	var all []sharedState
	if err := json.Unmarshal(text, &all); err != nil {
		return sharedState{}, err
	}
	for _, st := range all {
		if st.Provider == "fake" {
			return st, nil
		}
	}
	return sharedState{}, errors.New("harbor env status says nothing of fake")
}

// until looks until it is so, and returns how long that took.
func (s *sharedBench) until(ctx context.Context, so func(sharedState) bool) (time.Duration, error) {
	begun := time.Now()
	for {
		st, err := s.look(ctx)
		switch {
		case err != nil:
			return 0, err
		case so(st):
			return time.Since(begun), nil
		case time.Since(begun) > time.Minute:
			return 0, fmt.Errorf("it does not come to be within a minute: %+v", st)
		}
	}
}

// watch looks for a while.
func (s *sharedBench) watch(ctx context.Context) (most int, mean float64, err error) {
	const looks = 200
	for range looks {
		st, err := s.look(ctx)
		if err != nil {
			return 0, 0, err
		}
		most = max(most, st.Use.Sandboxes)
		mean += float64(st.Use.Sandboxes) / looks
	}
	return most, mean, nil
}
