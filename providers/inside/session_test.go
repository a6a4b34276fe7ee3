package inside_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/internal/insideproto"
	"harborgate/providers"
	"harborgate/providers/inside"
	"harborgate/providers/inside/insidetest"
)

// line is a Dial that a test can cut and forbid.
type line struct {
	dial inside.Dial

	mu     sync.Mutex
	conn   io.Closer
	dials  int
	failed error
}

func (l *line) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	if l.failed != nil {
		return nil, l.failed
	}
	c, err := l.dial(ctx)
	l.conn = c
	return c, err
}

// cut breaks the connection; later dials fail with err unless it is nil.
func (l *line) cut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	l.conn.Close()
}

func (l *line) repair() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = nil
}

func (l *line) redirect(d inside.Dial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dial = d
}

func openLine(t *testing.T, o inside.Options) (*inside.Session, *line, *insidetest.Companion) {
	t.Helper()
	c := insidetest.Start(t)
	l := &line{dial: c.Dial}
	o.Dial, o.ID = l.Dial, "box"
	return c.Open(t, o), l, c
}

func TestBrokenSessionCommandGoesOn(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	var out bytes.Buffer
	n := 0
	st, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", "for i in $(seq 200); do echo $i; sleep 0.002; done; exit 9"},
		Stdout: writeFunc(func(p []byte) {
			if out.Write(p); out.Len()/100 > n {
				n++
				l.cut(nil)
			}
		}),
	})
	if err != nil || st != (providers.ExitStatus{Code: 9}) {
		t.Fatalf("%v, %v", st, err)
	}
	if got := strings.Fields(out.String()); len(got) != 200 || got[199] != "200" || l.dials < 3 {
		t.Errorf("%d lines over %d dials", len(got), l.dials)
	}
}

func TestBrokenSessionInputGoesOn(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	big := bytes.Repeat([]byte("0123456789abcde\n"), 1<<17)
	var out bytes.Buffer
	cuts := 0
	_, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"cat"}, Stdin: bytes.NewReader(big),
		Stdout: writeFunc(func(p []byte) {
			if out.Write(p); out.Len() > (cuts+1)<<19 && cuts < 3 {
				cuts++
				l.cut(nil)
			}
		}),
	})
	if err != nil || !bytes.Equal(out.Bytes(), big) || cuts != 3 {
		t.Errorf("error %v, %d bytes of %d, %d cuts", err, out.Len(), len(big), cuts)
	}
}

func TestBrokenForLongOutputIsBounded(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	done := filepath.Join(t.TempDir(), "done")
	var out bytes.Buffer
	started := make(chan struct{})
	var once sync.Once
	var st providers.ExitStatus
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		st, err = s.Exec(t.Context(), providers.Command{
			Args: []string{"sh", "-c", "echo start; while [ ! -e " + done + ".go ]; do sleep 0.01; done; head -c 8388608 /dev/zero; echo end; touch " + done},
			Stdout: writeFunc(func(p []byte) {
				out.Write(p)
				once.Do(func() { close(started) })
			}),
		})
	}()
	<-started
	l.cut(errors.New("no way"))
	touch(t, done+".go")
	eventually(t, "the command ends without a session", func() bool { return exists(done) })
	l.repair()
	<-ended
	if err != nil || !st.OK() {
		t.Fatalf("%v, %v", st, err)
	}
	total := int64(out.Len()) + st.DroppedBytes
	if total != 6+8388608+4 || st.DroppedBytes < 7<<20 || !strings.HasSuffix(out.String(), "\x00end\n") {
		t.Errorf("%d bytes arrived, %d dropped", out.Len(), st.DroppedBytes)
	}
}

