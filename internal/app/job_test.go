package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// mixedSet has one task of each ending.
func mixedSet(t *testing.T) string {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	putTask(t, set, "full", "echo 1 > /logs/verifier/reward.txt", "")
	putTask(t, set, "half", "sleep 5; echo 0.5 > /logs/verifier/reward.txt", "")
	putTask(t, set, "none", "sleep 2", "")
	putTask(t, set, "slow", "sleep 600", "")
	putTask(t, set, "broken", "true", taskToml+"[environment.env]\nX = \"${NOT_SET}\"\n")
	return set
}

// start makes a job on a fake world.
func start(t *testing.T, cfg trials.JobConfig, w *fake.World) *Job {
	t.Helper()
	a := newApp(t, hostOf(t, nil))
	plan, err := NewPlan(cfg, "5e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		t.Fatal(err)
	}
	j, err := a.StartJob(plan, Alone(fake.New(fake.Options{World: w})), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// reconcile checks that every planned trial is counted once.
func reconcile(t *testing.T, r trials.JobResult) {
	t.Helper()
	s := r.Stats
	if n := s.Completed + s.Running + s.Pending; n != r.NTotalTrials || s.Pending < 0 || s.Running < 0 {
		t.Errorf("%d completed, %d running, %d pending of %d", s.Completed, s.Running, s.Pending, r.NTotalTrials)
	}
	ungraded := 0
	for _, n := range r.Harborgate.Ungraded {
		ungraded += n
	}
	if n := r.Harborgate.Graded + ungraded + s.Cancelled; n != s.Completed {
		t.Errorf("%d graded, %d ungraded, %d cancelled of %d completed", r.Harborgate.Graded, ungraded, s.Cancelled, s.Completed)
	}
}

func TestNumbersReconcileAtEveryWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		cfg := jobOf(t, mixedSet(t))
		cfg.NAttempts, cfg.NConcurrentTrials, cfg.Retry.MaxRetries = 2, 3, 1
		include := trials.NewSet(trials.ExcVerifierTimeout)
		cfg.Retry.IncludeExceptions, cfg.Retry.ExcludeExceptions = &include, nil
		j := start(t, cfg, w)
		seen, stop := j.Events.Subscribe(10_000)
		watched := make(chan int)
		go func() {
			reads := 0
			for range seen {
				r, err := results.ReadJobResult(j.Dir)
				if err != nil {
					t.Error(err)
				}
				reconcile(t, r)
				reads++
			}
			watched <- reads
		}()
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		if n := <-watched; n < 50 {
			t.Errorf("only %d events", n)
		}
		r, err := results.ReadJobResult(j.Dir)
		if err != nil {
			t.Fatal(err)
		}
		reconcile(t, r)
		if r.Stats.Completed != 10 || r.Stats.Retries != 2 || r.Stats.Running != 0 || r.FinishedAt == nil {
			t.Errorf("%+v", r.Stats)
		}
		x := r.Harborgate
		if diff := cmp.Diff(map[trials.Blame]int{trials.BlameTask: 6}, x.Ungraded); diff != "" || x.Graded != 4 {
			t.Errorf("%d graded, ungraded (-want +got):\n%s", x.Graded, diff)
		}
		if sum.Planned != 10 || len(sum.Trials) != 10 {
			t.Errorf("%d planned, %d told", sum.Planned, len(sum.Trials))
		}
		if w.Left() != 0 {
			t.Errorf("%d sandboxes are left", w.Left())
		}
	})
}

func TestJobOnDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := mixedSet(t)
		putTask(t, set, "wrong", "true", "nonsense")
		j := start(t, jobOf(t, set), fake.NewWorld())
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		dirs, err := results.TrialDirs(j.Dir)
		if err != nil || len(dirs) != 5 {
			t.Fatal(dirs, err)
		}
		for _, d := range dirs {
			if r, err := results.ReadTrialResult(d); err != nil || !r.Finished() || r.TaskChecksum == "" {
				t.Errorf("%s: %v", d, err)
			}
		}
		var lock trials.JobLock
		b, err := os.ReadFile(filepath.Join(j.Dir, results.LockFile))
		if err != nil || json.Unmarshal(b, &lock) != nil || len(lock.Trials) != 5 {
			t.Errorf("lock.json: %d trials, %v", len(lock.Trials), err)
		}
		r, err := results.ReadJobResult(j.Dir)
		if err != nil || len(r.Harborgate.InvalidTasks) != 1 || !strings.HasSuffix(r.Harborgate.InvalidTasks[0], "wrong") {
			t.Errorf("invalid tasks %v %v", r.Harborgate.InvalidTasks, err)
		}
		known, err := os.ReadFile(filepath.Join(j.app.Dirs.State, "jobs.jsonl"))
		if err != nil || !bytes.Contains(known, []byte(fmt.Sprintf("%q", j.Dir))) {
			t.Errorf("jobs.jsonl: %s %v", known, err)
		}
		types := eventTypes(t, j.Dir)
		if types[0] != trials.EventJobStart || types[len(types)-1] != trials.EventJobEnd {
			t.Errorf("events from %s to %s", types[0], types[len(types)-1])
		}
	})
}

