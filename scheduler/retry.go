package scheduler

import (
	"math"
	"time"

	"harborgate/trials"
)

// jitter is how far a pause may be from its nominal length, so that trials that
// failed together do not come back together.
const jitter = 0.2

// Retry decides whether a trial whose try number n failed with an exception is
// tried again, and after which pause. random is in [0, 1).
func Retry(c trials.RetryConfig, overrides map[string]trials.ErrorPolicyOverride, exception string, n int, random float64) Outcome {
	if exception == "" || n > c.MaxRetries || !c.Retryable(exception, overrides) {
		return Outcome{}
	}
	sec := math.Min(float64(c.MinWaitSec)*math.Pow(float64(c.WaitMultiplier), float64(n-1)), float64(c.MaxWaitSec))
	sec *= 1 - jitter + 2*jitter*random
	return Outcome{Retry: true, Pause: time.Duration(sec * float64(time.Second))}
}
