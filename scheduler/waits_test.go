package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// curious are shares that want to know who waits for them.
type curious struct {
	*world
	told []int
}

func (c *curious) Waiting(trials int) { c.told = append(c.told, trials) }

func TestSharesAreToldHowManyTrialsWaitForRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		slots  int
		budget Resources
		pool   int
		refuse int
		trials int
		takes  time.Duration
		want   []int
	}{
		{"what a site has holds them back", 7, Resources{CPUs: 4}, 7, 0, 10, 10500 * time.Millisecond, []int{3, 2, 1, 0}},
		{"a lease is refused", 3, Resources{}, 3, 1, 5, time.Second, []int{3, 0}},
		{"who waits for a slot of the job does not", 2, Resources{}, 2, 0, 10, time.Second, nil},
		{"nor who waits for a pool", 8, Resources{}, 2, 0, 10, time.Second, nil},
		{"a pool bounds who waits for room", 8, Resources{CPUs: 1}, 3, 0, 4, 2500 * time.Millisecond, []int{2, 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				w.refuse = c.refuse
				w.try = func(Assignment) (time.Duration, Outcome) { return c.takes, Outcome{} }
				to := &curious{world: w}
				o := w.options(c.slots)
				o.Sites[0].Shares, o.Sites[0].Budget, o.Pools = to, c.budget, map[string]int{"": c.pool}
				if left, err := Run(t.Context(), o, several(c.trials, everywhere(1, Resources{CPUs: 1}))); left != 0 || err != nil {
					t.Fatal(left, err)
				}
				if !slices.Equal(to.told, c.want) {
					t.Errorf("told %v, want %v", to.told, c.want)
				}
			})
		})
	}
}

// Each word is a write to a file that all processes share.
func TestSharesAreToldOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.try = func(Assignment) (time.Duration, Outcome) { return 10 * time.Millisecond, Outcome{} }
		to := &curious{world: w}
		o := w.options(10_000)
		o.Sites[0].Shares, o.Sites[0].Budget = to, Resources{CPUs: 2}
		begun := time.Now()
		if _, err := Run(t.Context(), o, several(1000, everywhere(1, Resources{CPUs: 1}))); err != nil {
			t.Fatal(err)
		}
		if most := int(time.Since(begun)/countEvery) + 2; len(to.told) > most || to.told[0] < 990 || to.told[len(to.told)-1] != 0 {
			t.Errorf("told %v in %s, want %d words at most", to.told, time.Since(begun), most)
		}
	})
}

func TestShortIsOfTheSiteThatIsFull(t *testing.T) {
	t.Parallel()
	sites := []Site{{Budget: Resources{CPUs: 1}}, {Budget: Resources{CPUs: 1}}}
	s := newState(Options{MaxTrials: 10, Sites: sites}, several(5, everywhere(2, Resources{CPUs: 1}, "k")), start0)
	if n := s.short(0, 10); n != 0 {
		t.Errorf("%d wait for room without their image", n)
	}
	for k := range sites {
		s.buildStarted(k, "k")
		s.buildEnded(k, "k", start0)
		s.tryStarted(k, k)
	}
	s.doubt(1, "")
	if a, b := s.short(0, 10), s.short(1, 10); a != 3 || b != 0 {
		t.Errorf("%d wait for the one that is full, %d for the one that is down", a, b)
	}
}
