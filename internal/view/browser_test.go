package view

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/trials"
	"harborgate/trials/results"
)

func TestJob(t *testing.T) {
	t.Parallel()
	u := start(t, demo(t))
	u.golden("job")
	u.press("?")
	u.golden("help")
	u.press("x") // closes the help and does nothing else
	u.shows("8 of 8 trials")
}

func TestJobsFromTheTop(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(demo(t))
	for i := range 3 {
		job := filepath.Join(dir, fmt.Sprintf("other-%d", i))
		putJob(t, job, 1, i == 0)
		putTrial(t, job, trialOf("solo__1", 5, 1))
	}
	put(t, filepath.Join(dir, "no-job", "README"), "nothing")
	put(t, filepath.Join(dir, "broken", results.ResultFile), "{")
	u := start(t, dir)
	u.golden("jobs")
	u.press("/ o t h e r")
	u.shows("filter: other", "other-2")
	u.lacks("demo")
	u.press("enter")
	u.shows("3 of 5 jobs")
	u.press("down enter")
	u.shows("jobs › other-1", "interrupted", "harbor job resume", "solo__1")
	u.press("enter")
	u.shows("jobs › other-1 › solo__1", "reward 1.0")
	u.press("esc esc")
	u.shows("3 of 5 jobs")
	u.press("esc") // there is nothing further back
	u.shows("3 of 5 jobs")
}

// The list of jobs has the mean over tasks, as a job's own page: from its result, or from
// its trials where that is Harbor's.
func TestJobsHaveTheMeanOfTheirPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, say := range map[string]func(*trials.JobResult){
		"ours":      func(r *trials.JobResult) { r.Harborgate = &trials.JobExtra{Graded: 3, Mean: new(0.5)} },
		"of-harbor": func(r *trials.JobResult) { r.Harborgate = nil },
	} {
		job := filepath.Join(dir, name)
		putJob(t, job, 3, true)
		r, err := results.ReadJobResult(job)
		if err != nil {
			t.Fatal(err)
		}
		over := trials.List[map[string]trials.Float]{{"mean": 0.667}} // trials
		r.Stats.Evals = map[string]*trials.EvalStats{"oracle__adhoc": {NTrials: 3, Metrics: over}}
		say(&r)
		put(t, filepath.Join(job, results.ResultFile), r)
		for trial, reward := range map[string]float64{"a__1": 1, "a__2": 1, "b__1": 0} {
			putTrial(t, job, trialOf(trial, 5, reward))
		}
	}
	u := start(t, dir)
	u.lacks("0.667")
	for range 2 {
		u.press("enter")
		u.shows("mean 0.500 ± 0.500 · n = 2 tasks")
		u.press("esc")
	}
	if n := strings.Count(u.b.screen(), "0.500"); n != 2 {
		t.Errorf("%d means of 0.500:\n%s", n, u.b.screen())
	}
}

func TestTrialOverview(t *testing.T) {
	t.Parallel()
	dir := demo(t)
	again := failed(trialOf("gamma__3", 9), "HarnessError", trials.BlameHarness, "earlier")
	put(t, filepath.Join(dir, "gamma__3", "tries", "1", "result.json"), again)
	u := start(t, dir)
	u.press("/ g a m m a enter enter")
	u.golden("trial-failed")
	u.press("esc x / e p s i l o n enter enter")
	u.golden("trial-suspect")
	u.press("esc x / t h e t a enter enter")
	u.shows("unreadable", "result.json")
	u.press("esc x / e t a _ _ 7 enter enter")
	u.shows("no result: it has not ended, or was cut off")
}

