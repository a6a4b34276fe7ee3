package providers

import (
	"context"
	"time"
)

// Cleanup returns a context for putting things away on behalf of ctx, whether or
// not that has ended: it has ctx's values and lives for limit, but only for hurry
// once ctx has ended, because somebody waits then.
func Cleanup(ctx context.Context, limit, hurry time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(hurry)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}
