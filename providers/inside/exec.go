package inside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"harborgate/internal/insideproto"
	"harborgate/providers"
)

// Exec runs a command, see [providers.Sandbox].
func (s *Session) Exec(ctx context.Context, cmd providers.Command) (providers.ExitStatus, error) {
	req, err := s.request(cmd)
	if err != nil {
		return providers.ExitStatus{}, s.wrap("exec", err)
	}
	if err := ctx.Err(); err != nil {
		return providers.ExitStatus{}, err
	}
	c := newCall(s, cmd, req)
	defer c.release()
	stop := context.AfterFunc(ctx, func() { c.abort(ctx.Err()) })
	defer stop()
	if cmd.Stdin != nil {
		go c.readStdin(cmd.Stdin)
	}
	status, err := c.run()
	if err != nil {
		return status, s.fail(context.Background(), "exec", err)
	}
	return status, c.verdict()
}

// call is one Exec, over any number of links.
type call struct {
	s      *Session
	cmd    providers.Command
	req    insideproto.Command
	id     string
	boot   string // of the companion that has the command; "" before the first try
	stdin  *insideproto.Spool
	status providers.ExitStatus
	acked  int64
	ctx    context.Context // ends when the answer is no longer waited for
	cancel context.CancelFunc

	mu      sync.Mutex
	over    bool        // the command ended by itself: too late to abort
	aborted error       // why the command is to be killed
	limit   *time.Timer // ends ctx after an abort
	stream  net.Conn    // of the current link
}

func newCall(s *Session, cmd providers.Command, req insideproto.Command) *call {
	c := &call{s: s, cmd: cmd, req: req, id: newID(), stdin: insideproto.NewSpool(insideproto.StdinWindow, insideproto.Forever)}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// release lets go of whoever still waits for this call.
func (c *call) release() {
	c.cancel()
	c.stdin.Finish()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit != nil {
		c.limit.Stop()
	}
}

// abort has the command killed, with everything below it. The first reason counts.
func (c *call) abort(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.aborted != nil {
		return
	}
	c.aborted = why
	c.limit = time.AfterFunc(c.cmd.Grace+c.s.o.KillFor, c.cancel)
	if c.stream != nil {
		go c.sendKill(c.stream)
	}
}

func (c *call) sendKill(w io.Writer) {
	_ = insideproto.WriteRecord(w, insideproto.FrameKill, insideproto.Kill{GraceMillis: c.cmd.Grace.Milliseconds()})
}

func (c *call) abortedBy() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

// verdict is the error of a call whose command is known to have ended.
func (c *call) verdict() error {
	err := c.abortedBy()
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return c.s.wrap("exec", err)
}

// maxAttempts bounds how often in a row a link may break without a frame.
const maxAttempts = 5

// run follows the command from link to link until it has ended.
func (c *call) run() (providers.ExitStatus, error) {
	for attempts := 0; ; attempts++ {
		before := c.status.DroppedBytes + c.req.Received
		err := c.attempt()
		if c.req.Received+c.status.DroppedBytes > before {
			attempts = 0
		}
		switch {
		case err == nil:
			return c.status, nil
		case c.neverStarted(err):
			return c.status, nil
		case !errors.Is(err, errBroken) || errors.Is(err, errUnreachable) || attempts == maxAttempts:
			return c.status, c.unverified(err)
		}
		c.s.o.Logger.Debug("session broke during a command", "sandbox", c.s.o.ID, "error", err)
	}
}

// neverStarted: an aborted command that the companion does not know has left
// nothing to kill.
func (c *call) neverStarted(err error) bool {
	var r *insideproto.Refusal
	return c.req.AttachOnly && errors.As(err, &r) && r.Kind == insideproto.NotFound
}

// unverified explains an abort whose effect is not known.
func (c *call) unverified(err error) error {
	why := c.abortedBy()
	if why == nil {
		return err
	}
	if c.ctx.Err() != nil && c.s.ctx.Err() == nil {
		err = fmt.Errorf("%w: no answer within %s", errBroken, c.cmd.Grace+c.s.o.KillFor)
	}
	return fmt.Errorf("%w; it is not known whether the command is dead: %w", why, err)
}

// attempt starts the command, or comes back to it, on one link.
func (c *call) attempt() error {
	stream, l, err := c.s.stream(c.ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	if c.boot != "" && c.boot != l.boot {
		return errLost
	}
	c.boot = l.boot
	stop := context.AfterFunc(c.ctx, func() { stream.Close() })
	defer stop()
	c.req.AttachOnly = c.abortedBy() != nil
	if err := insideproto.WriteHeader(stream, insideproto.Header{Op: insideproto.OpExec, ID: c.id, Exec: &c.req}); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	c.use(stream)
	defer c.use(nil)
	err = c.frames(stream)
	if err != nil && (l.broken() || errors.Is(err, io.EOF) || errors.Is(err, insideproto.ErrTruncated)) {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return err
}

// use makes stream the one that an abort goes to, and repeats one that came before.
func (c *call) use(stream net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = stream
	if stream != nil && c.aborted != nil {
		go c.sendKill(stream)
	}
}
