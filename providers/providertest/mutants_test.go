package providertest_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"harborgate/providers"
)

// mutant breaks one requirement. make returns hooks with fresh state.
type mutant struct {
	make func() breaks
	also []string // other cases of the group that must fail with it
}

// mutants has a broken provider for each case that the fake can pass.
func mutants() map[string]mutant {
	out := map[string]mutant{}
	for _, table := range []map[string]mutant{
		execMutants(), streamMutants(), outputMutants(), environmentMutants(), userMutants(), cancelMutants(),
		uploadMutants(), destinationMutants(), hostileMutants(), downloadMutants(), exposeMutants(), closingMutants(), networkMutants(), lifeMutants(), destroyMutants(), listMutants(), otherMutants(), optionalMutants(),
	} {
		maps.Copy(out, table)
	}
	return out
}

type (
	execFunc   = func(context.Context, *brokenBox, providers.Command) (providers.ExitStatus, error)
	statusFunc = func(*providers.ExitStatus)
)

// execs is a mutant with one hook.
func execs(f execFunc, also ...string) mutant {
	return mutant{func() breaks { return breaks{exec: f} }, also}
}

// command changes commands before they run.
func command(change func(cmd *providers.Command), also ...string) mutant {
	return execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
		change(&cmd)
		return sb.Sandbox.Exec(ctx, cmd)
	}, also...)
}

// status changes the outcome of commands.
func status(change statusFunc, also ...string) mutant {
	return execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
		s, err := sb.Sandbox.Exec(ctx, cmd)
		change(&s)
		return s, err
	}, also...)
}

// script is what a command gives to its shell.
func script(cmd providers.Command) string { return cmd.Args[len(cmd.Args)-1] }

func execMutants() map[string]mutant {
	return map[string]mutant{
		"exec/exit-code": status(func(s *providers.ExitStatus) {
			if s.Code == 3 || s.Code == 255 {
				s.Code = 1
			}
		}),
		"exec/not-found-is-127": status(func(s *providers.ExitStatus) {
			if s.Code == 127 {
				s.Code = 1
			}
		}),
		"exec/not-executable-is-126": status(func(s *providers.ExitStatus) {
			if s.Code == 126 {
				s.Code = 127
			}
		}),
		"exec/killed-by-signal": status(func(s *providers.ExitStatus) { s.Signal = 0 }),
		"exec/arguments-verbatim": command(func(cmd *providers.Command) {
			if len(cmd.Args) > 0 && cmd.Args[0] == "printf" {
				cmd.Args = []string{"/bin/sh", "-c", strings.Join(cmd.Args, " ")}
			}
		}),
		"exec/looked-up-in-its-path": command(func(cmd *providers.Command) { cmd.Env = nil }),
		"exec/no-arguments": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			if len(cmd.Args) == 0 {
				return providers.ExitStatus{}, nil
			}
			return sb.Sandbox.Exec(ctx, cmd)
		}),
	}
}

func streamMutants() map[string]mutant {
	return map[string]mutant{
		"exec/stdin-and-its-end": command(func(cmd *providers.Command) {
			if cmd.Stdin != nil {
				cmd.Stdin = io.LimitReader(cmd.Stdin, 1000)
			}
		}),
		"exec/nil-stdin-is-empty": command(func(cmd *providers.Command) {
			if cmd.Stdin == nil && cmd.TTY == nil {
				cmd.Stdin = strings.NewReader("the terminal of whoever runs the tests")
			}
		}),
		"exec/blocked-stdin-does-not-hold": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if cmd.Stdin != nil {
				_, _ = io.Copy(io.Discard, cmd.Stdin)
			}
			return s, err
		}),
		"exec/side-by-side": {func() breaks {
			turn := make(chan struct{}, 1)
			return breaks{exec: func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
				turn <- struct{}{}
				defer func() { <-turn }()
				return sb.Sandbox.Exec(ctx, cmd)
			}}
		}, nil},
		"exec/broken-pipe-kills": command(func(cmd *providers.Command) {
			if len(cmd.Args) > 1 && strings.Contains(script(*cmd), "yes") {
				cmd.Args = []string{"/bin/sh", "-c", "trap '' PIPE; " + script(*cmd)}
			}
		}),
		"exec/terminal": command(func(cmd *providers.Command) { cmd.TTY = nil }),
	}
}

