package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/stats"
)

func event(t trials.EventType, trial string, try int, data map[string]any) trials.Event {
	e := trials.NewEvent(t, trial, 1, try, data)
	e.Time = time.Now()
	return e
}

// B151: where no terminal is, there is a line for each change and one every half
// minute, and never an escape code.
func TestB151LinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ch := make(chan trials.Event, 8)
		p := startProgress(t.Context(), &env{streams: streams{err: &out}, lookup: os.LookupEnv}, newJobState(2), ch, false)
		ch <- event(trials.EventStart, "a", 1, nil)
		time.Sleep(95 * time.Second) //nolint:forbidigo // in a bubble
		ch <- event(trials.EventEnd, "a", 1, map[string]any{"reward_valid": true, "rewards": map[string]any{"reward": 1.0}})
		close(ch)
		p.wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "[0/2] 1 running, the longest for 30s") || !strings.Contains(lines[3], "[1/2] a: reward 1, ") {
			t.Errorf("%d lines:\n%s", len(lines), out.String())
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("escape codes: %q", out.String())
		}
	})
}

// Also with -q, the line that comes every half minute says why nothing starts.
func TestQuietLinesSayWhatAnOutageWaitsFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ch := make(chan trials.Event, 8)
		p := startProgress(t.Context(), &env{streams: streams{err: &out}, lookup: os.LookupEnv}, newJobState(2), ch, true)
		ch <- event(trials.EventNote, "", 0, map[string]any{"code": app.NoteOutage, "message": "jobs/j: no space left on device"})
		time.Sleep(35 * time.Second) //nolint:forbidigo // in a bubble
		ch <- event(trials.EventNote, "", 0, map[string]any{"code": app.NoteOutageOver, "message": "over"})
		time.Sleep(30 * time.Second) //nolint:forbidigo // in a bubble
		close(ch)
		p.wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "; jobs/j: no space left on device") || strings.Contains(lines[1], "space") {
			t.Errorf("%d lines:\n%s", len(lines), out.String())
		}
		s := newJobState(2)
		s.waits = "no room"
		if live := s.render(time.Now(), true); len(live) != 2 || !strings.Contains(live[1], "no room") {
			t.Errorf("the live display: %q", live)
		}
	})
}

// What is logged as an error reads like everything else; less than that is not shown.
func TestLoggedErrorsAreSentences(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(plainLog{w: &out}).With("trial", "a__1")
	log.Warn("exception.txt could not be written")
	log.Error("sandbox could not be removed", "error", errors.New("no\x1b answer"))
	if got, want := out.String(), "harbor: sandbox could not be removed: no\\x1b answer (trial a__1)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestB151PlacesForPlainLines(t *testing.T) {
	t.Parallel()
	for value, want := range map[[2]string]bool{
		{"TERM", "dumb"}: false, {"CI", "1"}: false, {"NO_COLOR", "1"}: false,
		{"TERM", "xterm"}: true, {"CI", ""}: true, {"FORCE_COLOR", "1"}: true,
	} {
		lookup := func(name string) (string, bool) { return value[1], name == value[0] }
		if got := wantsLive(lookup); got != want {
			t.Errorf("%v: %v", value, got)
		}
	}
}

// The display has the mean of the end: over tasks, also when trials of one are taken back.
func TestDisplayHasTheMeanOverTasks(t *testing.T) {
	t.Parallel()
	s := newJobState(4)
	end := func(trial, task string, v float64) {
		s.apply(event(trials.EventEnd, trial, 1, map[string]any{"task": task, "reward_valid": true, "rewards": map[string]any{"reward": v}}))
	}
	end("a__1", "a", 1)
	end("b__1", "b", 0)
	end("a__2", "a", 1)
	end("c__1", "c", 1)
	s.apply(event(trials.EventStart, "c__1", 2, nil))
	if got := s.headline(s.started); !strings.Contains(got, "mean 0.500 (3 of 3 graded)") {
		t.Errorf("%q", got)
	}
}

var counters = regexp.MustCompile(`(\d+)/(\d+).*mean ([\d.]+) \((\d+) of (\d+) graded\)`)

