package agents

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"harborgate/agents/packages"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// recorder is a sandbox in which every command works, but those that have a text.
type recorder struct {
	providers.Sandbox
	ran   []providers.Command
	fails string // in the script
	says  string // before it fails
}

func (r *recorder) Exec(_ context.Context, c providers.Command) (providers.ExitStatus, error) {
	r.ran = append(r.ran, c)
	if r.fails != "" && strings.Contains(c.Args[2], r.fails) {
		_, _ = io.WriteString(c.Stderr, r.says)
		return providers.ExitStatus{Code: 1}, nil
	}
	return providers.ExitStatus{}, nil
}

// memory is a trial's log.
type memory struct{ bytes.Buffer }

func (m *memory) Open(string) (io.WriteCloser, error) { return m, nil }
func (m *memory) Read(string) (io.ReadCloser, error)  { return io.NopCloser(&m.Buffer), nil }
func (m *memory) Close() error                        { return nil }

func insideAgent(t *testing.T, name string) *installed {
	t.Helper()
	model := "openai/m"
	a, err := New(Input{Config: trials.AgentConfig{Name: &name, ModelName: &model, Kwargs: trials.Object[any]{"install": "inside"}}})
	if err != nil {
		t.Fatal(err)
	}
	return a.(*installed)
}

