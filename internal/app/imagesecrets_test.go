package app

import (
	"os"
	"path/filepath"
	"testing"

	"harborgate/configs"
)

// TestImageSecrets: what nothing kept may hold is what could be somebody's key, wherever
// it is configured, and nothing that is in files by chance.
func TestImageSecrets(t *testing.T) {
	env := map[string]string{
		"MY_SERVICE_TOKEN": "token-0123456789", "ANTHROPIC_API_KEY": "anthropic-0123456789", "SSH_AUTH_SOCK": "/run/user/1000/agent",
		"GIT_AUTHOR_EMAIL": "somebody@example.org", "SHORT_KEY": "short", "HARMLESS": "harmless-0123456789", "PASSWORD_HINT": "name of the dog",
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	key, config := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "config.yaml")
	text := "version: 1\nupstreams:\n  mine: {dialect: openai, base_url: \"https://api.example.org/v1\", keys: [\"file:" + key + "\"]}\n"
	for path, content := range map[string]string{key: "of-a-file-0123456789\n", config: text} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HARBOR_CONFIG", config)
	t.Setenv("PIP_INDEX_URL", "https://user:registry-0123456789@mirror.example.org/simple")
	host, problems := configs.LoadHost(os.LookupEnv, configs.Types{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	a := &App{Host: host, opt: Options{Lookup: os.LookupEnv}}
	got := a.imageSecrets(t.Context())
	for value, want := range map[string]bool{
		"token-0123456789": true, "anthropic-0123456789": true, "of-a-file-0123456789": true, "registry-0123456789": true,
		"/run/user/1000/agent": false, "somebody@example.org": false, "short": false, "harmless-0123456789": false, "name of the dog": false,
	} {
		if _, is := got[value]; is != want {
			t.Errorf("%s: %v, want %v", value, !want, want)
		}
	}
	if name := got["token-0123456789"]; name != "MY_SERVICE_TOKEN" {
		t.Errorf("the token is that of %q", name)
	}
	if name := got["of-a-file-0123456789"]; name != "" {
		t.Errorf("the secret of a file is that of the variable %q", name)
	}
}
