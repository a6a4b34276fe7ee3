package app

import (
	"context"
	"errors"
	"path/filepath"
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

// lateSet has tasks whose agents come too late and are graded all the same.
func lateSet(t *testing.T, names ...string) string {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	for _, n := range names {
		putTask(t, set, n, "echo 1 > /logs/verifier/reward.txt", strings.Replace(taskToml, "60.0", "5.0", 1))
		put(t, filepath.Join(set, n, "solution", "solve.sh"), "sleep 50\n")
	}
	return set
}

var late = Redo{Exceptions: []string{trials.ExcCancelled, trials.ExcAgentTimeout}}

// stopped goes on with a job and stops it after a while.
func stopped(t *testing.T, cfg trials.JobConfig, redo Redo, w *fake.World, after time.Duration) Summary {
	t.Helper()
	a, p, err := continued(t, cfg, redo)
	if err != nil {
		t.Fatal(err)
	}
	j, err := a.StartJob(p, Alone(fake.New(fake.Options{World: w})), Settings{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	sum, err := j.Run(ctx)
	if err = errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	reconcile(t, sum.Result)
	return sum
}

// held is how many trials of a job have a verdict on disk.
func held(t *testing.T, cfg trials.JobConfig) int {
	t.Helper()
	found, err := results.ReadTrials(filepath.Join(cfg.JobsDir, cfg.JobName))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range found {
		if f.Result != nil && f.Result.RewardValid {
			n++
		}
	}
	return n
}

func outside(m map[string]string, part string) map[string]string {
	out := map[string]string{}
	for name, b := range m {
		if !strings.Contains(name, part) {
			out[name] = b
		}
	}
	return out
}

// Stopping a job that runs verdicts again loses none of them: those that had not begun
// were not touched, those that were cut off have the one that they had.
func TestStoppedRetryFailedKeepsVerdicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, lateSet(t, "a", "b", "c", "d"))
		cfg.NConcurrentTrials = 1
		runAll(t, cfg, w)
		job := filepath.Join(cfg.JobsDir, cfg.JobName)
		before := map[string]map[string]string{}
		for _, n := range []string{"a", "b", "c", "d"} {
			before[n] = snapshotOf(t, trialOf(t, cfg, n))
		}
		for round := range 2 { // a is cut off, twice
			sum := stopped(t, cfg, late, w, 2*time.Second)
			r, err := results.ReadJobResult(job)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []trials.JobResult{r, sum.Result} {
				if s := got.Stats; got.Harborgate.Graded != 4 || s.Completed != 4 || s.Pending != 0 || s.Cancelled != 0 || s.Retries != 0 || got.FinishedAt != nil {
					t.Errorf("round %d: %d graded, %+v", round, got.Harborgate.Graded, s)
				}
			}
			if n := held(t, cfg); n != 4 || len(sum.Trials) != 4 {
				t.Errorf("round %d: %d verdicts on disk, %d told", round, n, len(sum.Trials))
			}
			for n, want := range before {
				if diff := cmp.Diff(want, outside(snapshotOf(t, trialOf(t, cfg, n)), "/tries/")); diff != "" {
					t.Errorf("round %d: %s changed:\n%s", round, n, diff)
				}
			}
			notes := noteTexts(r)
			if want := "4 of the trials that were to run again keep their earlier results; what 1 of them had begun is kept under tries/: `harbor job resume job --retry-failed AgentTimeoutError` asks for them again"; notes != want {
				t.Errorf("round %d: notes %q, want %q", round, notes, want)
			}
		}
		for n, want := range map[string]string{"2": trials.ExcCancelled, "3": trials.ExcCancelled} {
			r, err := results.ReadTrialResult(filepath.Join(trialOf(t, cfg, "a"), results.TriesDir, n))
			if err != nil || r.ExceptionInfo.Type != want {
				t.Errorf("try %s of a: %v", n, err)
			}
		}

		p, sum := finish(t, cfg, cancelled, w)
		if len(p.Trials) != 0 || sum.Result.FinishedAt == nil || sum.Result.Harborgate.Graded != 4 {
			t.Errorf("%d run again unasked, %+v", len(p.Trials), sum.Result)
		}
		_, sum = finish(t, cfg, late, w)
		if s := sum.Result.Stats; s.Completed != 4 || s.Retries != 4 || len(sum.Result.Harborgate.Notes) != 0 {
			t.Errorf("%+v %+v", s, sum.Result.Harborgate.Notes)
		}
		a, err := results.ReadTrialResult(trialOf(t, cfg, "a"))
		if err != nil || a.Harborgate.Try != 4 || a.Harborgate.Retries != 1 {
			t.Errorf("%+v %v", a.Harborgate, err)
		}
		for _, n := range []string{"1", "2", "3"} {
			r, err := results.ReadTrialResult(filepath.Join(trialOf(t, cfg, "a"), results.TriesDir, n))
			if err != nil || n != string(rune('0'+r.Harborgate.Try)) {
				t.Errorf("tries/%s: %v", n, err)
			}
		}
	})
}

func noteTexts(r trials.JobResult) string {
	var out []string
	for _, n := range r.Harborgate.Notes {
		out = append(out, n.Message)
	}
	return strings.Join(out, "\n")
}

