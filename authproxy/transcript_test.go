package authproxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/internal/mockllm"
)

func TestAttack36TranscriptsHoldNoKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "said.jsonl")
	log, err := OpenAuditLog(path, 64<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := start(t, func(_ *Config, o *Options) { o.Transcripts = log })
	silent := r.token
	r.token, _ = r.mint(GrantSpec{Bodies: true})
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Echo: true} })
	r.post(messages, `{"model":"m","max_tokens":1,"messages":[{"content":"NEEDLE `+canary+` `+r.token+`"}]}`)
	r.post(messages, `{"model":"m","max_tokens":1,"messages":[{"content":"`+strings.Repeat("x", longestSaid)+`"}]}`)
	token := r.token
	r.token = silent
	r.post(messages, `{"model":"m","max_tokens":1,"messages":[{"content":"NOBODY ASKED"}]}`)
	r.record(3)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.noCanary("transcript", string(text))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || strings.Count(lines[0], "NEEDLE") != 2 || !strings.Contains(lines[1], `"cut":true`) || len(lines[1]) > 4*longestSaid {
		t.Errorf("%d lines, the first is %.300s", len(lines), lines[0])
	}
	if strings.Contains(string(text), token) || strings.Contains(string(text), "NOBODY ASKED") {
		t.Error("it holds more than it may")
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", fi, err)
	}
}
