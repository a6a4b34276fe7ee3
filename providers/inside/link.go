package inside

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/time/rate"

	"harborgate/internal/insideproto"
	"harborgate/providers"
)

// link is one dialled stream and the yamux session over it.
type link struct {
	mux  *yamux.Session
	boot string       // of the companion
	own  atomic.Int64 // streams that we opened and have not closed
}

// Bounds of what a sandbox may have open at once, as a part of which it may be
// slow to close; and how fast it may open connections.
const (
	streamSlack = 64
	relayRate   = rate.Limit(500) // per second
	relayBurst  = insideproto.MaxRelays
)

func (l *link) open() (net.Conn, error) {
	s, err := l.mux.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	l.own.Add(1)
	return &ownStream{Stream: s, link: l}, nil
}

func (l *link) close() { _ = l.mux.Close() }

// broken reports whether the link's end explains an error of a stream.
func (l *link) broken() bool { return l.mux.IsClosed() }

// ownStream counts itself as open until it is closed.
type ownStream struct {
	*yamux.Stream
	link   *link
	closed atomic.Bool
}

func (s *ownStream) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.link.own.Add(-1)
	}
	return s.Stream.Close()
}

// connected returns a working link. Whoever comes first dials, the others wait.
func (s *Session) connected(ctx context.Context) (*link, error) {
	s.mu.Lock()
	for {
		if err := cmp.Or(ctx.Err(), s.ctx.Err()); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if s.link != nil && !s.link.broken() {
			defer s.mu.Unlock()
			return s.link, nil
		}
		wait := s.dialling
		if wait == nil {
			wait = s.startDial()
		}
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
		if s.dialErr != nil {
			defer s.mu.Unlock()
			return nil, s.dialErr
		}
	}
}

// startDial is called with mu held. The dial belongs to the session, not to the
// caller who happened to need it.
func (s *Session) startDial() chan struct{} {
	done := make(chan struct{})
	s.dialling, s.dialErr = done, nil
	s.work.Go(func() {
		l, err := s.dial()
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil && s.ctx.Err() != nil {
			l.close()
			err = errClosed
		}
		if err == nil {
			s.link, s.linked = l, time.Now()
		}
		s.dialErr, s.dialling = err, nil
		close(done)
	})
	return done
}

// dial tries until it succeeds, cannot succeed, or RedialFor is over.
func (s *Session) dial() (*link, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.RedialFor)
	defer cancel()
	if !s.pause(ctx, minLink-time.Since(s.lastLinked())) {
		return nil, ctx.Err()
	}
	var why error // the last reason but the end of our own patience
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		l, err := s.dialOnce(ctx)
		if err == nil || final(err) {
			return l, err
		}
		if why == nil || ctx.Err() == nil {
			why = err
		}
		s.o.Logger.Debug("session not established", "sandbox", s.o.ID, "error", err)
		if !s.pause(ctx, wait) {
			return nil, fmt.Errorf("%w, and %s of dialling did not help: %w", errUnreachable, s.o.RedialFor, why)
		}
	}
}

// minLink is the least time between two links, in case they break at once.
const minLink = 100 * time.Millisecond

func (s *Session) lastLinked() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.linked
}

// pause reports whether ctx still lives after d.
func (s *Session) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Session) dialOnce(ctx context.Context) (*link, error) {
	conn, err := s.o.Dial(ctx)
	if err != nil {
		return nil, err
	}
	hello, err := greet(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	mux, err := yamux.Client(newGuard(insideproto.JoinWrites(conn)), insideproto.MuxConfig())
	if err != nil {
		conn.Close()
		return nil, err
	}
	l := &link{mux: mux, boot: hello.Boot}
	s.work.Go(func() { s.serve(l) })
	if err := s.reopenPorts(ctx, l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// greet exchanges versions. Nobody else reads or writes conn meanwhile.
func greet(ctx context.Context, conn io.ReadWriteCloser) (insideproto.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, insideproto.HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err := insideproto.WriteHello(conn, insideproto.Hello{Version: insideproto.Version})
	if err != nil {
		return insideproto.Hello{}, fmt.Errorf("%w: %w", errBroken, err)
	}
	hello, err := insideproto.ReadHello(conn)
	switch {
	case ctx.Err() != nil:
		return hello, fmt.Errorf("%w: no greeting of harbor-inside in time", errBroken)
	case err != nil:
		return hello, fmt.Errorf("%w: %w", errBroken, err)
	}
	if err := insideproto.CheckVersion(hello); err != nil {
		return hello, providers.E(providers.KindUnsupported, "", err)
	}
	return hello, nil
}

// serve accepts what the sandbox opens until the link ends. Ports that are open
// then need a new link, even if nobody calls.
func (s *Session) serve(l *link) {
	limiter := rate.NewLimiter(relayRate, relayBurst)
	for {
		stream, err := l.mux.AcceptStreamWithContext(s.ctx)
		if err != nil {
			break
		}
		// The peer closes what we close. One that does not, to fill our memory with
		// half-closed streams, is cut off.
		if excess := int64(l.mux.NumStreams()) - l.own.Load(); excess > insideproto.MaxRelays+streamSlack {
			s.o.Logger.Warn("session cut: the sandbox opens too many streams", "sandbox", s.o.ID, "streams", excess)
			break
		}
		if limiter.Wait(s.ctx) != nil {
			break
		}
		go s.receive(stream) // not waited for: it runs a handler of the caller's
	}
	l.close()
	s.mu.Lock()
	needed := len(s.ports) > 0 && s.ctx.Err() == nil
	s.mu.Unlock()
	if !needed {
		return
	}
	if _, err := s.connected(s.ctx); err != nil && s.ctx.Err() == nil {
		s.o.Logger.Warn("ports into the sandbox are lost", "sandbox", s.o.ID, "error", err)
	}
}
