package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

// cancelled is what runs again unless somebody says otherwise.
var cancelled = Redo{Exceptions: []string{trials.ExcCancelled}}

// continued plans a configuration anew and lets it take up its job.
func continued(t *testing.T, cfg trials.JobConfig, redo Redo) (*App, *Plan, error) {
	t.Helper()
	a := newApp(t, hostOf(t, nil))
	p, err := NewPlan(cfg, "6e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		t.Fatal(err)
	}
	err = a.Continue(p, redo)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return a, p, err
}

// finish runs what is left of a job.
func finish(t *testing.T, cfg trials.JobConfig, redo Redo, w *fake.World) (*Plan, Summary) {
	t.Helper()
	a, p, err := continued(t, cfg, redo)
	if err != nil {
		t.Fatal(err)
	}
	j, err := a.StartJob(p, Alone(fake.New(fake.Options{World: w})), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := j.Run(t.Context())
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	reconcile(t, sum.Result)
	return p, sum
}

// runAll runs a whole job and gives it free.
func runAll(t *testing.T, cfg trials.JobConfig, w *fake.World) {
	t.Helper()
	j := start(t, cfg, w)
	if _, err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// trialOf is the directory of the only trial of a task.
func trialOf(t *testing.T, cfg trials.JobConfig, task string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(cfg.JobsDir, cfg.JobName, task+"__*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// snapshot is every file below the trials of a job.
func snapshotOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		out[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func again(p *Plan) map[string]Reason {
	out := map[string]Reason{}
	for _, a := range p.Past.Again {
		out[a.Task] = a.Why
	}
	return out
}

// B108: exactly the trials without a verdict, or those that were asked for.
func TestB108WhatRunsAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redo Redo
		want map[string]Reason
	}{
		"by default":         {cancelled, map[string]Reason{"unreadable": Unreadable, "missing": CutOff}},
		"by exception":       {Redo{Exceptions: []string{trials.ExcAgentTimeout}}, map[string]Reason{"unreadable": Unreadable, "missing": CutOff, "late": Selected}},
		"by blame":           {Redo{Blames: []trials.Blame{trials.BlameInfrastructure}}, map[string]Reason{"unreadable": Unreadable, "missing": CutOff, "lost": Selected}},
		"by blame of agents": {Redo{Blames: []trials.Blame{trials.BlameAgent}}, map[string]Reason{"unreadable": Unreadable, "missing": CutOff, "late": Selected}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, set := fake.NewWorld(), filepath.Join(t.TempDir(), "set")
				one := "echo 1 > /logs/verifier/reward.txt"
				for _, n := range []string{"s1", "s2", "s3", "unreadable", "missing", "zlost"} {
					putTask(t, set, n, one, "")
				}
				putTask(t, set, "late", "echo 0 > /logs/verifier/reward.txt", strings.Replace(taskToml, "60.0", "1.0", 1))
				put(t, filepath.Join(set, "late", "solution", "solve.sh"), "sleep 5\n")
				if err := os.Rename(filepath.Join(set, "zlost"), filepath.Join(set, "lost")); err != nil {
					t.Fatal(err)
				}
				cfg := jobOf(t, set)
				cfg.NConcurrentTrials = 1
				w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 3, Effect: fake.Refuse, Kind: providers.KindUnavailable}) // the image, the trial before, lost
				runAll(t, cfg, w)
				cut := filepath.Join(trialOf(t, cfg, "unreadable"), results.ResultFile)
				if err := errors.Join(os.Truncate(cut, 333), os.Remove(filepath.Join(trialOf(t, cfg, "missing"), results.ResultFile))); err != nil {
					t.Fatal(err)
				}
				before := map[string]map[string]string{}
				for _, n := range []string{"s1", "s2", "s3"} {
					before[n] = snapshotOf(t, trialOf(t, cfg, n))
				}
				p, sum := finish(t, cfg, c.redo, w)
				if diff := cmp.Diff(c.want, again(p)); diff != "" {
					t.Errorf("runs again (-want +got):\n%s", diff)
				}
				for n, want := range before {
					if diff := cmp.Diff(want, snapshotOf(t, trialOf(t, cfg, n))); diff != "" {
						t.Errorf("%s changed:\n%s", n, diff)
					}
				}
				for n := range c.want {
					dir := trialOf(t, cfg, n)
					r, err := results.ReadTrialResult(dir)
					if err != nil || r.Harborgate.Try != 2 {
						t.Errorf("%s: %v", n, err)
					}
					if _, err := os.Stat(filepath.Join(dir, results.TriesDir, "1", results.ConfigFile)); err != nil {
						t.Errorf("the earlier try of %s: %v", n, err)
					}
				}
				if sum.Planned != 7 || sum.Result.Stats.Completed != 7 || sum.Result.ID != "5e0c1f0e-0000-4000-8000-000000000000" {
					t.Errorf("%d planned, %+v, job %s", sum.Planned, sum.Result.Stats, sum.Result.ID)
				}
			})
		})
	}
}

