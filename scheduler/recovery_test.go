package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A site of which nobody knows that it works takes nothing before it was seen to.
func TestSiteThatIsDownAtTheStartIsWaitedForElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[0].outage = 90 * time.Second
		f.try = func(Assignment) (time.Duration, Outcome) { return time.Minute, Outcome{} }
		o := f.options(1)
		o.Sites[0].Down = true
		if _, err := Run(t.Context(), o, several(3, everywhere(2, Resources{}))); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0/1 at 1", "1/1 at 1", "2/1 at 0"}; !slices.Equal(f.ran, want) {
			t.Errorf("%v, want %v", f.ran, want)
		}
	})
}

// What a site has that was away at the start is known when it is back, and holds from
// then on; what was kept for it and is too large for it goes to where it fits.
func TestSiteThatWasDownAtTheStartIsNotOverfilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[1].outage, f.worlds[1].has = 30*time.Second, Resources{CPUs: 8}
		running, most := 0, 0
		f.try = func(a Assignment) (time.Duration, Outcome) {
			if a.Site == 1 {
				f.mu.Lock()
				defer f.mu.Unlock()
				running++
				most = max(most, running)
				time.AfterFunc(time.Minute, func() {
					f.mu.Lock()
					defer f.mu.Unlock()
					running--
				})
			}
			return time.Minute + time.Millisecond, Outcome{}
		}
		o := f.options(10)
		o.Sites[0].Budget, o.Sites[1].Down = Resources{CPUs: 4}, true
		trials := append(several(3, everywhere(2, Resources{CPUs: 8})), several(1, everywhere(2, Resources{CPUs: 16}))...)
		if left, err := Run(t.Context(), o, trials); left != 0 || err != nil {
			t.Fatal(left, err)
		}
		if most != 1 || !slices.Contains(f.ran, "3/1 at 0") {
			t.Errorf("%d trials of 8 CPUs at once where there are 8: %v", most, f.ran)
		}
	})
}

// What waits for a larger site runs, alone, where it can when that is given up.
func TestTrialIsNotTooLargeForTheLastSiteThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[1].outage, f.worlds[1].gone = time.Minute, errGone
		o := f.options(4)
		o.Sites[0].Budget, o.Sites[1].Down = Resources{CPUs: 2}, true
		left, err := Run(t.Context(), o, several(1, everywhere(2, Resources{CPUs: 8}, "k")))
		if left != 0 || err != nil || !slices.Equal(f.ran, []string{"0/1 at 0"}) {
			t.Errorf("%d did not start, %v, %v", left, err, f.ran)
		}
	})
}

// Nobody waits for a site when all trials are done.
func TestJobDoesNotWaitForASiteThatItDoesNotNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[0].outage = time.Hour
		o := f.options(2)
		o.Sites[0].Down = true
		begun := time.Now()
		if _, err := Run(t.Context(), o, several(2, everywhere(2, Resources{}))); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v, %s", err, time.Since(begun))
		}
	})
}

var errGone = errors.New("no answer for 5m0s")

// Without a site that is given up the job goes on; what can run nowhere else has no
// result, and the job's error says why.
func TestGivenUpSiteCostsOnlyWhatNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[0].outage, f.worlds[0].gone = time.Minute, errGone
		only := everywhere(2, Resources{})
		only.Places[1].Bar = "it cannot"
		o := f.options(4)
		o.Sites[0].Down = true
		trials := append(several(2, everywhere(2, Resources{})), Trial{Name: "only", Demand: only})
		n, err := Run(t.Context(), o, trials)
		if n != 1 || !errors.Is(err, errGone) || !strings.Contains(err.Error(), "provider a") || len(f.ran) != 2 {
			t.Errorf("%d did not start, %v, %v", n, err, f.ran)
		}
	})
}

func TestLastSiteGivenUpEndsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.worlds[0].outage, f.worlds[0].gone = time.Minute, errGone
		f.try = func(a Assignment) (time.Duration, Outcome) {
			if a.Trial == 0 {
				return time.Second, Outcome{Doubt: true}
			}
			return time.Hour, Outcome{}
		}
		begun := time.Now()
		n, err := Run(t.Context(), f.options(2), several(3, everywhere(1, Resources{})))
		if d := time.Since(begun); n != 1 || !errors.Is(err, errGone) || d != 61*time.Second {
			t.Errorf("%d did not start, %v, after %s", n, err, d)
		}
	})
}
