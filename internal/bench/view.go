package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
)

// viewedTrials is how many trials the job has that is looked at.
const viewedTrials = 10_000

// benchView times harbor view on a finished job, from its start to the first screen
// of trials, and weighs it when it has read them all.
func benchView(ctx context.Context, w *workbench) ([]figure, error) {
	dir := filepath.Join(w.work, "viewed")
	if err := writeViewed(dir); err != nil {
		return nil, err
	}
	var times, memory []float64
	for range 5 {
		took, peak, err := w.view(ctx, dir)
		if err != nil {
			return nil, err
		}
		times, memory = append(times, ms(took)), append(memory, peak)
	}
	name := fmt.Sprintf("view of %d trials, ", viewedTrials)
	return []figure{
		{name + "first screen", median(times), 300, true, "ms"},
		{name + "all read, memory", median(memory), 100, true, "MiB"},
	}, nil
}

// writeViewed makes the job, with results as long as real ones.
func writeViewed(dir string) error {
	files := map[string]string{
		"config.json": "{}",
		"result.json": fmt.Sprintf(`{"id": "viewed", "n_total_trials": %[1]d, "started_at": "2026-01-02T03:04:05", "finished_at": "2026-01-02T04:04:05", "stats": {"n_completed_trials": %[1]d}}`, viewedTrials),
	}
	filler := strings.Repeat("x", 3000)
	for i := range viewedTrials {
		name := fmt.Sprintf("task-%04d__%05d", i/5, i)
		files[name+"/config.json"] = "{}"
		files[name+"/trial.log"] = ""
		files[name+"/result.json"] = fmt.Sprintf(`{"schema_version": 1, "task_name": "task-%04d", "trial_name": %q, "task_checksum": %q,
			"agent_info": {"name": "oracle", "version": "1"}, "verifier_result": {"rewards": {"reward": %d}}, "reward_valid": true,
			"started_at": "2026-01-02T03:04:05Z", "finished_at": "2026-01-02T03:05:05Z", "harborgate": {"attempt": %d, "try": 1}}`, i/5, name, filler, i%2, i%5+1)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// view runs the browser on a terminal until it shows the job's mean, which is when
// all trials were read. It returns when the first trials were seen, and the most
// memory that it had, in MiB.
func (w *workbench) view(ctx context.Context, dir string) (first time.Duration, peak float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.harbor(), "view", dir)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	begun := time.Now()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		return 0, 0, err
	}
	defer terminal.Close()
	var seen []byte
	b := make([]byte, 1<<16)
	for !bytes.Contains(seen, []byte("mean 0.5")) {
		n, err := terminal.Read(b)
		seen = append(seen, b[:n]...)
		if err != nil {
			return 0, 0, errors.Join(fmt.Errorf("harbor view %s showed no mean: %w", dir, err), cmd.Wait())
		}
		if first == 0 && bytes.Contains(seen, []byte("task-0000__00000")) {
			first = time.Since(begun)
		}
	}
	peak, err = peakMemory(cmd.Process.Pid)
	err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait() // by that signal
	return first, peak, err
}

// peakMemory is the most memory that a process had so far, in MiB.
func peakMemory(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	if !ok {
		return 0, fmt.Errorf("process %d: the kernel does not say how much memory it had", pid)
	}
	kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kb / 1024, err
}
