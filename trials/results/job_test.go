package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/trials"
)

// holdVariable makes the test program hold a job instead of testing.
const holdVariable = "HARBOR_TEST_HOLD_JOB"

// holdJob holds a job until standard input ends. It reports false when it was
// not asked to.
func holdJob() bool {
	dir := os.Getenv(holdVariable)
	if dir == "" {
		return false
	}
	j, err := CreateJob(dir)
	fmt.Println("held", err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil {
		_ = j.Close()
	}
	return true
}

// holder starts a process that holds a job; end lets it go, kill kills it.
func holder(t *testing.T, dir string) (pid int, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdVariable+"="+dir)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(end)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held <nil>\n" {
		t.Fatalf("the holder says %q %v", line, err)
	}
	return cmd.Process.Pid, end
}

func TestSecondProcessIsRefusedTheJob(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "jobs", "one")
	pid, kill := holder(t, dir)
	_, err := CreateJob(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Holder.PID != pid || locked.Holder.Start == "" || locked.Holder.BootID == "" {
		t.Fatalf("%v, want a refusal that names %d", err, pid)
	}
	if !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Errorf("message: %v", err)
	}
	kill() // whatever became of it, the kernel frees the lock
	j, err := CreateJob(dir)
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	defer j.Close()
	var h Holder
	b, err := os.ReadFile(filepath.Join(dir, jobLockFile))
	if err != nil || json.Unmarshal(b, &h) != nil || h != Self() {
		t.Errorf("the lock names %+v, want %+v", h, Self())
	}
}

func TestSameProcessIsRefusedTheJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := CreateJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := CreateJob(dir); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// Signalling process 0 would end the caller's own group.
func TestHolderThatIsNotKnownIsNotNamed(t *testing.T) {
	t.Parallel()
	if msg := (&LockedError{Dir: "d"}).Error(); strings.Contains(msg, "kill") || strings.Contains(msg, "process 0") {
		t.Error(msg)
	}
	if h := holderOf(t.TempDir()); h != (Holder{}) {
		t.Errorf("%+v", h)
	}
}

func TestJobThatExistsIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := CreateJob(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.WriteConfig(trials.NewJobConfig()); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = CreateJob(dir)
	var exists *ExistsError
	if !errors.As(err, &exists) || exists.Dir != dir || !strings.Contains(err.Error(), "--job-name") {
		t.Errorf("%v", err)
	}
	// A refusal keeps no lock.
	if err := os.Remove(filepath.Join(dir, ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if j, err = CreateJob(dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func TestDocumentsOfAJob(t *testing.T) {
	t.Parallel()
	j, err := CreateJob(filepath.Join(t.TempDir(), "job"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	c := trials.NewJobConfig()
	c.Environment.Env = trials.Env{"X_SECRET": "very-secret-value"}
	if err := errors.Join(j.WriteConfig(c), j.WriteLock(trials.JobLock{}, func(func(trials.TrialLock, error) bool) {}), j.WriteResult(trials.JobResult{ID: "id", NTotalTrials: 3})); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(j.Dir, ConfigFile)); err != nil || strings.Contains(string(b), "very-secret-value") {
		t.Errorf("%s %v", b, err)
	}
	r, err := ReadJobResult(j.Dir)
	if err != nil || r.ID != "id" || r.NTotalTrials != 3 {
		t.Errorf("%+v %v", r, err)
	}
	left, err := filepath.Glob(filepath.Join(j.Dir, ".*.json.*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v %v", left, err)
	}
}

func TestProcessStartIsStable(t *testing.T) {
	t.Parallel()
	if s := processStart(os.Getpid()); s == "" || s != processStart(os.Getpid()) {
		t.Errorf("start %q", s)
	}
	if s := processStart(1 << 30); s != "" {
		t.Errorf("a process that is not there started at %q", s)
	}
}

func TestADiscardedJobLeavesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "job")
		j, err := CreateJob(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.WriteConfig(trials.NewJobConfig()); err != nil {
			t.Fatal(err)
		}
		notes := filepath.Join(dir, "notes.txt")
		if others {
			if err := os.WriteFile(notes, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(j.Discard(), j.Close()); err != nil {
			t.Error(err)
		}
		_, derr := os.Stat(dir)
		_, nerr := os.Stat(notes)
		if HoldsJob(dir) || (derr == nil) != others || (nerr == nil) != others {
			t.Errorf("others %t: %v %v", others, derr, nerr)
		}
	}
}
