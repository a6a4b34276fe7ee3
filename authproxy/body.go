package authproxy

import (
	"context"
	"errors"
	"io"
	"net/http/httptrace"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"harborgate/authproxy/internal/wire"
)

// bodies is the room for bodies of requests: what all may hold together. The memory
// of small ones is used again.
type bodies struct {
	room *semaphore.Weighted
	pool sync.Pool // of *[]byte, smallBody each
}

const smallBody = 16 << 10

// unknownLen is how much room a body without a length takes at first.
const unknownLen = 64 << 10

func newBodies(most int64) *bodies { return &bodies{room: semaphore.NewWeighted(most)} }

var (
	errNoRoom  = errors.New("there is no room for the body")
	errTooLong = errors.New("the body is too long")
)

// body is what a client sent, with the room that it takes.
type body struct {
	of           *bodies
	room         int64
	text         []byte
	buf          *[]byte      // that text is in, when it comes from the pool
	begun, ended atomic.Int32 // times that a transport wrote it
}

// written returns a context whose requests count as writings of the body: a
// transport may still be at it when it has returned an answer.
func (b *body) written(ctx context.Context) context.Context {
	if b == nil || b.buf == nil {
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { b.begun.Add(1) },
		WroteRequest: func(httptrace.WroteRequestInfo) { b.ended.Add(1) },
	})
}

// take makes room for n more bytes.
func (b *body) take(n int64) error {
	if !b.of.room.TryAcquire(n) {
		return errNoRoom
	}
	b.room += n
	return nil
}

// letGo frees the room, and the memory unless somebody still reads it. No transport
// begins to after it.
func (b *body) letGo() {
	b.of.room.Release(b.room)
	if b.buf != nil && b.begun.Load() == b.ended.Load() {
		b.of.pool.Put(b.buf)
	}
	b.room, b.text, b.buf = 0, nil, nil
}

// fill reads exactly n bytes, or, when n is negative, to the end, which must come
// within most.
func (b *body) fill(r io.Reader, n, most int64) error {
	if n < 0 {
		return b.toTheEnd(r, most)
	}
	if err := b.take(n); err != nil {
		return err
	}
	if n <= smallBody {
		b.buf, _ = b.of.pool.Get().(*[]byte)
		if b.buf == nil {
			fresh := make([]byte, smallBody)
			b.buf = &fresh
		}
		b.text = (*b.buf)[:n:n]
	} else {
		b.text = make([]byte, n)
	}
	_, err := io.ReadFull(r, b.text)
	return err
}

// toTheEnd reads a body of unknown length into memory that grows with it.
func (b *body) toTheEnd(r io.Reader, most int64) error {
	for {
		if int64(len(b.text)) > most {
			return errTooLong
		}
		if int64(len(b.text)) == b.room {
			if err := b.take(min(max(b.room, unknownLen), most+1-b.room)); err != nil {
				return err
			}
			b.text = slices.Grow(b.text, int(b.room)-len(b.text))
		}
		n, err := r.Read(b.text[len(b.text):b.room])
		b.text = b.text[:len(b.text)+n]
		if errors.Is(err, io.EOF) && int64(len(b.text)) <= most {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
}

// read takes the body in, within what all requests may hold together. One without
// a length is taken in first as well: what goes upstream always has one.
func (x *exchange) read() error {
	n, most := x.r.ContentLength, x.up.conf.MaxBody
	if n > most {
		return tooLarge(most)
	}
	x.held = &body{of: x.p.bodies}
	x.finally(x.drop)
	const slowest = 16 << 10 // bytes a second
	limit := 30*time.Second + time.Duration(max(n, 0)/slowest)*time.Second
	if n < 0 {
		limit += time.Duration(most/slowest) * time.Second
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(limit)) // what cannot have one does without
	err := x.held.fill(x.r.Body, n, most)
	switch {
	case errors.Is(err, errTooLong):
		return tooLarge(most)
	case errors.Is(err, errNoRoom):
		return noRoom()
	case err != nil:
		x.rec.End = ClientGone
		return errAborted
	}
	_ = x.rc.SetReadDeadline(time.Time{})
	x.body, x.taken = x.held.text, true
	x.rec.BytesIn = int64(len(x.body))
	if x.grant.spec.Bodies && x.p.opts.Transcripts != nil {
		x.said = &said{}
		x.said.asked(x.body)
	}
	return nil
}

func tooLarge(most int64) error {
	return refusal(wire.TooLarge, "the body is longer than "+strconv.FormatInt(most, 10)+" bytes")
}

func noRoom() error {
	return &wire.Refusal{Reason: wire.Busy, Message: "the proxy holds as many bodies as it may", After: oneSecond}
}

// drop lets go of the body, once nothing needs it any more.
func (x *exchange) drop() {
	if x.held != nil {
		x.held.letGo()
		x.held, x.body = nil, nil
	}
}
