package results

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/trials"
)

// makeJob is a finished job with a trial.
func makeJob(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "job")
	j, err := CreateJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.WriteConfig(trials.NewJobConfig()), j.WriteResult(trials.JobResult{ID: "id"}), j.Close()); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "a__2222222/agent/log")
	return dir
}

func TestDeleteStaysInside(t *testing.T) {
	t.Parallel()
	dir := makeJob(t)
	outside := t.TempDir()
	write(t, outside, "precious")
	if err := os.Symlink(outside, filepath.Join(dir, "a__2222222", "link")); err != nil {
		t.Fatal(err)
	}
	j, err := OpenJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Delete(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	if got := files(t, outside); len(got) != 1 {
		t.Errorf("outside: %q", got)
	}
}

func TestOnlyJobsAreDeleted(t *testing.T) {
	t.Parallel()
	job := makeJob(t)
	trial := filepath.Join(job, "a__2222222")
	if err := os.WriteFile(filepath.Join(trial, ResultFile), []byte(ours), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(job, link); err != nil {
		t.Fatal(err)
	}
	early := t.TempDir() // killed before its first result
	write(t, early, ConfigFile)
	if err := os.WriteFile(filepath.Join(early, ConfigFile), []byte(`{"job_name": "early"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, ConfigFile), []byte(`{}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, said := range map[string]string{
		job: "", early: "", trial: "a trial's result", link: "is a link", other: "no job's",
		filepath.Join(job, ConfigFile): "no directory", filepath.Join(job, "nowhere"): "no such file", t.TempDir(): "no job directory",
	} {
		err := CheckJob(dir)
		if said == "" && err != nil || said != "" && (err == nil || !strings.Contains(err.Error(), said)) {
			t.Errorf("%s: %v, want %q", dir, err, said)
		}
	}
}

// What cannot be removed is said, and nothing is.
func TestDeleteIsAllOrNothing(t *testing.T) {
	t.Parallel()
	dir := makeJob(t)
	shut := filepath.Join(dir, "a__2222222", "agent")
	if err := os.Chmod(shut, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(shut, 0o755) })
	j, err := OpenJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = j.Delete()
	if os.Geteuid() == 0 { // who may do anything is stopped by nothing
		if err != nil {
			t.Error(err)
		}
		return
	}
	var foreign *ForeignError
	if !errors.As(err, &foreign) || !strings.Contains(err.Error(), shut) {
		t.Errorf("%v", err)
	}
	if got := files(t, dir); len(got) < 3 {
		t.Errorf("there are %q", got)
	}
}

func TestForeignErrorNamesSome(t *testing.T) {
	t.Parallel()
	err := &ForeignError{Paths: strings.Fields("a b c d e f g")}
	if msg := err.Error(); !strings.Contains(msg, "a, b, c, d, e and 2 more") {
		t.Error(msg)
	}
}

// Only the process that took the lock is signalled: not one that has its number.
func TestSignalGoesToTheHolderAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _ = holder(t, dir)
	h, ok := Running(dir)
	if !ok {
		t.Fatalf("%+v does not run", h)
	}
	other := h
	other.Start += "1"
	if other.Alive() {
		t.Error("a process of another start is taken for it")
	}
	if _, err := other.Signal(syscall.SIGKILL); !errors.Is(err, errGone) {
		t.Errorf("%v", err)
	}
	if rebooted := (Holder{PID: h.PID, Start: h.Start, BootID: "other"}); rebooted.Alive() {
		t.Error("a process of another boot is taken for it")
	}
	wait, err := h.Signal(syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWaitingForAProcessEndsWithTheContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _ = holder(t, dir)
	h, _ := Running(dir)
	wait, err := h.Signal(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	dir := makeJob(t)
	now := trials.LocalAt(time.Now())
	if s, _ := StateOf(dir, trials.JobResult{}); s != StateInterrupted {
		t.Errorf("without an end: %s", s)
	}
	if s, _ := StateOf(dir, trials.JobResult{FinishedAt: now}); s != StateFinished {
		t.Errorf("with an end: %s", s)
	}
	j, err := OpenJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	if s, h := StateOf(dir, trials.JobResult{FinishedAt: now}); s != StateRunning || h.PID != os.Getpid() {
		t.Errorf("held: %s by %+v", s, h)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := Running(dir); ok {
		t.Error("this process is taken for its holder still")
	}
}
