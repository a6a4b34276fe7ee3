package agents

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"harborgate/agents/packages"
	"harborgate/providers"
	"harborgate/trials"
)

// binaryOption brings the user's own program in place of the package.
var binaryOption = Option{Name: "binary", Doc: "program of yours on this host, for Linux, to use instead of the package"}

// brought is the agent with the program that its options name: the user's own, or the
// package in a version that can be one.
func (f facts) brought(given trials.Object[any], kw map[string]string) (facts, error) {
	if kw[binaryOption.Name] == "" {
		return f, f.checkVersion(kw["version"])
	}
	if kw["install"] == inside {
		return f, fmt.Errorf("agent %s: option binary is a program of this host, and install=inside fetches one in the sandbox: leave one of them out", f.name)
	}
	path, err := filepath.Abs(kw[binaryOption.Name])
	if err != nil {
		return f, fmt.Errorf("agent %s: option binary: %w", f.name, err)
	}
	f.bundle = func(arch, _ string) ([]Part, error) {
		from := packages.File{Path: path, Name: f.program, Arch: arch}
		return []Part{{bundleDir, packages.Package{Name: f.name + "-" + arch, Version: "own", From: from}}}, nil
	}
	if given["version"] == nil { // nobody knows yet what it is
		kw["version"] = ""
		return f, nil
	}
	return f, f.checkVersion(kw["version"])
}

// identify gives a program without a version the digest of what is in the sandbox.
func (a *installed) identify(ctx context.Context, w *Workplace) error {
	if a.kw["version"] != "" {
		return nil
	}
	const prefix, digits = "sha256:", 12
	var out bytes.Buffer
	path := bundleDir + "/" + a.facts.program + packages.DigestSuffix
	status, err := w.Sandbox.Exec(ctx, providers.Command{Args: []string{"cat", path}, User: w.User, Stdout: &out})
	sum := strings.TrimSpace(out.String())
	if err == nil && (!status.OK() || len(sum) < digits) {
		err = fmt.Errorf("reading %s ended with %s and %d digits", path, status, len(sum))
	}
	if err != nil {
		return fmt.Errorf("tell which program agent %s is: %w", a.facts.name, err)
	}
	a.kw["version"] = prefix + sum[:digits]
	return nil
}
