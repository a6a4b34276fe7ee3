package wire

import "testing"

// Errors come with the status of success, too.
func TestErrorsUnderStatus200AreSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format  Format
		body    string
		failed  bool
		clients bool
	}{
		{Chat, `{"error":{"message":"Provider returned error","code":502}}`, true, false},
		{Chat, `{"error":{"message":"too long","code":400}}`, true, true},
		{Chat, `{"error":{"message":"slow down","code":"429"}}`, true, false},
		{Chat, `{"error":{"type":"invalid_request_error","code":"context_length_exceeded"}}`, true, true},
		{Chat, `{"error":"no capacity"}`, true, false},
		{Chat, `{"choices":[{"finish_reason" : "error","message":{"content":"x"}}]}`, true, false},
		{Chat, `{"choices":[{"finish_reason":"stop"},{"finish_reason":"error"}]}`, true, false},
		{Chat, `{"choices":[{"finish_reason":"stop","message":{"content":"\"finish_reason\":\"error\", \"error\": 5"}}],"error":null}`, false, false},
		{Chat, `{"choices":[{"finish_reason":"stop"}],"error":""}`, false, false},
		{Messages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, true, false},
		{Messages, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`, true, true},
		{Messages, `{"type":"message","content":[{"type":"text","text":"an error"}]}`, false, false},
		{Responses, `{"status":"failed","error":{"code":"server_error"}}`, true, false},
		{Responses, `{"status":"failed","error":{"code":"invalid_prompt"}}`, true, true},
		{Responses, `{"status":"completed","error":null}`, false, false},
		{Generate, `[{"candidates":[]},{"error":{"code":503,"status":"UNAVAILABLE"}}]`, true, false},
	} {
		if r := tapped(c.format, "application/json", []byte(c.body), 50); r.Failed != c.failed || r.Clients != c.clients {
			t.Errorf("format %d, %s: %+v", c.format, c.body, r)
		}
		stream := "data: " + c.body + "\n\n"
		if c.body[0] == '[' {
			continue
		}
		if r := tapped(c.format, "text/event-stream", []byte(stream), 50); r.Failed != c.failed || r.Clients != c.clients {
			t.Errorf("streamed, format %d, %s: %+v", c.format, c.body, r)
		}
	}
}
