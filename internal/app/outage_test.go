package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/scheduler"
	"harborgate/trials"
	"harborgate/trials/results"
)

// manyTrials is a job of twenty trials of half a minute, two at once.
func manyTrials(t *testing.T) trials.JobConfig {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	putTask(t, set, "a", "sleep 30; echo 1 > /logs/verifier/reward.txt", "")
	cfg := jobOf(t, set)
	cfg.NAttempts, cfg.NConcurrentTrials = 20, 2
	return cfg
}

// away makes the provider go at a time, as if nobody listened.
func away(w *fake.World, at time.Duration) {
	time.AfterFunc(at, func() {
		gone := func(op fake.Op) fake.Fault {
			return fake.Fault{Op: op, Effect: fake.Refuse, Kind: providers.KindUnavailable}
		}
		w.Inject(gone(fake.OpCheck), gone(fake.OpCreate), gone(fake.OpBuild), gone(fake.OpExec), gone(fake.OpDownload), gone(fake.OpDestroy))
	})
}

func TestProviderThatGoesAndComesBackCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		j := start(t, manyTrials(t), w)
		away(w, 65*time.Second)
		time.AfterFunc(200*time.Second, w.Heal)
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x := sum.Result.Harborgate
		reconcile(t, sum.Result)
		if x.Graded != 20 {
			t.Errorf("%d graded, ungraded %v", x.Graded, x.Ungraded)
		}
		if sum.Result.FinishedAt == nil || len(x.CleanupFailed) > 0 || w.Left() > 0 {
			t.Errorf("finished %v, not removed %v, left %d", sum.Result.FinishedAt, x.CleanupFailed, w.Left())
		}
		said := fmt.Sprint(x.Notes)
		if !strings.Contains(said, "no trial starts before this is over") || !strings.Contains(said, "the outage is over") {
			t.Errorf("notes %s", said)
		}
	})
}

// Nor does it in the numbers of a process that goes on with the job.
func TestMovedTriesOfAnEarlierProcessAreNoRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, cfg := fake.NewWorld(), manyTrials(t)
		away(w, 65*time.Second)
		time.AfterFunc(100*time.Second, w.Heal)
		j := start(t, cfg, w)
		ctx, cancel := context.WithTimeout(t.Context(), 112*time.Second) // they run again
		defer cancel()
		sum, err := j.Run(ctx)
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		if x := sum.Result.Harborgate; x.Graded != 4 || !strings.Contains(fmt.Sprint(x.Notes), "the outage is over") {
			t.Fatalf("%d graded, notes %v", x.Graded, x.Notes)
		}
		sum = stopped(t, cfg, Redo{Exceptions: []string{trials.ExcCancelled}}, w, time.Hour)
		if n := sum.Result.Stats.Retries; n != 0 || sum.Result.Harborgate.Graded != 20 {
			t.Errorf("%d retries, %d graded", n, sum.Result.Harborgate.Graded)
		}
	})
}

func TestProviderThatIsGoneForGoodStopsTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		defer w.Clear()
		j := start(t, manyTrials(t), w)
		away(w, 65*time.Second)
		begun := time.Now()
		sum, err := j.Run(t.Context())
		var gone *OutageError
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "harbor job resume") {
			t.Fatalf("%v", err)
		}
		if took := time.Since(begun); took > outagePatience+5*time.Minute {
			t.Errorf("it took %s", took)
		}
		reconcile(t, sum.Result)
		s, x := sum.Result.Stats, sum.Result.Harborgate
		if s.Pending < 10 || sum.Result.FinishedAt != nil || x.Graded < 2 || x.Interrupted == "" {
			t.Errorf("%d pending, finished %v, %d graded, interrupted by %q", s.Pending, sum.Result.FinishedAt, x.Graded, x.Interrupted)
		}
		if len(x.CleanupFailed) == 0 {
			t.Error("what is left is not told")
		}
		found, err := results.ReadTrials(j.Dir)
		found = slices.DeleteFunc(found, func(f results.Found) bool { return f.Result == nil }) // that wait for their next try
		if err != nil || len(found) != s.Completed {
			t.Errorf("%d results on disk, %d in the job's: %v", len(found), s.Completed, err)
		}
	})
}

