package providertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"harborgate/providers"
)

func cancelCases() []Case {
	return []Case{
		{"cancel/prompt-with-output-so-far", nil, inSandbox(cancelPrompt)},
		{"cancel/deadline", nil, inSandbox(cancelDeadline)},
		{"cancel/before-start", nil, inSandbox(cancelBefore)},
		{"cancel/kills-children", nil, inSandbox(cancelChildren)},
		{"cancel/kills-double-forked", nil, inSandbox(cancelDoubleForked)},
		{"cancel/kills-other-sessions", nil, inSandbox(cancelSetsid)},
		{"cancel/kills-who-ignores-term", nil, inSandbox(cancelIgnoresTerm)},
		{"cancel/kills-who-keeps-forking", nil, inSandbox(cancelForking)},
		{"cancel/kills-stopped", []Need{NeedRealProcesses}, inSandbox(cancelStopped)},
		{"cancel/grace", nil, inSandbox(cancelGrace)},
		{"cancel/spares-services", []Need{NeedService}, cancelSparesServices},
		{"cancel/spares-leftovers-of-others", nil, inSandbox(cancelSparesLeftovers)},
	}
}

func leftoverCases() []Case {
	return []Case{
		{"leftovers/do-not-hold", nil, inSandbox(leftoversDoNotHold)},
		{"leftovers/live-on", nil, inSandbox(leftoversLive)},
		{"leftovers/may-go-on-writing", nil, inSandbox(leftoversWrite)},
		{"leftovers/killed-and-counted", nil, inSandbox(leftoversKilled)},
		{"leftovers/none-to-kill", nil, inSandbox(leftoversNone)},
	}
}

// mark returns a command that sleeps for ever and that countMarks finds.
func mark(n int) string { return fmt.Sprintf("sleep %d", 900_000+n) }

// countMarks prints how many such commands run.
func countMarks(n int) string {
	return fmt.Sprintf(`n=0; for p in /proc/[0-9]*; do
c=$(tr '\0' ' ' < $p/cmdline) 2>/dev/null; [ "$c" = "%s " ] && n=$((n+1)); done; echo $n`, mark(n))
}

// awaitMarks waits in the sandbox until as many run, and prints "ready".
func awaitMarks(n, want int) string {
	return fmt.Sprintf(`while [ "$(%s)" != %d ]; do sleep 0.1; done; echo ready`, countMarks(n), want)
}

func (e *Env) wantMarks(ctx context.Context, sb providers.Sandbox, n, want int) {
	got := strings.TrimSpace(e.Must(ctx, sb, countMarks(n)))
	if got != fmt.Sprint(want) {
		e.Errorf("%s processes of the command are alive, want %d", got, want)
	}
}

func cancelPrompt(ctx context.Context, e *Env, sb providers.Sandbox) {
	r := e.start(ctx, sb, providers.Command{}, "echo so far; echo ready; sleep 1000; echo too far")
	out := r.cancel()
	if !errors.Is(out.Err, context.Canceled) {
		e.Errorf("want the context's error, got %v", out)
	}
	if out.Stdout != "so far\nready\n" {
		e.Errorf("want the output so far, got %v", out)
	}
}

func cancelDeadline(ctx context.Context, e *Env, sb providers.Sandbox) {
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	e.Within("a command over its deadline", func() {
		if out := e.Sh(short, sb, "sleep 1000"); !errors.Is(out.Err, context.DeadlineExceeded) {
			e.Errorf("want the context's error, got %v", out)
		}
	})
}

func cancelBefore(ctx context.Context, e *Env, sb providers.Sandbox) {
	over, cancel := context.WithCancel(ctx)
	cancel()
	if out := e.Sh(over, sb, "touch /tmp/ran"); !errors.Is(out.Err, context.Canceled) {
		e.Errorf("want the context's error, got %v", out)
	}
	e.Want(ctx, sb, "[ -e /tmp/ran ] || echo no", "no\n")
}

// cancelTree starts something, cancels it, and checks that none of n marked
// processes is left when Exec returns.
func (e *Env) cancelTree(ctx context.Context, sb providers.Sandbox, script string, n int) {
	r := e.start(ctx, sb, providers.Command{}, script+"\n"+awaitMarks(1, n)+"; wait; sleep 1000")
	if out := r.cancel(); !errors.Is(out.Err, context.Canceled) {
		e.Errorf("want the context's error, got %v", out)
	}
	e.wantMarks(ctx, sb, 1, 0)
}

