package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
)

func putJSON(t *testing.T, path string, v any) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A job that one process began and another goes on with: what the first one left
// is counted once, what is done again counts with its last result, and what the
// first one had running does not run any more.
func TestAttachAddsUpProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)
	at := func(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }
	for name, second := range map[string]int{"kept__1": 2, "again__2": 13} {
		putJSON(t, filepath.Join(dir, name, results.ConfigFile), map[string]string{})
		putJSON(t, filepath.Join(dir, name, results.ResultFile), trials.Result{
			TrialName: name, StartedAt: trials.At(begin), FinishedAt: trials.At(at(second)), RewardValid: true,
			VerifierResult: &trials.VerifierResult{Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: 1}}}},
		})
	}
	one := json.RawMessage(`{"reward": 1.0}`)
	ended := map[string]any{"reward_valid": true, "rewards": one}
	log := []trials.Event{
		trials.NewEvent(trials.EventJobStart, "", 0, 0, map[string]any{"n_trials": 4}),
		trials.NewEvent(trials.EventStart, "kept__1", 1, 1, nil),
		trials.NewEvent(trials.EventEnd, "kept__1", 1, 1, ended),
		trials.NewEvent(trials.EventStart, "again__2", 1, 1, nil),
		trials.NewEvent(trials.EventEnd, "again__2", 1, 1, map[string]any{"exception": "SandboxLostError", "blame": "infrastructure"}),
		trials.NewEvent(trials.EventStart, "cut__3", 1, 1, nil),
		trials.NewEvent(trials.EventJobStart, "", 0, 0, map[string]any{"n_trials": 4, "kept": 1}),
		trials.NewEvent(trials.EventStart, "again__2", 1, 2, nil),
		trials.NewEvent(trials.EventEnd, "again__2", 1, 2, ended),
		trials.NewEvent(trials.EventStart, "last__4", 1, 1, nil),
	}
	var lines []byte
	for i, e := range log {
		e.V, e.Seq, e.Time = 1, int64(i+1), at(i+1)
		if i > 5 {
			e.Time = at(i + 4)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, b...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, results.EventsFile), append(lines, `{"torn`...), 0o644); err != nil {
		t.Fatal(err)
	}

	var shown bytes.Buffer
	if err := followJob(t.Context(), &env{streams: streams{err: &shown}, lookup: os.LookupEnv}, dir, false); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"[1/4] kept__1: reward 1.0, 1s", "[2/4] again__2: no verdict, SandboxLostError (infrastructure), 1s", "[2/4] again__2: reward 1.0, 1s",
	} {
		got := strings.Split(shown.String(), "\n")
		if len(got) <= i || !strings.HasSuffix(got[i], want) {
			t.Errorf("line %d is not %q:\n%s", i+1, want, shown.String())
		}
	}

	state := newJobState(0)
	state.earlier = finishedIn(dir)
	for _, line := range bytes.Split(lines, []byte("\n")) {
		var e trials.Event
		if json.Unmarshal(line, &e) == nil {
			state.apply(e)
		}
	}
	if got := state.headline(at(20)); !strings.Contains(got, "2/4  10s  mean 1.000 (2 of 2 graded)  ETA 20s") {
		t.Errorf("headline %q", got)
	}
	if len(state.running) != 1 || state.running["last__4"] == nil {
		t.Errorf("running: %v", state.running)
	}
}

func TestAttachEndsLikeTheJob(t *testing.T) {
	t.Parallel()
	now := trials.LocalAt(time.Now())
	for name, c := range map[string]struct {
		result trials.JobResult
		code   int
		says   string
	}{
		"all graded":  {trials.JobResult{FinishedAt: now, Harborgate: &trials.JobExtra{Graded: 2}}, exitOK, ""},
		"one is not":  {trials.JobResult{FinishedAt: now, Harborgate: &trials.JobExtra{Graded: 1}}, exitUngraded, ""},
		"interrupted": {trials.JobResult{Harborgate: &trials.JobExtra{Graded: 1, Interrupted: "SIGTERM"}}, 143, "stopped by SIGTERM: `harbor job resume jobs/x` goes on"},
		"hung up":     {trials.JobResult{Harborgate: &trials.JobExtra{Graded: 1, Interrupted: "SIGHUP"}}, 129, "harbor job resume jobs/x"},
		"failed":      {trials.JobResult{Harborgate: &trials.JobExtra{Graded: 1, Interrupted: "disk \x1b full"}}, exitUngraded, `interrupted, disk \x1b full: `},
		"killed":      {trials.JobResult{Harborgate: &trials.JobExtra{Graded: 1}}, exitUngraded, "interrupted, its process is gone: `harbor job resume jobs/x` goes on"},
	} {
		err := attachedOutcome(t.Context(), app.Summary{Result: c.result, Planned: 2}, "jobs/x")
		code := exitOK
		var coded codedError
		if errors.As(err, &coded) {
			code = coded.code
		}
		var errs bytes.Buffer
		exitCode(&env{streams: streams{err: &errs}}, err)
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: code %d, want %d: %q", name, code, c.code, errs.String())
		}
	}
}
