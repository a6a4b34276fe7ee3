package main

import (
	"slices"

	"github.com/hashicorp/yamux"

	"harborgate/internal/insideproto"
)

const maxID = 64

// serveExec starts a command, or comes back to one, and stays with it until the
// host has its record or vanishes.
func (d *daemon) serveExec(s *yamux.Stream, h insideproto.Header) {
	if h.Exec == nil || h.ID == "" || len(h.ID) > maxID {
		refuse(s, insideproto.Refuse(insideproto.Invalid, "malformed request"))
		return
	}
	c, err := d.command(h.ID, *h.Exec)
	if err != nil {
		refuse(s, err)
		return
	}
	a, accepted, err := c.attach(s, h.Exec.Received)
	if err != nil {
		refuse(s, err)
		return
	}
	defer c.detach(a)
	if insideproto.WriteRecord(s, insideproto.FrameAccepted, accepted) != nil {
		return
	}
	done := make(chan bool, 1)
	go func() {
		done <- c.receive(a)
		c.output.Detach(a.reader)
	}()
	var finished bool
	select {
	case finished = <-done:
	case <-c.deliver(a, accepted.Output):
		// A host that cancelled meanwhile waits until nothing of the command is left.
		exit := c.exit
		exit.Gone = true
		_ = insideproto.WriteRecord(s, insideproto.FrameExit, exit)
		finished = <-done
	}
	if finished {
		d.remove(h.ID)
	}
}

// command finds or starts the command of an id.
func (d *daemon) command(id string, req insideproto.Command) (*command, error) {
	d.mu.Lock()
	c, known := d.commands[id]
	switch {
	case known:
		d.mu.Unlock()
		<-c.ready
		return c, c.startErr
	case req.AttachOnly:
		d.mu.Unlock()
		return nil, insideproto.Refuse(insideproto.NotFound, "there is no such command")
	case len(d.commands) >= maxCommands:
		d.mu.Unlock()
		return nil, insideproto.Refuse(insideproto.Exhausted, "%d commands run already", maxCommands)
	}
	c = newCommand(d.oom)
	d.commands[id] = c
	d.mu.Unlock()

	c.startErr = c.start(d, req)
	close(c.ready)
	if c.startErr != nil {
		d.remove(id)
		return nil, c.startErr
	}
	go func() {
		c.conclude()
		d.ended(id)
	}()
	return c, nil
}

func (d *daemon) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.commands, id)
	d.unclaimed = slices.DeleteFunc(d.unclaimed, func(s string) bool { return s == id })
}

// ended bounds what is kept for hosts that may never come back.
func (d *daemon) ended(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commands[id] == nil {
		return
	}
	d.unclaimed = append(d.unclaimed, id)
	if len(d.unclaimed) <= maxUnclaimed {
		return
	}
	for i, old := range d.unclaimed {
		if c := d.commands[old]; c.output.Unread() {
			delete(d.commands, old)
			d.unclaimed = slices.Delete(d.unclaimed, i, i+1)
			return
		}
	}
}

// attachment is one host's hold on a command.
type attachment struct {
	reader int
	stream *yamux.Stream
}

// attach makes s the command's stream. The former one, if any, becomes stale at
// once, so that input cannot arrive twice.
func (c *command) attach(s *yamux.Stream, received int64) (attachment, insideproto.Accepted, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reader, offset, err := c.output.Attach(received)
	if err != nil {
		return attachment{}, insideproto.Accepted{}, err
	}
	c.reader, c.stream = reader, s
	return attachment{reader, s}, insideproto.Accepted{Output: offset, Stdin: c.input.End()}, nil
}

func (c *command) detach(a attachment) {
	c.output.Detach(a.reader)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reader == a.reader {
		c.stream = nil
	}
}

// deliver sends output and then how the command ended. If processes of the command
// live on, the channel closes when they are gone; else it is nil.
func (c *command) deliver(a attachment, at int64) <-chan struct{} {
	for {
		frame, next, state := c.output.Next(a.reader, at)
		if state == insideproto.Finished {
			break
		}
		if state == insideproto.Stale {
			return nil
		}
		if _, err := a.stream.Write(frame); err != nil {
			return nil
		}
		at = next
	}
	<-c.ended
	if c.err != nil {
		refuse(a.stream, c.err)
		return nil
	}
	if insideproto.WriteRecord(a.stream, insideproto.FrameExit, c.exit) != nil || c.exit.Gone {
		return nil
	}
	return c.sup.gone
}

// receive obeys the host. It reports whether the host is done with the command;
// otherwise the stream broke.
func (c *command) receive(a attachment) bool {
	frames := insideproto.NewFrameReader(a.stream)
	for {
		t, p, err := frames.Next()
		if err != nil {
			return false
		}
		switch t {
		case insideproto.FrameDone:
			return true
		case insideproto.FrameAck:
			err = c.acknowledged(p)
		case insideproto.FrameStdin, insideproto.FrameEnd:
			c.take(a.reader, t, p)
		case insideproto.FrameKill:
			var k insideproto.Kill
			if err = insideproto.ParseRecord(p, &k); err == nil {
				c.sup.kill(k)
			}
		}
		if err != nil {
			return false
		}
	}
}

func (c *command) acknowledged(p []byte) error {
	n, err := insideproto.ParseCount(p)
	if err != nil {
		return err
	}
	return c.output.Ack(n)
}

// take accepts input of the current attachment only.
func (c *command) take(reader int, t insideproto.FrameType, p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.reader != reader:
	case t == insideproto.FrameEnd:
		c.input.Finish()
	default:
		c.input.Append(t, p)
	}
}
