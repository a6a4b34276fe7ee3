package runner

import (
	"context"
	"errors"
	"testing"

	"harborgate/trials"
)

func TestACancelledTrialSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause error
		want  string
	}{
		{context.Canceled, "the trial was cancelled"},
		{errors.New("interrupt"), "the trial was cancelled: interrupt"},
	} {
		f := ended(c.cause, trials.PhaseAgentExecution, 0)
		if f.Exception != trials.ExcCancelled || f.Message != c.want {
			t.Errorf("%v: %q", c.cause, f.Message)
		}
	}
}