// B120: what changes no verdict may change; the rest is refused with the key, both
// values and what to do.
func TestB120WhatMayChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*trials.JobConfig)
		said   string
	}{
		"concurrency": {func(c *trials.JobConfig) { c.NConcurrentTrials = 9 }, ""},
		"quiet":       {func(c *trials.JobConfig) { c.Quiet = true }, ""},
		"retries":     {func(c *trials.JobConfig) { c.Retry.MaxRetries = 3 }, ""},
		"model":       {func(c *trials.JobConfig) { m := "a/b"; c.Agents[0].ModelName = &m }, `agents[0].model_name was null and is now "a/b"`},
		"agent":       {func(c *trials.JobConfig) { n := "nop"; c.Agents[0].Name = &n }, `agents[0].name was "oracle" and is now "nop"`},
		"timeouts":    {func(c *trials.JobConfig) { c.Timeout = 2 }, "timeout_multiplier was 1 and is now 2"},
		"verifier":    {func(c *trials.JobConfig) { c.Verifier.Disable = true }, "verifier.disable was false and is now true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := jobOf(t, mixedSet(t))
				runAll(t, cfg, fake.NewWorld())
				c.change(&cfg)
				_, p, err := continued(t, cfg, cancelled)
				if c.said == "" {
					if err != nil || len(p.Trials) != 0 {
						t.Errorf("%d to run, %v", len(p.Trials), err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), c.said) || !strings.Contains(err.Error(), "choose another --job-name") {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

// B120: an edited task runs its own trials again, unless the edit means nothing.
func TestB120EditedTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file, content string
		again         bool
	}{
		"tests":        {"tests/test.sh", "echo 0.25 > /logs/verifier/reward.txt\n", true},
		"instruction":  {"instruction.md", "Do it differently.\n", true},
		"limit":        {"task.toml", strings.Replace(taskToml, "60.0", "61.0", 1), true},
		"solution":     {"solution/solve.sh", "exit 0\n", true}, // the agent is its
		"comment":      {"task.toml", "# why\n" + taskToml, false},
		"other forms":  {"task.toml", strings.ReplaceAll(taskToml, "60.0", "60.00"), false},
		"metadata":     {"task.toml", taskToml + "[metadata]\ndifficulty = \"hard\"\n", false},
		"readme":       {"README.md", "About.\n", false},
		"a cache":      {"tests/__pycache__/x.pyc", "x", false},
		"nothing else": {"notes.txt", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := filepath.Join(t.TempDir(), "set")
				putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", "")
				putTask(t, set, "b", "echo 1 > /logs/verifier/reward.txt", "")
				cfg := jobOf(t, set)
				cfg.NAttempts = 2
				w := fake.NewWorld()
				runAll(t, cfg, w)
				file := filepath.Join(set, "a", c.file)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				put(t, file, c.content)
				p, sum := finish(t, cfg, cancelled, w)
				want := map[string]Reason{}
				if c.again {
					want["a"] = Edited
				}
				if diff := cmp.Diff(want, again(p)); diff != "" || len(p.Past.Again) != 2*len(want) {
					t.Errorf("%d run again (-want +got):\n%s", len(p.Past.Again), diff)
				}
				if sum.Result.Stats.Completed != 4 {
					t.Errorf("%+v", sum.Result.Stats)
				}
			})
		})
	}
}

