package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/client"

	"harborgate/providers"
)

// dockerConfig makes a configuration directory with two contexts.
func dockerConfig(t *testing.T, current string) {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, v any) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("config.json", map[string]any{"currentContext": current})
	for name, host := range map[string]string{"one": "unix:///one.sock", "two": "tcp://two.example:2375", "remote": "ssh://me@host", "empty": ""} {
		sum := sha256.Sum256([]byte(name))
		put(filepath.Join("contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"),
			map[string]any{"Name": name, "Endpoints": map[string]any{"docker": map[string]any{"Host": host}}})
	}
	t.Setenv("DOCKER_CONFIG", dir)
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_API_VERSION"} {
		t.Setenv(name, "")
	}
}

func TestEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		current, host, context string // of the environment
		options                Options
		want                   string // "" is an error
		said                   string
	}{
		"nothing set":          {want: client.DefaultDockerHost},
		"default context":      {current: "default", want: client.DefaultDockerHost},
		"current context":      {current: "one", want: "unix:///one.sock"},
		"DOCKER_CONTEXT":       {current: "one", context: "two", want: "tcp://two.example:2375"},
		"DOCKER_HOST":          {current: "one", context: "two", host: "tcp://env.example:1", want: "tcp://env.example:1"},
		"context configured":   {current: "one", host: "tcp://env.example:1", options: Options{Context: "two"}, want: "tcp://two.example:2375"},
		"host configured":      {current: "one", host: "tcp://env.example:1", options: Options{Host: "unix:///own.sock", Context: "two"}, want: "unix:///own.sock"},
		"default configured":   {current: "one", options: Options{Context: "default"}, want: client.DefaultDockerHost},
		"unknown context":      {current: "nosuch", said: "docker context ls"},
		"context over ssh":     {current: "remote", said: "ssh -L"},
		"host over ssh":        {options: Options{Host: "ssh://me@host"}, said: "ssh -L"},
		"DOCKER_HOST over ssh": {host: "ssh://me@host", said: "ssh -L"},
		"context without host": {current: "empty", said: "no docker endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			dockerConfig(t, c.current)
			t.Setenv("DOCKER_HOST", c.host)
			t.Setenv("DOCKER_CONTEXT", c.context)
			p, err := New(c.options)
			if err != nil {
				if c.want != "" || !strings.Contains(err.Error(), c.said) || providers.KindOf(err) == providers.KindInternal {
					t.Errorf("%v", err)
				}
				return
			}
			defer p.Close()
			if got := p.engine.DaemonHost(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestUnreadableDockerConfiguration(t *testing.T) {
	dockerConfig(t, "one")
	dir := os.Getenv("DOCKER_CONFIG")
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := currentContext(); got != "" {
		t.Errorf("the current context is %q", got)
	}
	sum := sha256.Sum256([]byte("one"))
	meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
	if err := os.WriteFile(meta, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readContext("one"); !providers.Is(err, providers.KindInvalid) {
		t.Errorf("%v", err)
	}
}

// A context with certificates needs them to be readable.
func TestContextWithCertificates(t *testing.T) {
	dockerConfig(t, "two")
	sum := sha256.Sum256([]byte("two"))
	dir := filepath.Join(os.Getenv("DOCKER_CONFIG"), "contexts", "tls", hex.EncodeToString(sum[:]), "docker")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, tlsDir, err := readContext("two"); err != nil || tlsDir != dir {
		t.Errorf("certificates in %q, %v", tlsDir, err)
	}
	if p, err := New(Options{}); err == nil {
		t.Errorf("%s was opened without its certificates", p.engine.DaemonHost())
	}
}