// A directory that was removed does not come back: the job ends with the trials that
// meet it, says so, and does not make the directory anew.
func TestRemovedJobDirectoryStopsTheJobAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		j := start(t, manyTrials(t), w)
		removed := make(chan error, 1)
		time.AfterFunc(65*time.Second, func() { removed <- os.RemoveAll(j.Dir) })
		begun := time.Now()
		sum, err := j.Run(t.Context())
		var gone *results.GoneError
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "was removed while the job ran") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if took := time.Since(begun); took > 2*time.Minute {
			t.Errorf("it took %s", took)
		}
		if err := errors.Join(<-removed, j.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(j.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory is there again: %v", err)
		}
		for _, x := range sum.Trials {
			if !x.Valid && !x.Cancelled && (x.Exception != trials.ExcHost || x.Blame != trials.BlameInfrastructure) {
				t.Errorf("%s: %s, blame %s", x.Name, x.Exception, x.Blame)
			}
		}
		if w.Left() > 0 {
			t.Errorf("%d sandboxes left", w.Left())
		}
	})
}

// Another directory in its place is none of the job's.
func TestReplacedJobDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		j := start(t, manyTrials(t), w)
		time.AfterFunc(65*time.Second, func() {
			if err := errors.Join(os.RemoveAll(j.Dir), os.Mkdir(j.Dir, 0o755)); err != nil {
				t.Error(err)
			}
			put(t, filepath.Join(j.Dir, ".lock"), "another's")
		})
		if _, err := j.Run(t.Context()); !errors.As(err, new(*results.GoneError)) {
			t.Errorf("%v", err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if found, err := os.ReadDir(j.Dir); err != nil || len(found) != 1 {
			t.Errorf("%v %v", found, err)
		}
	})
}

