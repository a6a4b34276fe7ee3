package results

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestResultsOfHarborAreRead(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		exception string
		rewards   string
		valid     bool
		graded    bool // by the exception's policy
	}{
		"harbor-0.26-success.json":               {"", `{"reward":1.0}`, true, false},
		"harbor-0.26-json-reward-artifacts.json": {"", `{"accuracy":0.5,"passed":1}`, true, false},
		"harbor-0.26-agent-timeout.json":         {trials.ExcAgentTimeout, `{"reward":1.0}`, true, true},
		"harbor-0.26-build-error.json":           {trials.ExcRuntime, "null", false, true},
		"harbor-0.26-no-reward.json":             {trials.ExcRewardMissing, "null", false, true},
		"harbor-0.5.json":                        {trials.ExcAgentTimeout, `{"reward":1.0}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := ParseTrialResult(golden(t, name), name)
			if err != nil {
				t.Fatal(err)
			}
			exception, rewards := "", "null"
			if e := r.ExceptionInfo; e != nil {
				exception = e.Type
				if e.Policy == nil || e.Policy.ShouldGrade != want.graded {
					t.Errorf("policy %+v", e.Policy)
				}
			}
			if v := r.VerifierResult; v != nil {
				b, err := json.Marshal(v.Rewards)
				if err != nil {
					t.Fatal(err)
				}
				rewards = string(b)
			}
			if exception != want.exception || rewards != want.rewards || r.RewardValid != want.valid {
				t.Errorf("exception %q, rewards %s, valid %v; want %+v", exception, rewards, r.RewardValid, want)
			}
			if !r.Finished() || r.TrialName == "" || r.StartedAt == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A trial's result of Harbor 0.26 that is read and written again is the same
// document, so nothing of it is lost or spelled another way.
func TestResultsOfHarborAreWrittenAgain(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/harbor-0.26-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "-job.json") {
			continue
		}
		b := golden(t, filepath.Base(file))
		r, err := ParseTrialResult(b, file)
		if err != nil {
			t.Fatal(err)
		}
		again, err := trials.MarshalIndent(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(b), string(again)); diff != "" {
			t.Errorf("%s (-read +written):\n%s", file, diff)
		}
	}
}

func TestOldFormIsCompleted(t *testing.T) {
	t.Parallel()
	doc := string(golden(t, "harbor-0.5.json"))
	for name, c := range map[string]struct {
		old, new string
		valid    bool
	}{
		"as it is":          {"", "", true},
		"without rewards":   {`{"rewards": {"reward": 1.0}}`, "null", false},
		"rewards null":      {`{"rewards": {"reward": 1.0}}`, `{"rewards": null}`, false},
		"does not count":    {"AgentTimeoutError", "VerifierTimeoutError", false},
		"unknown, counts":   {"AgentTimeoutError", "KeyError", true},
		"no exception":      {doc[strings.Index(doc, `"exception_info"`):strings.Index(doc, `"started_at"`)], "", true},
		"cancelled by hand": {"AgentTimeoutError", "CancelledError", false},
	} {
		r, err := ParseTrialResult([]byte(strings.Replace(doc, c.old, c.new, 1)), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.RewardValid != c.valid {
			t.Errorf("%s: valid %v, want %v", name, r.RewardValid, c.valid)
		}
	}
	r, err := ParseTrialResult([]byte(doc), "x")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.AgentExecution.Duration(); got != 10100*time.Millisecond {
		t.Errorf("the agent took %s", got)
	}
}

func TestWhatIsNoResult(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{"", "{", "[]", "null", "{}", `{"trial_name":""}`, `{"trial_name":"x","started_at":"yesterday"}`, `{"trial_name":"x","verifier_result":{"rewards":{"a":"b"}}}`} {
		_, err := ParseTrialResult([]byte(doc), "some/result.json")
		if err == nil || !strings.Contains(err.Error(), "some/result.json") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if _, err := ReadTrialResult(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadJobResult(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestJobResultOfHarborIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ResultFile), golden(t, "harbor-0.26-job.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := ReadJobResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.NTotalTrials != 1 || r.Stats.Completed != 1 || r.Stats.Errored != 1 || len(r.Stats.Evals) != 1 || r.FinishedAt == nil {
		t.Errorf("%+v", r)
	}
}

func TestTrialDirs(t *testing.T) {
	t.Parallel()
	job := t.TempDir()
	for _, name := range []string{
		"b/config.json", "a/result.json", "c/lock.json", "empty/x", ".hidden/config.json",
		"trials/old/result.json", "config.json", "result.json/x",
	} {
		p := filepath.Join(job, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := TrialDirs(job)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range got {
		rel, _ := filepath.Rel(job, d)
		names = append(names, filepath.ToSlash(rel))
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "trials/old"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := TrialDirs(filepath.Join(job, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func FuzzParseTrialResult(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(golden(f, filepath.Base(file)))
	}
	f.Add([]byte(`{"trial_name":"x","exception_info":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseTrialResult(b, "x")
		if err != nil {
			return
		}
		if r.TrialName == "" || r.ExceptionInfo != nil && r.ExceptionInfo.Policy == nil {
			t.Errorf("incomplete: %+v", r)
		}
		again, err := trials.MarshalIndent(r)
		if err != nil {
			t.Fatalf("it cannot be written again: %v", err)
		}
		if _, err := ParseTrialResult(again, "x"); err != nil {
			t.Errorf("it cannot be read again: %v", err)
		}
	})
}

func TestJobNumbersOfHarbor05AreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const doc = `{"id":"x","started_at":"2026-03-03T15:30:00","finished_at":null,"n_total_trials":5,
		"stats":{"n_trials":3,"n_errors":1,"evals":{}},"trial_results":[]}`
	if err := os.WriteFile(filepath.Join(dir, ResultFile), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadJobResult(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Stats; s.Completed != 3 || s.Errored != 1 || s.Pending != 2 || r.UpdatedAt == nil {
		t.Errorf("read %+v, updated %v", s, r.UpdatedAt)
	}
}
