package shares

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// histories is how many events of random histories are tried.
func histories() int {
	if os.Getenv("HARBOR_SOAK") != "" {
		return 1_000_000
	}
	return 100_000
}

// player plays a process against an account.
type player struct {
	id   string
	held []Need
}

// Whatever processes do, in whatever order, no limit is ever exceeded, and nothing is
// left when all is given back.
func TestAnyHistoryKeepsTheLimits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		limits := Need{Sandboxes: 1 + r.IntN(12), MilliCPUs: int64(r.IntN(3)) * 4000, MemoryMiB: int64(r.IntN(3)) * 4096, DiskMiB: int64(r.IntN(2)) * 30_000, GPUs: r.IntN(4)}
		history(t, r, limits, histories()/20)
	}
}

func history(t *testing.T, r *rand.Rand, limits Need, events int) {
	t.Helper()
	a, clock := &account{}, int64(time.Hour)
	all := []*player{{id: "a"}, {id: "b"}, {id: "c"}}
	for range events {
		clock += int64(r.IntN(200)) * int64(time.Millisecond)
		p := all[r.IntN(len(all))]
		switch {
		case len(p.held) > 0 && r.IntN(2) == 0:
			a.release(p.id, p.held[0])
			p.held = p.held[1:]
		case r.IntN(200) == 0: // it dies
			a.forget(func(id string) bool { return id == p.id })
			p.held = nil
		default:
			ask(a, p, r, limits, clock)
		}
		if used := a.used(); exceeds(used, limits) {
			t.Fatalf("%+v is used of %+v", used, limits)
		}
	}
	for _, p := range all {
		for _, n := range p.held {
			a.release(p.id, n)
		}
	}
	if used := a.used(); used != (Need{}) {
		t.Errorf("%+v is left", used)
	}
}

// exceeds reports whether more is used than there is: no need is larger than a limit here.
func exceeds(used, limits Need) bool {
	over := used.minus(limits)
	return over.Sandboxes > 0 || over.MilliCPUs > 0 && limits.MilliCPUs > 0 || over.MemoryMiB > 0 && limits.MemoryMiB > 0 ||
		over.DiskMiB > 0 && limits.DiskMiB > 0 || over.GPUs > 0 && limits.GPUs > 0
}

func ask(a *account, p *player, r *rand.Rand, limits Need, clock int64) {
	need := Need{Sandboxes: 1, MilliCPUs: int64(r.IntN(4)) * 1000, MemoryMiB: int64(r.IntN(4)) * 1024, DiskMiB: int64(r.IntN(3)) * 5000, GPUs: r.IntN(2)}
	if a.acquire(p.id, "", need, limits, clock) == "" {
		p.held = append(p.held, need)
	}
}

// A process that takes whatever becomes free, as fast as it can, does not keep the
// others from their part.
func TestGreedyProcessLeavesTheOthersTheirPart(t *testing.T) {
	t.Parallel()
	a, limits, one := &account{}, Need{Sandboxes: 6}, Need{Sandboxes: 1}
	clock := int64(time.Hour)
	for range 6 {
		if why := a.acquire("greedy", "", one, limits, clock); why != "" {
			t.Fatal(why)
		}
	}
	for range 20 { // the others ask each second; the greedy one, right after each release
		for _, id := range []string{"b", "c"} {
			_ = a.acquire(id, "", one, limits, clock)
		}
		clock += int64(time.Second)
		a.release("greedy", one)
		_ = a.acquire("greedy", "", one, limits, clock)
	}
	for _, id := range []string{"greedy", "b", "c"} {
		if n := a.Owners[id].Use.Sandboxes; n != 2 {
			t.Errorf("%s has %d of 6", id, n)
		}
	}
}

