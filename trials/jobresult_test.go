package trials

import (
	"testing"
	"time"
)

// B121: of a job that was taken up again, the pauses are no work.
func TestB121Worked(t *testing.T) {
	t.Parallel()
	at := func(minute int) *LocalTime { return LocalAt(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)) }
	for name, c := range map[string]struct {
		r    JobResult
		want time.Duration
	}{
		"sessions":         {JobResult{StartedAt: at(0), FinishedAt: at(59), Harborgate: &JobExtra{Sessions: []Session{{at(0), at(2)}, {at(50), at(59)}}}}, 11 * time.Minute},
		"of Harbor":        {JobResult{StartedAt: at(0), FinishedAt: at(5), UpdatedAt: at(7)}, 5 * time.Minute},
		"still running":    {JobResult{StartedAt: at(0), UpdatedAt: at(7)}, 7 * time.Minute},
		"killed at once":   {JobResult{Harborgate: &JobExtra{Sessions: []Session{{at(0), nil}}}}, 0},
		"clock went back":  {JobResult{StartedAt: at(9), FinishedAt: at(5)}, 0},
		"nothing is known": {JobResult{}, 0},
	} {
		if got := c.r.Worked(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
