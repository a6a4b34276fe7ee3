package authproxy

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"harborgate/internal/mockllm"
)

func TestAttack08KeysThatComeBackAreMasked(t *testing.T) {
	t.Parallel()
	split := func(first, rest string) mockllm.Step { return mockllm.Step{Text: first + rest} }
	r := start(t)
	for name, s := range map[string]mockllm.Step{
		"plain":      split("your key is ", canary),
		"url":        {Text: url.QueryEscape(canary)},
		"echo":       {Echo: true},
		"gzip":       {Echo: true, Encoding: "gzip"},
		"a secret":   {Body: []byte(canary)},
		"in a array": {Body: []byte(`["` + canary + `"]`)},
		"hex":        {Body: []byte(`["` + hex.EncodeToString([]byte(canary)) + `"]`)},
		"capitals":   {Body: fmt.Appendf(nil, "[%X]", canary)},
		"percent":    {Body: escape("%%%02X", canary)},
		"small":      {Body: escape("%%%02x", canary)},
		"JSON":       {Body: escape(`\u%04x`, canary)},
		"a sign":     {Body: []byte(strings.ReplaceAll(canary, "+", `\u002B`))},
		"slashes":    {Body: []byte(strings.ReplaceAll(canary, "/", `\/`))},
		"path":       {Body: []byte(url.PathEscape(canary))},
	} {
		r.mock.Script(s, s)
		if a := r.post(messages, ask); a.status != 200 || !strings.Contains(a.body, "****") {
			t.Errorf("%s: %+v", name, a)
		}
		r.post(messages, askStream)
	}
}

// escape writes all signs of text as escapes.
func escape(format, text string) []byte {
	var out []byte
	for i := range len(text) {
		out = fmt.Appendf(out, format, text[i])
	}
	return out
}

func TestAttack08KeysCutIntoPieces(t *testing.T) {
	t.Parallel()
	forms := Secret{canary}.forms()
	for _, f := range forms {
		text := append(append([]byte("before "), f...), " after"...)
		for n := 1; n < len(text); n++ {
			s := newScrubber(forms, marksOf(forms))
			var out []byte
			for p := text; len(p) > 0; p = p[min(n, len(p)):] {
				out = append(out, s.clean(bytes.Clone(p[:min(n, len(p))]))...)
			}
			out = append(out, s.rest...)
			if len(out) != len(text) || bytes.Contains(out, f) || s.hits == 0 {
				t.Errorf("pieces of %d: %q", n, out)
			}
		}
	}
}