// A process that waits for a GPU keeps from others what it needs, and nothing else: not
// what it has no use for as long as there is no GPU.
func TestProcessThatWaitsForAGPUHoldsUpOnlyWhoTakesOne(t *testing.T) {
	t.Parallel()
	gpu, cpu := Need{Sandboxes: 1, GPUs: 1}, Need{Sandboxes: 1, MilliCPUs: 1000}
	a, limits, now := &account{}, Need{Sandboxes: 16, GPUs: 1}, int64(time.Hour)
	if why := a.acquire("a", "", gpu, limits, now); why != "" {
		t.Fatal(why)
	}
	if why := a.acquire("b", "", gpu, limits, now); why != "the limit of gpus is reached" {
		t.Error(why)
	}
	if why := a.acquire("a", "", cpu, limits, now); why != "" {
		t.Errorf("who has the GPU gets no CPU: %s", why)
	}
	if why, _ := a.admit("a", "", cpu, limits, rate{1, 1}, now); why != "" {
		t.Errorf("nor with the only turn: %s", why)
	}
	a.release("a", gpu)
	if why := a.acquire("a", "", gpu, limits, now); why != "another job that has less waits" {
		t.Errorf("the GPU is taken again before the other had it: %q", why)
	}
	if why := a.acquire("b", "", gpu, limits, now); why != "" {
		t.Error(why)
	}
}

// Beside what it waits for a process may ask for less. That it got, or did not get, the
// smaller does not give away the place of the larger, but for the time of its patience.
func TestSmallerLeaseKeepsThePlaceOfTheLarger(t *testing.T) {
	t.Parallel()
	big, small := Need{Sandboxes: 1, MilliCPUs: 8000}, Need{Sandboxes: 1, MilliCPUs: 1000}
	for _, free := range []bool{true, false} {
		a, limits, now := &account{}, Need{MilliCPUs: 16_000}, int64(time.Hour)
		for range 15 {
			_ = a.acquire("many", "", small, limits, now)
		}
		if !free {
			_ = a.acquire("many", "", small, limits, now)
		}
		_ = a.acquire("big", "", big, limits, now)
		if why := a.acquire("big", "", small, limits, now); (why == "") != free {
			t.Fatalf("the smaller one: %q", why)
		}
		for range 7 {
			a.release("many", small)
		}
		if why := a.acquire("many", "", small, limits, now+int64(time.Second)); why != "another job that has less waits" {
			t.Errorf("with room %v: %q", free, why)
		}
		if why := a.acquire("many", "", small, limits, now+int64(patience)); why != "" {
			t.Errorf("long after: %s", why)
		}
	}
}

// Who declares nothing of it is not held up where there is too much, and what is larger
// than the limit runs beside it.
func TestWhatIsNotDeclaredIsNotRefused(t *testing.T) {
	t.Parallel()
	a, limits, none := &account{}, Need{MilliCPUs: 2000}, Need{Sandboxes: 1}
	if why := a.acquire("a", "", none, limits, 1); why != "" {
		t.Error(why)
	}
	if why := a.acquire("a", "", Need{Sandboxes: 1, MilliCPUs: 8000}, limits, 1); why != "" {
		t.Error(why)
	}
	if why := a.acquire("b", "", none, limits, 1); why != "" {
		t.Error(why)
	}
	if why := a.acquire("b", "", Need{Sandboxes: 1, MilliCPUs: 1}, limits, 1); why == "" {
		t.Error("more than there is")
	}
}

func TestProcessThatNoLongerAsksKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	a, limits, one := &account{}, Need{Sandboxes: 1}, Need{Sandboxes: 1}
	clock := int64(time.Hour)
	_ = a.acquire("a", "", one, limits, clock)
	if a.acquire("b", "", one, limits, clock) == "" {
		t.Fatal("two of one")
	}
	a.release("a", one)
	a.acquire("a", "", one, limits, clock+int64(patience))
	if a.Owners["a"].Use != one {
		t.Error("who was refused long ago still holds the others up")
	}
}

func TestWhatIsLargerThanTheLimitRunsAlone(t *testing.T) {
	t.Parallel()
	a, limits := &account{}, Need{Sandboxes: 4, MilliCPUs: 2000}
	big := Need{Sandboxes: 1, MilliCPUs: 8000}
	if why := a.acquire("a", "", big, limits, 1); why != "" {
		t.Error(why)
	}
	if why := a.acquire("b", "", Need{Sandboxes: 1, MilliCPUs: 1}, limits, 1); why != "the limit of cpus is reached" {
		t.Error(why)
	}
}

