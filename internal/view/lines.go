package view

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"
)

const (
	longest  = 4096    // bytes of a line; a longer one is shown in pieces
	looked   = 8 << 10 // bytes that are looked at to tell text from other content
	scanStep = 256 << 10
)

// text is content of any size, of which only what is shown is read. A place in it
// is the offset of a line's first byte.
type text struct {
	src  io.ReaderAt
	size int64
}

// line is one line without its end.
type line struct {
	at  int64
	raw []byte
}

func (t *text) read(from int64, n int) ([]byte, error) {
	b := make([]byte, max(0, min(int64(n), t.size-from)))
	got, err := t.src.ReadAt(b, from)
	if errors.Is(err, io.EOF) {
		err = nil // it became shorter
	}
	return b[:got], err
}

// next returns the line that begins at a place, and the place behind it.
func (t *text) next(at int64) (line, int64, error) {
	b, err := t.read(at, longest)
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return line{at, b[:i]}, at + int64(i) + 1, err
	}
	if len(b) == longest {
		b = wholeRunes(b)
	}
	return line{at, b}, at + int64(len(b)), err
}

// wholeRunes leaves the beginning of a character to the next piece.
func wholeRunes(b []byte) []byte {
	for n := 1; n < utf8.UTFMax; n++ {
		if utf8.RuneStart(b[len(b)-n]) {
			if !utf8.FullRune(b[len(b)-n:]) {
				return b[:len(b)-n]
			}
			break
		}
	}
	return b
}

// lines returns up to n lines from a place on.
func (t *text) lines(at int64, n int) ([]line, error) {
	var out []line
	for len(out) < n && at < t.size {
		l, after, err := t.next(at)
		if err != nil {
			return out, err
		}
		if after == at {
			break // it became shorter
		}
		out = append(out, l)
		at = after
	}
	return out, nil
}

// start is the place of the line that an offset is in.
func (t *text) start(at int64) (int64, error) {
	from := max(0, at-longest)
	b, err := t.read(from, int(at-from))
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		return from + int64(i) + 1, err
	}
	return from, err
}

// back is the place n lines above another, or the first.
func (t *text) back(at int64, n int) (int64, error) {
	for ; n > 0 && at > 0; n-- {
		var err error
		if at, err = t.start(at - 1); err != nil {
			return at, err
		}
	}
	return at, nil
}

// binary reports content that is no text.
func (t *text) binary() bool {
	b, err := t.read(0, looked)
	return err == nil && bytes.IndexByte(b, 0) >= 0
}

// find returns the first occurrence of a word at or behind a place, or -1. Case is
// ignored in ASCII. It stops when proceed says so.
func (t *text) find(word []byte, at int64, proceed func() error) (int64, error) {
	word = lowered(word)
	for at < t.size {
		if err := proceed(); err != nil {
			return -1, err
		}
		b, err := t.read(at, scanStep+len(word)-1)
		if err != nil {
			return -1, err
		}
		if i := bytes.Index(lowered(b), word); i >= 0 {
			return at + int64(i), nil
		}
		if len(b) < scanStep {
			break
		}
		at += scanStep
	}
	return -1, nil
}

// findBack returns the last occurrence of a word that begins before a place, or -1.
func (t *text) findBack(word []byte, before int64, proceed func() error) (int64, error) {
	word = lowered(word)
	for before > 0 {
		if err := proceed(); err != nil {
			return -1, err
		}
		from := max(0, before-scanStep)
		b, err := t.read(from, int(before-from)+len(word)-1)
		if err != nil {
			return -1, err
		}
		if i := bytes.LastIndex(lowered(b), word); i >= 0 {
			return from + int64(i), nil
		}
		before = from
	}
	return -1, nil
}

// lowered writes ASCII letters small and keeps the length.
func lowered(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}
