package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// longest is the longest event, or whole answer, that is looked into. What is
// longer passes unread: a whole answer counts as one that does not say what it used,
// an event as text.
const longest = 8 << 20

// Report is what an answer said about itself.
type Report struct {
	Usage      Usage
	Known      bool   // the answer stated its usage
	InputKnown bool   // it stated at least what went in
	Cost       string // in USD, where the provider says; decimal
	Model      string // the model's own name for itself
	ID         string
	Tier       string
	Complete   bool  // it came to the end that its format has
	Failed     bool  // it is an error, or ended with one
	Clients    bool  // that error is about what was asked
	Text       int64 // bytes of text, while usage is not known

	outputKnown bool // it stated what came out
	odd         bool // a number of its usage cannot be believed
}

// Tap reads an answer on the side. It changes and delays nothing. It is not safe
// for concurrent use.
type Tap struct {
	format Format
	stream bool
	events Events
	whole  []byte
	blind  bool // the whole answer was too long
	report Report
}

// NewTap returns a tap for an answer of a format and a content type.
func NewTap(f Format, contentType string) *Tap {
	return &Tap{format: f, stream: IsEventStream(contentType)}
}

// IsEventStream reports whether a content type is that of server-sent events.
func IsEventStream(contentType string) bool {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// Write reads the next bytes of the answer.
func (t *Tap) Write(p []byte) {
	switch {
	case t.blind:
	case t.stream:
		if t.events.lost {
			t.report.Text += int64(len(p))
		}
		t.events.Feed(p, t.event)
		if n := len(t.events.held); n > longest {
			t.events.lose()
			t.report.unread(n)
		}
	default:
		t.whole = append(t.whole, p...)
		if t.blind = len(t.whole) > longest; t.blind {
			t.whole = nil
		}
	}
}

// unread counts an event of n bytes that is not looked into, which may hold text and
// may have said what was used.
func (r *Report) unread(n int) {
	r.Text += int64(n)
	r.Known, r.outputKnown = false, false
}

// Ended reports whether the answer has come to the end that its format has.
func (t *Tap) Ended() bool { return t.report.Complete }

// End reads what is left and returns the report. An answer that was too long to be
// read, or whose numbers cannot be believed, has no known usage.
func (t *Tap) End() Report {
	switch {
	case t.blind:
	case t.stream:
		if rest := t.events.Rest(); len(rest) > 0 {
			t.event(rest)
		}
	case len(t.whole) > 0:
		t.report.Complete = t.document()
	}
	if t.report.odd {
		t.report.Known = false
	}
	return t.report
}

// document reads an answer that is one document, or an array of them.
func (t *Tap) document() bool {
	if body := bytes.TrimSpace(t.whole); len(body) > 0 && body[0] == '[' {
		var list []document
		if !read(body, &list) {
			return false
		}
		for i := range list {
			t.report.take(t.format, &list[i])
			t.report.fail(&list[i])
		}
		return true
	}
	var d document
	if !read(slim(t.whole), &d) {
		return false
	}
	t.report.take(t.format, &d)
	t.report.fail(&d)
	t.report.Failed = t.report.Failed || finishedWithError(t.whole)
	return true
}

// slim leaves of a document what is read of it, so that its text is not decoded. A
// document that cannot be taken apart stays as it is.
func slim(whole []byte) []byte {
	var out []byte
	err := Members(whole, func(m Member) error {
		switch m.Key {
		case "type", "id", "model", "modelVersion", "service_tier", "usage", "usageMetadata", "message", "response", "responseId", "error", "status":
			out = append(append(append(append(out, ",\""...), m.Key...), "\":"...), m.Value...)
		}
		return nil
	})
	if err != nil || out == nil {
		return whole
	}
	out[0] = '{'
	return append(out, '}')
}

// read decodes what has the expected types, and leaves out what has not.
func read(b []byte, into any) bool {
	err := json.Unmarshal(b, into)
	var other *json.UnmarshalTypeError
	return err == nil || errors.As(err, &other)
}

// event reads one event. Most hold a few words of text, and only their length is
// of interest.
func (t *Tap) event(raw []byte) {
	name, data := event(raw)
	switch {
	case len(data) == 0:
	case string(data) == "[DONE]":
		t.report.Complete = true
	case telling(t.format, name, data):
		t.telling(name, data)
	default:
		t.report.Text += textIn(data)
	}
}

// telling reports whether an event may hold more than text.
func telling(f Format, name string, data []byte) bool {
	switch f {
	case Messages:
		return tellingMessage(name, data)
	case Responses:
		return name == "error" || has(data, `"error"`) || has(data, `"response.completed"`) || has(data, `"response.incomplete"`) ||
			has(data, `"response.failed"`) || has(data, `"response.created"`)
	case Generate:
		return has(data, `"usageMetadata"`) || has(data, `"finishReason"`) || has(data, `"error"`)
	default:
		return has(data, `"usage":{`) || has(data, `"usage": {`) || has(data, `"error"`)
	}
}

// tellingMessage is telling for Anthropic's events: deltas, which are nearly all of
// them, hold text only.
func tellingMessage(name string, data []byte) bool {
	if name == "content_block_delta" {
		return false
	}
	return name == "error" || has(data, `"usage"`) || has(data, `"message_stop"`) || has(data, `"error"`)
}

func has(data []byte, s string) bool { return bytes.Contains(data, []byte(s)) }

func (t *Tap) telling(name string, data []byte) {
	var d document
	if !read(data, &d) {
		t.report.Text += textIn(data)
		return
	}
	if d.Type == "" {
		d.Type = name
	}
	r := &t.report
	r.take(t.format, &d)
	r.Complete = r.Complete || ends(t.format, &d)
	r.fail(&d)
	r.Failed = r.Failed || finishedWithError(data)
	if !r.Known || t.format == Messages {
		r.Text += textIn(data)
	}
}

// ends reports whether an event is the last of its stream.
func ends(f Format, d *document) bool {
	switch f {
	case Messages:
		return d.Type == "message_stop"
	case Responses:
		return slices.Contains([]string{"response.completed", "response.incomplete", "response.failed"}, d.Type)
	case Generate:
		return len(d.Candidates) > 0 && d.Candidates[0].Finish != ""
	}
	return false // chat completions end with what is no JSON
}

// textIn counts the bytes of text that an event adds to an answer, without
// decoding it: an estimate for answers whose end never comes.
func textIn(data []byte) int64 {
	const early = 512 // bytes, in which the text of an event begins
	head := data[:min(early, len(data))]
	var n int64
	for _, key := range []string{`"text":`, `"content":`, `"delta":`, `"arguments":`, `"partial_json":`, `"thinking":`} {
		i := bytes.Index(head, []byte(key))
		if i < 0 {
			continue
		}
		start := space(data, i+len(key))
		if start == len(data) || data[start] != '"' {
			continue
		}
		if end, err := quoted(data, start); err == nil {
			n += int64(end - start - 2)
		}
	}
	return n
}
