package shares

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnerWhoseFileWasDeletedIsAlive(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	id, _, kill := another(t, state)
	if err := os.Remove(filepath.Join(state, "owners", id)); err != nil {
		t.Fatal(err)
	}
	if !o.Alive(id) {
		t.Error("it lives, and only its file is gone")
	}
	if err := o.Bury(); err != nil {
		t.Error(err)
	}
	kill()
	if o.Alive(id) {
		t.Error("the killed one is alive")
	}
}

func TestOwnerWhoseFileWasDeletedEndsWithoutAnError(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o, err := Register(state)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(state, "owners")); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoppedOwnerIsAlive(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	id, _, _ := another(t, state)
	pid := identityOf(id).pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !o.Alive(id) {
		t.Error("a stopped process is not dead")
	}
	if err := os.Remove(filepath.Join(state, "owners", id)); err != nil || !o.Alive(id) {
		t.Errorf("%v, alive %v without its file", err, o.Alive(id))
	}
}

// A pid that the kernel gave to another process is not the owner.
func TestReusedPidIsAnotherProcess(t *testing.T) {
	t.Parallel()
	o := register(t, t.TempDir())
	me := self()
	for _, id := range []string{
		fmt.Sprintf("%d-%s1-%s-00000000", me.pid, me.start, me.boot), // started later
		fmt.Sprintf("%d-%s-00000000-00000000", me.pid, me.start),     // before the machine was started
		fmt.Sprintf("%d--%s-00000000", me.pid, me.boot),
		fmt.Sprintf("0-%s-%s-00000000", me.start, me.boot),
		fmt.Sprintf("-%d-%s-%s-0", me.pid, me.start, me.boot),
	} {
		if o.Alive(id) {
			t.Errorf("%s is alive", id)
		}
	}
	if id := fmt.Sprintf("%d-%s-%s-00000000", me.pid, me.start, me.boot); !o.Alive(id) {
		t.Errorf("%s is this process", id)
	}
}

func TestProcessThatNobodyReapedIsDead(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if start := startOf(cmd.Process.Pid); start != "" {
		t.Errorf("it still runs since %s", start)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A state directory that was copied to another machine is another host: what runs
// for the first one must not look like its own dead.
func TestCopiedStateIsAnotherHost(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	hosts := map[string]bool{}
	on := func(machine string) string {
		o, err := registerOn(state, machine)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		return o.Host
	}
	first := on("a")
	if again := on("a"); again != first {
		t.Errorf("the same machine is %s and %s", first, again)
	}
	if unknown := on(""); unknown != first {
		t.Errorf("a machine without an id is %s, not %s", unknown, first)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			h := on("b")
			mu.Lock()
			defer mu.Unlock()
			hosts[h] = true
		})
	}
	wg.Wait()
	if len(hosts) != 1 || hosts[first] {
		t.Errorf("the second machine is %v, the first %s", hosts, first)
	}
	if hosts[on("a")] {
		t.Error("back on the first machine it is still the second")
	}
}

func TestTemporaryFilesGoWithTheirOwner(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	mine, err := o.Temp()
	if err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(state, "tmp", "1-2-3-4")
	if err := os.MkdirAll(filepath.Join(dead, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := o.Bury(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("the dead one's: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("mine: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(mine); !os.IsNotExist(err) {
		t.Errorf("after the end: %v", err)
	}
}
