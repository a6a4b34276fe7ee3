package inside_test

import (
	"strings"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/inside"
)

// A supervisor becomes a smaller process once its command runs for a second. The
// scripts here say "ready" after that.
const long = "sleep 1.7; "

func TestLongCommandsAreKilledWithTheirTree(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	script := "export " + mark + "; (setsid sh -c '(sleep 1000 &)' &); " + long + "(trap '' TERM; sleep 1000) & echo ready; wait"
	for _, grace := range []time.Duration{0, 50 * time.Millisecond} {
		out, _ := killed(t, s, script, grace)
		if left := marked(t, mark); len(left) > 0 || !strings.Contains(out, "ready") {
			t.Errorf("grace %s: output %q, %v live on", grace, out, left)
		}
	}
}

func TestLongCommandsReportTheirEnd(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	for name, c := range map[string]struct {
		cmd  providers.Command
		want providers.ExitStatus
	}{
		"code":            {sh(long + "exit 7"), providers.ExitStatus{Code: 7}},
		"signal":          {sh(long + "kill -9 $$"), providers.ExitStatus{Code: 137, Signal: 9}},
		"leftovers":       {killing(sh("(setsid sleep 1000 &); " + long)), providers.ExitStatus{Leftovers: 1}},
		"the very moment": {sh("sleep 1"), providers.ExitStatus{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, s, c.cmd); got.ExitStatus != c.want {
				t.Errorf("got %+v, want %+v", got.ExitStatus, c.want)
			}
		})
	}
}

func killing(c providers.Command) providers.Command {
	c.KillLeftovers = true
	return c
}
