package wire

import "bytes"

// Events cuts a stream of server-sent events into events, each with the blank line
// that ends it, whatever the pieces in which it arrives. The zero Events is ready.
type Events struct {
	held    []byte // the beginning of an event
	inLine  bool   // a line has begun
	afterCR bool   // the last byte was a carriage return, so a line feed ends no line
	lost    bool   // the event that has begun is not kept
}

// lose lets go of the event that has begun: it is not emitted.
func (e *Events) lose() { e.held, e.lost = nil, true }

// Feed calls emit with each event that p completes. The bytes are valid until emit
// returns; all of them together are what was fed.
func (e *Events) Feed(p []byte, emit func(raw []byte)) {
	for len(p) > 0 {
		n := e.boundary(p)
		switch {
		case n < 0 && e.lost:
			return
		case n < 0:
			e.held = append(e.held, p...)
			return
		case e.lost:
			e.lost = false
		default:
			e.emit(p[:n], emit)
		}
		p = p[n:]
	}
}

// emit calls f with the event that ends with raw.
func (e *Events) emit(raw []byte, f func([]byte)) {
	if len(e.held) > 0 {
		e.held = append(e.held, raw...)
		raw = e.held
	}
	f(raw)
	e.held = e.held[:0]
}

// Rest is the event that has begun and not ended.
func (e *Events) Rest() []byte { return e.held }

// boundary returns where the first event that ends in p ends, or -1.
func (e *Events) boundary(p []byte) int {
	for i := 0; i < len(p); {
		c := p[i]
		if e.afterCR {
			e.afterCR = false
			if c == '\n' {
				i++
				continue
			}
		}
		if c != '\n' && c != '\r' {
			e.inLine = true
			i += lineEnd(p[i:])
			continue
		}
		i++
		if c == '\r' {
			if i < len(p) && p[i] == '\n' {
				i++
			}
			e.afterCR = i == len(p) && p[i-1] == '\r'
		}
		blank := !e.inLine
		e.inLine = false
		if blank {
			return i
		}
	}
	return -1
}

// lineEnd returns where the first line of p ends, without its ending.
func lineEnd(p []byte) int {
	n := bytes.IndexByte(p, '\n')
	if n < 0 {
		n = len(p)
	}
	if r := bytes.IndexByte(p[:n], '\r'); r >= 0 {
		n = r
	}
	return n
}

// event returns the name and the data of an event. The data is part of raw where
// it is one line.
func event(raw []byte) (name string, data []byte) {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	lines := 0
	for len(raw) > 0 {
		n := lineEnd(raw)
		line := raw[:n]
		raw = raw[min(n+1, len(raw)):]
		field, val, _ := bytes.Cut(line, []byte(":"))
		val = bytes.TrimPrefix(val, []byte(" "))
		switch string(field) {
		case "event":
			name = string(val)
		case "data":
			if lines++; lines == 1 {
				data = val
				continue
			}
			data = append(append(data[:len(data):len(data)], '\n'), val...)
		}
	}
	return name, data
}

// UsageFilter takes out of a stream of chat completions the chunk that holds
// nothing but usage, for clients that did not ask for it. All else passes as it
// came, at the latest with the end of its event.
type UsageFilter struct {
	events  Events
	through bool // an event was too long to be one of those
}

// Filter calls emit with what of p, and of what was held, goes on.
func (f *UsageFilter) Filter(p []byte, emit func([]byte)) {
	if f.through {
		emit(p)
		return
	}
	f.events.Feed(p, func(raw []byte) {
		if !onlyUsage(raw) {
			emit(raw)
		}
	})
	if len(f.events.held) > longest {
		f.through = true
		emit(f.events.held)
		f.events.held = nil
	}
}

// End calls emit with what is still held.
func (f *UsageFilter) End(emit func([]byte)) {
	if rest := f.events.Rest(); len(rest) > 0 && !onlyUsage(rest) {
		emit(rest)
	}
	f.events.held = nil
}

// onlyUsage reports whether an event is the last chunk of a chat completion.
func onlyUsage(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`"usage"`)) {
		return false
	}
	_, data := event(raw)
	usage, choices := false, true
	err := Members(data, func(m Member) error {
		switch m.Key {
		case "usage":
			usage = m.Value[0] == '{'
		case "choices":
			choices = len(bytes.TrimSpace(m.Value[1:len(m.Value)-1])) > 0
		}
		return nil
	})
	return err == nil && usage && !choices
}