func TestSortAndFilter(t *testing.T) {
	t.Parallel()
	u := start(t, demo(t))
	order := func() string {
		var names []string
		for _, line := range strings.Split(u.screen(), "\n") {
			if i := strings.Index(line, "__"); i > 0 && !strings.HasPrefix(line, "demo") {
				names = append(names, strings.TrimLeft(line[:i], "▸ ✓○✗?⊘·!"))
			}
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct{ keys, want string }{
		{"", "alpha beta delta epsilon eta gamma theta zeta"},
		{"S", "zeta theta gamma eta epsilon delta beta alpha"},
		{"S s", "alpha delta beta epsilon eta gamma theta zeta"}, // reward
		{"s", "beta delta alpha gamma zeta epsilon eta theta"},   // time
		{"s", "zeta alpha beta delta eta gamma epsilon theta"},   // state
		{"s", "delta zeta gamma theta alpha beta epsilon eta"},   // fault
		{"s s f", ""},                     // running
		{"f", "alpha beta delta epsilon"}, // graded
		{"f", "epsilon"},                  // suspect
		{"f", "eta gamma theta zeta"},     // no verdict
		{"f", "delta"},                    // agent's doing
		{"f f", "gamma"},                  // infrastructure
		{"F", ""},                         // task
		{"x / A G E N T enter", "delta"},  // text, of exceptions too
		{"x / n o n e", ""},               // while typing
		{"backspace backspace backspace", "delta epsilon eta gamma theta zeta"}, // all that has an n
		{"esc", "alpha beta delta epsilon eta gamma theta zeta"},                // dropped
	} {
		u.press(c.keys)
		if got := order(); c.want != "" && got != c.want || c.want == "" && got != "" {
			t.Errorf("after %q: %q, want %q\n%s", c.keys, got, c.want, u.screen())
		}
	}
}

func TestTabs(t *testing.T) {
	t.Parallel()
	dir := demo(t)
	trial := filepath.Join(dir, "alpha__1")
	put(t, filepath.Join(trial, "agent", "oracle.txt"), "solving\n")
	put(t, filepath.Join(trial, "agent", "sessions", "one.jsonl"), "{}\n")
	put(t, filepath.Join(trial, "verifier", "test-stdout.txt"), strings.Repeat("line\n", 500))
	put(t, filepath.Join(trial, "verifier", "ctrf.json"), `{"results": {"tests": [
		{"name": "test_greeting", "status": "passed", "duration": 12},
		{"name": "test_farewell", "status": "failed", "duration": 1500, "message": "expected bye", "trace": "Traceback:\n  line 3"},
		{"name": "test_odd", "status": "exploded"}]}}`)
	put(t, filepath.Join(trial, "artifacts", "image.png"), "\x89PNG\x00\x00")
	u := start(t, trial)
	u.press("2")
	u.golden("logs")
	u.press("down down down enter")
	u.shows("verifier/test-stdout.txt", "line\n", "2.4 KiB · 3 %")
	u.press("esc 3")
	u.golden("tests")
	u.press("down enter")
	u.shows("failed: test_farewell", "expected bye", "  line 3")
	u.press("esc 4 down enter")
	u.golden("files")
	u.press("down enter")
	u.shows("binary content, 6 B: not shown")
	u.press("esc left")
	u.lacks("image.png")
	u.press("5")
	u.shows(`{"trial_name": "alpha__1"}`)
	u.press("tab")
	u.shows("verdict", "graded, reward 1.0")
	u.press("shift+tab")
	u.shows(`{"trial_name": "alpha__1"}`)
}

func TestTestsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := demo(t)
	u := start(t, filepath.Join(dir, "alpha__1"))
	u.press("3")
	u.shows("the verifier left no verifier/ctrf.json")
	put(t, filepath.Join(dir, "alpha__1", "verifier", "ctrf.json"), "{")
	u.tick()
	u.shows("is no test report")
}

// A job is followed while it runs, by its files.
func TestJobThatRuns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "live")
	putJob(t, dir, 3, false)
	u := start(t, dir)
	u.shows("interrupted", "no trials yet")
	u.running = true
	u.tick()
	u.shows("● running", "0 of 3 graded · 3 pending")

	events := filepath.Join(dir, results.EventsFile)
	log := event(t, 1, trials.NewEvent(trials.EventStart, "one__1", 1, 1, nil)) +
		event(t, 2, trials.NewEvent(trials.EventPhaseStart, "one__1", 1, 1, map[string]string{"phase": "agent_execution"}))
	put(t, events, log+`{"torn`)
	u.tick()
	u.shows("● running · 1 trial at work", "● one__1", "agent execution")
	put(t, filepath.Join(dir, "one__1", results.TrialLogFile), "begun\n")
	put(t, filepath.Join(dir, "one__1", "agent", "out.txt"), "first\n")
	u.tick()
	u.press("enter")
	u.shows("running, agent execution for")
	u.press("2 enter")
	u.shows("following", "first")
	put(t, filepath.Join(dir, "one__1", "agent", "out.txt"), "first\nsecond\n")
	u.tick()
	u.shows("second")

	putTrial(t, dir, trialOf("one__1", 8, 1))
	put(t, events, log+event(t, 3, trials.NewEvent(trials.EventEnd, "one__1", 1, 1, map[string]any{"reward_valid": true})))
	put(t, filepath.Join(dir, results.ResultFile), strings.Replace(readFile(t, filepath.Join(dir, results.ResultFile)), `"graded":1`, `"graded":11`, 1))
	u.tick()
	u.press("esc")
	u.press("1")
	u.shows("graded, reward 1.0")
	u.press("esc")
	u.shows("✓ one__1", "1 of 3 graded · 2 pending", "mean 1.000")

	u.running = false
	putJob(t, dir, 3, true)
	u.tick()
	u.shows("✓ finished")
}

