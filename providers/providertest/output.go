package providertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"harborgate/providers"
)

func outputCases() []Case {
	return []Case{
		{"output/streams-apart", nil, inSandbox(outputApart)},
		{"output/more-than-a-pipe-holds", nil, inSandbox(outputOverPipe)},
		{"output/every-byte", nil, inSandbox(outputBytes)},
		{"output/last-line-without-end", nil, inSandbox(outputNoNewline)},
		{"output/order-of-one-writer", nil, inSandbox(outputOrder)},
		{"output/one-write-at-a-time", nil, inSandbox(outputSerial)},
		{"output/slow-reader-loses-nothing", nil, inSandbox(outputSlowReader)},
		{"output/memory-stays-flat", nil, inSandbox(outputFlat)},
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
		c.most = max(c.most, heapInUse())
	}
	return len(b), nil
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// outputFlat needs the process for itself to be exact; the bound leaves room for
// what other cases hold at the same time.
func outputFlat(ctx context.Context, e *Env, sb providers.Sandbox) {
	const growth = 256 << 20
	want := int64(1 << 30)
	if e.Harness.Slow {
		want = 64 << 20
	}
	before := heapInUse()
	c := &counter{}
	out := e.Exec(ctx, sb, providers.Command{Args: []string{"head", "-c", fmt.Sprint(want), "/dev/zero"}, Stdout: c})
	if out.Err != nil || c.n != want {
		e.Errorf("want %d bytes, got %d: %v", want, c.n, out)
	}
	if c.most > before+growth {
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