// eventTypes reads a job's events, which must be numbered without gaps.
func eventTypes(t *testing.T, dir string) []trials.EventType {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, results.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	var out []trials.EventType
	for line := range bytes.Lines(b) {
		var e trials.Event
		if err := json.Unmarshal(line, &e); err != nil || e.Seq != int64(len(out)+1) {
			t.Errorf("line %d: %s %v", len(out)+1, line, err)
		}
		out = append(out, e.Type)
	}
	return out
}

var errStop = errors.New("stopped by the test")

func TestInterruptedJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		cfg := jobOf(t, mixedSet(t))
		cfg.NConcurrentTrials, cfg.NAttempts, cfg.Retry.MaxRetries = 2, 2, 5
		j := start(t, cfg, w)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(8*time.Second, func() { cancel(errStop) })
		begun := time.Now()
		sum, err := j.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("it went on for %s", took)
		}
		r := sum.Result
		reconcile(t, r)
		if r.Harborgate.Interrupted != errStop.Error() || r.FinishedAt != nil || r.Stats.Cancelled == 0 || r.Stats.Pending == 0 {
			t.Errorf("%+v %+v", r.Harborgate, r.Stats)
		}
		if w.Left() != 0 {
			t.Errorf("%d sandboxes are left", w.Left())
		}
	})
}

// One bad trial never hurts another.
func TestTrialsDoNotHurtEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		set := filepath.Join(t.TempDir(), "set")
		for i := range 6 {
			putTask(t, set, fmt.Sprintf("t%d", i), "sleep 3; echo 1 > /logs/verifier/reward.txt", "")
		}
		w.Inject(
			fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindDenied},
			fake.Fault{Op: fake.OpDownload, Match: "/logs/agent", Nth: 2, Hang: true},
			fake.Fault{Op: fake.OpDestroy, Nth: 2, Effect: fake.Lose, Kind: providers.KindUnavailable},
		)
		cfg := jobOf(t, set)
		cfg.NConcurrentTrials = 6
		sum, err := start(t, cfg, w).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reconcile(t, sum.Result)
		x := sum.Result.Harborgate
		if x.Graded != 5 || x.Ungraded[trials.BlameInfrastructure] != 1 {
			t.Errorf("%d graded, ungraded %v", x.Graded, x.Ungraded)
		}
		if len(x.CleanupFailed) != 0 || w.Left() != 0 {
			t.Errorf("failed removals %v, %d left: it was not tried again", x.CleanupFailed, w.Left())
		}
	})
}

func TestRetriedTryIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		set := filepath.Join(t.TempDir(), "set")
		putTask(t, set, "one", "echo 1 > /logs/verifier/reward.txt", "")
		w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		cfg := jobOf(t, set)
		cfg.Retry.MaxRetries, cfg.Retry.MinWaitSec = 2, 30
		j := start(t, cfg, w)
		begun := time.Now()
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 24*time.Second || took > 36*time.Second {
			t.Errorf("it paused for %s", took)
		}
		if sum.Result.Harborgate.Graded != 1 || sum.Result.Stats.Retries != 1 || sum.Trials[0].Tries != 2 {
			t.Errorf("%+v", sum)
		}
		dir := filepath.Join(j.Dir, j.Plan.Trials[0].Name)
		first, err := results.ReadTrialResult(filepath.Join(dir, results.TriesDir, "1"))
		if err != nil || first.ExceptionInfo == nil || first.Harborgate.Try != 1 {
			t.Errorf("the first try: %+v %v", first, err)
		}
		if !slices.Contains(eventTypes(t, j.Dir), trials.EventRetry) {
			t.Error("there is no event of it")
		}
	})
}

// A trial that waits for its image, with slots free, says so; also when the image
// cannot be made.
func TestWaitForAnImageIsShownAsThat(t *testing.T) {
	t.Parallel()
	for _, effect := range []fake.Effect{fake.Slow, fake.Refuse} {
		synctest.Test(t, func(t *testing.T) {
			w := fake.NewWorld()
			set := filepath.Join(t.TempDir(), "set")
			putTask(t, set, "one", "echo 1 > /logs/verifier/reward.txt", "")
			w.Inject(fake.Fault{Op: fake.OpBuild, Delay: 8 * time.Second, Effect: effect, Kind: providers.KindInvalid})
			j := start(t, jobOf(t, set), w)
			sum, err := j.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if x := sum.Trials[0]; x.Snapshot != 8*time.Second || x.Queued != 8*time.Second || x.Waited != 0 {
				t.Errorf("effect %d: %s for images, %s for a slot, %s before it began", effect, x.Snapshot, x.Waited, x.Queued)
			}
			r, err := results.ReadTrialResult(filepath.Join(j.Dir, j.Plan.Trials[0].Name))
			if err != nil || r.Harborgate.SnapshotSec != 8 || r.Harborgate.WaitSec != 0 {
				t.Errorf("effect %d: %+v %v", effect, r, err)
			}
		})
	}
}