// More attempts and more tasks are more trials; fewer leave those that are done.
func TestJobGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		one := "echo 1 > /logs/verifier/reward.txt"
		putTask(t, set, "a", one, "")
		putTask(t, set, "b", one, "")
		cfg := jobOf(t, set)
		runAll(t, cfg, w)
		cfg.NAttempts = 3
		putTask(t, set, "c", one, "")
		p, sum := finish(t, cfg, cancelled, w)
		if len(p.Past.Kept) != 2 || len(p.Trials) != 7 || sum.Result.NTotalTrials != 9 || sum.Result.Harborgate.Graded != 9 {
			t.Errorf("%d kept, %d run, %+v", len(p.Past.Kept), len(p.Trials), sum.Result)
		}
		cfg.NAttempts = 2
		if err := os.RemoveAll(filepath.Join(set, "b")); err != nil {
			t.Fatal(err)
		}
		_, p, err := continued(t, cfg, cancelled)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Past.Left) != 5 || len(p.Past.Kept) != 9 || len(p.Trials) != 0 || p.Total() != 9 {
			t.Errorf("%d left, %d kept, %d to run of %d", len(p.Past.Left), len(p.Past.Kept), len(p.Trials), p.Total())
		}
	})
}

// B123: every slot gets one verdict, whenever the job was stopped.
func TestB123SlotsAreFilledOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		putTask(t, set, "a", "sleep 3; echo 1 > /logs/verifier/reward.txt", "")
		putTask(t, set, "b", "sleep 5; echo 1 > /logs/verifier/reward.txt", "")
		cfg := jobOf(t, set)
		cfg.NAttempts, cfg.NConcurrentTrials = 3, 2
		j := start(t, cfg, w)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // in the middle of two
		defer cancel()
		if _, err := j.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		_, sum := finish(t, cfg, cancelled, w)
		var got []string
		for _, x := range sum.Trials {
			got = append(got, fmt.Sprintf("%s %d", x.Task, x.Attempt))
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"a 1", "a 2", "a 3", "b 1", "b 2", "b 3"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// B121: a job began when it began, and pauses between processes are no work.
func TestB121TimeIsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		putTask(t, set, "a", "sleep 10; echo 1 > /logs/verifier/reward.txt", "")
		cfg := jobOf(t, set)
		runAll(t, cfg, w)
		before, err := results.ReadJobResult(filepath.Join(cfg.JobsDir, cfg.JobName))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			time.Sleep(time.Hour) //nolint:forbidigo // in a bubble
			cfg.NAttempts++
			_, sum := finish(t, cfg, cancelled, w)
			if !sum.Result.StartedAt.Equal(before.StartedAt.Time) {
				t.Errorf("it began at %s", sum.Result.StartedAt)
			}
		}
		r, err := results.ReadJobResult(filepath.Join(cfg.JobsDir, cfg.JobName))
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Worked(); len(r.Harborgate.Sessions) != 3 || d < 30*time.Second || d > time.Minute {
			t.Errorf("%s of work in %d sessions", d, len(r.Harborgate.Sessions))
		}
	})
}

// B111: a trial that failed once and then passed counts once, and its failure is a
// retry; so it stays when the job goes on.
func TestB111RetriesCountOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		for i := range 10 {
			putTask(t, set, fmt.Sprintf("t%d", i), "echo 1 > /logs/verifier/reward.txt", "")
			w.Inject(fake.Fault{Op: fake.OpCreate, Nth: i + 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		}
		cfg := jobOf(t, set)
		cfg.NConcurrentTrials, cfg.Retry.MaxRetries = 10, 3
		runAll(t, cfg, w)
		check := func(r trials.JobResult, total int) {
			t.Helper()
			s := r.Stats
			if s.Completed != total || s.Errored != 0 || s.Retries != 10 || r.Harborgate.Graded != total {
				t.Errorf("%+v of %d", s, total)
			}
		}
		r, err := results.ReadJobResult(filepath.Join(cfg.JobsDir, cfg.JobName))
		if err != nil {
			t.Fatal(err)
		}
		check(r, 10)
		cfg.NAttempts = 2
		_, sum := finish(t, cfg, cancelled, w)
		check(sum.Result, 20)
	})
}

