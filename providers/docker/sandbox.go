package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"harborgate/providers"
	"harborgate/providers/inside"
)

// sandbox is one container with an open session.
type sandbox struct {
	*inside.Session
	p    *Provider
	id   string
	spec providers.Spec

	first  atomic.Pointer[stream] // attached before the start, until it is used
	output lastOutput             // of the image's own program
	waited atomic.Bool            // for news of why it was killed
}

// ID is the container's id.
func (s *sandbox) ID() providers.ID { return providers.ID(s.id) }

// Destroy ends the session and removes the container.
func (s *sandbox) Destroy(ctx context.Context) error {
	s.closeStreams()
	return s.p.Destroy(ctx, s.ID())
}

func (s *sandbox) closeStreams() {
	if st := s.first.Swap(nil); st != nil {
		_ = st.Close()
	}
	if s.Session != nil {
		_ = s.Session.Close()
	}
}

func (s *sandbox) open(ctx context.Context, img imageConfig) error {
	user := s.spec.User
	if user == "" {
		user = img.User
	}
	session, err := inside.Open(ctx, inside.Options{
		Dial: s.dial, ID: s.ID(), User: user, Dir: s.spec.Workdir, Logger: s.p.log,
	})
	if err != nil {
		return s.p.fail("create", s.spec.Name, s.explain(ctx, err))
	}
	s.Session = session
	return nil
}

// attach opens the streams of the container's first process, which is
// harbor-inside. They carry the first session: an exec costs a third of what a
// start does.
func (s *sandbox) attach(ctx context.Context) error {
	conn, err := s.p.engine.ContainerAttach(ctx, s.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	s.first.Store(newStream(conn.Conn, conn.Reader, &s.output))
	return nil
}

// dial uses the attached stream once, and execs when that broke.
func (s *sandbox) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if st := s.first.Swap(nil); st != nil {
		return st, nil
	}
	made, err := s.p.engine.ContainerExecCreate(ctx, s.id, container.ExecOptions{
		User: "0:0", Cmd: []string{insidePath, "connect"},
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, s.p.fail("dial", s.id, s.explain(ctx, err))
	}
	conn, err := s.p.engine.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, s.p.fail("dial", s.id, s.explain(ctx, err))
	}
	return newStream(conn.Conn, conn.Reader, &lastOutput{}), nil
}

// explain looks whether the container's death is behind an error.
func (s *sandbox) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || kindOf(err) == providers.KindNotFound {
		return err
	}
	c, ierr := s.p.engine.ContainerInspect(ctx, s.id)
	if ierr != nil || c.State == nil || c.State.Running || c.State.Status == "created" {
		return err
	}
	d := providers.Death{ExitCode: c.State.ExitCode, OOMKilled: c.State.OOMKilled || s.killedForMemory(ctx, c.State), Output: s.output.String()}
	return &providers.Error{Kind: providers.KindUnavailable, Death: &d, Err: fmt.Errorf("%s (%w)", d, err)}
}

// The engine learns on two ways that a container has ended, and that it was killed
// for memory; the second may be the later one.
const (
	exitKilled = 128 + 9
	oomNews    = 2 * time.Second
	oomPause   = 50 * time.Millisecond
)

// killedForMemory waits for the engine to learn why a container was killed.
func (s *sandbox) killedForMemory(ctx context.Context, was *container.State) bool {
	if was.ExitCode != exitKilled || s.waited.Load() {
		return false
	}
	for late := time.Now().Add(oomNews); time.Now().Before(late); {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(oomPause):
		}
		c, err := s.p.engine.ContainerInspect(ctx, s.id)
		if err != nil || c.State == nil {
			return false
		}
		if c.State.OOMKilled {
			return true
		}
	}
	s.waited.Store(true) // once is enough: it was something else
	return false
}

// lastOutput keeps the end of what was printed. Safe for concurrent use.
type lastOutput struct {
	mu  sync.Mutex // guards buf
	buf tailBuffer
}

func (l *lastOutput) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.max = 4 << 10
	return l.buf.Write(b)
}

func (l *lastOutput) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// stream turns the engine's framed stream into a plain one: writes are the
// process's input, reads its output. What it prints to stderr goes to said, and
// is the error when the stream ends.
type stream struct {
	net.Conn
	out *io.PipeReader
}

func newStream(conn net.Conn, framed io.Reader, said *lastOutput) *stream {
	r, w := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(w, said, framed)
		if text := said.String(); err == nil && text != "" {
			err = fmt.Errorf("harbor-inside: %s", text)
		}
		if err == nil {
			err = io.EOF
		}
		w.CloseWithError(err)
	}()
	return &stream{Conn: conn, out: r}
}

func (s *stream) Read(b []byte) (int, error) { return s.out.Read(b) }

// Close ends both directions; the goroutine that unframes ends with it.
func (s *stream) Close() error {
	err := s.Conn.Close()
	_ = s.out.Close()
	return err
}
