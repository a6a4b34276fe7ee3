package inside_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"harborgate/internal/insideproto"
	"harborgate/providers"
	"harborgate/providers/inside"
)

// hostile is a Dial to a companion of the test's own making: raw sees the bytes
// after the greeting.
func hostile(raw func(net.Conn)) inside.Dial {
	return func(context.Context) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			if _, err := insideproto.ReadHello(there); err != nil {
				return
			}
			if insideproto.WriteHello(there, insideproto.Hello{Version: insideproto.Version, Boot: "b"}) != nil {
				return
			}
			raw(there)
		}()
		return here, nil
	}
}

// answering is a hostile companion that treats each stream of the host with f.
func answering(f func(*yamux.Stream, insideproto.Header)) inside.Dial {
	return hostile(func(c net.Conn) {
		mux, err := yamux.Server(c, insideproto.MuxConfig())
		if err != nil {
			return
		}
		defer mux.Close()
		for {
			s, err := mux.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				defer s.Close()
				if h, err := insideproto.ReadHeader(s, insideproto.MaxHeader); err == nil {
					f(s, h)
				}
			}()
		}
	})
}

func openHostile(t *testing.T, d inside.Dial) *inside.Session {
	t.Helper()
	return openFor(t, d, time.Second)
}

// openFor opens a session that dials for so long.
func openFor(t *testing.T, d inside.Dial, redial time.Duration) *inside.Session {
	t.Helper()
	s, err := inside.Open(t.Context(), inside.Options{ID: "box", Dial: d, RedialFor: redial, KillFor: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func frame(t insideproto.FrameType, payload string) string {
	return string(insideproto.AppendFrame(nil, t, []byte(payload)))
}

func TestHostileAnswersAreErrors(t *testing.T) {
	t.Parallel()
	const accepted = "{}"
	for name, answer := range map[string]string{
		"unknown frame":         "\xff\x00\x00\x00\x00",
		"huge frame":            "\x01\xff\xff\xff\xff",
		"frame of the host":     frame(insideproto.FrameKill, "{}"),
		"no JSON":               frame(insideproto.FrameExit, "!"),
		"impossible exit":       frame(insideproto.FrameExit, `{"code":-1}`),
		"impossible signal":     frame(insideproto.FrameExit, `{"signal":1000}`),
		"input never sent":      frame(insideproto.FrameAccepted, accepted) + frame(insideproto.FrameAck, "\x00\x00\x00\x00\x00\x00\x00\x09"),
		"output of the past":    frame(insideproto.FrameStdout, "abc") + frame(insideproto.FrameAccepted, `{"output":1}`),
		"output of the future":  frame(insideproto.FrameAccepted, `{"output":9223372036854775807}`),
		"input of the future":   frame(insideproto.FrameAccepted, `{"stdin":5}`),
		"a refusal with poison": frame(insideproto.FrameRefused, `{"kind":"RateLimited","message":"\u001b[2J"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openFor(t, answering(func(st *yamux.Stream, _ insideproto.Header) {
				_, _ = io.WriteString(st, answer)
				_, _ = io.Copy(io.Discard, st)
			}), time.Minute) // none of these breaks the session; a busy machine is slow to make one
			r, w := io.Pipe()
			defer w.Close()
			_, err := s.Exec(t.Context(), providers.Command{Args: []string{"x"}, Stdin: r})
			wantKind(t, err, providers.KindInternal, "exec box")
			if d, ok := providers.DeathOf(err); ok {
				t.Errorf("a sandbox claimed its own death: %v", d)
			}
		})
	}
}

func TestHostileCompanionThatHangsUp(t *testing.T) {
	t.Parallel()
	s := openHostile(t, answering(func(*yamux.Stream, insideproto.Header) {}))
	_, err := s.Exec(t.Context(), sh("x"))
	wantKind(t, err, providers.KindUnavailable)
	wantKind(t, s.Upload(t.Context(), archive(t, file("f", "x")), "/d"), providers.KindUnavailable)
	_, err = s.Download(t.Context(), "/d")
	wantKind(t, err, providers.KindUnavailable)
	_, _, err = s.Expose(t.Context(), echo)
	wantKind(t, err, providers.KindUnavailable)
}

func TestHostileCompanionThatNeverEnds(t *testing.T) {
	t.Parallel()
	s := openHostile(t, answering(func(st *yamux.Stream, _ insideproto.Header) {
		for {
			if _, err := io.WriteString(st, frame(insideproto.FrameStdout, "spam")); err != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begin := time.Now()
	_, err := s.Exec(ctx, providers.Command{Args: []string{"x"}, Stdout: onWrite(cancel)})
	wantKind(t, err, providers.KindUnavailable, "not known whether")
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestHostileFloodsEndTheSession(t *testing.T) {
	t.Parallel()
	head := func(kind, flags byte, id uint32) string {
		return string([]byte{0, kind, 0, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 0, 0, 0, 0})
	}
	for name, next := range map[string]func(i uint32) string{
		"pings":             func(i uint32) string { return head(2, 1, 0) },
		"streams":           func(i uint32) string { return head(1, 1, 2*i+2) },
		"half-open streams": func(i uint32) string { return head(0, 1, 2*i+2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan uint32, 16)
			s := openHostile(t, hostile(func(c net.Conn) {
				go func() { _, _ = io.Copy(io.Discard, c) }()
				for i := uint32(0); ; i++ {
					if _, err := io.WriteString(c, next(i)); err != nil || i == 1e6 {
						ended <- i
						return
					}
				}
			}))
			if n := <-ended; n == 1e6 {
				t.Error("a million frames were taken")
			}
			s.Close()
		})
	}
}

func TestHostileStreamsReachNobody(t *testing.T) {
	t.Parallel()
	refused := make(chan error, 3)
	s := openHostile(t, hostile(func(c net.Conn) {
		mux, err := yamux.Server(c, insideproto.MuxConfig())
		if err != nil {
			return
		}
		defer mux.Close()
		expose, err := mux.AcceptStream()
		if err != nil {
			return
		}
		_ = insideproto.WriteRecord(expose, insideproto.FrameAccepted, insideproto.Accepted{Port: 80})
		for _, h := range []insideproto.Header{{Op: insideproto.OpRelay, ID: "guess"}, {Op: insideproto.OpExec, ID: ""}} {
			st, err := mux.OpenStream()
			if err == nil {
				err = insideproto.WriteHeader(st, h)
			}
			if err == nil {
				_, err = st.Read(make([]byte, 1))
			}
			refused <- err
		}
		_, _ = expose.Read(make([]byte, 1)) // the header is not read: until the end
		<-mux.CloseChan()
	}))
	url, _, err := s.Expose(t.Context(), func(c net.Conn) {
		c.Close()
		t.Error("the handler got a connection")
	})
	if err != nil || url != "http://127.0.0.1:80" {
		t.Fatalf("%q, %v", url, err)
	}
	for range 2 {
		if err := <-refused; !errors.Is(err, io.EOF) {
			t.Errorf("got %v", err)
		}
	}
}

func TestHostilePortsAreRefused(t *testing.T) {
	t.Parallel()
	for _, record := range []string{`{"port":0}`, `{"port":-1}`, `{"port":65536}`, `!`} {
		s := openHostile(t, answering(func(st *yamux.Stream, _ insideproto.Header) {
			_, _ = io.WriteString(st, frame(insideproto.FrameAccepted, record))
			_, _ = io.Copy(io.Discard, st)
		}))
		_, _, err := s.Expose(t.Context(), echo)
		wantKind(t, err, providers.KindInternal, "expose box")
	}
}
