package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The large job that is shown and gone on with: so many tasks, so many times.
const (
	largeTasks    = 100
	largeAttempts = 100
)

// benchLargeJob times what is done with a finished job of 10,000 trials: showing
// it, and finding that nothing is left to do.
func benchLargeJob(ctx context.Context, w *workbench) ([]figure, error) {
	args, dir, err := w.largeJob(ctx)
	if err != nil {
		return nil, err
	}
	var again, first []float64
	for range 5 {
		took, err := w.run(ctx, args...)
		if err != nil {
			return nil, err
		}
		again = append(again, took.Seconds())
		if took, err = w.firstScreen(ctx, "job", "show", dir); err != nil {
			return nil, err
		}
		first = append(first, ms(took))
	}
	const trials = largeTasks * largeAttempts
	return []figure{
		{fmt.Sprintf("go on with %d finished trials", trials), median(again), 1, true, "s"},
		{fmt.Sprintf("job show of %d trials, first screen", trials), median(first), 300, true, "ms"},
	}, nil
}

// largeJob makes the job on disk: a real one with one attempt of each task, whose
// trials are copied for the others. It returns the arguments of harbor run that go
// on with it.
func (w *workbench) largeJob(ctx context.Context) (args []string, dir string, err error) {
	set := filepath.Join(w.work, "large-tasks")
	for i := range largeTasks {
		if err := writeTask(filepath.Join(set, fmt.Sprintf("task-%04d", i)), "FROM "+image+"\n", ""); err != nil {
			return nil, "", err
		}
	}
	args = []string{"-p", set, "-e", "fake", "-q", "--job-name", "large"}
	if _, err := w.run(ctx, args...); err != nil {
		return nil, "", err
	}
	dir = filepath.Join(w.work, "jobs", "large")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		for attempt := 2; e.IsDir() && attempt <= largeAttempts; attempt++ {
			if err := copyTrial(dir, e.Name(), attempt); err != nil {
				return nil, "", err
			}
		}
	}
	args = append(args, "-k", fmt.Sprint(largeAttempts))
	_, err = w.run(ctx, args...) // counts what it finds
	return args, dir, err
}

var attemptMember = regexp.MustCompile(`"attempt": 1,`)

// copyTrial makes another attempt out of a trial. The digits of the attempt take
// the place of the last of the name's random ones.
func copyTrial(job, name string, attempt int) error {
	to := name[:len(name)-3] + strings.NewReplacer("0", "A", "1", "B").Replace(fmt.Sprintf("%03d", attempt))
	if err := os.MkdirAll(filepath.Join(job, to), 0o755); err != nil {
		return err
	}
	for _, doc := range []string{"config.json", "lock.json", "result.json"} {
		b, err := os.ReadFile(filepath.Join(job, name, doc))
		if err != nil {
			return err
		}
		b = bytes.ReplaceAll(b, []byte(name), []byte(to))
		b = attemptMember.ReplaceAll(b, fmt.Appendf(nil, `"attempt": %d,`, attempt))
		if err := os.WriteFile(filepath.Join(job, to, doc), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// firstScreen is how long a command takes until it has printed as many lines as a
// terminal shows.
func (w *workbench) firstScreen(ctx context.Context, args ...string) (time.Duration, error) {
	const lines = 24
	cmd := exec.CommandContext(ctx, w.harbor(), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	scanner := bufio.NewScanner(out)
	n := 0
	for n < lines && scanner.Scan() {
		n++
	}
	took := time.Since(begun)
	for scanner.Scan() { // a full pipe would hold it up
		n++
	}
	err = errors.Join(scanner.Err(), cmd.Wait())
	if err == nil && n < lines {
		err = fmt.Errorf("harbor %s printed %d lines", strings.Join(args, " "), n)
	}
	return took, err
}
