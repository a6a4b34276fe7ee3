package inside_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/yamux"

	"harborgate/internal/insideproto"
)

// A companion that opens more connections than it may, and reads none of them,
// reaches the handler as often as it may, and holds no more of the host's memory
// than its windows; another sandbox goes on.
func TestHostileRelaysThatReadNothingAreBounded(t *testing.T) {
	t.Parallel()
	const tried = insideproto.MaxRelays + 40
	exposed, opened := make(chan struct{}), make(chan struct{})
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
		h, err := insideproto.ReadHeader(expose, insideproto.MaxHeader)
		if err != nil || insideproto.WriteRecord(expose, insideproto.FrameAccepted, insideproto.Accepted{Port: 80}) != nil {
			return
		}
		<-exposed
		for range tried {
			st, err := mux.OpenStream()
			if err != nil || insideproto.WriteHeader(st, insideproto.Header{Op: insideproto.OpRelay, ID: h.ID}) != nil {
				break
			}
		}
		close(opened)
		<-mux.CloseChan()
	}))
	var here, most, sent atomic.Int64
	var handlers sync.WaitGroup
	full := make(chan struct{}, 8*tried)
	_, closer, err := s.Expose(t.Context(), func(c net.Conn) {
		handlers.Add(1)
		defer handlers.Done()
		defer c.Close()
		most.Store(max(most.Load(), here.Add(1)))
		defer here.Add(-1)
		piece := make([]byte, 64<<10)
		for {
			n, err := c.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
			full <- struct{}{}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	close(exposed)
	<-opened
	for range insideproto.MaxRelays {
		<-full // each writes until its window is used up
	}
	other := openHostile(t, answering(func(st *yamux.Stream, _ insideproto.Header) {
		_ = insideproto.WriteRecord(st, insideproto.FrameAccepted, insideproto.Accepted{Port: 81})
		_, _ = st.Read(make([]byte, 1))
	}))
	if url, _, err := other.Expose(t.Context(), echo); err != nil || url != "http://127.0.0.1:81" {
		t.Errorf("another sandbox: %q, %v", url, err)
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
	handlers.Wait()
	if most.Load() > insideproto.MaxRelays {
		t.Errorf("%d connections at once, want at most %d", most.Load(), insideproto.MaxRelays)
	}
	if bound := int64(insideproto.MaxRelays) * (256<<10 + 64<<10); sent.Load() > bound {
		t.Errorf("%d bytes went to a companion that reads nothing, want at most %d", sent.Load(), bound)
	}
}