func TestFullDiskSaysWhatToDo(t *testing.T) {
	t.Parallel()
	o := &outage{patience: 5 * time.Minute, alone: true}
	for err, want := range map[error]string{
		&roomError{dir: "jobs/j", err: syscall.ENOSPC}: "jobs/j: no space left on device; free space there: no trial starts before that, the job stops after 5m0s",
		&roomError{dir: "jobs/j", err: syscall.EROFS}:  "jobs/j: read-only file system; make it writable: no trial starts before that, the job stops after 5m0s",
		errors.New("docker: connection refused"):       "docker: connection refused; no trial starts before this is over, the job stops after 5m0s",
	} {
		if got := o.words(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestOutageEndsWithTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{
			probe: func(context.Context) error { return errors.New("away") }, patience: time.Hour,
			stop: func(error) { t.Error("it stopped a job that had ended") }, tell: func(string, string) {},
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := o.Recover(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

// What a failure means for its site, and whether it counts.
func TestJudgement(t *testing.T) {
	t.Parallel()
	env, agent := trials.PhaseEnvironmentSetup, trials.PhaseAgentExecution
	away, fine := errors.New("connection refused"), error(nil)
	for _, c := range []struct {
		name  string
		phase trials.Phase
		cause trials.Cause
		kind  string
		probe error
		a     scheduler.Assignment
		want  scheduler.Outcome
	}{
		{"no sandbox from a provider that is away", env, trials.CauseProvider, "Unavailable", away, scheduler.Assignment{}, scheduler.Outcome{Move: true, Doubt: true}},
		{"nor from one that is there again, and others", env, trials.CauseProvider, "Unavailable", fine, scheduler.Assignment{Others: 1}, scheduler.Outcome{Move: true, Doubt: true}},
		{"one that is there again, alone: that is for the retry policy", env, trials.CauseProvider, "Unavailable", fine, scheduler.Assignment{}, scheduler.Outcome{Doubt: true}},
		{"an outage of a second under an upload", agent, trials.CauseUpload, "Unavailable", fine, scheduler.Assignment{}, scheduler.Outcome{Move: true, Doubt: true}},
		{"an upload that the sandbox refused", agent, trials.CauseUpload, "Denied", fine, scheduler.Assignment{}, scheduler.Outcome{Doubt: true}},
		{"that often", env, trials.CauseProvider, "Unavailable", away, scheduler.Assignment{Moves: mostMoves}, scheduler.Outcome{Doubt: true}},
		{"no room", env, trials.CauseProvider, "Exhausted", fine, scheduler.Assignment{}, scheduler.Outcome{Move: true, Cool: fullPause}},
		{"still no room", env, trials.CauseProvider, "Exhausted", fine, scheduler.Assignment{Moves: mostRefusals, Refusals: mostRefusals}, scheduler.Outcome{Cool: fullPause}},
		{"no room after outages", env, trials.CauseProvider, "Exhausted", fine, scheduler.Assignment{Moves: mostRefusals + mostMoves - 1, Refusals: mostRefusals - 1}, scheduler.Outcome{Move: true, Cool: fullPause}},
		{"too many calls", env, trials.CauseProvider, "RateLimited", fine, scheduler.Assignment{}, scheduler.Outcome{Move: true, Cool: oftenPause}},
		{"the sandbox died with its provider", agent, trials.CauseSandboxLost, "", away, scheduler.Assignment{}, scheduler.Outcome{Move: true, Doubt: true}},
		{"it died while it was made, with its provider", env, trials.CauseSandboxLost, "", away, scheduler.Assignment{}, scheduler.Outcome{Move: true, Doubt: true}},
		{"it died while it was made, alone: the image's doing", env, trials.CauseSandboxLost, "", fine, scheduler.Assignment{}, scheduler.Outcome{}},
		{"the sandbox died alone", agent, trials.CauseSandboxLost, "Unavailable", fine, scheduler.Assignment{}, scheduler.Outcome{Doubt: true}},
		{"models out of reach", agent, trials.CauseModels, "", away, scheduler.Assignment{}, scheduler.Outcome{Doubt: true}},
		{"a full disk here", agent, trials.CauseHost, "", away, scheduler.Assignment{}, scheduler.Outcome{Move: true, Doubt: true}},
		{"a file of this host that is not there", agent, trials.CauseHost, "", fine, scheduler.Assignment{}, scheduler.Outcome{Doubt: true}},
		{"the agent's doing", agent, trials.CauseExit, "", fine, scheduler.Assignment{}, scheduler.Outcome{}},
		{"another platform, here alone", env, trials.CausePlatform, "", fine, scheduler.Assignment{}, scheduler.Outcome{}},
		{"another platform, and other sites", env, trials.CausePlatform, "", fine, scheduler.Assignment{Others: 1}, scheduler.Outcome{Move: true, Bar: "why"}},
	} {
		o := &outage{probe: func(context.Context) error { return c.probe }}
		c.want.Why = "why"
		got := o.judge(t.Context(), c.a, time.Now(), trials.NewFailure(c.phase, c.cause, c.kind, "why"))
		if got.Cool = got.Cool.Round(time.Second); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Answers for want of room that come together have one pause; the next is twice as long,
// and a sandbox ends that.
func TestPausesGrowUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{}
		full := trials.NewFailure(trials.PhaseEnvironmentSetup, trials.CauseProvider, "Exhausted", "quota")
		pauses := func(want time.Duration) {
			t.Helper()
			for range 9 {
				if got := o.judge(t.Context(), scheduler.Assignment{}, time.Now(), full).Cool; got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			<-time.After(want)
		}
		for _, seconds := range []int{5, 10, 20, 40, 80, 160, 300, 300} {
			pauses(time.Duration(seconds) * time.Second)
		}
		o.judge(t.Context(), scheduler.Assignment{}, time.Now(), nil)
		pauses(5 * time.Second)
	})
}

// What stopped a job is said once, with what helps; what could not be written because of
// it is not.
func TestFullDiskIsSaidOnce(t *testing.T) {
	t.Parallel()
	full := &fs.PathError{Op: "write", Path: "/jobs/j/result.json", Err: syscall.ENOSPC}
	stopped := &OutageError{For: time.Minute, Err: &roomError{dir: "jobs/j", err: syscall.ENOSPC}}
	away := &OutageError{For: time.Minute, Err: errors.New("docker: connection refused")}
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(stopped, full), "the job was stopped after waiting for 1m0s, `harbor job resume` goes on with it: jobs/j: no space left on device: free space there"},
		{errors.Join(nil, full), "jobs/j: no space left on device: free space there"},
		{away, away.Error()},
	} {
		if got := oneCause("jobs/j", c.err); got.Error() != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if err := oneCause("jobs/j", nil); err != nil {
		t.Error(err)
	}
}

// An outage under a build is no failed build: it is made again, and nobody is sent to a
// log of a build that did nothing wrong.
func TestOutageUnderABuildIsNoFailedBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := filepath.Join(t.TempDir(), "set")
		put(t, filepath.Join(putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", ""), "environment", "Dockerfile"), "FROM debian\nRUN echo a\n")
		w := fake.NewWorld()
		j := start(t, jobOf(t, set), w)
		gone := fake.Fault{Op: fake.OpBuild, Delay: time.Second, Effect: fake.Refuse, Kind: providers.KindUnavailable}
		check := gone
		check.Op = fake.OpCheck
		w.Inject(gone, check)
		time.AfterFunc(20*time.Second, w.Heal)
		sum, err := j.Run(t.Context())
		if err != nil || sum.Result.Harborgate.Graded != 1 {
			t.Fatalf("%+v %v", sum.Result.Harborgate, err)
		}
		for _, n := range sum.Result.Harborgate.Notes {
			if n.Code == "build_failed" {
				t.Errorf("told as a failed build: %s", n.Message)
			}
		}
		said, err := os.ReadFile(filepath.Join(j.Dir, results.EventsFile))
		if !strings.Contains(string(said), `"again":true`) || err != nil {
			t.Errorf("no event says that it is made again, %v", err)
		}
	})
}

// A provider that was called too often, and wants no calls for a while, is not away: not
// for a job that runs, and not for one that begins.
func TestPauseOnReadsIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		w.Inject(
			fake.Fault{Op: fake.OpExec, Match: "test.sh", Nth: 3, Effect: fake.Refuse, Kind: providers.KindNotFound},
			fake.Fault{Op: fake.OpCheck, Effect: fake.Refuse, Kind: providers.KindRateLimited, RetryAfter: time.Minute},
		)
		if notes, err := Alone(fake.New(fake.Options{World: w})).Check(t.Context()); err != nil || len(notes) > 0 {
			t.Errorf("a job cannot begin: %v %v", notes, err)
		}
		sum, err := start(t, manyTrials(t), w).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if x := sum.Result.Harborgate; x.Graded != 19 || strings.Contains(fmt.Sprint(x.Notes), "no trial starts") {
			t.Errorf("%d graded, notes %v; want all but the one that failed, and no outage", x.Graded, x.Notes)
		}
	})
}

