package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

const separateToml = taskToml + "environment_mode = \"separate\"\n"

// gradedOnce makes a job whose agents leave a number, which the tests then take.
func gradedOnce(t *testing.T, w *fake.World) (cfg trials.JobConfig, set string) {
	t.Helper()
	set = filepath.Join(t.TempDir(), "set")
	take := "cat /logs/artifacts/n > /logs/verifier/reward.txt"
	for name, n := range map[string]string{"a": "0.25", "b": "0.5"} {
		putTask(t, set, name, take, separateToml)
		put(t, filepath.Join(set, name, "solution", "solve.sh"), "mkdir -p /logs/artifacts; echo "+n+" > /logs/artifacts/n\n")
	}
	cfg = jobOf(t, set)
	runAll(t, cfg, w)
	return cfg, set
}

// regradeOf is a job that grades another again.
func regradeOf(t *testing.T, cfg trials.JobConfig, set string) trials.JobConfig {
	t.Helper()
	source, err := SourceJob(filepath.Join(cfg.JobsDir, cfg.JobName))
	if err != nil {
		t.Fatal(err)
	}
	again := jobOf(t, set)
	again.JobsDir, again.JobName = cfg.JobsDir, "again"
	again.SourceJobs = trials.List[trials.SourceJob]{source}
	return again
}

func TestRegrade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		cfg, set := gradedOnce(t, w)
		put(t, filepath.Join(set, "b", "tests", "test.sh"), "echo 1 > /logs/verifier/reward.txt\n")
		w.Inject(fake.Fault{Op: fake.OpExec, Match: "solve", Effect: fake.Refuse, Kind: providers.KindInternal}) // no agent runs
		again := regradeOf(t, cfg, set)
		p, sum := finish(t, again, cancelled, w)
		if sum.Result.Harborgate.Graded != 2 {
			t.Errorf("%+v", sum.Result.Harborgate)
		}
		all, err := p.Regrades(sum.Trials)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, r := range all {
			was, _ := r.Was.Main()
			now, _ := r.Now.Main()
			got[r.Task] = fmt.Sprint(was.Value, " ", now.Value)
			if r.Changed != (r.Task == "b") {
				t.Errorf("%+v", r)
			}
		}
		if diff := cmp.Diff(map[string]string{"a": "0.25 0.25", "b": "0.5 1"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r, err := results.ReadTrialResult(trialOf(t, again, "a"))
		if err != nil || r.AgentExecution != nil || r.EnvironmentSetup != nil || r.Verifier == nil || r.AgentInfo.Name != "oracle" {
			t.Errorf("%+v %v", r, err)
		}
		if b, err := os.ReadFile(filepath.Join(trialOf(t, again, "a"), "artifacts", "logs", "artifacts", "n")); err != nil || string(b) != "0.25\n" {
			t.Errorf("the artifact is %q, %v", b, err)
		}
		if w.Left() != 0 {
			t.Errorf("%d sandboxes are left", w.Left())
		}
		// It goes on like any other job.
		if err := os.Remove(filepath.Join(trialOf(t, again, "b"), results.ResultFile)); err != nil {
			t.Fatal(err)
		}
		p, sum = finish(t, again, cancelled, w)
		if len(p.Past.Kept) != 1 || sum.Result.Stats.Completed != 2 {
			t.Errorf("%d kept, %+v", len(p.Past.Kept), sum.Result.Stats)
		}
	})
}

func TestRegradeRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, cfg trials.JobConfig, set string)
		said   string
	}{
		"a task that is not given": {func(t *testing.T, _ trials.JobConfig, set string) {
			if err := os.RemoveAll(filepath.Join(set, "a")); err != nil {
				t.Fatal(err)
			}
		}, "no task is given for trials of a"},
		"tests that need the agent's sandbox": {func(t *testing.T, _ trials.JobConfig, set string) {
			put(t, filepath.Join(set, "b", "task.toml"), "schema_version = \"1.4\"\n")
		}, "cannot be graded again: b"},
		"a job without work": {func(t *testing.T, cfg trials.JobConfig, _ string) {
			for _, n := range []string{"a", "b"} {
				if err := os.Remove(filepath.Join(trialOf(t, cfg, n), results.ResultFile)); err != nil {
					t.Fatal(err)
				}
			}
		}, "no trial whose work could be graded again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg, set := gradedOnce(t, fake.NewWorld())
				again := regradeOf(t, cfg, set)
				c.change(t, cfg, set)
				if _, err := NewPlan(again, "id"); err == nil || !strings.Contains(err.Error(), c.said) {
					t.Errorf("%v", err)
				}
			})
		})
	}
	for _, s := range []trials.SourceJob{{Action: "diff", Type: "hub"}, {Action: "regrade", Type: "hub"}, {Action: "regrade", Type: "local"}} {
		cfg := trials.NewJobConfig()
		cfg.SourceJobs = trials.List[trials.SourceJob]{s}
		if err := CheckJob(cfg); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}