// Over any stretch of time, no more turns are taken than its rate and one burst.
func TestPaceIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const perSecond, burst = 10.0, 5
	r := rand.New(rand.NewPCG(1, 2))
	a, clock := &account{}, int64(time.Hour)
	var at []int64
	for range 5000 {
		at = append(at, clock+int64(a.turn("create", perSecond, burst, clock)))
		clock = max(clock, at[len(at)-1]-int64(r.IntN(400))*int64(time.Millisecond)) + int64(r.IntN(200))*int64(time.Millisecond)
	}
	for i := range at {
		for j := i + 1; j < min(len(at), i+100); j++ {
			if most := (burst+1)/2 + perSecond*time.Duration(at[j]-at[i]).Seconds(); float64(j-i+1) > most+1e-6 {
				t.Fatalf("%d turns within %s", j-i+1, time.Duration(at[j]-at[i]))
			}
		}
	}
	if got := a.Paces["create"]; got.Taken != 5000 || len(got.Recent) > 2*slices60 || got.perSecond(clock) > perSecond+1 {
		t.Errorf("%d turns, %d slices, %.1f a second", got.Taken, len(got.Recent), got.perSecond(clock))
	}
}

// Of nine that are asked for together six are refused: there is room for three.
func TestRefusalsTogetherTellTheRoom(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"at once", "one after the other"} {
		a, one := &account{}, Need{Sandboxes: 1}
		for range 9 {
			_ = a.acquire("a", "", one, Need{}, 1)
		}
		for range 6 {
			a.exhausted("quota", 1)
			if when != "at once" {
				a.release("a", one)
			}
		}
		if a.Learned.Sandboxes != 3 || a.Learned.Until != 1+int64(firstBelief) {
			t.Errorf("%s: %+v", when, a.Learned)
		}
	}
}

func TestExhaustedProviderIsBelievedForAWhile(t *testing.T) {
	t.Parallel()
	a, limits, one := &account{}, Need{Sandboxes: 10}, Need{Sandboxes: 1}
	clock := int64(time.Hour)
	take := func() string { return a.acquire("a", "", one, limits, clock) }
	for range 5 {
		_ = take()
	}
	a.exhausted("quota of disk", clock)
	a.exhausted("quota of disk", clock) // the others that were under way
	a.release("a", one)
	if why := take(); why != "the provider has no room: quota of disk" {
		t.Errorf("with 4 of 4: %q", why)
	}
	clock += int64(firstBelief)
	if why := take(); why != "" {
		t.Errorf("after a while: %s", why)
	}
	a.exhausted("quota of disk", clock)
	if a.Learned.For != 2*firstBelief || a.Learned.Sandboxes != 4 {
		t.Errorf("%+v", a.Learned)
	}
	if fmt.Sprint(a.standing("x", clock, func(string) bool { return true }).Capacity) != "4" {
		t.Error("it is not shown")
	}
}

// A process that holds itself to less than others keeps none of them from the rest.
func TestProcessWithLowerLimitsLeavesTheRestToOthers(t *testing.T) {
	t.Parallel()
	a, one := &account{}, Need{Sandboxes: 1}
	low, high := Need{Sandboxes: 2}, Need{Sandboxes: 6}
	for i := range 3 {
		if why := a.acquire("high", "", one, high, 1); why != "" {
			t.Fatalf("%d: %s", i, why)
		}
	}
	for i := range 3 {
		if why := a.acquire("low", "", one, low, 1); why != "the limit of sandboxes is reached" {
			t.Fatalf("%d: low got one although there are more than it may add to: %q", i, why)
		}
		if why := a.acquire("high", "", one, high, 1); why != "" {
			t.Errorf("%d: %s", i, why)
		}
	}
	for range 5 {
		a.release("high", one)
	}
	if why := a.acquire("low", "", one, low, 1); why != "" {
		t.Error(why)
	}
}
