package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
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
}

// ID is the container's id.
func (s *sandbox) ID() providers.ID { return providers.ID(s.id) }

// Destroy ends the session and removes the container.
func (s *sandbox) Destroy(ctx context.Context) error {
	_ = s.Session.Close()
	return s.p.Destroy(ctx, s.ID())
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

// dial opens one exec stream to harbor-inside.
func (s *sandbox) dial(ctx context.Context) (io.ReadWriteCloser, error) {
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
	return newStream(conn.Conn, conn.Reader), nil
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
	d := providers.Death{ExitCode: c.State.ExitCode, OOMKilled: c.State.OOMKilled, Output: s.tail(ctx)}
	return &providers.Error{Kind: providers.KindUnavailable, Death: &d, Err: fmt.Errorf("%s (%w)", d, err)}
}

// tail is the end of what the first process printed.
func (s *sandbox) tail(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := s.p.engine.ContainerLogs(ctx, s.id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return ""
	}
	defer r.Close()
	var out bytes.Buffer
	// A cut log is still worth showing.
	_, _ = stdcopy.StdCopy(&out, &out, io.LimitReader(r, 16<<10))
	return strings.TrimSpace(out.String())
}

// stream turns the engine's framed exec stream into a plain one: writes are the
// command's input, reads its output. What it prints to stderr ends the stream
// with that text as the error.
type stream struct {
	net.Conn
	out *io.PipeReader
}

func newStream(conn net.Conn, framed io.Reader) *stream {
	r, w := io.Pipe()
	go func() {
		var complaint bytes.Buffer
		_, err := stdcopy.StdCopy(w, &limited{&complaint, 4 << 10}, framed)
		if err == nil && complaint.Len() > 0 {
			err = fmt.Errorf("harbor-inside: %s", strings.TrimSpace(complaint.String()))
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

// limited keeps the first n bytes and drops the rest.
type limited struct {
	buf *bytes.Buffer
	n   int
}

func (l *limited) Write(b []byte) (int, error) {
	if room := l.n - l.buf.Len(); room > 0 {
		l.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
