package insideproto

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestFramesRoundTrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	big := bytes.Repeat([]byte("x"), MaxChunk)
	for _, f := range []struct {
		t FrameType
		p []byte
	}{{FrameStdout, []byte("hi")}, {FrameDone, nil}, {FrameBody, big}, {FrameEnd, Count(7)}} {
		if err := WriteFrame(&b, f.t, f.p); err != nil {
			t.Fatal(err)
		}
	}
	r := NewFrameReader(iotest.OneByteReader(&b))
	for _, want := range []FrameType{FrameStdout, FrameDone, FrameBody, FrameEnd} {
		typ, p, err := r.Next()
		if err != nil || typ != want {
			t.Fatalf("type %d, want %d, %v", typ, want, err)
		}
		if typ == FrameBody && !bytes.Equal(p, big) {
			t.Error("the payload differs")
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestFramesRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want error
	}{
		"type 0":        {"\x00\x00\x00\x00\x00", ErrFrame},
		"unknown type":  {"\xff\x00\x00\x00\x00", ErrFrame},
		"long data":     {"\x01\x00\x01\x00\x01", ErrFrame},
		"long record":   {"\x08\x00\x00\x20\x01", ErrFrame},
		"huge":          {"\x01\xff\xff\xff\xff", ErrFrame},
		"half a head":   {"\x01\x00", ErrTruncated},
		"half a frame":  {"\x01\x00\x00\x00\x05ab", ErrTruncated},
		"only the head": {"\x01\x00\x00\x00\x05", ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, err := NewFrameReader(strings.NewReader(c.in)).Next(); !errors.Is(err, c.want) || errors.Is(err, io.EOF) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if err := WriteFrame(io.Discard, FrameBody, make([]byte, MaxChunk+1)); !errors.Is(err, ErrFrame) {
		t.Errorf("writing too much: %v", err)
	}
}

func TestHeaderKeepsBytes(t *testing.T) {
	t.Parallel()
	want := Header{Op: OpExec, ID: "x", Path: []byte("\xff\x00"), Exec: &Command{
		Args: [][]byte{[]byte("\x80"), {}}, Env: [][]byte{[]byte("A=\xed\xa0\x80")}, TTY: &Size{1, 2},
	}}
	var b bytes.Buffer
	if err := WriteHeader(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHeader(&b, MaxHeader)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := WriteHeader(&b, want); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHeader(&b, 10); !errors.Is(err, ErrFrame) {
		t.Errorf("over its limit: %v", err)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{0, 1, 1 << 62} {
		if got, err := ParseCount(Count(n)); err != nil || got != n {
			t.Errorf("%d became %d, %v", n, got, err)
		}
	}
	for _, bad := range []string{"", "1234567", "\xff2345678", "123456789"} {
		if _, err := ParseCount([]byte(bad)); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHelloShowsWhatElseCame(t *testing.T) {
	t.Parallel()
	_, err := ReadHello(strings.NewReader("sh: not found\x1b[31m\n"))
	if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), "sh: not found") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v", err)
	}
	rest := strings.NewReader("")
	var b bytes.Buffer
	if err := WriteHello(&b, Hello{Version: 1, Boot: "x"}); err != nil {
		t.Fatal(err)
	}
	b.WriteString("after")
	if h, err := ReadHello(&b); err != nil || h != (Hello{1, "x"}) || b.String() != "after" {
		t.Errorf("%+v, %v, then %q", h, err, b.String())
	}
	if _, err := ReadHello(rest); !errors.Is(err, io.EOF) {
		t.Errorf("nothing at all: %v", err)
	}
}

func TestBodyEnds(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewBodyWriter(&b, 8, true)
	if _, err := io.WriteString(w, "hello, "); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReadFrom(iotest.OneByteReader(strings.NewReader("world, this is long"))); err != nil {
		t.Fatal(err)
	}
	cut := b.String()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	got, err := io.ReadAll(NewBodyReader(iotest.DataErrReader(strings.NewReader(whole))))
	if err != nil || string(got) != "hello, world, this is long" {
		t.Errorf("%q, %v", got, err)
	}
	for _, in := range []string{cut, cut[:len(cut)-1], whole[:len(whole)-1], ""} {
		if _, err := io.ReadAll(NewBodyReader(strings.NewReader(in))); !errors.Is(err, ErrTruncated) || errors.Is(err, io.EOF) {
			t.Errorf("%d bytes of %d: %v", len(in), len(whole), err)
		}
	}
	wrong := string(AppendFrame([]byte(cut), FrameEnd, Count(1)))
	if _, err := io.ReadAll(NewBodyReader(strings.NewReader(wrong))); !errors.Is(err, ErrTruncated) {
		t.Errorf("a wrong count: %v", err)
	}
	var refused bytes.Buffer
	if err := WriteRecord(&refused, FrameRefused, Refuse(Denied, "no")); err != nil {
		t.Fatal(err)
	}
	var r *Refusal
	if _, err := io.ReadAll(NewBodyReader(&refused)); !errors.As(err, &r) || r.Kind != Denied {
		t.Errorf("a refusal: %v", err)
	}
}

func TestConnClosesEachWay(t *testing.T) {
	t.Parallel()
	x, y := net.Pipe()
	a, b := NewConn(x), NewConn(y)
	go func() {
		_, _ = a.Write([]byte("ask"))
		_ = a.CloseWrite()
	}()
	got, err := io.ReadAll(b)
	if err != nil || string(got) != "ask" {
		t.Fatalf("%q, %v", got, err)
	}
	go func() {
		_, _ = b.Write([]byte("answer"))
		b.Close()
	}()
	got, err = io.ReadAll(a)
	if err != nil || string(got) != "answer" {
		t.Errorf("%q, %v", got, err)
	}
	a.AwaitClose()
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after CloseWrite: %v", err)
	}
	a.Close()
}

func TestConnThatVanishesIsNoEnd(t *testing.T) {
	t.Parallel()
	x, y := net.Pipe()
	a := NewConn(x)
	y.Close()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, ErrTruncated) {
		t.Errorf("got %v", err)
	}
	a.Close()
}

type writes [][]byte

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, bytes.Clone(p))
	return len(p), nil
}
func (w *writes) Read([]byte) (int, error) { return 0, io.EOF }
func (w *writes) Close() error             { return nil }

