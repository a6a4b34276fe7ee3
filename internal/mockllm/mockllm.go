// Package mockllm is a model API that thinks nothing: it speaks the four wire
// formats that agents use (Anthropic Messages, OpenAI chat completions and
// responses, Gemini), streaming and not, and counts what it served.
//
// Without a script it answers as a model would that needs one shell command: a tool
// call while the request holds no tool result, then a closing text, or the command by
// which the agent wants to be told that all is done. A script says
// for each request what happens instead: a text, an error, a slow, cut or
// compressed answer, an echo of what arrived.
//
//	POST …/v1/messages            Anthropic
//	POST …/chat/completions       OpenAI, also …/completions
//	POST …/responses              OpenAI
//	POST …/embeddings             OpenAI
//	POST …/models/M:generateContent, :streamGenerateContent   Gemini
package mockllm

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Usage is what an answer says it used, in disjoint classes. A provider's own
// sums (OpenAI's prompt tokens hold the cached ones) are made from it.
type Usage struct {
	Input      int // neither read from nor written to a cache
	CacheRead  int
	CacheWrite int // Anthropic only
	Output     int // with Reasoning
	Reasoning  int
}

// Usual is what answers use unless their step says otherwise.
func Usual() Usage {
	return Usage{Input: 700, CacheRead: 300, CacheWrite: 20, Output: 42, Reasoning: 7}
}

// Step is how one request is answered. The zero Step is the answer of a model that
// calls a tool once and then finishes.
type Step struct {
	Text    string      // answer this text
	Command string      // let the tool call run this; empty is an echo
	Echo    bool        // answer what arrived: method, path, header, body
	Status  int         // answer an error of the format's shape, or Body
	Header  http.Header // added to the answer
	Body    []byte      // the whole answer, byte for byte, with Status (0 is 200)

	Reset      bool            // close the connection before the status line
	CutAfter   int             // close it after that many events of a stream
	ErrorAfter int             // send the format's error event after that many, and end
	Pause      time.Duration   // wait before each event
	Hold       <-chan struct{} // wait for it before the first byte
	HoldEvent  <-chan struct{} // wait for it after the first event
	Encoding   string          // "gzip" or "deflate", whatever the client accepts
	Usage      *Usage          // nil is Usual
	NoUsage    bool            // say nothing about usage
	Words      int             // so many more events of text
	Model      string          // the model's own name for itself; empty is what was asked for
	ID         string          // of the response
}

// Request is one request as it arrived.
type Request struct {
	Method string
	Path   string
	Query  string
	Host   string
	Header http.Header
	Body   []byte
	Remote string // address of the connection
}

// Served counts answers that ended as their step meant.
type Served struct {
	Requests int
	Complete int
	Usage    Usage // of complete answers
}

// Server is the mock: an http.Handler. It is safe for concurrent use.
type Server struct {
	mu       sync.Mutex
	script   []Step
	always   func(Request) Step
	requests []Request
	served   Served
	gone     chan struct{} // gets one for each client that left early
}

// New returns a mock without a script.
func New() *Server { return &Server{gone: make(chan struct{}, 4096)} }

// Script adds steps: each is the answer to one request, in order of arrival.
func (s *Server) Script(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = append(s.script, steps...)
}

// Always answers every request without a scripted step by f.
func (s *Server) Always(f func(Request) Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always = f
}

// Requests returns what has arrived, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Served returns the counts so far.
func (s *Server) Served() Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Gone receives a value for each client that left before its answer was complete.
func (s *Server) Gone() <-chan struct{} { return s.gone }

// largest is the longest body that is read.
const largest = 64 << 20

// Answer is what became of one request.
type Answer struct {
	Request  Request
	Model    string // that was asked for
	Stream   bool
	Usage    Usage // that the answer stated, or would have
	Complete bool  // all of the answer was sent, as its step meant
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.Serve(w, r) }

// Serve answers one request and says what became of it. A body that breaks off is
// answered by nothing.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request) Answer {
	req := Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host,
		Header: r.Header.Clone(), Remote: r.RemoteAddr,
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, largest))
	if err != nil {
		return Answer{Request: req}
	}
	req.Body = body
	a := newAnswer(req, s.next(req))
	used, ok := a.write(r.Context(), w)
	if r.Context().Err() != nil {
		select {
		case s.gone <- struct{}{}:
		default: // nobody counts that many
		}
	}
	if ok {
		s.count(used)
	}
	return Answer{Request: req, Model: a.ask.Model, Stream: a.ask.Stream, Usage: used, Complete: ok}
}

// Forget drops the requests that have arrived, which a mock that runs for long
// would keep.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// next takes the step for a request.
func (s *Server) next(req Request) Step {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
	s.served.Requests++
	if len(s.script) > 0 {
		step := s.script[0]
		s.script = s.script[1:]
		return step
	}
	if s.always != nil {
		return s.always(req)
	}
	return Step{}
}

func (s *Server) count(u Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served.Complete++
	t := &s.served.Usage
	t.Input += u.Input
	t.CacheRead += u.CacheRead
	t.CacheWrite += u.CacheWrite
	t.Output += u.Output
	t.Reasoning += u.Reasoning
}

// echo is what arrived, as text.
func (r Request) echo() string {
	var b bytes.Buffer
	b.WriteString(r.Method + " " + r.Path + "?" + r.Query + "\nHost: " + r.Host + "\n")
	_ = r.Header.Write(&b) // into memory, which does not fail
	b.WriteString("\n")
	b.Write(r.Body)
	return b.String()
}
