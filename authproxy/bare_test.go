package authproxy

import (
	"strings"
	"testing"
)

// What Go's server answers before the proxy sees it, as docs/auth-proxy.md has it.
func TestAnswersThatAreNotTheProxysOwn(t *testing.T) {
	t.Parallel()
	r := start(t)
	head := "POST " + messages + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	for name, c := range map[string]struct{ text, status string }{
		"two lengths":   {head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "400"},
		"other coding":  {head + "Transfer-Encoding: gzip\r\n\r\n", "501"},
		"large headers": {head + "X-Large: " + strings.Repeat("a", 80<<10) + "\r\n\r\n", "431"},
		"expectation":   {head + "Expect: a miracle\r\nContent-Length: 0\r\n\r\n", "417"},
	} {
		if out := r.raw(c.text); !strings.HasPrefix(out, "HTTP/1.1 "+c.status) || strings.Contains(out, "Harborgate") {
			t.Errorf("%s: %.100q", name, out)
		}
	}
	if len(r.records) != 0 {
		t.Errorf("%+v", r.records)
	}
}
