// Package inside is the host side of harbor-inside. Given a duplex byte stream to
// "harbor-inside connect" in a sandbox, it runs commands there, moves files and
// receives connections, with the semantics of [providers.Sandbox]. A driver's
// sandbox embeds a [Session] and adds ID and Destroy.
//
// A session outlives its stream: when that breaks, it is dialled again, and
// commands, their output and exposed ports go on where they were.
//
// Everything that comes from the sandbox is treated as hostile. It cannot make
// this side take memory without bound, open a connection, or write a file.
package inside

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"harborgate/providers"
)

// Dial opens a duplex stream to "harbor-inside connect" in the sandbox: an engine
// exec, an SSH channel, a pod exec. ctx bounds the opening, not the stream. Close
// must interrupt Read and Write.
//
// An error that carries a Death, or is of kind NotFound, Denied, Invalid or
// Unsupported, is final; others are tried again for a while.
type Dial func(ctx context.Context) (io.ReadWriteCloser, error)

// Options describe a session. Only Dial is required.
type Options struct {
	Dial   Dial
	ID     providers.ID      // for errors
	User   string            // default user of commands; "" is root
	Dir    string            // default directory of commands; "" is that of the companion
	Env    map[string]string // added to every command's environment
	Logger *slog.Logger      // nil discards

	// RedialFor is how long a broken session is dialled again, KillFor how long
	// the confirmation of a kill may take beyond the command's grace. 0 is 30 s.
	RedialFor time.Duration
	KillFor   time.Duration
}

const defaultPatience = 30 * time.Second

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RedialFor == 0 {
		o.RedialFor = defaultPatience
	}
	if o.KillFor == 0 {
		o.KillFor = defaultPatience
	}
	return o
}

// Session is the connection to one sandbox. All methods may be called concurrently.
type Session struct {
	o      Options
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines of links

	mu       sync.Mutex
	link     *link
	linked   time.Time     // when link was established
	dialling chan struct{} // closed when the dial in progress is over; nil when none is
	dialErr  error         // of the last dial
	ports    map[string]*port
}

// Open dials the sandbox and agrees on a protocol version. ctx bounds only that.
func Open(ctx context.Context, o Options) (*Session, error) {
	if o.Dial == nil {
		return nil, providers.Errorf(providers.KindInvalid, "connect", "a session needs a Dial function")
	}
	s := &Session{o: o.withDefaults(), ports: map[string]*port{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if _, err := s.connected(ctx); err != nil {
		err = s.fail(ctx, "connect", err)
		s.cancel()
		return nil, err
	}
	return s, nil
}

// Close ends the session: calls in progress and later ones are KindNotFound,
// exposed ports and their connections close. Commands are not killed, since
// whoever closes a session destroys the sandbox.
func (s *Session) Close() error {
	s.cancel()
	s.mu.Lock()
	l := s.link
	ports := s.ports
	s.link, s.ports = nil, map[string]*port{}
	s.mu.Unlock()
	for _, p := range ports {
		p.closeConns()
	}
	if l != nil {
		l.close()
	}
	s.work.Wait()
	return nil
}

var errClosed = errors.New("the sandbox was destroyed")

// fail gives an error this session's sandbox and an operation. Errors of the
// caller's context stay as they are.
func (s *Session) fail(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return &providers.Error{Op: op, ID: string(s.o.ID), Kind: providers.KindNotFound, Err: errClosed}
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.wrap(op, err)
}

func (s *Session) wrap(op string, err error) error {
	e := &providers.Error{Op: op, ID: string(s.o.ID), Kind: kindOf(err), Err: err}
	var inner *providers.Error
	if errors.As(err, &inner) {
		e.Death, e.RetryAfter = inner.Death, inner.RetryAfter
	}
	return e
}

// newID makes an id that nothing in the sandbox can guess.
func newID() string { return rand.Text() }

// stream opens a stream on a working link.
func (s *Session) stream(ctx context.Context) (net.Conn, *link, error) {
	for {
		l, err := s.connected(ctx)
		if err != nil {
			return nil, nil, err
		}
		c, err := l.open()
		if err == nil {
			return c, l, nil
		}
		l.close() // the next round dials
	}
}