// A trial that ran again and was cut off has its earlier result: the one of the cut try,
// which may have been read, is not it.
func TestResultThatWasPutBackIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "live")
	putJob(t, dir, 1, false)
	cut := trialOf("one__1", 8, 1)
	cut.ExceptionInfo, cut.RewardValid = &trials.ExceptionInfo{Type: trials.ExcCancelled}, false
	putTrial(t, dir, cut)
	u := start(t, dir)
	u.running = true
	u.tick()
	u.shows("0 of 1 graded · 1 cancelled")

	u.running = false
	putTrial(t, dir, trialOf("one__1", 8, 1))
	put(t, filepath.Join(dir, results.EventsFile), event(t, 1, trials.NewEvent(trials.EventPutBack, "one__1", 1, 0, nil)))
	u.tick()
	u.shows("1 of 1 graded", "mean 1.000")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	u := start(t, demo(t))
	for _, s := range []struct{ columns, rows int }{{80, 24}, {200, 60}, {24, 6}, {40, 10}, {33, 7}, {1, 1}, {23, 5}, {120, 6}} {
		u.resize(s.columns, s.rows)
		for _, keys := range []string{"end", "enter", "2", "enter", "esc", "3", "4", "5", "?", "esc", "esc", "home"} {
			u.press(keys)
			lines := strings.Split(u.b.screen(), "\n")
			if len(lines) > s.rows {
				t.Fatalf("%v after %s: %d lines", s, keys, len(lines))
			}
			for _, l := range lines {
				if w := width(l); w > s.columns {
					t.Fatalf("%v after %s: %q has %d columns", s, keys, l, w)
				}
			}
		}
	}
}

func TestCursorStaysOnItsTrial(t *testing.T) {
	t.Parallel()
	dir := demo(t)
	u := start(t, dir)
	u.press("down down down")
	u.shows("▸ ? epsilon__5")
	putTrial(t, dir, trialOf("aaa__9", 1, 1))
	putJob(t, dir, 9, true)
	u.tick()
	u.shows("aaa__9", "▸ ? epsilon__5")
	u.press("S")
	u.shows("▸ ? epsilon__5")
}

func TestOpen(t *testing.T) {
	t.Parallel()
	h := host{now: begin, alive: func(string) bool { return false }, shown: filepath.Base}
	if _, err := open(h, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("what is not there was opened")
	}
	file := filepath.Join(t.TempDir(), "file")
	put(t, file, "x")
	if _, err := open(h, file); err == nil || !strings.Contains(err.Error(), "no directory") {
		t.Errorf("a file: %v", err)
	}
	start(t, t.TempDir()).shows("no jobs here")
}
