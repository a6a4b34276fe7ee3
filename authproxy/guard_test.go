package authproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// Guessing tokens costs the audit no line for each guess, and delays nobody who has
// one, behind the same address too.
func TestAttack14GuessersDrownNobody(t *testing.T) {
	t.Parallel()
	r := start(t)
	const n = 500
	var bodies [2]string
	for i := range n {
		a := r.do(t.Context(), "POST", messages, ask, http.Header{"X-Api-Key": {fmt.Sprintf("hgt_%012d_guess", i)}})
		if a.status != 401 {
			t.Fatalf("%+v", a)
		}
		bodies[min(i, 1)] = a.body
	}
	if len(bodies[0]) != len(bodies[1]) {
		t.Errorf("the answers differ: %s, %s", bodies[0], bodies[1])
	}
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("an honest request: %+v", a)
	}
	r.mu.Lock()
	records := len(r.records)
	r.mu.Unlock()
	if records < strangersAtOnce || records > n/2 {
		t.Errorf("%d records of %d guesses", records, n)
	}
}

func TestGuardSaysHowManyHaveNoRecord(t *testing.T) {
	t.Parallel()
	g, err := newGuard(Connections{All: 1, Source: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range strangersAtOnce + 5 {
		if tooMany, skipped := g.refused("a", now); tooMany != (i >= strangersAtOnce) || skipped != 0 {
			t.Errorf("%d: %v %d", i, tooMany, skipped)
		}
	}
	if tooMany, _ := g.refused("b", now); tooMany {
		t.Error("another source pays for it")
	}
	if tooMany, skipped := g.refused("a", now.Add(2*time.Second)); tooMany || skipped != 5 {
		t.Errorf("%v %d", tooMany, skipped)
	}
}

func TestAttack23ConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ *Config, o *Options) { o.Connections = Connections{All: 7, Source: 5} })
	var open []net.Conn
	ends := func(c net.Conn) bool { // half a request is no answer, so only the end is read
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err := io.WriteString(c, "POST / HTTP/1.1\r\n")
		if err == nil {
			_, err = c.Read(make([]byte, 1))
		}
		return err != nil && !os.IsTimeout(err)
	}
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for range 5 {
		open = append(open, dial())
	}
	if !ends(dial()) {
		t.Error("a sixth connection of one source is served")
	}
	var statuses []int
	for _, source := range []string{"trial A", "trial B"} {
		statuses = append(statuses, r.handed(source))
	}
	if statuses[0] != 200 || statuses[1] != 200 {
		t.Errorf("other sources: %v", statuses)
	}
	for _, c := range open {
		c.Close()
	}
	for range 1000 { // the proxy sees the ends a moment later
		c := dial()
		_, _ = io.WriteString(c, "HEAD /anthropic/api/hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && strings.Contains(line, "200") {
			return
		}
		runtime.Gosched()
	}
	t.Error("closed connections still count")
}

// A thousand streams whose upstream dies: none looks complete, nothing is left.
func TestThousandStreamsOfADyingUpstream(t *testing.T) {
	r := start(t, once)
	hold := make(chan struct{})
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		return mockllm.Step{Text: "x", Words: 50, HoldEvent: hold, CutAfter: 20}
	})
	tr := &http.Transport{DisableCompression: true}
	r.client.Transport = tr
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	const n = 1000
	var begun, ended sync.WaitGroup
	var mu sync.Mutex
	complete, read, refused := 0, 0, 0
	for range n {
		begun.Add(1)
		ended.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.addr+messages, strings.NewReader(askStream))
			if err != nil {
				t.Error(err)
			}
			req.Header.Set("X-Api-Key", r.token)
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Error(err)
				begun.Done()
				return
			}
			defer resp.Body.Close()
			first := make([]byte, 1)
			_, _ = io.ReadFull(resp.Body, first)
			begun.Done()
			rest, err := io.ReadAll(resp.Body)
			mu.Lock()
			defer mu.Unlock()
			read += len(rest)
			if resp.StatusCode == http.StatusServiceUnavailable { // a busy machine refuses some connections
				refused++
				return
			}
			if err == nil || strings.Contains(string(rest), "message_stop") {
				complete++
			}
		})
	}
	begun.Wait()
	close(hold)
	ended.Wait()
	if complete != 0 || read == 0 || refused > n/2 {
		t.Errorf("%d of %d streams look complete; %d bytes were read", complete, n, read)
	}
	r.record(n)
	r.mu.Lock()
	for _, rec := range r.records {
		if rec.Refused != wire.Down && (rec.End != Cut || !rec.Guessed) {
			t.Errorf("%+v", rec)
			break
		}
	}
	r.mu.Unlock()
	tr.CloseIdleConnections()
	r.proxy.table.Load().close()
	for range 5000 { // the ends of connections take a moment
		if runtime.NumGoroutine() <= goroutines+20 && openFiles(t) <= files+20 {
			break
		}
		<-time.After(time.Millisecond)
	}
	if g, f := runtime.NumGoroutine(), openFiles(t); g > goroutines+20 || f > files+20 {
		t.Errorf("%d goroutines and %d files became %d and %d", goroutines, files, g, f)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
