package plane_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/fake/plane"
)

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time       { return c.at }
func (c *clock) add(d time.Duration)  { c.at = c.at.Add(d) }
func start() *clock                   { return &clock{time.Unix(1_800_000_000, 0)} }
func (c *clock) since() time.Duration { return c.at.Sub(start().at) }

func open(t *testing.T, c plane.Config, at *clock) *plane.Plane {
	t.Helper()
	p, err := plane.New(c, at.now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func counters(t *testing.T, p *plane.Plane) plane.Counters {
	t.Helper()
	c, err := p.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// balanced holds counters against each other.
func balanced(t *testing.T, c plane.Counters) {
	t.Helper()
	for op, n := range c.Calls {
		sum := n.Done
		for _, refused := range n.Refused {
			sum += refused
		}
		if sum != n.Asked {
			t.Fatalf("%s: %d asked, %d done or refused: %+v", op, n.Asked, sum, n)
		}
	}
	if made := c.Calls[plane.OpCreate].Done; made != int64(c.InUse.Sandboxes)+c.Deleted+c.Lost {
		t.Fatalf("%d made, %d in use, %d deleted, %d lost", made, c.InUse.Sandboxes, c.Deleted, c.Lost)
	}
}

func events() int {
	if os.Getenv("HARBOR_SOAK") != "" {
		return 1_000_000
	}
	return 100_000
}

// book is what a test knows of a plane by its answers alone.
type book struct {
	sizes   map[providers.ID]plane.Size
	leaving map[providers.ID]time.Duration // when
}

func (b *book) used(now time.Duration) plane.Size {
	var sum plane.Size
	for id, s := range b.sizes {
		if at, ok := b.leaving[id]; ok && at <= now {
			delete(b.sizes, id)
			delete(b.leaving, id)
			continue
		}
		sum.Sandboxes++
		sum.CPUs += s.CPUs
		sum.MemoryMiB += s.MemoryMiB
		sum.DiskMiB += s.DiskMiB
		sum.GPUs += s.GPUs
	}
	return sum
}

func over(used, limits plane.Size) bool {
	return limits.Sandboxes > 0 && used.Sandboxes > limits.Sandboxes || limits.CPUs > 0 && used.CPUs > limits.CPUs ||
		limits.MemoryMiB > 0 && used.MemoryMiB > limits.MemoryMiB || limits.DiskMiB > 0 && used.DiskMiB > limits.DiskMiB ||
		limits.GPUs > 0 && used.GPUs > limits.GPUs
}

// Whatever is asked for, in whatever order, the plane is at no instant over a limit,
// refuses nothing that there is room for, and its counters are what its answers were.
func TestAnyHistoryIsJudgedRightly(t *testing.T) {
	t.Parallel()
	const histories = 20
	for seed := range uint64(histories) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			history(t, rand.New(rand.NewPCG(seed, 3)), events()/histories)
		})
	}
}

func history(t *testing.T, r *rand.Rand, n int) {
	limits := plane.Size{Sandboxes: 1 + r.IntN(30), CPUs: float64(r.IntN(2) * 16), MemoryMiB: int64(r.IntN(2)) * 20_000, DiskMiB: int64(r.IntN(2)) * 50_000, GPUs: r.IntN(4)}
	at := start()
	p := open(t, plane.Config{
		Limits: limits, Sandbox: plane.Size{CPUs: 1, MemoryMiB: 512, DiskMiB: 1024}, Seed: 5,
		Latency: map[plane.Op]plane.Latency{plane.OpDelete: {Sec: 2, Spread: 0.9}, plane.OpCreate: {Sec: 1}},
	}, at)
	b := &book{sizes: map[providers.ID]plane.Size{}, leaving: map[providers.ID]time.Duration{}}
	for i := range n {
		at.add(time.Duration(r.IntN(300)) * time.Millisecond)
		if r.IntN(2) == 0 {
			tryCreate(t, p, b, limits, at.since(), fmt.Sprint(i), plane.Size{
				CPUs: float64(r.IntN(5)) / 2, MemoryMiB: int64(r.IntN(4)) * 1024, DiskMiB: int64(r.IntN(3)) * 4096, GPUs: r.IntN(2),
			})
		} else {
			deleteOne(t, p, b, at.since())
		}
		c := counters(t, p)
		if used := b.used(at.since()); over(c.Peak, limits) || used != c.InUse {
			t.Fatalf("event %d: counted %+v, by the answers %+v, peak %+v of %+v", i, c.InUse, used, c.Peak, limits)
		}
		balanced(t, c)
	}
}