// While a trial runs once more its earlier verdict does not count; before and after,
// the numbers of the job are those of its trials on disk.
func TestTotalsOfARerunAreThoseOnDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, lateSet(t, "a", "b", "c"))
		cfg.NConcurrentTrials = 1
		runAll(t, cfg, w)
		job := filepath.Join(cfg.JobsDir, cfg.JobName)
		done, stop := context.WithCancel(t.Context())
		watched := make(chan int, 1)
		go func() {
			looks := 0
			defer func() { watched <- looks }()
			tick := time.NewTicker(3300 * time.Millisecond) // never within a second after a trial began
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-done.Done():
					return
				}
				r, err := results.ReadJobResult(job)
				if err != nil {
					t.Error(err)
					return
				}
				reconcile(t, r)
				if n := held(t, cfg); r.Harborgate.Graded != n || r.Stats.Running > 1 || r.Stats.Completed != n {
					t.Errorf("%d graded, %+v, %d verdicts on disk", r.Harborgate.Graded, r.Stats, n)
				}
				looks++
			}
		}()
		finish(t, cfg, late, w)
		stop()
		if looks := <-watched; looks < 4 {
			t.Errorf("%d looks", looks)
		}
	})
}

// Between two tries of a trial that runs again its earlier verdict is in force.
func TestRerunThatIsTriedAgainKeepsItsVerdict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, lateSet(t, "a"))
		runAll(t, cfg, w)
		before := snapshotOf(t, trialOf(t, cfg, "a"))
		cfg.Retry.MaxRetries, cfg.Retry.MinWaitSec = 2, 30
		w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		sum := stopped(t, cfg, late, w, 10*time.Second) // in the pause
		if s := sum.Result.Stats; s.Completed != 1 || s.Pending != 0 || sum.Result.Harborgate.Graded != 1 {
			t.Errorf("%+v", s)
		}
		dir := trialOf(t, cfg, "a")
		if diff := cmp.Diff(before, outside(snapshotOf(t, dir), "/tries/")); diff != "" {
			t.Errorf("the verdict changed:\n%s", diff)
		}
		_, sum = finish(t, cfg, late, w)
		r, err := results.ReadTrialResult(dir)
		if err != nil || r.Harborgate.Try != 3 || r.Harborgate.Retries != 2 || sum.Result.Stats.Retries != 2 {
			t.Errorf("%+v %v, %+v", r.Harborgate, err, sum.Result.Stats)
		}
	})
}

// The verdict of an edited task counts until its next try begins, and does not come
// back: it is of another task.
func TestStoppedRerunOfAnEditedTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := lateSet(t, "a", "b")
		w, cfg := fake.NewWorld(), jobOf(t, set)
		cfg.NConcurrentTrials = 1
		runAll(t, cfg, w)
		put(t, filepath.Join(set, "a", "instruction.md"), "Do it otherwise.\n")
		put(t, filepath.Join(set, "b", "instruction.md"), "Do it otherwise.\n")
		sum := stopped(t, cfg, late, w, 2*time.Second)
		if s := sum.Result.Stats; s.Completed != 2 || s.Cancelled != 1 || sum.Result.Harborgate.Graded != 1 || held(t, cfg) != 1 {
			t.Errorf("%+v", s)
		}
		if got, want := noteTexts(sum.Result), "1 of the trials of edited tasks still have the results of the earlier versions: `harbor job resume job` runs them again"; got != want {
			t.Errorf("notes %q, want %q", got, want)
		}
		p, sum := finish(t, cfg, cancelled, w)
		if diff := cmp.Diff(map[string]Reason{"a": Selected, "b": Edited}, again(p)); diff != "" || sum.Result.Harborgate.Graded != 2 {
			t.Errorf("%+v, runs again (-want +got):\n%s", sum.Result, diff)
		}
	})
}

// A process that is killed leaves only those trials without a result that ran.
func TestKilledRerunLosesOnlyWhatRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, lateSet(t, "a", "b", "c"))
		runAll(t, cfg, w)
		dir := trialOf(t, cfg, "a")
		if n, err := results.Archive(dir); n != 1 || err != nil { // as the next try begins
			t.Fatal(n, err)
		}
		put(t, filepath.Join(dir, results.TrialLogFile), "")
		p, sum := finish(t, cfg, cancelled, w)
		if diff := cmp.Diff(map[string]Reason{"a": CutOff}, again(p)); diff != "" || len(p.Past.Kept) != 2 || sum.Result.Harborgate.Graded != 3 {
			t.Errorf("%+v (-want +got):\n%s", sum.Result, diff)
		}
	})
}

// A trial whose directory cannot be made has the verdict that it had.
func TestRerunWithoutADirectoryKeepsItsVerdict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), jobOf(t, lateSet(t, "a"))
		runAll(t, cfg, w)
		a, p, err := continued(t, cfg, late)
		if err != nil {
			t.Fatal(err)
		}
		j, err := a.StartJob(p, Alone(fake.New(fake.Options{World: w})), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(trialOf(t, cfg, "a"), results.TriesDir), "in the way")
		sum, err := j.Run(t.Context())
		if err = errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		if s := sum.Result.Stats; s.Completed != 1 || sum.Result.Harborgate.Graded != 1 || held(t, cfg) != 1 {
			t.Errorf("%+v", s)
		}
		if !strings.HasPrefix(noteTexts(sum.Result), "1 of the trials that were to run again keep their earlier results: ") {
			t.Errorf("notes %q", noteTexts(sum.Result))
		}
	})
}