func TestCancelWhileTheSessionIsBroken(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.Exec(ctx, providers.Command{
		Args: []string{"sh", "-c", "export " + mark + "; setsid sleep 1000 & echo; sleep 1000"},
		Stdout: onWrite(func() {
			l.cut(nil)
			cancel()
		}),
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v live on", left)
	}
}

func TestCancelWithoutASessionSaysSo(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{RedialFor: time.Minute, KillFor: 500 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := s.Exec(ctx, providers.Command{
		Args: []string{"sh", "-c", "echo; sleep 1000"},
		Stdout: onWrite(func() {
			l.cut(errors.New("host unreachable"))
			cancel()
		}),
	})
	wantKind(t, err, providers.KindUnavailable, "not known whether the command is dead")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap the context's error", err)
	}
}

func TestDeathEndsEverything(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	death := &providers.Error{Kind: providers.KindUnavailable, Death: &providers.Death{ExitCode: 137, OOMKilled: true}}
	_, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", "echo; sleep 1000"}, Stdout: onWrite(func() { l.cut(death) }),
	})
	wantKind(t, err, providers.KindUnavailable, "ran out of memory")
	if d, ok := providers.DeathOf(err); !ok || d.ExitCode != 137 {
		t.Errorf("death %+v, %v", d, ok)
	}
	before := l.dials
	if _, err = s.Exec(t.Context(), sh("true")); err == nil || l.dials != before+1 {
		t.Errorf("%v after %d dials", err, l.dials-before)
	}
}

func TestCompanionKilledInside(t *testing.T) {
	t.Parallel()
	s, _, c := openLine(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	_, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", "export " + mark + "; echo; sleep 1000"},
		Stdout: onWrite(func() {
			if err := c.Kill(); err != nil {
				t.Error(err)
			}
		}),
	})
	wantKind(t, err, providers.KindUnavailable, "killed inside the sandbox")
	eventually(t, "its commands are dead", func() bool { return len(marked(t, mark)) == 0 })
	if got := run(t, s, sh("echo again")); got.out != "again\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestSupervisorKilledInside(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	mark := "HG_MARK=" + rand()
	// The command's parent is its supervisor.
	got := run(t, s, sh("export "+mark+"; setsid sleep 1000 & trap '' TERM; kill -9 $PPID; sleep 1000"))
	if got.Code != 137 || got.Signal != 9 {
		t.Errorf("got %+v", got)
	}
	if left := marked(t, mark); len(left) > 0 {
		t.Errorf("%v live on", left)
	}
	if got := run(t, s, sh("echo again")); got.out != "again\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		say  string
		kind providers.Kind
		text string
	}{
		"garbage":       {"OCI runtime exec failed: no such file\n", providers.KindUnavailable, "OCI runtime exec failed"},
		"nothing":       {"", providers.KindUnavailable, "no greeting"},
		"other version": {hello(t, insideproto.Hello{Version: 99, Boot: "b"}), providers.KindUnsupported, "protocol 1 here, 99 there"},
		"huge greeting": {"HGIN\xff\xff\xff\xff", providers.KindUnavailable, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := inside.Open(t.Context(), inside.Options{ID: "box", RedialFor: 200 * time.Millisecond,
				Dial: func(context.Context) (io.ReadWriteCloser, error) { return scripted(c.say), nil }})
			wantKind(t, err, c.kind, "connect box", c.text)
		})
	}
	_, err := inside.Open(t.Context(), inside.Options{})
	wantKind(t, err, providers.KindInvalid)
}

func hello(t *testing.T, h insideproto.Hello) string {
	t.Helper()
	var b bytes.Buffer
	if err := insideproto.WriteHello(&b, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// scripted says one thing and hangs up.
func scripted(say string) io.ReadWriteCloser {
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	go func() {
		_, _ = io.WriteString(there, say)
		there.Close()
	}()
	return here
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := inside.Open(ctx, inside.Options{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestDialIsTriedAgainUnlessFinal(t *testing.T) {
	t.Parallel()
	c := insidetest.Start(t)
	calls := 0
	s, err := inside.Open(t.Context(), inside.Options{Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		if calls++; calls < 3 {
			return nil, errors.New("not yet")
		}
		return c.Dial(ctx)
	}})
	if err != nil || calls != 3 {
		t.Fatalf("%v after %d dials", err, calls)
	}
	defer s.Close()
	calls = 0
	_, err = inside.Open(t.Context(), inside.Options{Dial: func(context.Context) (io.ReadWriteCloser, error) {
		calls++
		return nil, providers.Errorf(providers.KindNotFound, "dial", "no such container")
	}})
	wantKind(t, err, providers.KindNotFound, "no such container")
	if calls != 1 {
		t.Errorf("%d dials", calls)
	}
}

func touch(t testing.TB, file string) {
	t.Helper()
	if err := writeFile(file, ""); err != nil {
		t.Fatal(err)
	}
}