func TestInstalledInside(t *testing.T) {
	t.Parallel()
	host, err := hostRegistries([]string{"PIP_INDEX_URL=https://user:s3cretpassword@mirror.example/simple", "OPENAI_API_KEY=sk-key"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, box := insideAgent(t, "mini-swe-agent"), &recorder{}
	if parts, err := a.Bundle("amd64"); err != nil || parts != nil {
		t.Errorf("from the host: %v %v", parts, err)
	}
	if err := a.facts.installFrom(t.Context(), box, a.kw["version"], host, &memory{}, "agent/install.txt"); err != nil {
		t.Fatal(err)
	}
	var filled []string
	for _, c := range box.ran {
		if c.User != "root" || c.SecretEnv["PIP_INDEX_URL"] == "" || c.SecretEnv["OPENAI_API_KEY"] != "" || len(c.Env) > 0 {
			t.Errorf("%s with %v", c.Args, c.SecretEnv)
		}
		if strings.HasPrefix(c.Args[2], begin) {
			filled = append(filled, c.Args[4])
		}
	}
	if strings.Join(filled, " ") != bundleDir+" "+runtimeDir {
		t.Errorf("filled %v", filled)
	}
	box = &recorder{fails: "npm pack", says: "cannot open https://user:s3cretpassword@mirror.example/simple\n"}
	log := &memory{}
	a = insideAgent(t, "codex")
	err = a.facts.installFrom(t.Context(), box, a.kw["version"], host, log, "agent/install.txt")
	if err == nil || strings.Contains(err.Error()+log.String(), "s3cretpassword") || !strings.Contains(err.Error(), "cannot open https://") {
		t.Errorf("%v; log %q", err, log)
	}
}

func TestInstallationsLeaveNothing(t *testing.T) {
	t.Parallel()
	a, box := insideAgent(t, "codex"), &recorder{}
	if err := a.facts.installFrom(t.Context(), box, a.kw["version"], registries{}, &memory{}, "log"); err != nil {
		t.Fatal(err)
	}
	if last := box.ran[len(box.ran)-1]; last.Args[2] != `rm -rf "$1"` {
		t.Errorf("ends with %s", last.Args)
	}
}

func TestInstallationsThatFailSayWhy(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"ERROR: No matching distribution found for x": "does not trust the registry's certificate",
		"npm error code SELF_SIGNED_CERT_IN_CHAIN":    "SSL_CERT_FILE",
		"npm error code ETARGET\nnpm error notarget No matching version found for a@9.\nnpm error A complete log of this run can be found in: /tmp/x":   "the registry has no codex@0.171.0: choose another --ak version",
		"ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 0.1, 0.2)\nERROR: No matching distribution found for a==9": "the registry has no codex@0.171.0: choose another --ak version",
		"npm error two\nnpm error A complete log of this run can be found in: /tmp/x\n":                                                                 "npm error two",
		"npm error code EAI_AGAIN":                "PIP_INDEX_URL, a proxy in HTTPS_PROXY",
		"one\nsomething else\n":                   "something else",
		"sha512sum: WARNING: 1 computed checksum": "than what is pinned",
	} {
		a, log := insideAgent(t, "codex"), &memory{}
		box := &recorder{fails: "npm pack", says: says}
		err := a.facts.installFrom(t.Context(), box, a.kw["version"], registries{}, log, "agent/install.txt")
		f, ok := errors.AsType[*trials.Failure](err)
		if !ok || f.Cause != trials.CauseExit || !strings.Contains(f.Error(), want) || !strings.Contains(f.Error(), "agent/install.txt") {
			t.Errorf("%q: %v", says, err)
		}
		if log.String() != says {
			t.Errorf("log %q", log)
		}
	}
}

func TestVersionThatWasNotInstalledIsNotRecorded(t *testing.T) {
	t.Parallel()
	a, w := insideAgent(t, "codex"), &Workplace{Sandbox: &recorder{fails: "npm pack", says: "E404"}, Task: &tasks.Task{}, Log: &memory{}}
	if err := a.Setup(t.Context(), w); err == nil || a.Info().Version != "unknown" {
		t.Errorf("%v, version %s", err, a.Info().Version)
	}
	w.Sandbox = &recorder{}
	if err := a.Setup(t.Context(), w); err != nil || a.Info().Version != a.kw["version"] {
		t.Errorf("%v, version %s", err, a.Info().Version)
	}
}

func TestInstalledInsideWantsANetwork(t *testing.T) {
	t.Parallel()
	task := &tasks.Task{}
	task.Config.Environment.Network.Mode = tasks.NetworkNone
	box := &recorder{}
	err := insideAgent(t, "codex").Setup(t.Context(), &Workplace{Sandbox: box, Task: task, Log: &memory{}})
	if f, ok := errors.AsType[*trials.Failure](err); !ok || f.Cause != trials.CauseInvalidConfig || len(box.ran) > 0 {
		t.Errorf("%v after %d commands", err, len(box.ran))
	}
}

func TestRegistriesOfTheHost(t *testing.T) {
	t.Parallel()
	files := map[string]string{"/ca": "A", "/own": "B"}
	read := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such file")
	}
	got, err := hostRegistries([]string{
		"NPM_CONFIG_REGISTRY=https://m", "npm_config_cache=/c", "PIP_FIND_LINKS=/w", "https_proxy=http://u:passw0rd@p:1", "AWS_SECRET_ACCESS_KEY=x",
		"SSL_CERT_FILE=/ca", "PIP_CERT=/ca", "NODE_EXTRA_CA_CERTS=/own", "CURL_CA_BUNDLE=",
	}, read)
	if err != nil || len(got.env) != 2 || got.env["NPM_CONFIG_REGISTRY"] != "https://m" || string(got.certificates) != "A\nB\n" {
		t.Errorf("%v %q %v", got.env, got.certificates, err)
	}
	if s := got.secrets(); len(s) != 2 || s[1] != "passw0rd" {
		t.Errorf("secrets %v", s)
	}
	env := withCertificates(got.env, "/x")
	if env["PIP_CERT"] != "/x" || env["npm_config_cafile"] != "/x" || got.env["PIP_CERT"] != "" {
		t.Errorf("%v", env)
	}
	if _, err := hostRegistries([]string{"PIP_CERT=/none"}, read); err == nil || !strings.Contains(err.Error(), "PIP_CERT") {
		t.Errorf("got %v", err)
	}
}

// Every agent's packages come in both ways.
func TestEveryPackageComesInside(t *testing.T) {
	t.Parallel()
	model := "anthropic/m"
	for _, k := range Kinds() {
		cfg := trials.AgentConfig{Name: &k.Name, ModelName: &model}
		if k.Name == "command" {
			cfg.Kwargs = trials.Object[any]{"command": "true"}
		}
		a, err := New(Input{Config: cfg})
		b, ok := a.(Bundled)
		if err != nil || !ok {
			continue
		}
		parts, err := b.Bundle("amd64")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if r := p.From.Inside(); r.Script == "" || len(r.Needs) == 0 || r.Needs[0] != packages.NeedNPM && r.Needs[0] != packages.NeedPip {
				t.Errorf("%s: %+v", k.Name, r)
			}
		}
	}
}