func TestJobThatExistsIsRefused(t *testing.T) {
	t.Parallel()
	set := mixedSet(t)
	cfg := jobOf(t, set)
	j := start(t, cfg, fake.NewWorld())
	_, err := j.app.StartJob(j.Plan, Alone(fake.New(fake.Options{})), Settings{})
	var locked *results.LockedError
	if !errors.As(err, &locked) {
		t.Errorf("%v", err)
	}
}

func TestRunTrialAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, w := newApp(t, hostOf(t, nil)), fake.NewWorld()
		dir := putTask(t, t.TempDir(), "one", "echo 1 > /logs/verifier/reward.txt", "")
		cfg := trials.NewTrialConfig(trials.TaskConfig{Path: &dir})
		cfg.TrialName, cfg.TrialsDir = "alone", t.TempDir()
		p := fake.New(fake.Options{World: w})
		res, err := a.RunTrial(t.Context(), cfg, p, Settings{})
		if err != nil || !res.RewardValid {
			t.Fatalf("%+v %v", res, err)
		}
		if stored, err := results.ReadTrialResult(filepath.Join(cfg.TrialsDir, "alone")); err != nil || stored.ID != res.ID {
			t.Errorf("%v", err)
		}
		if _, err := a.RunTrial(t.Context(), cfg, p, Settings{}); err == nil || !strings.Contains(err.Error(), "choose another --trial-name or --trials-dir") {
			t.Errorf("a second time: %v", err)
		}
		if w.Left() != 0 {
			t.Errorf("%d sandboxes are left", w.Left())
		}
	})
}

func TestCredentialsStayOnTheHost(t *testing.T) {
	t.Parallel()
	lookup := hostOf(t, map[string]string{"OPENAI_API_KEY": "sk-host"})
	env := map[string]string{
		"ANTHROPIC_API_KEY": "sk-1", "GEMINI_API_KEY": "", "MY_KEY": "sk-host", "OTHER_KEY": "sk-other", "PLAIN": "1",
	}
	before := fmt.Sprint(env)
	for _, c := range []struct {
		phase trials.Phase
		pass  bool
		gone  []string
		code  string
	}{
		{trials.PhaseAgentExecution, false, []string{"ANTHROPIC_API_KEY", "MY_KEY"}, "credential_withheld"},
		{trials.PhaseAgentExecution, true, nil, "credential_passed"},
		{trials.PhaseVerifier, false, nil, "credential_passed"},
	} {
		out, _, notes := (&models{lookup: lookup, set: Settings{PassCredentials: c.pass}}).Guard(c.phase, nil, env)
		var gone []string
		for name := range env {
			if _, ok := out[name]; !ok {
				gone = append(gone, name)
			}
		}
		slices.Sort(gone)
		if diff := cmp.Diff(c.gone, gone); diff != "" {
			t.Errorf("%s, pass %v (-want +got):\n%s", c.phase, c.pass, diff)
		}
		for _, n := range notes {
			if n.Code != c.code || strings.Contains(n.Message, "sk-") {
				t.Errorf("%+v", n)
			}
		}
		if len(notes) != 2 {
			t.Errorf("%d notes", len(notes))
		}
	}
	if fmt.Sprint(env) != before {
		t.Errorf("the map was changed: %v", env)
	}
}

func TestJobThatCannotStartHoldsNothing(t *testing.T) {
	t.Parallel()
	cfg := jobOf(t, mixedSet(t))
	a := newApp(t, hostOf(t, nil))
	plan, err := NewPlan(cfg, "id")
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(a.Dirs.State, "jobs.jsonl")
	if err := os.Mkdir(list, 0o755); err != nil { // so it cannot be written
		t.Fatal(err)
	}
	if j, err := a.StartJob(plan, Alone(fake.New(fake.Options{})), Settings{}); err == nil || j != nil {
		t.Fatalf("%v %v", j, err)
	}
	dir := filepath.Join(cfg.JobsDir, cfg.JobName)
	if err := errors.Join(os.Remove(list), os.RemoveAll(dir)); err != nil {
		t.Fatal(err)
	}
	j, err := a.StartJob(plan, Alone(fake.New(fake.Options{})), Settings{})
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// A job that is closed without having run leaves its first result.
func TestTallyClosesWithoutAResult(t *testing.T) {
	t.Parallel()
	j := start(t, jobOf(t, mixedSet(t)), fake.NewWorld())
	j.tally.close()
	j.tally.close()
	if r, err := results.ReadJobResult(j.Dir); err != nil || r.FinishedAt != nil || r.Stats.Pending != 5 {
		t.Errorf("%+v %v", r, err)
	}
}
