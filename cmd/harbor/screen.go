package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is a terminal that obeys nothing of what is written to it, wherever that came
// from: names of tasks, errors of sandboxes, logs of agents. What is to be drawn goes to
// the file itself. Safe for concurrent use.
type screen struct {
	file *os.File

	mu   sync.Mutex
	rest []byte // the start of a character whose end was not written yet
}

// onScreen protects a stream that is a terminal.
func onScreen(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &screen{file: f}
	}
	return w
}

// Write implements io.Writer. Characters may be cut anywhere.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := append(s.rest, b...)
	whole := len(all) - cutOff(all)
	s.rest = append([]byte(nil), all[whole:]...)
	if _, err := io.WriteString(s.file, visible(string(all[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// cutOff is how many bytes at the end are the start of a longer character.
func cutOff(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// colours are the sequences that logs are full of.
var colours = regexp.MustCompile(`\x1b\[[0-9;:]*[mK]`)

// copyLog copies a log: to a terminal without its colours, elsewhere byte by byte.
func (s streams) copyLog(from io.Reader) error {
	if f, ok := s.file(); !ok || !term.IsTerminal(int(f.Fd())) {
		_, err := io.Copy(s.out, from)
		return err
	}
	in := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := in.ReadSlice('\n') // or as much of it as there is room for
		if text, ok := bytes.CutSuffix(line, []byte("\r\n")); ok {
			line = append(text, '\n')
		}
		if _, werr := s.out.Write(colours.ReplaceAll(line, nil)); werr != nil {
			return werr
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