func cancelChildren(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.cancelTree(ctx, sb, mark(1)+" & ( ("+mark(1)+") & wait) &", 2)
}

func cancelDoubleForked(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.cancelTree(ctx, sb, "( ("+mark(1)+" >/dev/null 2>&1 </dev/null &) &)", 1)
}

func cancelSetsid(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.cancelTree(ctx, sb, "setsid "+mark(1)+" >/dev/null 2>&1 & (setsid "+mark(1)+" &)", 2)
}

func cancelIgnoresTerm(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.cancelTree(ctx, sb, `trap '' TERM HUP INT; `+mark(1)+" & (trap '' TERM; setsid "+mark(1)+") &", 2)
}

func cancelForking(ctx context.Context, e *Env, sb providers.Sandbox) {
	// Each of the four replaces its child for ever, so there is always one.
	const count = `n=0; for p in /proc/[0-9]*; do
c=$(tr '\0' ' ' < $p/cmdline) 2>/dev/null; [ "$c" = "sleep 0.03 " ] && n=$((n+1)); done; echo $n`
	const fork = "(trap '' TERM; while :; do sleep 0.03; ( : & ); done) & "
	r := e.start(ctx, sb, providers.Command{}, strings.Repeat(fork, 4)+"while [ \"$("+count+")\" = 0 ]; do sleep 0.1; done; echo ready; wait")
	r.cancel()
	for range 3 {
		e.Want(ctx, sb, count, "0\n")
	}
}

func cancelStopped(ctx context.Context, e *Env, sb providers.Sandbox) {
	// Not before it is what it is: a shell that is stopped between fork and exec
	// has no mark.
	e.cancelTree(ctx, sb, mark(1)+" & p=$!; "+awaitMarks(1, 1)+" >/dev/null; kill -STOP $p", 1)
}

func cancelGrace(ctx context.Context, e *Env, sb providers.Sandbox) {
	r := e.start(ctx, sb, providers.Command{Grace: e.Prompt() / 2},
		"trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
	out := r.cancel()
	// Shells may say that their child was terminated, too.
	if !errors.Is(out.Err, context.Canceled) || !strings.HasSuffix(out.Stdout, "tidy\n") {
		e.Errorf("want the handler of SIGTERM to run and the context's error, got %v", out)
	}
}

func cancelSparesServices(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.Source = e.Harness.Sources.Service })
	const ping = "rm -f /tmp/pong; touch /tmp/ping; i=0; while ! [ -e /tmp/pong ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.05; done; echo pong"
	e.Want(ctx, sb, ping, "pong\n")
	e.start(ctx, sb, providers.Command{}, "echo ready; sleep 1000").cancel()
	e.Want(ctx, sb, ping, "pong\n")
}

func cancelSparesLeftovers(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, mark(2)+" >/dev/null 2>&1 & setsid "+mark(2)+" >/dev/null 2>&1 & "+awaitMarks(2, 2))
	e.start(ctx, sb, providers.Command{}, "echo ready; sleep 1000").cancel()
	e.wantMarks(ctx, sb, 2, 2)
}

func leftoversDoNotHold(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Within("a command that leaves a child with its output", func() {
		e.Want(ctx, sb, "sleep 1000 & echo started", "started\n")
	})
}

func leftoversLive(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, mark(1)+" & (setsid "+mark(1)+" &) ; "+awaitMarks(1, 2))
	e.wantMarks(ctx, sb, 1, 2)
}

func leftoversWrite(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "(while ! [ -e /tmp/go ]; do sleep 0.02; done; echo late; echo late >&2; touch /tmp/went) & echo started")
	e.Want(ctx, sb, "touch /tmp/go; i=0; while ! [ -e /tmp/went ]; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.05; done; echo lives", "lives\n")
}

func leftoversKilled(ctx context.Context, e *Env, sb providers.Sandbox) {
	script := mark(1) + " & setsid " + mark(1) + " & " + awaitMarks(1, 2)
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script + "; exit 5"}, KillLeftovers: true})
	if out.Err != nil || out.Status.Code != 5 || out.Status.Leftovers != 2 {
		e.Errorf("want code 5 and 2 leftovers, got %d, %v", out.Status.Leftovers, out)
	}
	e.wantMarks(ctx, sb, 1, 0)
}

func leftoversNone(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", "sleep 0; echo done"}, KillLeftovers: true})
	if out.Err != nil || out.Status.Leftovers != 0 || out.Stdout != "done\n" {
		e.Errorf("want no leftovers, got %d, %v", out.Status.Leftovers, out)
	}
}
