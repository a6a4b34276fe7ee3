package shares

import (
	"testing"
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
