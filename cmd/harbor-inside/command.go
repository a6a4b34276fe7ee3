package main

import (
	"os"
	"sync"
	"time"

	"harborgate/internal/insideproto"
)

// command is one execution. It lives from its request until the host has its exit
// record, over any number of sessions.
type command struct {
	oom       oomCounter
	oomBefore int64
	output    *insideproto.Spool
	input     *insideproto.Spool
	stdin     *os.File // write end, nil without input
	tty       bool
	outlets   []*outlet
	sup       *supervisor

	ready    chan struct{} // started, or startErr is set
	startErr error

	ended chan struct{} // exit and err are set, the output is complete
	exit  insideproto.Exit
	err   error

	mu     sync.Mutex
	reader int       // of output, as of the last attachment
	stream hostWrite // of the same
}

// hostWrite is what a command needs of a stream. Every Write is one frame.
type hostWrite interface {
	Write([]byte) (int, error)
}

func newCommand(oom oomCounter) *command {
	return &command{
		oom:       oom,
		oomBefore: oom.kills(),
		output:    insideproto.NewSpool(insideproto.OutputWindow, insideproto.OutputPatience),
		// Twice what the host may send ahead, since a new session counts anew, and
		// room for the cost of small frames.
		input: insideproto.NewSpool(4*insideproto.StdinWindow, insideproto.Forever),
		ready: make(chan struct{}),
		ended: make(chan struct{}),
	}
}

// start runs the command under a supervisor of its own.
func (c *command) start(d *daemon, req insideproto.Command) error {
	files, err := openStdio(req)
	if err != nil {
		return startError(err)
	}
	c.stdin, c.tty = files.stdin, req.TTY != nil
	for _, o := range files.outputs {
		c.outlets = append(c.outlets, newOutlet(o.file, o.frame, c.output))
	}
	c.sup, err = d.startSupervisor(insideproto.Supervised{Command: req, Environ: toBytes(os.Environ())}, files.inner)
	files.closeInner()
	if err != nil {
		files.closeOuter()
		return err
	}
	for _, o := range c.outlets {
		go o.run()
	}
	if !req.Stdin {
		c.input.Finish()
	}
	if c.stdin != nil {
		go c.feed()
	}
	return nil
}

// feed copies input to the command and acknowledges it. Once the command does not
// read any more, input is consumed all the same.
func (c *command) feed() {
	reader, at, _ := c.input.Attach(0)
	broken := false
	for {
		frame, next, state := c.input.Next(reader, at)
		if state != insideproto.More {
			break
		}
		if !broken {
			_, err := c.stdin.Write(insideproto.Payload(frame))
			broken = err != nil
		}
		at = next
		_ = c.input.Ack(at)
		if w := c.attached(); w != nil {
			_ = insideproto.WriteFrame(w, insideproto.FrameAck, insideproto.Count(at))
		}
	}
	if !c.tty {
		c.stdin.Close()
		return
	}
	// A terminal has no end. This is how its user would say so: the second one
	// counts when the first only ended an unfinished line.
	_, _ = c.stdin.Write([]byte{4, 4})
}

func (c *command) attached() hostWrite {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream
}

// conclude waits for the end of the command's own process, however long its
// children hold its output, and completes the record.
func (c *command) conclude() {
	c.exit, c.err = c.sup.wait()
	for _, o := range c.outlets {
		o.drain()
	}
	c.output.Finish()
	c.input.Finish()
	if c.stdin != nil && !c.tty { // a child may hold the pipe and not read it
		_ = c.stdin.SetWriteDeadline(time.Unix(1, 0))
	}
	c.exit.OOMKilled = c.oom.kills() > c.oomBefore
	close(c.ended)
}
