package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"harborgate/internal/insideproto"
)

// TestKillTreesGivesUp: who cannot be killed, here because the table lists it for
// ever, is not taken for dead.
func TestKillTreesGivesUp(t *testing.T) {
	t.Parallel()
	immortal := process{pid: 1 << 30, start: 1}
	announced := 0
	over := make(chan time.Time)
	close(over)
	dead := killTrees(func([]process) []process { return []process{immortal} }, func(process) { announced++ }, over)
	if dead || announced != 1 {
		t.Errorf("dead %v, announced %d times", dead, announced)
	}
}

// TestKillTreesAgainstAnEndlessSupply: looking for new processes ends although
// every look finds one.
func TestKillTreesAgainstAnEndlessSupply(t *testing.T) {
	t.Parallel()
	over := make(chan time.Time)
	close(over)
	next := 1 << 30
	dead := killTrees(func([]process) []process {
		next++
		return []process{{pid: next, start: 1}}
	}, func(process) {}, over)
	if dead {
		t.Error("taken for dead")
	}
}

func TestKillTreesKillsTheStopped(t *testing.T) {
	t.Parallel()
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	mine := func(all []process) (out []process) {
		for _, p := range descendants(all, os.Getpid(), nil) {
			if p.pid == child.Process.Pid {
				out = append(out, p)
			}
		}
		return out
	}
	if !killTrees(mine, func(process) {}, nil) {
		t.Error("gave up without a limit")
	}
	_ = child.Wait()
	if status := child.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", child.ProcessState)
	}
}

func TestReportConclusion(t *testing.T) {
	t.Parallel()
	killed := insideproto.Exit{Code: 137, Signal: 9, Gone: true, Leftovers: 2}
	exited := report{ready: true, complete: true, exit: insideproto.Exit{Code: 4, Leftovers: 1}}
	for name, c := range map[string]struct {
		report report
		dead   bool
		want   insideproto.Exit
		kind   string // of the refusal
	}{
		"killed":                {report{ready: true}, true, killed, ""},
		"exited before":         {exited, true, insideproto.Exit{Code: 4, Leftovers: 3, Gone: true}, ""},
		"never started":         {report{}, true, insideproto.Exit{}, insideproto.Unavailable},
		"killed, perhaps alive": {report{ready: true}, false, insideproto.Exit{}, insideproto.Unavailable},
		"exited, perhaps alive": {exited, false, insideproto.Exit{}, insideproto.Unavailable},
	} {
		got, err := c.report.conclude(2, c.dead)
		var r *insideproto.Refusal
		if errors.As(err, &r) != (c.kind != "") || r != nil && r.Kind != c.kind || got != c.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

// TestReportOfLeftovers: the second record adds to the first, whose code stays.
func TestReportOfLeftovers(t *testing.T) {
	t.Parallel()
	var r report
	r.hear(insideproto.FrameAccepted, []byte("{}"))
	r.hear(insideproto.FrameExit, []byte(`{"code":4}`))
	r.hear(insideproto.FrameExit, []byte(`{"leftovers":2,"gone":true}`))
	if want := (insideproto.Exit{Code: 4, Leftovers: 2, Gone: true}); !r.ready || r.exit != want || r.err != nil {
		t.Errorf("got %+v", r)
	}
}
