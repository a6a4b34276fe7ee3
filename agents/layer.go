package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"harborgate/agents/packages"
	"harborgate/providers"
	"harborgate/trials"
)

// Layer is the installation of an agent's programs in a sandbox, apart from any
// trial: whoever keeps that sandbox's file system installs once for many.
type Layer struct {
	Agent, Version string
	// Digest names all that decides what is installed: programs, versions,
	// architecture, and how. Where it comes from, mirrors and certificates, does not.
	Digest string

	facts facts
}

// LayerOf is the installation that trials of a configuration need inside, nil for
// agents that bring nothing into sandboxes or bring it from this host.
func LayerOf(c trials.AgentConfig) (*Layer, error) {
	kind, err := Find(c.AgentName())
	if err != nil || kind.layer == nil || c.ImportPath != nil {
		return nil, err
	}
	kw, err := kind.kwargs(c.Kwargs)
	if err != nil || kw["install"] != inside {
		return nil, err
	}
	return kind.layer(kw["version"])
}

// InstallsInside reports whether an agent is installed in sandboxes, for which they need
// a network.
func InstallsInside(c trials.AgentConfig) bool {
	l, err := LayerOf(c)
	return err == nil && l != nil
}

func (f facts) layer(version string) (*Layer, error) {
	version = f.number(version)
	if err := f.checkVersion(version); err != nil {
		return nil, err
	}
	parts, err := f.bundle(runtime.GOARCH, version)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", runtime.GOARCH, systemScript, npmScript, begin)
	for _, p := range parts {
		fmt.Fprintf(h, "%q %q %q %q\n", p.Dir, p.Name, p.Version, p.From.Inside())
	}
	return &Layer{Agent: f.name, Version: version, Digest: hex.EncodeToString(h.Sum(nil)), facts: f}, nil
}

// Install brings the agent into a sandbox that has a network. The log gets what
// registries' clients say, without credentials of their addresses; where is how users
// find it. A failed installation is KindInvalid.
func (l *Layer) Install(ctx context.Context, sb providers.Sandbox, log io.Writer, where string) error {
	host, err := thisHost(ctx)
	if err != nil {
		return fmt.Errorf("install agent %s: %w", l.Agent, err)
	}
	err = l.facts.installFrom(ctx, sb, l.Version, host, kept{log}, where)
	if f, ok := errors.AsType[*trials.Failure](err); ok { // that is one trial's; a layer is of many
		return providers.Errorf(providers.KindInvalid, "install", "%s", f.Message)
	}
	return err
}

// RegistrySecrets are the credentials with which this host reaches registries.
func RegistrySecrets(ctx context.Context) ([]string, error) {
	host, err := thisHost(ctx)
	return host.secrets(), err
}

func thisHost(ctx context.Context) (registries, error) {
	return hostRegistries(append(packages.ClientSettings(ctx), os.Environ()...), os.ReadFile)
}

// kept is a log that somebody else closes.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }
