package providertest_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"harborgate/providers"
)

// abandon returns when ctx ends and lets the command go on, if it is one of
// those that when names.
func abandon(when func(cmd providers.Command) bool, also ...string) mutant {
	return execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
		if !when(cmd) {
			return sb.Sandbox.Exec(ctx, cmd)
		}
		type result struct {
			s   providers.ExitStatus
			err error
		}
		done := make(chan result, 1)
		go func() {
			s, err := sb.Sandbox.Exec(context.WithoutCancel(ctx), cmd)
			done <- result{s, err}
		}()
		select {
		case r := <-done:
			return r.s, r.err
		case <-ctx.Done():
			return providers.ExitStatus{}, ctx.Err()
		}
	}, also...)
}

// afterCancel runs a script in the sandbox after a cancelled command.
func afterCancel(script string, also ...string) mutant {
	return execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
		s, err := sb.Sandbox.Exec(ctx, cmd)
		if ctx.Err() != nil {
			_, _ = sb.Sandbox.Exec(context.WithoutCancel(ctx), providers.Command{Args: []string{"/bin/sh", "-c", script}})
		}
		return s, err
	}, also...)
}

func contains(part string) func(providers.Command) bool {
	return func(cmd providers.Command) bool { return strings.Contains(script(cmd), part) }
}

func cancelMutants() map[string]mutant {
	return map[string]mutant{
		"cancel/prompt-with-output-so-far": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			if !strings.Contains(script(cmd), "too far") {
				return sb.Sandbox.Exec(ctx, cmd)
			}
			w := cmd.Stdout
			cmd.Stdout = writerFunc(func(b []byte) (int, error) {
				if strings.Contains(string(b), "so far") {
					_, err := io.WriteString(w, "ready\n")
					return len(b), err
				}
				return w.Write(b)
			})
			return sb.Sandbox.Exec(ctx, cmd)
		}),
		"cancel/deadline": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if errors.Is(err, context.DeadlineExceeded) {
				return providers.ExitStatus{Code: 124}, nil
			}
			return s, err
		}),
		"cancel/before-start": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			if ctx.Err() != nil {
				_, _ = sb.Sandbox.Exec(context.WithoutCancel(ctx), cmd)
			}
			return sb.Sandbox.Exec(ctx, cmd)
		}),
		"cancel/kills-children":          abandon(contains("sleep 900001) & wait")),
		"cancel/kills-double-forked":     abandon(contains("</dev/null &) &)")),
		"cancel/kills-other-sessions":    abandon(contains("(setsid sleep 900001 &)")),
		"cancel/kills-who-ignores-term":  abandon(contains("trap '' TERM HUP INT")),
		"cancel/kills-who-keeps-forking": abandon(contains("sleep 0.03; ( :")),
		"cancel/grace":                   command(func(cmd *providers.Command) { cmd.Grace = 0 }),
		"cancel/spares-services": afterCancel(`for p in /proc/[0-9]*; do
			case $(tr '\0' ' ' < $p/cmdline) in "/bin/sh /entrypoint"*|"sleep 0.05 ") kill -9 ${p#/proc/};; esac; done; sleep 0.1`),
		"cancel/spares-leftovers-of-others": afterCancel(`for p in /proc/[0-9]*; do
			case $(tr '\0' ' ' < $p/cmdline) in "sleep 900002 ") kill -9 ${p#/proc/};; esac; done; sleep 0.1`),

		"leftovers/do-not-hold": command(func(cmd *providers.Command) { cmd.Args[len(cmd.Args)-1] += "\nwait" },
			"leftovers/live-on", "leftovers/may-go-on-writing"),
		"leftovers/live-on": command(func(cmd *providers.Command) {
			cmd.KillLeftovers = cmd.KillLeftovers || strings.Contains(script(*cmd), "900001")
		}),
		"leftovers/may-go-on-writing": command(func(cmd *providers.Command) {
			cmd.KillLeftovers = cmd.KillLeftovers || strings.Contains(script(*cmd), "/tmp/go ")
		}),
		"leftovers/killed-and-counted": command(func(cmd *providers.Command) { cmd.KillLeftovers = false }),
		"leftovers/none-to-kill": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if cmd.KillLeftovers && s.Leftovers == 0 {
				s.Leftovers = 1
			}
			return s, err
		}),
	}
}