// writerFunc is a function as a writer.
type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// output changes what arrives at a command's writers.
func output(change func(w io.Writer) io.Writer, also ...string) mutant {
	return command(func(cmd *providers.Command) {
		for _, w := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
			if *w != nil {
				*w = change(*w)
			}
		}
	}, also...)
}

func outputMutants() map[string]mutant {
	return map[string]mutant{
		"output/streams-apart": command(func(cmd *providers.Command) { cmd.Stderr = cmd.Stdout },
			"output/every-byte", "output/more-than-a-pipe-holds"),
		"output/more-than-a-pipe-holds": output(func(w io.Writer) io.Writer {
			left := 1 << 16
			return writerFunc(func(b []byte) (int, error) {
				n := min(left, len(b))
				left -= n
				_, err := w.Write(b[:n])
				return len(b), err
			})
		}, "output/slow-reader-loses-nothing", "output/stalled-reader-stalls-the-command"),
		"output/every-byte": output(func(w io.Writer) io.Writer {
			return writerFunc(func(b []byte) (int, error) {
				_, err := io.WriteString(w, strings.ToValidUTF8(string(b), "\ufffd"))
				return len(b), err
			})
		}),
		"output/last-line-without-end": execs(addNewline, "output/every-byte", "output/more-than-a-pipe-holds", "output/stalled-reader-stalls-the-command"),
		"output/order-of-one-writer": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			var later strings.Builder
			stderr := cmd.Stderr
			cmd.Stderr = &later
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if stderr != nil {
				_, _ = io.WriteString(stderr, later.String())
			}
			return s, err
		}),
		"output/one-write-at-a-time":               execs(writeAtOnce),
		"output/slow-reader-loses-nothing":         output(everyThird, "output/stalled-reader-stalls-the-command", "output/more-than-a-pipe-holds", "output/order-of-one-writer"),
		"output/memory-stays-flat":                 execs(hoard),
		"output/stalled-reader-stalls-the-command": execs(hoard),
		"output/nobody-reads": command(func(cmd *providers.Command) {
			if cmd.Stdout == nil {
				cmd.Stdout = writerFunc(func([]byte) (int, error) { return 0, errors.New("nobody reads") })
			}
		}),
	}
}

// addNewline ends the output with a newline.
func addNewline(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
	w := cmd.Stdout
	if w == nil {
		return sb.Sandbox.Exec(ctx, cmd)
	}
	last := byte('\n')
	cmd.Stdout = writerFunc(func(b []byte) (int, error) {
		last = b[len(b)-1]
		return w.Write(b)
	})
	s, err := sb.Sandbox.Exec(ctx, cmd)
	if last != '\n' {
		_, _ = io.WriteString(w, "\n")
	}
	return s, err
}

// writeAtOnce writes to both writers from two goroutines.
func writeAtOnce(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
	s, err := sb.Sandbox.Exec(ctx, cmd)
	if !strings.Contains(script(cmd), "-lt 300") {
		return s, err
	}
	var both sync.WaitGroup
	for _, w := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		both.Go(func() {
			for range 20_000 {
				_, _ = w.Write([]byte("x"))
				runtime.Gosched()
			}
		})
	}
	both.Wait()
	return s, err
}

// everyThird loses every third write.
func everyThird(w io.Writer) io.Writer {
	n := 0
	return writerFunc(func(b []byte) (int, error) {
		if n++; n%3 == 0 {
			return len(b), nil
		}
		return w.Write(b)
	})
}

// hoard keeps all output until the command has ended.
func hoard(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
	if cmd.Stdout == nil || cmd.Stdout == cmd.Stderr {
		return sb.Sandbox.Exec(ctx, cmd)
	}
	var all [][]byte
	w := cmd.Stdout
	cmd.Stdout = writerFunc(func(b []byte) (int, error) {
		all = append(all, append([]byte(nil), b...))
		return len(b), nil
	})
	s, err := sb.Sandbox.Exec(ctx, cmd)
	for _, b := range all {
		_, _ = w.Write(b)
	}
	runtime.KeepAlive(all)
	return s, err
}

