package shares

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Who waits in the scheduler of a job has asked nobody for a lease.
func TestStandingCountsTrialsThatWait(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	one, two := open(t, o, Need{MilliCPUs: 4000}, nil), open(t, register(t, state), Need{MilliCPUs: 2000, MemoryMiB: 512}, nil)
	stands := func() Standing {
		t.Helper()
		all, err := o.Standings()
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0]
	}
	for _, n := range []int{5, 3} {
		if err := one.Waiting(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.Waiting(2); err != nil {
		t.Fatal(err)
	}
	s := stands()
	if s.Waiting != 5 || len(s.Owners) != 2 || s.Owners[0].Waiting+s.Owners[1].Waiting != 5 {
		t.Errorf("%+v", s)
	}
	if want := (Amount{CPUs: 2, MemoryMiB: 512}); s.Limits != want {
		t.Errorf("limits %+v, want the smallest of both: %+v", s.Limits, want)
	}
	for _, p := range []*Pool{one, two} {
		if err := p.Waiting(0); err != nil {
			t.Fatal(err)
		}
	}
	if s = stands(); s.Waiting != 0 || len(s.Owners) != 0 || s.Limits != (Amount{}) {
		t.Errorf("who wants nothing is still there: %+v", s)
	}
}

func TestStandingCountsWhoAwaitsALease(t *testing.T) {
	t.Parallel()
	o := register(t, t.TempDir())
	p := open(t, o, Need{Sandboxes: 1}, nil)
	release, ok, err := p.Acquire(t.Context(), Need{})
	if !ok {
		t.Fatal(err)
	}
	waiting := func() int {
		all, err := o.Standings()
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Waiting
	}
	got := make(chan func(), 1)
	go func() {
		release, err := p.Await(t.Context(), Need{})
		if err != nil {
			t.Error(err)
		}
		got <- release
	}()
	await(t, "one to wait", func() bool { return waiting() == 1 })
	release()
	release = <-got
	if n := waiting(); n != 0 {
		t.Errorf("%d wait", n)
	}
	release()
}

func TestStandingCountsNobodyWhoIsDead(t *testing.T) {
	t.Parallel()
	a := &account{}
	a.waiting("gone", "", 3, Need{MilliCPUs: 1000})
	s := a.standing("docker", 0, func(string) bool { return false })
	if s.Waiting != 0 || s.Limits != (Amount{}) || s.Owners[0].Alive {
		t.Errorf("%+v", s)
	}
}

// What is no file of ours is named, with what to do, and hides no other provider.
func TestForeignThingsAmongTheShares(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	p := open(t, o, Need{}, nil)
	if _, ok, err := p.Acquire(t.Context(), Need{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	makes := map[string]struct {
		make func(path string) error
		says string
	}{
		"dir":      {func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
		"fifo":     {func(path string) error { return unix.Mkfifo(path, 0o600) }, "is a named pipe"},
		"dangling": {func(path string) error { return os.Symlink("nowhere", path) }, "is a link that leads nowhere"},
		"bell":     {func(path string) error { return unix.Mkfifo(path+bellEnd, 0o600) }, "is a named pipe"},
	}
	for name, c := range makes {
		if err := c.make(filepath.Join(state, poolsDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := o.Standings()
	if err != nil || len(all) != 4 {
		t.Fatalf("%+v, %v", all, err)
	}
	if i := slices.IndexFunc(all, func(s Standing) bool { return s.Provider == "docker" }); all[i].Use.Sandboxes != 1 || all[i].Unread != "" {
		t.Errorf("%+v", all[i])
	}
	for _, s := range all {
		if c := makes[s.Provider]; !strings.Contains(s.Unread, c.says) {
			t.Errorf("%s: %q", s.Provider, s.Unread)
		}
	}
	for name, c := range makes {
		_, err := o.Pool(name, nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "remove it") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(state, poolsDir, "nowhere")); err == nil {
		t.Error("something was made where the link leads")
	}
}