func tryCreate(t *testing.T, p *plane.Plane, b *book, limits plane.Size, now time.Duration, name string, s plane.Size) {
	t.Helper()
	asked := s
	if asked.CPUs == 0 {
		asked.CPUs = 1
	}
	if asked.MemoryMiB == 0 {
		asked.MemoryMiB = 512
	}
	if asked.DiskMiB == 0 {
		asked.DiskMiB = 1024
	}
	after := b.used(now)
	after.Sandboxes++
	after.CPUs += asked.CPUs
	after.MemoryMiB += asked.MemoryMiB
	after.DiskMiB += asked.DiskMiB
	after.GPUs += asked.GPUs
	id, wait, err := p.Create(t.Context(), plane.Sandbox{Name: name, Size: s})
	switch {
	case err == nil && (over(after, limits) || wait != time.Second):
		t.Fatalf("%+v was let in beside %+v of %+v, after %s", asked, b.used(now), limits, wait)
	case err == nil:
		b.sizes[id] = asked
	case !providers.Is(err, providers.KindExhausted) || !over(after, limits):
		t.Fatalf("%+v beside %+v of %+v: %v", asked, b.used(now), limits, err)
	}
}

// deleteOne asks for the removal of one, of some that are going already too.
func deleteOne(t *testing.T, p *plane.Plane, b *book, now time.Duration) {
	t.Helper()
	for id := range b.sizes {
		wait, err := p.Delete(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if _, going := b.leaving[id]; !going {
			b.leaving[id] = now + wait
		}
		return
	}
}

// Over any stretch of time a bucket lets no more through than its rate and one burst,
// and it lets that much through.
func TestBucketIsNeverOverItsRate(t *testing.T) {
	t.Parallel()
	const perSec, burst = 10.0, 5
	at, r := start(), rand.New(rand.NewPCG(1, 2))
	p := open(t, plane.Config{Rates: map[plane.Op]plane.Rate{plane.OpRead: {PerSec: perSec, Burst: burst}}}, at)
	var passed []time.Duration
	for range 20_000 {
		at.add(time.Duration(r.IntN(60)) * time.Millisecond)
		_, err := p.Check(t.Context())
		var e *providers.Error
		switch {
		case err == nil:
			passed = append(passed, at.since())
		case !errors.As(err, &e) || e.Kind != providers.KindRateLimited || e.RetryAfter != 0:
			t.Fatal(err)
		}
	}
	for i := range passed {
		for j := i; j < min(len(passed), i+200); j++ {
			if most := burst + perSec*(passed[j]-passed[i]).Seconds(); float64(j-i+1) > most+1e-6 {
				t.Fatalf("%d calls within %s", j-i+1, passed[j]-passed[i])
			}
		}
	}
	if least := perSec * at.since().Seconds(); float64(len(passed)) < least-burst {
		t.Errorf("%d calls passed, there was room for %.0f", len(passed), least)
	}
}

// One call too many in a minute shuts everybody out for a minute, and says so.
func TestMinuteShutsOutForAMinute(t *testing.T) {
	t.Parallel()
	at := start()
	p := open(t, plane.Config{TimeScale: 60, Rates: map[plane.Op]plane.Rate{plane.OpRead: {PerMin: 3}}}, at)
	check := func(want time.Duration) {
		t.Helper()
		_, err := p.Check(t.Context())
		var e *providers.Error
		if errors.As(err, &e); err != nil != (want > 0) || want > 0 && (e.Kind != providers.KindRateLimited || e.RetryAfter != want) {
			t.Errorf("at %s: %v, want a pause of %s", at.since(), err, want)
		}
	}
	for range 3 {
		check(0)
	}
	at.add(time.Second) // a minute there
	for range 3 {
		check(0)
	}
	at.add(500 * time.Millisecond)
	check(time.Second)
	at.add(750 * time.Millisecond)
	check(250 * time.Millisecond) // it is no longer shut for that
	at.add(250 * time.Millisecond)
	check(0)
	if c := counters(t, p); c.Throttled() != 2 || c.Seconds != 150 {
		t.Errorf("%+v", c)
	}
}

func TestWhatTheProviderRefuses(t *testing.T) {
	t.Parallel()
	at := start()
	p := open(t, plane.Config{Profile: "daytona-tier-1"}, at)
	for _, c := range []struct {
		name string
		size plane.Size
		kind providers.Kind
		says string
	}{
		{"a", plane.Size{DiskMiB: 10 << 10}, 0, ""},
		{"a", plane.Size{}, providers.KindAlreadyExists, "the name a is taken by sim-1"},
		{"b", plane.Size{CPUs: 8}, providers.KindInvalid, "cpus request 8 exceeds maximum allowed per sandbox (4)"},
		{"b", plane.Size{DiskMiB: 10 << 10}, 0, ""},
		{"c", plane.Size{DiskMiB: 10 << 10}, 0, ""},
		{"d", plane.Size{}, providers.KindExhausted, "total disk_mb limit exceeded, maximum allowed: 30720"},
	} {
		_, _, err := p.Create(t.Context(), plane.Sandbox{Name: c.name, Size: c.size})
		if (err == nil) != (c.says == "") || err != nil && (!providers.Is(err, c.kind) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s %+v: %v", c.name, c.size, err)
		}
	}
	got := counters(t, p)
	balanced(t, got)
	want := plane.Size{Sandboxes: 3, CPUs: 3, MemoryMiB: 3 << 10, DiskMiB: 30 << 10}
	if diff := cmp.Diff(want, got.InUse); diff != "" || got.Quota() != 1 {
		t.Errorf("%d refused for want of room, %s", got.Quota(), diff)
	}
	if got.CreatesPerSec.Allowed != 5 {
		t.Errorf("%+v", got.CreatesPerSec)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	at := start()
	p := open(t, plane.Config{Faults: []plane.Fault{
		{Effect: plane.Exhausted, Op: plane.OpCreate, Every: 3},
		{Effect: plane.Slow, Op: plane.OpCreate, DelaySec: 4},
		{Effect: plane.Down, FromSec: 60, ForSec: 30},
		{Effect: plane.Lose, Op: plane.OpExec, FromSec: 120, ForSec: 1},
	}}, at)
	create := func(name string) (providers.ID, error) {
		id, wait, err := p.Create(t.Context(), plane.Sandbox{Name: name})
		if err == nil && wait != 4*time.Second {
			t.Errorf("%s took %s", name, wait)
		}
		return id, err
	}
	id, err := create("a")
	if _, b := create("b"); err != nil || b != nil {
		t.Fatal(err, b)
	}
	if _, err := create("c"); !providers.Is(err, providers.KindExhausted) {
		t.Errorf("the third: %v", err)
	}
	at.add(time.Minute)
	for _, err := range []error{third(p.List(t.Context(), providers.Selector{})), second(p.Delete(t.Context(), id)), second(p.Exec(t.Context(), id))} {
		if !providers.Is(err, providers.KindUnavailable) {
			t.Errorf("while it is down: %v", err)
		}
	}
	at.add(30 * time.Second)
	if _, err := p.Exec(t.Context(), id); err != nil {
		t.Errorf("after that: %v", err)
	}
	at.add(30 * time.Second)
	for range 2 {
		if _, err := p.Exec(t.Context(), id); err == nil || !hasDied(err) {
			t.Errorf("a lost sandbox: %v", err)
		}
		at.add(time.Second)
	}
	if err := p.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, _, err := p.List(t.Context(), providers.Selector{}); err != nil || len(found) != 1 || found[0].Name != "b" {
		t.Errorf("%v, %v", found, err)
	}
	got := counters(t, p)
	balanced(t, got)
	if got.Lost != 1 || got.Calls[plane.OpCreate].Refused[plane.ReasonExhausted] != 1 || got.Calls[plane.OpDelete].Refused[plane.ReasonDown] != 1 {
		t.Errorf("%+v", got)
	}
	if err := p.Inject(t.Context(), plane.Fault{Effect: "odd"}); !providers.Is(err, providers.KindInvalid) {
		t.Errorf("an effect that is not known: %v", err)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }
func second[A any](_ A, err error) error        { return err }

func hasDied(err error) bool {
	_, dead := providers.DeathOf(err)
	return dead
}

// Chance is what its percentage says, and the same for one seed.
func TestChanceIsSeeded(t *testing.T) {
	t.Parallel()
	struck := func(seed uint64) (out []int) {
		p := open(t, plane.Config{Seed: seed, Faults: []plane.Fault{{Effect: plane.Down, Op: plane.OpRead, Percent: 20}}}, start())
		for i := range 1000 {
			if _, err := p.Check(t.Context()); err != nil {
				out = append(out, i)
			}
		}
		return out
	}
	one, same, other := struck(1), struck(1), struck(2)
	if !cmp.Equal(one, same) || cmp.Equal(one, other) || len(one) < 150 || len(one) > 250 {
		t.Errorf("%d, %d and %d of 1000 calls were struck", len(one), len(same), len(other))
	}
}

// What is asked for at once by many is not let in twice.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t, plane.Config{Limits: plane.Size{Sandboxes: 50}}, start())
	done := make(chan error)
	const many = 400
	for i := range many {
		go func() {
			id, _, err := p.Create(context.Background(), plane.Sandbox{Name: fmt.Sprint(i)})
			if err == nil && i%2 == 0 {
				_, err = p.Delete(context.Background(), id)
			}
			done <- err
		}()
	}
	for range many {
		if err := <-done; err != nil && !providers.Is(err, providers.KindExhausted) {
			t.Error(err)
		}
	}
	c := counters(t, p)
	balanced(t, c)
	if c.Peak.Sandboxes > 50 {
		t.Errorf("%d at once", c.Peak.Sandboxes)
	}
}
