package trials

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedactEnv(t *testing.T) {
	t.Parallel()
	host := func(name string) (string, bool) {
		v, ok := map[string]string{"OPENAI_API_KEY": "sk-same-as-host", "DB_PASSWORD": "other"}[name]
		return v, ok
	}
	got := RedactEnv(Env{
		"OPENAI_API_KEY": "sk-same-as-host",
		"DB_PASSWORD":    "mine-is-longer",
		"SHORT_TOKEN":    "12345678",
		"LONG_TOKEN":     "123456789",
		"MAX_TOKENS":     "4096",
		"my_secret":      "ünïcödé-sécret",
		"REF_KEY":        "${X:-y}",
		"NOT_REF_KEY":    "a${X}bbbbbbb",
		"PLAIN":          "value",
		"AUTHOR":         "somebody",
		"CUSTOM":         "not-by-its-name",
		"EMPTY_KEY":      "",
	}, host, "CUSTOM")
	want := Env{
		"OPENAI_API_KEY": "${OPENAI_API_KEY}",
		"DB_PASSWORD":    "mine****ger",
		"SHORT_TOKEN":    "****",
		"LONG_TOKEN":     "1234****789",
		"MAX_TOKENS":     "4096",
		"my_secret":      "ünïc****ret",
		"REF_KEY":        "${X:-y}",
		"NOT_REF_KEY":    "a${X****bbb",
		"PLAIN":          "value",
		"AUTHOR":         "****",
		"CUSTOM":         "not-****ame",
		"EMPTY_KEY":      "****",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if RedactEnv(nil, host) != nil {
		t.Error("nil became something")
	}
}

func TestRedactedJobCoversEveryEnv(t *testing.T) {
	t.Parallel()
	secret := Env{"API_KEY": "sk-0123456789"}
	c := NewJobConfig()
	c.Agents[0].Env, c.Environment.Env, c.Verifier.Env = secret, secret, secret
	c.UserAgent = &UserAgentConfig{AgentConfig: AgentConfig{Env: secret}}
	c.Agents[0].ModelAPIKeyName = ptr("CUSTOM")
	c.Agents[0].Env = Env{"API_KEY": "sk-0123456789", "CUSTOM": "sk-0123456789"}
	r := c.Redacted(noEnv)
	for name, env := range map[string]Env{
		"agent": r.Agents[0].Env, "environment": r.Environment.Env, "verifier": r.Verifier.Env, "user agent": r.UserAgent.Env,
	} {
		for key, v := range env {
			if v != "sk-0****789" {
				t.Errorf("%s %s is %q", name, key, v)
			}
		}
	}
	if c.Agents[0].Env["API_KEY"] != "sk-0123456789" || c.UserAgent.Env["API_KEY"] != "sk-0123456789" {
		t.Error("the original was changed")
	}
}
