package inside_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/providers/inside"
)

// echo answers a connection with what it got, after the other side ended.
func echo(c net.Conn) {
	defer c.Close()
	b, err := io.ReadAll(c)
	if err == nil {
		_, _ = c.Write(append([]byte("got "), b...))
	}
}

func expose(t testing.TB, s *inside.Session, handle func(net.Conn)) (addr string, closer func() error) {
	t.Helper()
	url, closer, err := s.Expose(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := strings.CutPrefix(url, "http://")
	if !ok || !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Fatalf("url %q", url)
	}
	return addr, closer
}

func dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func ask(t testing.TB, addr, what string) string {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, what); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestExposeCarriesHalfClosedConnections(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	addr, closer := expose(t, s, echo)
	var all sync.WaitGroup
	for i := range 300 { // more than are carried at a time
		all.Go(func() {
			if got := ask(t, addr, fmt.Sprint(i)); got != fmt.Sprint("got ", i) {
				t.Errorf("%d: %q", i, got)
			}
		})
	}
	all.Wait()
	big := strings.Repeat("0123456789abcdef", 1<<18)
	if got := ask(t, addr, big); got != "got "+big {
		t.Errorf("%d bytes of %d", len(got), len(big)+4)
	}
	if err := closer(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

// listener hands relayed connections to an HTTP server.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l listener) Close() error {
	close(l.done)
	return nil
}

func (l listener) Addr() net.Addr { return &net.TCPAddr{} }

func (l listener) handle(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.done:
		c.Close()
	}
}

func serveHTTP(t testing.TB, s *inside.Session, h http.Handler) string {
	t.Helper()
	l := listener{make(chan net.Conn), make(chan struct{})}
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l)
	}()
	addr, _ := expose(t, s, l.handle)
	t.Cleanup(func() {
		srv.Close()
		<-ended
	})
	return "http://" + addr
}

func TestExposeServesHTTP(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	url := serveHTTP(t, s, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "event %d\n", i)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
	}))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "event 0\n" {
		t.Errorf("%q, %v", line, err)
	}
	resp.Body.Close() // the handler's context ends, or the test hangs
}

func TestExposeDeadlines(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	result := make(chan string, 1)
	addr, _ := expose(t, s, func(c net.Conn) {
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 10))
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			result <- fmt.Sprint("no timeout but ", err)
			return
		}
		_ = c.SetReadDeadline(time.Time{})
		_, _ = c.Write([]byte("ready"))
		b := make([]byte, 5)
		_, err = io.ReadFull(c, b)
		result <- fmt.Sprint(string(b), " ", err)
	})
	c := dial(t, addr)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if got := <-result; got != "hello <nil>" {
		t.Errorf("got %q", got)
	}
}

func TestExposeTellsResetFromEnd(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	result := make(chan error, 1)
	addr, _ := expose(t, s, func(c net.Conn) {
		defer c.Close()
		_, err := io.ReadAll(c)
		result <- err
	})
	c := dial(t, addr)
	if _, err := c.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := <-result; err == nil {
		t.Error("a reset looks like a complete stream")
	}
}

func TestExposeOutlivesABrokenSession(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	addr, _ := expose(t, s, echo)
	before := dial(t, addr)
	for i := range 3 {
		l.cut(nil)
		if got := ask(t, addr, "x"); got != "got x" {
			t.Errorf("after cut %d: %q", i, got)
		}
	}
	if _, err := io.ReadAll(before); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection of the first session: %v", err)
	}
}

func TestExposeEndsWithTheSession(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	ended := make(chan error, 1)
	started := make(chan struct{})
	addr, _ := expose(t, s, func(c net.Conn) {
		defer c.Close()
		close(started)
		_, err := c.Read(make([]byte, 1))
		ended <- err
	})
	dial(t, addr)
	<-started
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the handler's connection goes on")
	}
}