// B152: what the display says is what the numbers say: over a resume, a retry, a
// cancellation and a failure of the infrastructure.
func TestB152DisplayCountsLikeTheResult(t *testing.T) {
	t.Parallel()
	s := newJobState(6)
	kept := []stats.Trial{
		{Name: "k1", Task: "k", Valid: true, Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: 1}}}},
		{Name: "k2", Blame: trials.BlameTask, Exception: trials.ExcHealthcheck},
	}
	s.keep(kept)
	graded := func(v float64) map[string]any {
		return map[string]any{"reward_valid": true, "rewards": map[string]any{"reward": v}}
	}
	lost := map[string]any{"reward_valid": false, "exception": trials.ExcSandboxLost, "blame": "infrastructure"}
	for _, e := range []trials.Event{
		event(trials.EventStart, "a", 1, nil), event(trials.EventEnd, "a", 1, lost), event(trials.EventRetry, "a", 1, map[string]any{"exception": trials.ExcSandboxLost}),
		event(trials.EventStart, "a", 2, nil), event(trials.EventEnd, "a", 2, graded(0.5)),
		event(trials.EventStart, "b", 1, nil), event(trials.EventEnd, "b", 1, lost),
		event(trials.EventStart, "c", 1, nil), event(trials.EventEnd, "c", 1, map[string]any{"exception": trials.ExcCancelled}),
	} {
		s.apply(e)
	}
	line := s.headline(s.started.Add(10 * time.Second))
	all := append(kept,
		stats.Trial{Name: "a", Valid: true, Tries: 2, Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: 0.5}}}},
		stats.Trial{Name: "b", Blame: trials.BlameInfrastructure, Exception: trials.ExcSandboxLost},
		stats.Trial{Name: "c", Cancelled: true, Exception: trials.ExcCancelled})
	counts := stats.New(all, stats.Plan{Trials: 6}).Counts
	m := counters.FindStringSubmatch(line)
	want := []string{"5", "6", "0.750", "2", "5"}
	if m == nil || strings.Join(m[1:], " ") != strings.Join(want, " ") {
		t.Errorf("%q, want %v", line, want)
	}
	if counts.Graded != 2 || counts.Ungraded[trials.BlameInfrastructure] != 1 || counts.Pending != 1 {
		t.Errorf("%+v", counts)
	}
	for _, part := range []string{"1 task", "1 infrastructure", "1 retries", "ETA 3s"} {
		if !strings.Contains(line, part) {
			t.Errorf("%q lacks %q", line, part)
		}
	}
}

func TestPathsKeepTheirSlashAtTheRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ wd, path, want string }{
		{"/", "/srv/jobs/j", "/srv/jobs/j"},
		{"/", "jobs/j", "jobs/j"},
		{"/srv", "/srv/jobs/j", "jobs/j"},
		{"/srv", "/var/jobs/j", "/var/jobs/j"},
	} {
		if got := below(c.wd, c.path); got != c.want {
			t.Errorf("%s from %s: %s, want %s", c.path, c.wd, got, c.want)
		}
	}
}

// Who presses Ctrl-C while an image is made sees that it was stopped, and of no failure;
// nor is an outage of the provider a failure of the build. With several providers the
// line says at which one.
func TestEndOfABuildIsTold(t *testing.T) {
	t.Parallel()
	for want, data := range map[string]map[string]any{
		"image of t: stopped":             {"key": "k", "title": "t", "error": "context canceled", "cancelled": true},
		"image of t: failed: exit code":   {"key": "k", "title": "t", "error": "exit code\nlog", "cancelled": false},
		"image of t at b: ready after 2s": {"key": "k", "title": "t", "provider": "b", "several": true, "dur_ms": 2000},
		"image of t: ready after 2s":      {"key": "k", "title": "t", "provider": "b", "several": false, "dur_ms": 2000},
		"image of t: not made, its provider failed it; it is made again: no answer": {"key": "k", "title": "t", "error": "no answer\nlog", "again": true},
	} {
		s := newJobState(1)
		if got := s.apply(event(trials.EventBuildEnd, "", 0, data)); !strings.HasSuffix(got, "] "+want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
