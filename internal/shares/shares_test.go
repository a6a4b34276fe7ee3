package shares

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// liveVariable makes the test program be an owner instead of testing.
const liveVariable = "HARBOR_TEST_LIVE_IN"

func TestMain(m *testing.M) {
	if state := os.Getenv(liveVariable); state != "" {
		live(state)
		return
	}
	if state := os.Getenv(workVariable); state != "" {
		work(state)
		return
	}
	goleak.VerifyTestMain(m)
}

// live is an owner until standard input ends, and then closes as it should.
func live(state string) {
	o, err := Register(state)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(o.ID)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if err := o.Close(); err != nil {
		fmt.Println(err)
	}
}

// another starts another owner in a process of its own.
func another(t *testing.T, state string) (id string, end, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), liveVariable+"="+state)
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
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.Contains(line, " ") {
		t.Fatalf("the other owner says %q %v", line, err)
	}
	end = func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}
	return strings.TrimSpace(line), end, kill
}

func register(t *testing.T, state string) *Owner {
	t.Helper()
	o, err := Register(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close() })
	return o
}

func owners(t *testing.T, state string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(state, "owners"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestOwnersLiveAndDie(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	id, _, kill := another(t, state)
	if !o.Alive(o.ID) || !o.Alive(id) {
		t.Errorf("alive: self %v, other %v", o.Alive(o.ID), o.Alive(id))
	}
	if err := o.Bury(); err != nil || len(owners(t, state)) != 2 {
		t.Errorf("the living were buried: %v, left %v", err, owners(t, state))
	}
	kill()
	if o.Alive(id) {
		t.Error("the killed one is alive")
	}
	if n := len(owners(t, state)); n != 2 {
		t.Errorf("asking buried it: %d files", n)
	}
	if err := o.Bury(); err != nil {
		t.Error(err)
	}
	if got := owners(t, state); len(got) != 1 || got[0] != o.ID {
		t.Errorf("left %v", got)
	}
	if o.Alive(id) {
		t.Error("the buried one is alive")
	}
}

func TestOwnerThatEndsLeavesNothing(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	id, end, _ := another(t, state)
	end()
	if o.Alive(id) || len(owners(t, state)) != 1 {
		t.Errorf("alive %v, files %v", o.Alive(id), owners(t, state))
	}
}

// An id comes from a label, so anything may stand there.
func TestIdsThatAreNone(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	if err := os.WriteFile(filepath.Join(state, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"unknown", "../secret", "a/b", "/etc/passwd"} {
		if o.Alive(id) {
			t.Errorf("%q is alive", id)
		}
	}
	if got := owners(t, state); len(got) != 1 {
		t.Errorf("files %v", got)
	}
}

// An owner may take its file away while another looks at it.
func TestLookingForAnOwnerLeavesNoFileOfIt(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	if o.locked(newID()) {
		t.Error("nobody holds a lock")
	}
	if got := owners(t, state); !slices.Equal(got, []string{o.ID}) {
		t.Errorf("files %v", got)
	}
}

// Many start at once and sweep at once; none may take another for dead.
func TestOwnersThatStartTogether(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var wg sync.WaitGroup
	var mu sync.Mutex
	hosts := map[string]bool{}
	var all []*Owner
	for range 20 {
		wg.Go(func() {
			o, err := Register(state)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			hosts[o.Host] = true
			all = append(all, o)
		})
		wg.Go(func() {
			o, err := Register(state)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(o.Bury(), o.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(hosts) != 1 {
		t.Errorf("the host has %d ids", len(hosts))
	}
	if got := owners(t, state); len(got) != len(all) {
		t.Errorf("%d files of %d owners", len(got), len(all))
	}
	for _, o := range all {
		if !all[0].Alive(o.ID) {
			t.Errorf("%s is not alive", o.ID)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEmptyHostFile(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "host"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Register(state); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("%v", err)
	}
}
