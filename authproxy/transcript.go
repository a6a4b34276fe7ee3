package authproxy

import (
	"bytes"
	"time"
)

// Transcript is what was said in one request of a grant that wants it kept: what the
// client sent and what it got, as far as the bound goes. Keys and tokens are masked.
type Transcript struct {
	Time    time.Time `json:"time"`
	ID      string    `json:"id"` // as in the Record
	Job     string    `json:"job"`
	Trial   string    `json:"trial"`
	Phase   string    `json:"phase"`
	Request string    `json:"request"`
	Answer  string    `json:"answer"`
	Cut     bool      `json:"cut,omitempty"` // one of the two is longer
}

// Transcripts takes one Transcript of each request whose grant wants it. It is
// called from many goroutines, after the answer.
type Transcripts interface {
	Transcript(Transcript) error
}

// longestSaid is how much of a body, and of an answer, a transcript holds.
const longestSaid = 1 << 20

// said gathers a transcript. The nil said gathers nothing.
type said struct {
	request, answer []byte
	cut             bool
}

// upTo returns the beginning of b that still fits beside n bytes.
func (s *said) upTo(n int, b []byte) []byte {
	if room := longestSaid - n; len(b) > room {
		s.cut = true
		return b[:room]
	}
	return b
}

func (s *said) asked(b []byte) {
	if s != nil {
		s.request = bytes.Clone(s.upTo(0, b))
	}
}

func (s *said) answered(b []byte) {
	if s != nil {
		s.answer = append(s.answer, s.upTo(len(s.answer), b)...)
	}
}

// transcript hands over what was said.
func (x *exchange) transcript() {
	s := x.said
	if s == nil {
		return
	}
	err := x.p.opts.Transcripts.Transcript(Transcript{
		Time: x.rec.Time, ID: x.rec.ID, Job: x.rec.Job, Trial: x.rec.Trial, Phase: x.rec.Phase,
		Request: x.masked(s.request), Answer: x.masked(s.answer), Cut: s.cut,
	})
	if err != nil {
		x.p.opts.Log.Error("transcript lost", "request", x.rec.ID, "error", err.Error())
	}
}

// masked is text without the keys of any upstream and without the token.
func (x *exchange) masked(text []byte) string {
	hidden := [][]byte{}
	for _, u := range x.table.upstreams {
		hidden = append(hidden, u.forms...)
	}
	for _, t := range x.presented() {
		hidden = append(hidden, []byte(t))
	}
	for _, h := range hidden {
		text = bytes.ReplaceAll(text, h, []byte("[redacted]"))
	}
	return string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
}

// Transcript writes one line.
func (l *AuditLog) Transcript(t Transcript) error { return l.write(t) }
