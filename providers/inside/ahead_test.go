package inside

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"

	"harborgate/internal/insideproto"
)

// aheadPair are the two ends of a relayed connection.
func aheadPair(t *testing.T) (*ahead, *insideproto.Conn) {
	t.Helper()
	host, sandbox := net.Pipe()
	t.Cleanup(func() {
		host.Close()
		sandbox.Close()
	})
	return &ahead{Conn: insideproto.NewConn(host)}, insideproto.NewConn(sandbox)
}

func TestAheadKeepsBytesAndTheirOrder(t *testing.T) {
	t.Parallel()
	a, peer := aheadPair(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var sent bytes.Buffer
	got := make(chan []byte, 1)
	go func() {
		b, err := io.ReadAll(peer)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	for range 500 {
		piece := make([]byte, rnd.IntN(1<<(4+rnd.IntN(15))))
		for i := range piece {
			piece[i] = byte(rnd.Uint32())
		}
		sent.Write(piece)
		if n, err := a.Write(piece); n != len(piece) || err != nil {
			t.Fatalf("%d %v", n, err)
		}
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, sent.Bytes()) {
		t.Errorf("%d bytes arrived of %d, or others", len(b), sent.Len())
	}
	_ = a.Close()
}

// A side that does not read holds no more than the limit, and whoever writes to it.
func TestAheadIsBoundedAndEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := aheadPair(t)
		var n int
		var err error
		written := make(chan struct{})
		go func() {
			defer close(written)
			n, err = a.Write(make([]byte, 4*mostAhead))
		}()
		synctest.Wait() // nobody reads: the writer waits for room
		a.mu.Lock()
		held := len(a.buf) + len(a.spare)
		a.mu.Unlock()
		select {
		case <-written:
			t.Fatalf("%d bytes were taken, %v", n, err)
		default:
		}
		if held == 0 || held > 2*mostAhead {
			t.Errorf("%d bytes are held", held)
		}
		if err := a.cut(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
		<-written
		if err == nil || n > 2*mostAhead {
			t.Errorf("the write ended with %d bytes and %v", n, err)
		}
		if _, err := a.Write([]byte("x")); err == nil {
			t.Error("a write to a connection that was cut succeeded")
		}
	})
}
