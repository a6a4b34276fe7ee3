package inside_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/inside"
)

// killed runs a script until it has written "ready", cancels it, and returns its
// output and how long the cancellation took.
func killed(t *testing.T, s *inside.Session, script string, grace time.Duration) (string, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	var at time.Time
	_, err := s.Exec(ctx, providers.Command{
		Args: []string{"sh", "-c", script}, Grace: grace,
		Stdout: writeFunc(func(p []byte) {
			out.Write(p)
			if at.IsZero() && strings.Contains(out.String(), "ready") {
				at = time.Now()
				cancel()
			}
		}),
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	return out.String(), time.Since(at)
}

type writeFunc func([]byte)

func (f writeFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// marked returns the processes of this machine whose environment has mark.
func marked(t testing.TB, mark string) []string {
	t.Helper()
	var out []string
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, []byte(mark)) {
			out = append(out, f)
		}
	}
	return out
}

func TestB016CancelKillsTheWholeTree(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	for name, script := range map[string]string{
		"child":         "sleep 1000 & echo ready; wait",
		"busy":          "(while :; do :; done) & echo ready; while :; do :; done",
		"setsid":        "setsid sh -c 'sleep 1000' & setsid -f sleep 1000; echo ready; sleep 1000",
		"double fork":   "(sh -c 'sleep 1000 & sleep 1000 &' &); (setsid sh -c '(sleep 1000 &)' &); echo ready; sleep 1000",
		"deaf to TERM":  "trap '' TERM HUP INT; (trap '' TERM; sleep 1000; sleep 1000) & echo ready; while :; do sleep 1000; done",
		"respawning":    "f() { while :; do sleep 0.001; done; }; for i in 1 2 3 4 5 6 7 8; do f & done; echo ready; wait",
		"closed output": "sleep 1000 >/dev/null 2>&1 & echo ready; exec >/dev/null 2>&1; sleep 1000",
		"stopped":       "sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := "HG_MARK=" + rand()
			for _, grace := range []time.Duration{0, 50 * time.Millisecond} {
				out, took := killed(t, s, "export "+mark+"; "+script, grace)
				if left := marked(t, mark); len(left) > 0 {
					t.Errorf("grace %s: %v live on", grace, left)
				}
				if !strings.Contains(out, "ready") || took > 20*time.Second {
					t.Errorf("grace %s: output %q, took %s", grace, out, took)
				}
			}
		})
	}
}

func TestB024OutputUntilTheKillArrives(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	out, _ := killed(t, s, "trap 'echo cleaned up; exit 3' TERM; echo A; echo ready; while :; do sleep 0.01; done", 10*time.Second)
	if out != "A\nready\ncleaned up\n" {
		t.Errorf("got %q", out)
	}
}

func TestGraceEndsWithTheCommand(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	if _, took := killed(t, s, "echo ready; sleep 1000", time.Minute); took > 10*time.Second {
		t.Errorf("took %s although the command obeyed", took)
	}
}

func TestB013OthersSurviveAKill(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	service, leftover := "HG_MARK="+rand(), "HG_MARK="+rand()
	started := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Exec(ctx, providers.Command{
			Args: []string{"sh", "-c", "export " + service + "; echo; exec sleep 1000"}, Stdout: onWrite(func() { close(started) }),
		})
	}()
	<-started
	run(t, s, sh("export "+leftover+"; setsid sleep 1000 >/dev/null 2>&1 &"))
	killed(t, s, "sleep 1000 & echo ready; sleep 1000", 0)
	if len(marked(t, service)) != 1 || len(marked(t, leftover)) != 1 {
		t.Errorf("service %v, leftover %v", marked(t, service), marked(t, leftover))
	}
	stop()
	<-ended
}

func TestKillLeftovers(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	got := run(t, s, providers.Command{
		Args:          []string{"sh", "-c", "export " + mark + "; sleep 1000 & setsid -f sleep 1000; echo ok; exit 4"},
		KillLeftovers: true,
	})
	if got.Code != 4 || got.out != "ok\n" || got.Leftovers != 2 {
		t.Errorf("got %+v", got)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v live on", left)
	}
	if got := run(t, s, providers.Command{Args: []string{"true"}, KillLeftovers: true}); got.Leftovers != 0 {
		t.Errorf("without leftovers: %+v", got)
	}
}

func TestCancelAfterTheEndKillsNothing(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	ctx, cancel := context.WithCancel(t.Context())
	st, err := s.Exec(ctx, sh("export "+mark+"; setsid sleep 1000 >/dev/null 2>&1 &"))
	cancel()
	if err != nil || !st.OK() {
		t.Errorf("%v, %v", st, err)
	}
	// The mark shows once the child runs its own program.
	eventually(t, "the child lives on", func() bool { return len(marked(t, mark)) == 1 })
}