// B116: a trial that waits for its next try has no result, and every try has its
// own record.
func TestB116StoppedBetweenTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", "")
		for i, kind := range []providers.Kind{providers.KindUnavailable, providers.KindDenied} {
			w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2 * (i + 1), Effect: fake.Refuse, Kind: kind})
		}
		cfg := jobOf(t, set)
		cfg.Retry.MaxRetries, cfg.Retry.MinWaitSec = 2, 30
		j := start(t, cfg, w)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // in the pause
		defer cancel()
		begun := time.Now()
		sum, err := j.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 11*time.Second { // B118: a pause ends at once
			t.Errorf("it went on for %s", took)
		}
		reconcile(t, sum.Result)
		if s := sum.Result.Stats; s.Pending != 1 || s.Completed != 0 || s.Retries != 1 {
			t.Errorf("%+v", s)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		dir := trialOf(t, cfg, "a")
		if _, err := os.Stat(filepath.Join(dir, results.ResultFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it has a result: %v", err)
		}
		p, sum := finish(t, cfg, cancelled, w)
		if diff := cmp.Diff(map[string]Reason{"a": CutOff}, again(p)); diff != "" || sum.Result.Stats.Retries != 2 || sum.Result.Harborgate.Graded != 1 {
			t.Errorf("%+v (-want +got):\n%s", sum.Result.Stats, diff)
		}
		var kinds []string
		for _, n := range []string{"1", "2"} {
			r, err := results.ReadTrialResult(filepath.Join(dir, results.TriesDir, n))
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, fmt.Sprintf("%d %s", r.Harborgate.Try, r.Harborgate.Failure.Kind))
		}
		last, err := results.ReadTrialResult(dir)
		if err != nil || last.Harborgate.Try != 3 || last.Harborgate.Retries != 2 {
			t.Errorf("%+v %v", last.Harborgate, err)
		}
		if diff := cmp.Diff([]string{"1 Unavailable", "2 Denied"}, kinds); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A process may die before it has written anything of use.
func TestWhatHadNotBegunIsCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", "")
		cfg := jobOf(t, set)
		runAll(t, cfg, w)
		job := filepath.Join(cfg.JobsDir, cfg.JobName)
		born, mine := filepath.Join(job, "a__abcdefg"), filepath.Join(job, "notes")
		if err := errors.Join(os.Mkdir(born, 0o755), os.Mkdir(mine, 0o755)); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(born, results.TrialLogFile), "")
		put(t, filepath.Join(mine, "mine.txt"), "")
		if err := os.Remove(filepath.Join(job, results.ResultFile)); err != nil {
			t.Fatal(err)
		}
		_, sum := finish(t, cfg, cancelled, w)
		if _, err := os.Stat(born); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there: %v", err)
		}
		if _, err := os.Stat(mine); err != nil {
			t.Error(err)
		}
		if sum.Result.Stats.Completed != 1 || sum.Result.ID != "5e0c1f0e-0000-4000-8000-000000000000" {
			t.Errorf("%+v, job %s", sum.Result.Stats, sum.Result.ID)
		}
	})
}

func TestJobWithoutConfigurationDoesNotBeginAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := jobOf(t, mixedSet(t))
		runAll(t, cfg, fake.NewWorld())
		if err := os.Remove(filepath.Join(cfg.JobsDir, cfg.JobName, results.ConfigFile)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := continued(t, cfg, cancelled); err == nil || !strings.Contains(err.Error(), "restore config.json") {
			t.Errorf("%v", err)
		}
	})
}

// oldConfig is how Harbor 0.5 wrote a job's configuration at first.
const oldConfig = `{"job_name": "success", "jobs_dir": "jobs", "n_attempts": 2, "timeout_multiplier": 1.0, "debug": false,
	"orchestrator": {"type": "local", "n_concurrent_trials": 2, "quiet": true, "retry": {"max_retries": 0}},
	"environment": {"type": "docker", "force_build": false, "delete": true, "kwargs": {}, "env": ["A=b", "C=d=e"]},
	"verifier": {"disable": false}, "metrics": [], "agents": [{"name": "oracle", "import_path": null, "model_name": null, "kwargs": {}}],
	"datasets": [], "tasks": [{"path": "tasks/hello-ok"}]}`