// created changes specs before sandboxes are made of them.
func created(change func(s *providers.Spec), also ...string) mutant {
	return mutant{func() breaks {
		return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
			change(&s)
			return p.Create(ctx, s)
		}}
	}, also}
}

func environmentMutants() map[string]mutant {
	return map[string]mutant{
		"env/every-value-verbatim": command(func(cmd *providers.Command) {
			cmd.Env = maps.Clone(cmd.Env)
			for k, v := range cmd.Env {
				if strings.HasPrefix(k, "T_") {
					cmd.Env[k] = strconv.Quote(v)
				}
			}
		}),
		"env/of-the-sandbox": created(func(s *providers.Spec) { s.Env = nil }),
		"env/secrets-stay-in-their-command": {func() breaks {
			known := map[string]string{}
			return breaks{exec: func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
				maps.Copy(known, cmd.SecretEnv)
				cmd.SecretEnv = known
				return sb.Sandbox.Exec(ctx, cmd)
			}}
		}, nil},
		"env/value-over-the-limit": command(func(cmd *providers.Command) {
			cmd.Env = maps.Clone(cmd.Env)
			delete(cmd.Env, "BIG")
		}),
		"env/argument-over-the-limit": command(func(cmd *providers.Command) {
			last := len(cmd.Args) - 1
			cmd.Args[last] = cmd.Args[last][:min(len(cmd.Args[last]), 4096)]
		}),
		"dir/default":  created(func(s *providers.Spec) { s.Workdir = "" }),
		"dir/explicit": command(func(cmd *providers.Command) { cmd.Dir = strings.TrimSuffix(cmd.Dir, "/my dir") }),
		"dir/missing": command(func(cmd *providers.Command) {
			if cmd.Dir == "/no/such/dir" {
				cmd.Dir = "/"
			}
		}),
	}
}

func userMutants() map[string]mutant {
	return map[string]mutant{
		"user/by-name": command(func(cmd *providers.Command) {
			if cmd.User == "daemon" && cmd.Env == nil && strings.Contains(script(*cmd), "id") {
				cmd.User = ""
			}
		}),
		"user/by-number": command(func(cmd *providers.Command) {
			if cmd.User == "12345" {
				cmd.User = "root"
			}
		}),
		"user/with-group": command(func(cmd *providers.Command) {
			if !strings.HasSuffix(cmd.User, "nosuchgroup") {
				cmd.User, _, _ = strings.Cut(cmd.User, ":")
			}
		}),
		"user/unknown": command(func(cmd *providers.Command) {
			if strings.Contains(cmd.User, "nosuch") {
				cmd.User = ""
			}
		}),
		"user/default": created(func(s *providers.Spec) { s.User = "" }),
		"user/home": command(func(cmd *providers.Command) {
			if cmd.Env == nil {
				cmd.Env = map[string]string{"HOME": "/"}
			}
		}),
		"user/kept-out": command(func(cmd *providers.Command) {
			if cmd.Args[0] == "cat" {
				cmd.User = ""
			}
		}),
	}
}

// canned answers a real-process case as a good and as a bad sandbox would.
func canned() map[string]struct{ right, wrong breaks } {
	answer := func(stdout string) breaks {
		return breaks{exec: func(_ context.Context, _ *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			_, err := io.WriteString(cmd.Stdout, stdout)
			return providers.ExitStatus{}, err
		}}
	}
	return map[string]struct{ right, wrong breaks }{
		"exec/three-descriptors":            {answer("4\n"), answer("7\n")},
		"exec/default-signals":              {answer("SigBlk:\nSigIgn:\n"), answer("SigBlk:\nSigIgn:1\n")},
		"exec/not-spared-by-the-oom-killer": {answer("like others\n"), answer("")},
		"cancel/kills-stopped":              {breaks{}, abandon(contains("kill -STOP")).make()},
	}
}

// patience is longer than any case waits for one thing.
const patience = 5 * time.Minute
