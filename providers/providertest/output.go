package providertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"harborgate/providers"
)

// MemoryCase measures the memory of this process, so it says little while other
// things go on in it.
const MemoryCase = "output/memory-stays-flat"

func outputCases() []Case {
	return []Case{
		{"output/streams-apart", nil, inSandbox(outputApart)},
		{"output/more-than-a-pipe-holds", nil, inSandbox(outputOverPipe)},
		{"output/every-byte", nil, inSandbox(outputBytes)},
		{"output/last-line-without-end", nil, inSandbox(outputNoNewline)},
		{"output/order-of-one-writer", nil, inSandbox(outputOrder)},
		{"output/one-write-at-a-time", nil, inSandbox(outputSerial)},
		{"output/slow-reader-loses-nothing", nil, inSandbox(outputSlowReader)},
		{"output/stalled-reader-stalls-the-command", nil, inSandbox(outputStalled)},
		{MemoryCase, nil, inSandbox(outputFlat)},
		{"output/nobody-reads", nil, inSandbox(outputDropped)},
	}
}

func outputApart(ctx context.Context, e *Env, sb providers.Sandbox) {
	out := e.Sh(ctx, sb, "echo out; echo err >&2")
	if out.Err != nil || out.Stdout != "out\n" || out.Stderr != "err\n" {
		e.Errorf("got %v", out)
	}
}

func outputOverPipe(ctx context.Context, e *Env, sb providers.Sandbox) {
	const n = 300_000
	out := e.Sh(ctx, sb, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x; head -c %d /dev/zero | tr '\0' y >&2`, n, n))
	if out.Err != nil || out.Stdout != strings.Repeat("x", n) || out.Stderr != strings.Repeat("y", n) {
		e.Errorf("want %d bytes each, got %d and %d, %s, error %v", n, len(out.Stdout), len(out.Stderr), out.Status, out.Err)
	}
}

func outputBytes(ctx context.Context, e *Env, sb providers.Sandbox) {
	var want, script strings.Builder
	for i := range 256 {
		want.WriteByte(byte(i))
		fmt.Fprintf(&script, `\%03o`, i)
	}
	out := e.Sh(ctx, sb, "printf '"+script.String()+`'; printf '\355\240\200' >&2`)
	if out.Err != nil || out.Stdout != want.String() || out.Stderr != "\xed\xa0\x80" {
		e.Errorf("want all 256 bytes and a lone surrogate unchanged, got %v", out)
	}
}

func outputNoNewline(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Want(ctx, sb, "printf 'a\\nb'", "a\nb")
	e.Want(ctx, sb, ":", "")
}

func outputOrder(ctx context.Context, e *Env, sb providers.Sandbox) {
	const n = 1000
	var got bytes.Buffer
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo $i; echo $i >&2; i=$((i+1)); done", n)
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: &got, Stderr: &got})
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "%d\n%d\n", i, i)
	}
	if out.Err != nil || got.String() != want.String() {
		e.Errorf("the order of %d alternating writes is lost at byte %d of %d, error %v",
			n, firstDifference(got.String(), want.String()), want.Len(), out.Err)
	}
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// exclusive notices writes that overlap.
type exclusive struct {
	busy    *atomic.Bool
	overlap *atomic.Bool
}

func (x exclusive) Write(b []byte) (int, error) {
	if x.busy.Swap(true) {
		x.overlap.Store(true)
	}
	runtime.Gosched()
	x.busy.Store(false)
	return len(b), nil
}

func outputSerial(ctx context.Context, e *Env, sb providers.Sandbox) {
	var busy, overlap atomic.Bool
	// Two values, so that they are not taken for one writer.
	cmd := providers.Command{
		Args:   []string{"/bin/sh", "-c", "i=0; while [ $i -lt 300 ]; do echo out; echo err >&2; i=$((i+1)); done & head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; wait"},
		Stdout: &exclusive{&busy, &overlap}, Stderr: &exclusive{&busy, &overlap},
	}
	if _, err := sb.Exec(ctx, cmd); err != nil {
		e.Errorf("exec: %v", err)
	}
	if overlap.Load() {
		e.Errorf("stdout and stderr were written at the same time")
	}
}

// slowly waits before each write.
type slowly struct{ to io.Writer }

func (s slowly) Write(b []byte) (int, error) {
	<-time.After(time.Millisecond)
	return s.to.Write(b)
}

func outputSlowReader(ctx context.Context, e *Env, sb providers.Sandbox) {
	const n = 200_000
	var got bytes.Buffer
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"seq", fmt.Sprint(n)}, Stdout: slowly{&got}})
	var want strings.Builder
	for i := range n {
		fmt.Fprintln(&want, i+1)
	}
	if out.Err != nil || got.String() != want.String() {
		e.Errorf("want %d bytes, got %d, first difference at %d, error %v",
			want.Len(), got.Len(), firstDifference(got.String(), want.String()), out.Err)
	}
}

// gate holds every write until it opens.
type gate struct {
	open <-chan struct{}
	n    int64
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.n += int64(len(b))
	return len(b), nil
}

// outputStalled lets nobody read for a while. What the command can write then is
// what the buffers on the way hold, and must be little.
func outputStalled(ctx context.Context, e *Env, sb providers.Sandbox) {
	const total, buffers = 64, 20 // MiB
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	defer release()
	g := &gate{open: open}
	done := make(chan Output, 1)
	go func() {
		script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do head -c 1048576 /dev/zero; i=$((i+1)); echo $i > /tmp/progress; done", total)
		done <- e.Exec(ctx, sb, providers.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: g})
	}()
	var written int
	// Still for a second is stalled.
	e.scan(e.Must(ctx, sb, `old=-1; new=0; while [ "$old" != "$new" ]; do sleep 1; old=$new; new=$(cat /tmp/progress 2>/dev/null || echo 0); done; echo $new`), &written)
	if written > buffers {
		e.Errorf("the command wrote %d MiB while nobody read, want at most %d", written, buffers)
	}
	release()
	if out := <-done; out.Err != nil || g.n != total<<20 {
		e.Errorf("want %d bytes in the end, got %d: %v", total<<20, g.n, out)
	}
}

// counter counts bytes and watches the memory of this process.
type counter struct {
	n, next int64
	most    uint64
}

const sampleEvery = 16 << 20

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	if c.n >= c.next {
		c.next += sampleEvery
		c.most = max(c.most, liveHeap())
	}
	return len(b), nil
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// outputFlat allows for half of the output, as other cases hold memory at the
// same time.
func outputFlat(ctx context.Context, e *Env, sb providers.Sandbox) {
	want := int64(1 << 30)
	if e.Harness.Slow {
		want = 64 << 20
	}
	before := liveHeap()
	c := &counter{}
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"head", "-c", fmt.Sprint(want), "/dev/zero"}, Stdout: c})
	if out.Err != nil || c.n != want {
		e.Errorf("want %d bytes, got %d: %v", want, c.n, out)
	}
	if c.most > before+uint64(want/2) {
		e.Errorf("%d MiB of output took the heap from %d to %d MiB", want>>20, before>>20, c.most>>20)
	}
}

func outputDropped(ctx context.Context, e *Env, sb providers.Sandbox) {
	cmd := providers.Command{Args: []string{"/bin/sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; exit 4"}}
	e.Within("a command whose output nobody wants", func() {
		status, err := sb.Exec(ctx, cmd)
		if err != nil || status.Code != 4 {
			e.Errorf("got %s, error %v", status, err)
		}
	})
}
