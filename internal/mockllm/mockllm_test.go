package mockllm

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func start(t *testing.T) (*Server, *httptest.Server) {
	t.Helper()
	m := New()
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return m, s
}

// head is what comes before an answer's body.
type head struct {
	StatusCode int
	Header     http.Header
}

func post(t *testing.T, s *httptest.Server, path, body string) (head, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		return head{}, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return head{resp.StatusCode, resp.Header}, string(b), err
}

// Each format: where it is, how a request without and with a tool result looks,
// and what the two answers hold.
var formats = []struct {
	name, path, ask, answered, call, text, end string
}{
	{
		"messages", "/v1/messages",
		`{"model":"m","stream":STREAM,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"Bash","input_schema":{"required":["command","why"]}}]}`,
		`{"model":"m","stream":STREAM,"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`,
		"tool_use", "Done.", "event: message_stop\n",
	},
	{
		"chat", "/v1/chat/completions",
		`{"model":"m","stream":STREAM,"stream_options":{"include_usage":true},"messages":[],"tools":[{"type":"function","function":{"name":"bash"}}]}`,
		`{"model":"m","stream":STREAM,"stream_options":{"include_usage":true},"messages":[{"role": "tool"}]}`,
		"tool_calls", "Done.", "data: [DONE]\n",
	},
	{
		"responses", "/v1/responses",
		`{"model":"m","stream":STREAM,"input":[],"tools":[{"type":"function","name":"exec_command"}]}`,
		`{"model":"m","stream":STREAM,"input":[{"type":"function_call_output"}]}`,
		"function_call", "Done.", "event: response.completed\n",
	},
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, f := range formats {
		for _, stream := range []string{"true", "false"} {
			t.Run(f.name+" stream "+stream, func(t *testing.T) {
				t.Parallel()
				m, s := start(t)
				_, first, err := post(t, s, f.path, strings.ReplaceAll(f.ask, "STREAM", stream))
				if err != nil || !strings.Contains(first, f.call) || strings.Contains(first, f.text) {
					t.Errorf("first answer (%v) is no tool call:\n%s", err, first)
				}
				_, second, err := post(t, s, f.path, strings.ReplaceAll(f.answered, "STREAM", stream))
				if err != nil || !strings.Contains(second, f.text) || strings.Contains(second, `"`+f.call+`"`) {
					t.Errorf("second answer (%v) is not the text:\n%s", err, second)
				}
				if ends := strings.Contains(second, f.end); ends != (stream == "true") {
					t.Errorf("terminal event present: %v\n%s", ends, second)
				}
				if got := m.Served(); got.Complete != 2 || got.Usage.Output != 84 {
					t.Errorf("served %+v", got)
				}
			})
		}
	}
}

func TestGeminiStreamsEventsOrAnArray(t *testing.T) {
	t.Parallel()
	m, s := start(t)
	m.Always(func(Request) Step { return Step{Text: "a", Words: 2} })
	_, sse, _ := post(t, s, "/v1beta/models/g:streamGenerateContent?alt=sse", "{}")
	if strings.Count(sse, "data: ") != 3 || !strings.Contains(sse, `"finishReason":"STOP"`) {
		t.Errorf("events:\n%s", sse)
	}
	_, array, _ := post(t, s, "/v1beta/models/g:streamGenerateContent", "{}")
	var list []map[string]any
	if err := json.Unmarshal([]byte(array), &list); err != nil || len(list) != 3 {
		t.Errorf("array (%v):\n%s", err, array)
	}
	_, whole, _ := post(t, s, "/v1beta/models/g:generateContent", "{}")
	if !strings.Contains(whole, `"thoughtsTokenCount":7`) {
		t.Errorf("whole:\n%s", whole)
	}
}

func TestRequiredParametersAreFilled(t *testing.T) {
	t.Parallel()
	_, s := start(t)
	_, body, _ := post(t, s, formats[0].path, strings.ReplaceAll(formats[0].ask, "STREAM", "false"))
	if !strings.Contains(body, `"why":null`) {
		t.Error(body)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	m, s := start(t)
	ask := `{"model":"m","stream":true,"messages":[]}`
	m.Script(
		Step{Status: 429, Header: http.Header{"Retry-After": {"7"}}},
		Step{Reset: true},
		Step{CutAfter: 3},
		Step{ErrorAfter: 2},
		Step{Echo: true},
		Step{Body: []byte("raw")},
	)
	if resp, body, _ := post(t, s, "/v1/messages", ask); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "7" || !strings.Contains(body, `"type":"error"`) {
		t.Errorf("status: %d %s", resp.StatusCode, body)
	}
	if _, _, err := post(t, s, "/v1/messages", ask); err == nil {
		t.Error("a reset connection gave an answer")
	}
	if _, body, err := post(t, s, "/v1/messages", ask); err == nil || strings.Count(body, "event: ") != 3 {
		t.Errorf("cut (%v):\n%s", err, body)
	}
	if _, body, err := post(t, s, "/v1/messages", ask); err != nil || !strings.Contains(body, "event: error") {
		t.Errorf("error event (%v):\n%s", err, body)
	}
	if _, body, _ := post(t, s, "/v1/messages?beta=true", ask); !strings.Contains(body, `POST /v1/messages?beta=true`) {
		t.Errorf("echo:\n%s", body)
	}
	if _, body, _ := post(t, s, "/v1/messages", ask); body != "raw" {
		t.Errorf("body %q", body)
	}
	if got := len(m.Requests()); got != 6 {
		t.Errorf("%d requests", got)
	}
}

func TestClientsThatLeaveAreSeen(t *testing.T) {
	t.Parallel()
	m, s := start(t)
	m.Script(Step{Text: "x", HoldEvent: make(chan struct{})})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/messages", strings.NewReader(`{"stream":true}`))
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || line != "event: message_start\n" {
		t.Fatalf("%q %v", line, err)
	}
	resp.Body.Close()
	<-m.Gone()
	if m.Served().Complete != 0 {
		t.Error("an answer that nobody read counts as complete")
	}
}
