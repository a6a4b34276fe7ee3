package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// runSink is the rest of the world: a name server that knows every name by its own
// address, and ports that take whatever comes. All that asks or connects is one line
// of the log.
func runSink(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("harbor-sim sink", flag.ContinueOnError)
	flags.SetOutput(errs)
	listen := flags.String("listen", "127.0.0.1", "`address` of the name server, port 53, and of ports 80 and 443")
	path := flags.String("log", "", "`file` that gets one line of JSON for each look-up and connection")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f, err := os.OpenFile(*path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer f.Close()
	s := &sink{address: net.ParseIP(*listen).To4(), log: f}
	if s.address == nil {
		return fmt.Errorf("listen address %q is no IPv4 address", *listen)
	}
	return s.serve(ctx, out)
}

type sink struct {
	address net.IP
	mu      sync.Mutex
	log     io.Writer
}

// serve answers until ctx ends.
func (s *sink) serve(ctx context.Context, out io.Writer) error {
	var lc net.ListenConfig
	names, err := lc.ListenPacket(ctx, "udp4", net.JoinHostPort(s.address.String(), "53"))
	if err != nil {
		return err
	}
	closers := []io.Closer{names}
	var wg sync.WaitGroup
	wg.Go(func() { s.answer(names) })
	for _, port := range []string{"80", "443"} {
		l, err := lc.Listen(ctx, "tcp4", net.JoinHostPort(s.address.String(), port))
		if err != nil {
			return errors.Join(err, closeAll(closers))
		}
		closers = append(closers, l)
		wg.Go(func() { s.accept(l, port) })
	}
	_, err = fmt.Fprintf(out, "listening %s\n", s.address)
	<-ctx.Done()
	err = errors.Join(err, closeAll(closers))
	wg.Wait()
	return err
}

func closeAll(cs []io.Closer) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// event is one line of the log.
type event struct {
	Time time.Time `json:"time"`
	Name string    `json:"name,omitempty"` // looked up
	Type string    `json:"type,omitempty"`
	Port string    `json:"port,omitempty"` // connected to
	Said string    `json:"said,omitempty"` // first bytes of the connection
	From string    `json:"from,omitempty"`
}

func (s *sink) write(e event) {
	e.Time = time.Now().UTC()
	line, _ := json.Marshal(e) // of strings
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.log.Write(append(line, '\n'))
}

// answer is the name server.
func (s *sink) answer(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		q := m.Questions[0]
		s.write(event{Name: q.Name.String(), Type: q.Type.String(), From: from.String()})
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte(s.address)},
			}}
		}
		if b, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(b, from)
		}
	}
}

// accept takes connections, notes what they begin with and ends them.
func (s *sink) accept(l net.Listener, port string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			first := make([]byte, 1024)
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, _ := c.Read(first)
			s.write(event{Port: port, Said: fmt.Sprintf("%q", first[:n]), From: c.RemoteAddr().String()})
		}()
	}
}