func TestJoinWrites(t *testing.T) {
	t.Parallel()
	var w writes
	j := JoinWrites(&w)
	data := "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02"
	empty := "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00"
	ping := "\x00\x02\x00\x01\x00\x00\x00\x00\x00\x00\x00\x07"
	for _, p := range []string{ping, data, "ab", empty, data, "cd"} {
		if n, err := io.WriteString(j, p); n != len(p) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	want := writes{[]byte(ping), []byte(data + "ab"), []byte(empty), []byte(data + "cd")}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Error(diff)
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"a\nb": "a b", "\x1b[1m": "�[1m", "\xff": "�", "é": "é", "12345": "1234…"} {
		if got := Printable(in, 4); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x02hi\x05\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"))
	f.Add([]byte("\x01\x00\x01\x00\x00"))
	f.Add([]byte("\x0c\x01\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewFrameReader(bytes.NewReader(in))
		var out []byte
		for {
			typ, p, err := r.Next()
			if err != nil {
				break
			}
			if len(p) > maxPayload(typ) {
				t.Fatalf("type %d with %d bytes", typ, len(p))
			}
			out = AppendFrame(out, typ, p)
		}
		if !bytes.HasPrefix(in, out) {
			t.Error("frames differ from what was read")
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add([]byte("\x04\x00\x00\x00\x02hi\x05\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x02"), uint8(1))
	f.Add([]byte("\x04\x00\x00\x00\x00\x09\x00\x00\x00\x02{}"), uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		read := func(r io.Reader) (string, bool) {
			got, err := io.ReadAll(NewBodyReader(r))
			return string(got), err == nil
		}
		whole, ok := read(bytes.NewReader(in))
		if pieces, ok2 := read(iotest.OneByteReader(bytes.NewReader(in))); pieces != whole || ok != ok2 {
			t.Errorf("read in pieces: %q %v, at once: %q %v", pieces, ok2, whole, ok)
		}
		if ok && !bytes.Contains(in, Count(int64(len(whole)))) {
			t.Error("complete without its count")
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0d{\"op\":\"exec\"}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := ReadHeader(bytes.NewReader(in), 1<<12)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteHeader(&b, h); err != nil {
			t.Fatal(err)
		}
		again, err := ReadHeader(&b, 1<<16)
		if err != nil || cmp.Diff(h.ID, again.ID) != "" {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add([]byte("HGIN\x00\x00\x00\x0d{\"version\":1}"))
	f.Add([]byte("bash: no\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if _, err := ReadHello(bytes.NewReader(in)); err == nil && !bytes.HasPrefix(in, []byte(helloMagic)) {
			t.Error("accepted without its magic")
		}
	})
}