// Jobs of Harbor go on: what it finished stays as it is, the rest runs here. B095:
// configurations in its earlier spellings are read.
func TestB095JobsOfHarborGoOn(t *testing.T) {
	t.Parallel()
	golden, err := filepath.Abs(filepath.Join("..", "..", "e2e", "testdata", "harbor-0.26"))
	if err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]func(t *testing.T, job string){
		"0.26": func(*testing.T, string) {},
		"0.5": func(t *testing.T, job string) {
			put(t, filepath.Join(job, results.ConfigFile), oldConfig)
			trial := filepath.Join(job, "hello-ok__te86zKT")
			without(t, filepath.Join(trial, results.ResultFile), "schema_version", "reward_valid", "verifier_environment_mode")
			without(t, filepath.Join(job, results.ResultFile), "schema_version", "updated_at")
			if err := errors.Join(os.Remove(filepath.Join(job, results.LockFile)), os.Remove(filepath.Join(trial, results.LockFile))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				jobs := t.TempDir()
				job := filepath.Join(jobs, "moved")
				if err := os.CopyFS(job, os.DirFS(filepath.Join(golden, "success"))); err != nil {
					t.Fatal(err)
				}
				age(t, job)
				task := filepath.Join(golden, "tasks", "hello-ok")
				replace(t, filepath.Join(job, results.ConfigFile), `"tasks/hello-ok"`, fmt.Sprintf("%q", task))
				cfg, err := results.ReadJobConfig(job)
				if err != nil {
					t.Fatal(err)
				}
				cfg.JobsDir, cfg.JobName, cfg.NAttempts = jobs, "moved", 2
				before := snapshotOf(t, filepath.Join(job, "hello-ok__te86zKT"))
				p, sum := finish(t, cfg, cancelled, fake.NewWorld())
				if len(p.Past.Kept) != 1 || len(p.Past.Again) != 0 || len(p.Trials) != 1 || sum.Result.NTotalTrials != 2 {
					t.Errorf("%d kept, %v again, %d run of %d", len(p.Past.Kept), p.Past.Again, len(p.Trials), sum.Result.NTotalTrials)
				}
				if diff := cmp.Diff(before, snapshotOf(t, filepath.Join(job, "hello-ok__te86zKT"))); diff != "" {
					t.Errorf("the finished trial changed:\n%s", diff)
				}
			})
		})
	}
}

// without takes members out of a document.
func without(t *testing.T, file string, keys ...string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		delete(doc, k)
	}
	if b, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	put(t, file, string(b))
}

func replace(t *testing.T, file, from, to string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, strings.ReplaceAll(string(b), from, to))
}

// B118: by class, what is tried again; and a trial that waits for its next try
// holds up nobody.
func TestB118RetriesByClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, mixedSet(t)) // none: no reward; slow: too slow a verifier; broken: a variable
		cfg.Retry.MaxRetries, cfg.NConcurrentTrials = 2, 5
		w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		runAll(t, cfg, w)
		found, err := results.ReadTrials(filepath.Join(cfg.JobsDir, cfg.JobName))
		if err != nil {
			t.Fatal(err)
		}
		tries := 0 // whichever trial met the fault, all others run once
		for _, f := range found {
			tries += f.Result.Harborgate.Try
		}
		if tries != len(found)+1 {
			t.Errorf("%d tries of %d trials, one of which met a fault", tries, len(found))
		}
	})
}

func TestB118PauseGivesTheSlotUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", "")
		putTask(t, set, "b", "sleep 5; echo 1 > /logs/verifier/reward.txt", "")
		cfg := jobOf(t, set)
		cfg.Retry.MaxRetries, cfg.Retry.MinWaitSec, cfg.NConcurrentTrials = 1, 30, 1
		w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		runAll(t, cfg, w)
		a, err := results.ReadTrialResult(trialOf(t, cfg, "a"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := results.ReadTrialResult(trialOf(t, cfg, "b"))
		if err != nil {
			t.Fatal(err)
		}
		if !b.FinishedAt.Before(a.StartedAt.Time) || a.Harborgate.Try != 2 {
			t.Errorf("b ended at %s, the second try of a began at %s", b.FinishedAt, a.StartedAt)
		}
	})
}

// B115: trials that fail while their agent is set up are no losses of the agent.
func TestB115SetupFailuresAreNoLosses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, w := filepath.Join(t.TempDir(), "set"), fake.NewWorld()
		for _, n := range []string{"a", "b", "c"} {
			putTask(t, set, n, "echo 1 > /logs/verifier/reward.txt", "")
		}
		w.Inject(
			fake.Fault{Op: fake.OpUpload, Match: "/harbor", Nth: 1, Hang: true},
			fake.Fault{Op: fake.OpUpload, Match: "/harbor", Nth: 2, Effect: fake.Refuse, Kind: providers.KindInternal},
		)
		cfg := jobOf(t, set)
		name := "command"
		cfg.Agents = trials.List[trials.AgentConfig]{{Name: &name, Kwargs: trials.Object[any]{"command": "true"}}}
		cfg.NConcurrentTrials = 1
		_, sum := finish(t, cfg, cancelled, w)
		x := sum.Result.Harborgate
		if x.Graded != 1 || x.Ungraded[trials.BlameInfrastructure] != 2 {
			t.Errorf("%+v", x)
		}
		for _, e := range sum.Result.Stats.Evals {
			if e.NTrials != 1 || e.Metrics[0]["mean"] != 1 {
				t.Errorf("%+v", e)
			}
		}
	})
}
