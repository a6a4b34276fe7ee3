package mockllm

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is one request with its step, ready to be written.
type answer struct {
	req  Request
	step Step
	ask  ask
	form form
	ok   bool // a format is spoken at this path
}

func newAnswer(req Request, step Step) *answer {
	a := &answer{req: req, step: step}
	a.form, a.ok = formOf(req.Path)
	a.ask = readAsk(req, a.form)
	return a
}

// usage is what the answer says it used.
func (a *answer) usage() Usage {
	if a.step.Usage != nil {
		return *a.step.Usage
	}
	return Usual()
}

func (a *answer) model() string { return cmp.Or(a.step.Model, a.ask.Model, "mock") }
func (a *answer) id() string    { return cmp.Or(a.step.ID, "mock01") }

// callsTool reports whether the answer is a tool call.
func (a *answer) callsTool() bool {
	return (!a.ask.answered || a.ask.ending != "") && a.step.Text == "" && !a.step.Echo
}

func (a *answer) text() string {
	if a.step.Echo {
		return a.req.echo()
	}
	return cmp.Or(a.step.Text, "Done.")
}

// words are the pieces in which a streamed text comes.
func (a *answer) words() []string {
	out := []string{a.text()}
	for i := range a.step.Words {
		out = append(out, " "+strconv.Itoa(i))
	}
	return out
}

// arguments are those of the tool call.
func (a *answer) arguments() map[string]any {
	command := cmp.Or(a.step.Command, `echo "Hello, world!" > /app/hello.txt`)
	if a.ask.answered {
		command = a.ask.ending
	}
	args := map[string]any{a.ask.argument: command}
	for _, name := range a.ask.required {
		args[name] = nil
	}
	return args
}

// write sends the answer. It returns what was used and whether all of it was sent.
func (a *answer) write(ctx context.Context, w http.ResponseWriter) (Usage, bool) {
	if !wait(ctx, a.step.Hold) {
		return Usage{}, false
	}
	if a.step.Reset {
		hangUp(w)
		return Usage{}, false
	}
	for name, values := range a.step.Header {
		w.Header()[name] = values
	}
	switch {
	case a.step.Body != nil:
		w.WriteHeader(cmp.Or(a.step.Status, http.StatusOK))
		_, err := w.Write(a.step.Body)
		return Usage{}, err == nil
	case a.step.Status >= http.StatusBadRequest || !a.ok:
		return Usage{}, a.refuse(w)
	case a.ask.Stream && a.form.events != nil:
		return a.usage(), a.stream(ctx, w)
	default:
		return a.usage(), a.single(w)
	}
}

// refuse answers an error, and the few paths that are none of a format.
func (a *answer) refuse(w http.ResponseWriter) bool {
	switch {
	case a.ok && a.step.Status > 0:
		return writeJSON(w, a.step.Status, a.form.fail(a.step.Status, "mock_error", "the mock was told to fail"))
	case a.req.Method == http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return true
	case strings.HasSuffix(a.req.Path, "/v1beta/models"):
		return writeJSON(w, http.StatusOK, map[string]any{"models": []any{map[string]any{"name": "models/mock"}}})
	case strings.HasSuffix(a.req.Path, "/models"):
		return writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": "mock"}}})
	case strings.HasSuffix(a.req.Path, "count_tokens"), strings.HasSuffix(a.req.Path, "input_tokens"):
		return writeJSON(w, http.StatusOK, map[string]any{"input_tokens": Usual().Input})
	case strings.HasSuffix(a.req.Path, ":countTokens"):
		return writeJSON(w, http.StatusOK, map[string]any{"totalTokens": Usual().Input})
	default:
		return writeJSON(w, http.StatusNotFound, failOpenAI(http.StatusNotFound, "not_found", "no such path"))
	}
}

func (a *answer) single(w http.ResponseWriter) bool {
	body := mustJSON(a.form.whole(a))
	w.Header().Set("Content-Type", "application/json")
	out, end := encoder(w, a.step.Encoding)
	_, err := out.Write(body)
	end()
	return err == nil
}

func (a *answer) stream(ctx context.Context, w http.ResponseWriter) bool {
	kind := "text/event-stream"
	if a.ask.array {
		kind = "application/json"
	}
	w.Header().Set("Content-Type", kind)
	out, end := encoder(w, a.step.Encoding)
	for i, event := range a.form.events(a) {
		if a.step.CutAfter > 0 && i == a.step.CutAfter {
			hangUp(w)
			return false
		}
		if a.step.ErrorAfter > 0 && i == a.step.ErrorAfter {
			_, _ = out.Write(a.form.oops("the mock was told to fail"))
			end()
			return false
		}
		if !pause(ctx, a.step.Pause) || i == 1 && !wait(ctx, a.step.HoldEvent) {
			return false
		}
		if _, err := out.Write(event); err != nil {
			return false
		}
		flush(w, out)
	}
	end()
	return true
}

// wait waits for c, for nothing when it is nil, and reports whether ctx still holds.
func wait(ctx context.Context, c <-chan struct{}) bool {
	if c == nil {
		return ctx.Err() == nil
	}
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// hangUp closes the connection without ending the answer.
func hangUp(w http.ResponseWriter) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = c.Close()
	}
}

type flusher interface{ Flush() error }

func flush(w http.ResponseWriter, out io.Writer) {
	if f, ok := out.(flusher); ok {
		_ = f.Flush() // the next write fails as well
	}
	_ = http.NewResponseController(w).Flush()
}

// encoder compresses what is written to w, and sets the header that says so.
func encoder(w http.ResponseWriter, encoding string) (io.Writer, func()) {
	var c io.WriteCloser
	switch encoding {
	case "gzip":
		c = gzip.NewWriter(w)
	case "deflate":
		c = zlib.NewWriter(w)
	case "":
		return w, func() {}
	default: // a name alone, for clients that do not know it
		w.Header().Set("Content-Encoding", encoding)
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", encoding)
	return c, func() { _ = c.Close() }
}

func writeJSON(w http.ResponseWriter, status int, v any) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err := w.Write(mustJSON(v))
	return err == nil
}

// mustJSON encodes what this package made, which always has a form in JSON.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// event is one event of a stream; name may be empty.
func event(name string, v any) []byte {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(mustJSON(v))
	b.WriteString("\n\n")
	return b.Bytes()
}
