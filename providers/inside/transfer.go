package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"harborgate/internal/insideproto"
	"harborgate/providers"
)

// Upload unpacks a tar stream, see [providers.Sandbox]. When it fails early, a
// Read of r that blocks may still be going on as it returns.
func (s *Session) Upload(ctx context.Context, r io.Reader, dest string) error {
	if dest == "" {
		return s.wrap("upload", insideproto.Refuse(insideproto.Invalid, "no destination"))
	}
	stream, _, err := s.begin(ctx, insideproto.OpPut, s.absolute(dest))
	if err != nil {
		return s.fail(ctx, "upload", err)
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	defer context.AfterFunc(s.ctx, func() { stream.Close() })()

	sent := make(chan error, 1)
	go func() { sent <- send(stream, r) }()
	answer := make(chan error, 1)
	go func() { answer <- putAnswer(stream) }()
	select {
	case err = <-answer:
	case err = <-sent:
		// A refusal explains why sending failed; a source that failed needs none.
		if err == nil || errors.Is(err, errBroken) {
			err = preferRefusal(<-answer, err)
		}
	}
	return s.fail(ctx, "upload", s.whyBroken(ctx, err))
}

// whyBroken dials after a transfer was cut off, for the answer's sake: a sandbox
// that died says so.
func (s *Session) whyBroken(ctx context.Context, err error) error {
	if !errors.Is(err, errBroken) {
		return err
	}
	_, derr := s.connected(ctx)
	if _, dead := providers.DeathOf(derr); dead {
		return derr
	}
	return err
}

// send copies the source. Errors of the source stay as they are.
func send(stream io.Writer, r io.Reader) error {
	out := insideproto.NewBodyWriter(markBroken{stream}, insideproto.MaxChunk, true)
	if _, err := out.ReadFrom(r); err != nil {
		return err
	}
	return out.Close()
}

// markBroken makes errors of a stream recognisable.
type markBroken struct{ io.Writer }

func (m markBroken) Write(p []byte) (int, error) {
	n, err := m.Writer.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errBroken, err)
	}
	return n, err
}

func preferRefusal(answer, sent error) error {
	var r *insideproto.Refusal
	if answer == nil || errors.As(answer, &r) || sent == nil {
		return answer
	}
	return sent
}

// putAnswer reads how an upload ended: FrameEnd is success.
func putAnswer(stream io.Reader) error {
	t, p, err := insideproto.NewFrameReader(stream).Next()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	case t == insideproto.FrameEnd:
		return nil
	case t == insideproto.FrameRefused:
		return insideproto.ParseRefusal(p)
	default:
		return fmt.Errorf("%w: type %d", insideproto.ErrFrame, t)
	}
}

// Download packs path, see [providers.Sandbox]. Hard links are files of their own,
// sockets are left out, times have whole seconds. A path that ends in a slash and
// is a link is followed. Files larger than [insideproto.MaxFile] and directories
// nested too deep are listed empty, with a record [insideproto.SkippedRecord] that says
// why. ctx bounds the whole transfer.
func (s *Session) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == "" {
		return nil, s.wrap("download", insideproto.Refuse(insideproto.Invalid, "no path"))
	}
	abs := s.absolute(path)
	if abs != path && path[len(path)-1] == '/' {
		abs += "/"
	}
	stream, _, err := s.begin(ctx, insideproto.OpGet, abs)
	if err != nil {
		return nil, s.fail(ctx, "download", err)
	}
	d := &download{s: s, ctx: ctx, stream: stream, data: insideproto.NewBodyReader(stream)}
	d.stops = [2]func() bool{
		context.AfterFunc(ctx, func() { stream.Close() }),
		context.AfterFunc(s.ctx, func() { stream.Close() }),
	}
	var a insideproto.Accepted
	if err := accept(stream, &a); err != nil {
		d.Close()
		return nil, s.fail(ctx, "download", s.whyBroken(ctx, err))
	}
	return d, nil
}

type download struct {
	s      *Session
	ctx    context.Context
	stream net.Conn
	data   *insideproto.BodyReader
	stops  [2]func() bool
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.data.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, d.s.fail(d.ctx, "download", d.s.whyBroken(d.ctx, err))
}

func (d *download) Close() error {
	for _, stop := range d.stops {
		stop()
	}
	return d.stream.Close()
}

// begin opens a stream for one operation on a path.
func (s *Session) begin(ctx context.Context, op insideproto.Op, path string) (net.Conn, *link, error) {
	stream, l, err := s.stream(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := insideproto.WriteHeader(stream, insideproto.Header{Op: op, Path: []byte(path)}); err != nil {
		stream.Close()
		return nil, nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	return stream, l, nil
}

// accept reads the answer to a header.
func accept(stream io.Reader, a *insideproto.Accepted) error {
	t, p, err := insideproto.NewFrameReader(stream).Next()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	case t == insideproto.FrameRefused:
		return insideproto.ParseRefusal(p)
	case t == insideproto.FrameAccepted:
		return insideproto.ParseRecord(p, a)
	default:
		return fmt.Errorf("%w: type %d", insideproto.ErrFrame, t)
	}
}