// However many tries fail together, the provider is asked once whether it is there.
func TestOneProbeForAllThatFailTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		o := &outage{probe: func(context.Context) error {
			probes++
			<-time.After(20 * time.Second)
			return errors.New("away")
		}}
		lost := trials.NewFailure(trials.PhaseAgentExecution, trials.CauseSandboxLost, "", "gone")
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				if out := o.judge(t.Context(), scheduler.Assignment{}, time.Now(), lost); !out.Move {
					t.Errorf("%+v", out)
				}
			})
		}
		all.Wait()
		if probes != 1 {
			t.Errorf("%d probes", probes)
		}
	})
}

// An outage that is over when the provider is asked whether it answers costs no trial.
func TestOutageOfASecondCostsNoTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		for op, match := range map[fake.Op]string{fake.OpUpload: "/tests", fake.OpExec: "test.sh", fake.OpDownload: ""} {
			w.Inject(fake.Fault{Op: op, Match: match, Nth: 3, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		}
		sum, err := start(t, manyTrials(t), w).Run(t.Context())
		if x := sum.Result.Harborgate; err != nil || x.Graded != 20 || sum.Result.Stats.Retries != 0 {
			t.Errorf("%d graded, %d retries, %v", x.Graded, sum.Result.Stats.Retries, err)
		}
	})
}
