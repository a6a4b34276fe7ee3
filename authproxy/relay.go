package authproxy

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"harborgate/authproxy/internal/wire"
)

// pieces are the buffers of streams. Most events are small and a stream is open for
// long, so it begins with a small one.
type pieces struct{ small, large sync.Pool }

const (
	smallPiece = 2 << 10
	largePiece = 32 << 10
)

func (p *pieces) get(size int) *[]byte {
	if b, ok := p.of(size).Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}

func (p *pieces) put(b *[]byte) { p.of(len(*b)).Put(b) }

func (p *pieces) of(size int) *sync.Pool {
	if size == largePiece {
		return &p.large
	}
	return &p.small
}

// relay passes the answer on as it comes: each piece at once and unchanged, except
// that our own keys are masked and a usage chunk is taken out that only we asked
// for. An answer that breaks off is broken off: it never looks complete.
func (x *exchange) relay() error {
	resp := x.resp
	defer resp.Body.Close()
	body, length, err := plain(resp)
	if err != nil {
		return refusal(wire.BadAnswer, err.Error())
	}
	header := wire.Inbound(resp.Header)
	for name, values := range header {
		if x.up.echoed([]byte(values[0])) {
			delete(header, name)
			x.alarm()
		}
	}
	filtered := x.filter && wire.IsEventStream(header.Get("Content-Type"))
	if length >= 0 && !filtered {
		header["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	out := x.w.Header()
	for name, values := range header {
		out[name] = values
	}
	x.rec.Status = resp.StatusCode
	x.rec.FirstMS = time.Since(x.start).Milliseconds()
	x.patience()
	x.w.WriteHeader(resp.StatusCode)

	s := &stream{x: x, tap: wire.NewTap(x.route.Format, resp.Header.Get("Content-Type")), scrub: newScrubber(x.up.forms, x.up.marks)}
	if filtered {
		s.filter = &wire.UsageFilter{}
	}
	s.flush = length < 0
	err = s.copy(body)
	ended := s.tap.Ended()
	x.report = s.tap.End()
	x.rec.End = x.over(err, ended)
	if err == nil && (x.rec.End != Truncated || x.framed()) {
		return nil
	}
	if !errors.Is(err, errWrite) { // what is counted as sent is sent before the connection is cut
		_ = x.rc.SetWriteDeadline(time.Now().Add(oneSecond))
		_ = x.rc.Flush()
	}
	return errAborted
}

// over is how the answer ended. A stream that came to its own end is complete, even
// if the client or the upstream did not wait for anything more; a document has come
// to its end only with the last byte that was announced.
func (x *exchange) over(err error, ended bool) End {
	switch complete := ended || err == nil && (x.report.Complete || x.route.Cost != wire.Billed); {
	case x.resp.StatusCode >= http.StatusBadRequest:
		return Refused
	case errors.Is(err, errEndless):
		x.p.opts.Log.Warn("an answer without an end was cut", "upstream", x.up.name, "request", x.rec.ID, "limit", x.p.opts.Answer)
		return Cut
	case x.report.Failed && (err == nil || complete):
		return x.failed()
	case complete:
		return Complete
	case err == nil:
		return Truncated
	case errors.Is(err, errWrite), x.ctx.Err() != nil:
		_ = x.ended()
		return x.rec.End
	}
	return Cut
}

// failed is the end of an answer that is an error, under a status of success.
func (x *exchange) failed() End {
	if x.report.Clients {
		return Refused
	}
	return Failed
}

// framed reports whether the end of the upstream's answer was marked as such.
func (x *exchange) framed() bool {
	return x.resp.ContentLength >= 0 || len(x.resp.TransferEncoding) > 0
}

// alarm is raised when an upstream sends one of our keys back.
func (x *exchange) alarm() {
	x.p.opts.Log.Error("an upstream sent a key back; it was masked", "upstream", x.up.name, "request", x.rec.ID)
}

// stream is an answer on its way to the client.
type stream struct {
	x      *exchange
	tap    *wire.Tap
	scrub  *scrubber
	filter *wire.UsageFilter
	flush  bool
	err    error // of writing
}

var (
	errWrite   = errors.New("the client does not take the answer")
	errEndless = errors.New("the answer is longer than any may be")
)

// copy passes all of body on. It ends without error when body does.
func (s *stream) copy(body io.Reader) error {
	x := s.x
	piece := x.p.pieces.get(smallPiece)
	defer func() { x.p.pieces.put(piece) }()
	silence := time.AfterFunc(x.up.conf.Timeouts.Idle, func() { x.cancel(errSilent) })
	defer silence.Stop()
	for left := x.p.opts.Answer; ; {
		n, err := body.Read(*piece)
		if left -= int64(n); left < 0 {
			return errEndless
		}
		if n > 0 {
			silence.Reset(x.up.conf.Timeouts.Idle)
			s.pass((*piece)[:n])
			s.tap.Write((*piece)[:n])
		}
		if s.err != nil {
			x.cancel(context.Canceled) // nothing more is wanted of the upstream
			return errWrite
		}
		if errors.Is(err, io.EOF) {
			s.end()
			return s.err
		}
		if err != nil {
			return err
		}
		if n == smallPiece { // more than this is waiting
			x.p.pieces.put(piece)
			piece = x.p.pieces.get(largePiece)
		}
	}
}

// pass sends one piece on.
func (s *stream) pass(p []byte) {
	if s.filter != nil {
		s.filter.Filter(p, s.write)
	} else {
		s.write(p)
	}
	if s.flush && s.err == nil {
		s.err = s.x.rc.Flush()
	}
}

func (s *stream) end() {
	if s.filter != nil {
		s.filter.End(s.write)
	}
	if rest := s.scrub.rest; len(rest) > 0 {
		s.send(rest)
	}
}

func (s *stream) write(p []byte) {
	before := s.scrub.hits
	s.send(s.scrub.clean(p))
	if s.scrub.hits > before {
		s.x.alarm()
	}
}

func (s *stream) send(p []byte) {
	if s.err != nil || len(p) == 0 {
		return
	}
	s.x.patience()
	n, err := s.x.w.Write(p)
	s.x.said.answered(p[:n])
	s.x.rec.BytesOut += int64(n)
	s.err = err
}

// plain returns the body without compression, and its length or -1. The upstream
// was asked for none; when it compresses all the same, what is inside must be seen:
// by the meter, and for our keys.
func plain(resp *http.Response) (io.Reader, int64, error) {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		return resp.Body, resp.ContentLength, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(resp.Body)
		return &bounded{r: z}, -1, err
	case "deflate":
		b := bufio.NewReader(resp.Body)
		head, err := b.Peek(1)
		if err == nil && head[0]&0x0f == 8 { // most mean zlib
			z, err := zlib.NewReader(b)
			return &bounded{r: z}, -1, err
		}
		return &bounded{r: flate.NewReader(b)}, -1, nil
	}
	return nil, 0, errors.New("the upstream compresses in a way that cannot be read")
}

// bounded ends what decompresses to more than any answer holds.
type bounded struct {
	r io.Reader
	n int64
}

var errBomb = errors.New("the answer decompresses to more than may be")

func (b *bounded) Read(p []byte) (int, error) {
	const most = 64 << 20
	n, err := b.r.Read(p)
	if b.n += int64(n); b.n > most {
		return 0, errBomb
	}
	return n, err
}
