package providertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"sync"

	"harborgate/providers"
)

func execCases() []Case {
	return []Case{
		{"exec/exit-code", nil, inSandbox(execExitCode)},
		{"exec/not-found-is-127", nil, inSandbox(execNotFound)},
		{"exec/not-executable-is-126", nil, inSandbox(execNotExecutable)},
		{"exec/killed-by-signal", nil, inSandbox(execSignal)},
		{"exec/arguments-verbatim", nil, inSandbox(execVerbatim)},
		{"exec/looked-up-in-its-path", nil, inSandbox(execPath)},
		{"exec/no-arguments", nil, inSandbox(execEmpty)},
		{"exec/stdin-and-its-end", nil, inSandbox(execStdin)},
		{"exec/nil-stdin-is-empty", nil, inSandbox(execNilStdin)},
		{"exec/blocked-stdin-does-not-hold", nil, inSandbox(execBlockedStdin)},
		{"exec/side-by-side", nil, inSandbox(execParallel)},
		{"exec/broken-pipe-kills", nil, inSandbox(execBrokenPipe)},
		{"exec/terminal", []Need{NeedTTY}, inSandbox(execTTY)},
		{"exec/three-descriptors", []Need{NeedRealProcesses}, inSandbox(execDescriptors)},
		{"exec/default-signals", []Need{NeedRealProcesses}, inSandbox(execDefaultSignals)},
		{"exec/not-spared-by-the-oom-killer", []Need{NeedRealProcesses}, inSandbox(execOOMScore)},
	}
}

func execExitCode(ctx context.Context, e *Env, sb providers.Sandbox) {
	for _, code := range []int{0, 1, 3, 255} {
		out := e.Sh(ctx, sb, fmt.Sprintf("exit %d", code))
		if out.Err != nil || out.Status.Code != code || out.Status.Signal != 0 {
			e.Errorf("exit %d: got %v", code, out)
		}
	}
}

func execNotFound(ctx context.Context, e *Env, sb providers.Sandbox) {
	for _, name := range []string{"no-such-program", "/no/such/program"} {
		out := e.Exec(ctx, sb, providers.Command{Args: []string{name}})
		if out.Err != nil || out.Status.Code != 127 || !strings.Contains(out.Stderr, name) {
			e.Errorf("%s: want code 127 and its name on stderr, got %v", name, out)
		}
	}
}

func execNotExecutable(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "echo text > /tmp/text; chmod 644 /tmp/text")
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"/tmp/text"}})
	if out.Err != nil || out.Status.Code != 126 {
		e.Errorf("want code 126, got %v", out)
	}
}

func execSignal(ctx context.Context, e *Env, sb providers.Sandbox) {
	for _, sig := range []int{9, 15} {
		out := e.Sh(ctx, sb, fmt.Sprintf("kill -%d $$; sleep 10", sig))
		if out.Err != nil || out.Status.Signal != sig || out.Status.Code != 128+sig || out.Status.OOMKilled {
			e.Errorf("signal %d: want code %d and no memory death, got %v, memory death %v", sig, 128+sig, out, out.Status.OOMKilled)
		}
	}
}

func execVerbatim(ctx context.Context, e *Env, sb providers.Sandbox) {
	args := []string{"a b", "$HOME", "*", "", `"q'`, "-n", `\n`, "é"}
	want := strings.Join(args, "|") + "|"
	out := e.Exec(ctx, sb, providers.Command{Args: append([]string{"printf", "%s|"}, args...)})
	if out.Err != nil || out.Stdout != want {
		e.Errorf("want %q, got %v", want, out)
	}
}

func execPath(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, `mkdir -p /opt/mine; printf '#!/bin/sh\necho mine\n' > /opt/mine/tool; chmod 755 /opt/mine/tool`)
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"tool"}, Env: map[string]string{"PATH": "/opt/mine:/usr/bin:/bin"}})
	if out.Err != nil || out.Stdout != "mine\n" {
		e.Errorf("want the tool in the command's PATH to run, got %v", out)
	}
}

func execEmpty(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{})
	e.WantKind("exec of nothing", out.Err, providers.KindInvalid)
}

func execStdin(ctx context.Context, e *Env, sb providers.Sandbox) {
	in := bytes.Repeat([]byte("0123456789abcdef\x00\xff\n"), 60_000)
	var got bytes.Buffer
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(in), Stdout: &got})
	if out.Err != nil || sha256.Sum256(got.Bytes()) != sha256.Sum256(in) {
		e.Errorf("want %d bytes back unchanged, got %d, error %v", len(in), got.Len(), out.Err)
	}
}

func execNilStdin(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Within("cat without input", func() {
		if out := e.Exec(ctx, sb, providers.Command{Args: []string{"cat"}}); out.Err != nil || out.Stdout != "" {
			e.Errorf("want no output, got %v", out)
		}
	})
}

func execBlockedStdin(ctx context.Context, e *Env, sb providers.Sandbox) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	done := make(chan Output, 1)
	go func() { done <- e.Exec(ctx, sb, providers.Command{Args: []string{"true"}, Stdin: r}) }()
	wait, cancel := context.WithTimeout(ctx, e.Prompt())
	defer cancel()
	select {
	case out := <-done:
		if out.Err != nil || !out.Status.OK() {
			e.Errorf("got %v", out)
		}
	case <-wait.Done():
		e.Errorf("exec waits for an input that blocks, though the command has exited")
		_ = w.Close()
		<-done
	}
}

// execParallel starts commands that wait for each other.
func execParallel(ctx context.Context, e *Env, sb providers.Sandbox) {
	const n = 8
	script := fmt.Sprintf(`mkdir -p /tmp/here; touch /tmp/here/$0; i=0
while [ $(ls /tmp/here | wc -l) -lt %d ]; do i=$((i+1)); [ $i -lt 400 ] || exit 9; sleep 0.05; done; echo $0`, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			out := e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script, fmt.Sprint(i)}})
			if want := fmt.Sprintf("%d\n", i); out.Err != nil || out.Stdout != want {
				e.Errorf("command %d of %d at once: got %v", i, n, out)
			}
		})
	}
	wg.Wait()
}

func execBrokenPipe(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Want(ctx, sb, "(yes; echo $? > /tmp/status) | head -n 1; while ! [ -s /tmp/status ]; do sleep 0.05; done; cat /tmp/status", "y\n141\n")
}

func execTTY(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Exec(ctx, sb, providers.Command{
		Args: []string{"/bin/sh", "-c", "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size"},
		TTY:  &providers.TTY{Rows: 31, Cols: 97},
	})
	if out.Err != nil || strings.TrimSpace(out.Stdout) != "31 97" {
		e.Errorf("want a terminal of 31 rows and 97 columns, got %v", out)
	}
}

func execDescriptors(ctx context.Context, e *Env, sb providers.Sandbox) {
	// ls itself opens the directory as one more.
	e.Want(ctx, sb, "ls /proc/self/fd | wc -l", "4\n")
}

func execDefaultSignals(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Want(ctx, sb, `grep -E '^Sig(Blk|Ign):' /proc/self/status | tr -d '\t 0'`, "SigBlk:\nSigIgn:\n")
}

func execOOMScore(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Want(ctx, sb, "[ $(cat /proc/self/oom_score_adj) -ge 0 ] && echo like others", "like others\n")
}
