package authproxy

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"harborgate/authproxy/internal/wire"
)

// What real agents sent, as recorded (long texts are cut): every request of theirs
// passes, with the key in the place of the token, and is metered.
func TestRequestsOfRealAgents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/agents.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded []struct {
		Agent, Method, Path string
		Headers             [][2]string
		Body                json.RawMessage
	}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	r := start(t)
	agents := map[string]bool{}
	for _, q := range recorded {
		agents[q.Agent] = true
		h := http.Header{}
		for _, pair := range q.Headers {
			h.Add(pair[0], strings.ReplaceAll(pair[1], "TRIAL_TOKEN", r.token))
		}
		body := string(q.Body)
		if body == "null" {
			body = ""
		}
		before := len(r.mock.Requests())
		a := r.do(t.Context(), q.Method, q.Path, body, h)
		rec := r.record(1)
		want := 200
		switch {
		case h.Get("Upgrade") != "":
			want = 426
		case len(wire.Credentials(h)) == 0 && q.Method == "POST":
			want = 400 // a setting that sends no token at all
		case differ(wire.Credentials(h)):
			want = 401 // a setting that sends two
		}
		if a.status != want {
			t.Errorf("%s: %s %s: %d %s", q.Agent, q.Method, q.Path, a.status, a.body)
			continue
		}
		got := r.mock.Requests()[before:]
		if billed := q.Method == "POST" && want == 200; billed != (len(got) == 1) {
			t.Errorf("%s: %s %s reached the upstream %d times", q.Agent, q.Method, q.Path, len(got))
			continue
		}
		if len(got) == 1 && (rec.Usage.Output != 42 || rec.Guessed || got[0].Header.Get("Anthropic-Beta") != h.Get("Anthropic-Beta")) {
			t.Errorf("%s: %s %s: %+v", q.Agent, q.Method, q.Path, rec)
		}
	}
	if len(agents) < 10 {
		t.Errorf("only %d agents", len(agents))
	}
}

func differ(list []string) bool {
	for _, v := range list {
		if v != list[0] {
			return true
		}
	}
	return false
}
