package inside

import (
	"fmt"
	"io"
	"net"

	"harborgate/internal/insideproto"
)

// frames handles everything that the companion says about the command. It alone
// writes to Stdout and Stderr.
func (c *call) frames(stream net.Conn) error {
	in := insideproto.NewFrameReader(stream)
	feeding := 0
	defer func() { c.stdin.Detach(feeding) }()
	for {
		t, p, err := in.Next()
		if err != nil {
			return err
		}
		switch t {
		case insideproto.FrameStdout, insideproto.FrameStderr:
			err = c.output(stream, t, p)
		case insideproto.FrameAccepted:
			feeding, err = c.accepted(stream, p)
		case insideproto.FrameAck:
			err = c.consumed(p)
		case insideproto.FrameRefused:
			return insideproto.ParseRefusal(p)
		case insideproto.FrameExit:
			var done bool
			if done, err = c.exited(p); done {
				return insideproto.WriteFrame(stream, insideproto.FrameDone, nil)
			}
		default:
			err = fmt.Errorf("%w: type %d", insideproto.ErrFrame, t)
		}
		if err != nil {
			return err
		}
	}
}

// ackEvery is how much output is acknowledged at a time.
const ackEvery = insideproto.OutputWindow / 8

// output passes bytes on. A writer that fails ends the command; what follows is
// dropped.
func (c *call) output(stream io.Writer, t insideproto.FrameType, p []byte) error {
	w := c.cmd.Stdout
	if t == insideproto.FrameStderr {
		w = c.cmd.Stderr
	}
	if w != nil && len(p) > 0 {
		if _, err := w.Write(p); err != nil {
			c.abort(fmt.Errorf("write the command's output: %w", err))
			c.cmd.Stdout, c.cmd.Stderr = nil, nil
		}
	}
	c.req.Received += int64(len(p))
	if c.req.Received-c.acked < ackEvery {
		return nil
	}
	c.acked = c.req.Received
	return insideproto.WriteFrame(stream, insideproto.FrameAck, insideproto.Count(c.acked))
}

// maxDropped is more output than any command can have lost.
const maxDropped = 1 << 50

// accepted says where output and input go on, on a new link.
func (c *call) accepted(stream net.Conn, p []byte) (reader int, err error) {
	var a insideproto.Accepted
	if err := insideproto.ParseRecord(p, &a); err != nil {
		return 0, err
	}
	lost := a.Output - c.req.Received
	if lost < 0 || lost > maxDropped {
		return 0, fmt.Errorf("%w: output goes on at %d after %d", insideproto.ErrFrame, a.Output, c.req.Received)
	}
	c.status.DroppedBytes += lost
	c.req.Received = a.Output
	if c.cmd.Stdin == nil {
		return 0, nil
	}
	reader, at, err := c.stdin.Attach(a.Stdin)
	if err != nil {
		return 0, err
	}
	go c.feed(stream, reader, at)
	return reader, nil
}

// feed sends input, from offset at, until there is none or another link took over.
func (c *call) feed(stream io.Writer, reader int, at int64) {
	for {
		frame, next, state := c.stdin.Next(reader, at)
		if state == insideproto.Finished {
			_ = insideproto.WriteFrame(stream, insideproto.FrameEnd, insideproto.Count(at))
			return
		}
		if state == insideproto.Stale {
			return
		}
		if _, err := stream.Write(frame); err != nil {
			return
		}
		at = next
	}
}

// consumed frees input that the command has read.
func (c *call) consumed(p []byte) error {
	n, err := insideproto.ParseCount(p)
	if err != nil {
		return err
	}
	return c.stdin.Ack(n)
}

// readStdin collects input. It may outlive the call by one Read, when that blocks.
// Input that breaks off must not look complete, so the command is killed then.
func (c *call) readStdin(r io.Reader) {
	buf := make([]byte, insideproto.MaxChunk/2)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			c.stdin.Append(insideproto.FrameStdin, buf[:n])
		}
		switch {
		case c.ctx.Err() != nil:
			return
		case err == io.EOF:
			c.stdin.Finish()
			return
		case err != nil:
			c.abort(fmt.Errorf("read the command's input: %w", err))
			return
		}
	}
}

// exited takes the exit record. After an abort only a record that says that
// nothing is left counts.
func (c *call) exited(p []byte) (done bool, err error) {
	var e insideproto.Exit
	if err := insideproto.ParseRecord(p, &e); err != nil {
		return false, err
	}
	if err := e.Check(); err != nil {
		return false, err
	}
	c.status.Code, c.status.Signal = e.Code, e.Signal
	c.status.OOMKilled, c.status.Leftovers = e.OOMKilled, e.Leftovers
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = c.aborted == nil
	return c.over || e.Gone, nil
}
