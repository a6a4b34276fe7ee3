package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// queueConfig makes the fake's sandboxes slow enough that a thousand of them run
// at a time.
const queueConfig = "version: 1\nproviders:\n  fake:\n    type: fake\n    options: {create_sec: 1, exec_sec: 2}\n"

// benchQueue runs a job of 10,000 trials, 1,000 at a time, and one of 1,000: what
// the larger one takes for each trial must not be more, and its memory is bounded.
func benchQueue(ctx context.Context, w *workbench) ([]figure, error) {
	set, err := w.manyTasks(100)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(w.work, "queue.yaml")
	if err := os.WriteFile(config, []byte(queueConfig), 0o644); err != nil {
		return nil, err
	}
	small, err := w.queue(ctx, config, set, 10)
	if err != nil {
		return nil, err
	}
	large, err := w.queue(ctx, config, set, 100)
	if err != nil {
		return nil, err
	}
	fmt.Printf("# processor time of a trial on fake: %.2f ms in a job of 1,000, %.2f ms in one of 10,000\n", ms(small.cpu)/1000, ms(large.cpu)/10_000)
	return []figure{
		{"memory, 10,000 trials, 1,000 at a time on fake", float64(large.peak) / 1024, 100, true, "MiB"},
		{"processor time a trial, 10,000 / 1,000 trials", ms(large.cpu) / ms(small.cpu) / 10, 1.25, true, "×"},
	}, nil
}

// use is what a process took.
type use struct {
	cpu  time.Duration
	peak int64 // KiB resident
}

// queue runs a job of 100 tasks and the given number of attempts to its end.
func (w *workbench) queue(ctx context.Context, config, set string, attempts int) (use, error) {
	name := fmt.Sprintf("queue-%d", attempts)
	cmd := exec.CommandContext(ctx, w.harbor(), "run", "-p", set, "-k", fmt.Sprint(attempts), "-n", "1000",
		"-e", "fake", "-q", "--job-name", name, "-o", filepath.Join(w.work, "jobs"))
	cmd.Env = append(os.Environ(), "HARBOR_CONFIG="+config)
	if out, err := cmd.CombinedOutput(); err != nil {
		return use{}, fmt.Errorf("harbor run of %d attempts: %w\n%s", attempts, err, out)
	}
	u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return use{}, errors.New("the system does not say what a process took")
	}
	return use{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), u.Maxrss}, nil
}
