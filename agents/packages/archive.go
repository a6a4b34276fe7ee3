package packages

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Archive is one package of npm's registry that needs no others.
type Archive struct {
	// Spec is what npm is asked for, e.g. "@openai/codex@0.171.0-linux-x64".
	Spec string
	// Integrity is the digest of the archive as npm writes it: "sha512-…". Without one
	// what the registry says of itself has to do.
	Integrity string
	// Below is the directory of the archive that is kept, as its root.
	Below string
}

// Pin implements Source.
func (a Archive) Pin(context.Context) (string, error) {
	_, sum, _ := strings.Cut(a.Integrity, "-")
	raw, err := base64.StdEncoding.DecodeString(sum)
	return short(raw), err
}

// packer has a registry's archive put into a directory, and says where it is.
type packer func(ctx context.Context, spec, dir string) (string, error)

// Fetch implements Source.
func (a Archive) Fetch(ctx context.Context, work, dest string) error {
	return a.fetch(ctx, work, dest, npmPack)
}

// Ready implements Source.
func (a Archive) Ready(context.Context) error {
	_, err := findNPM()
	return err
}

func (a Archive) fetch(ctx context.Context, work, dest string, pack packer) error {
	archive, err := pack(ctx, a.Spec, work)
	if err != nil {
		return err
	}
	check := func() error { return verify(archive, a.Integrity) }
	if a.Integrity == "" {
		check = func() error { return isAsked(archive, a.Spec) }
	}
	if err := check(); err != nil {
		return err
	}
	return unpack(archive, a.Below, dest)
}

// verify holds a file against its digest.
func verify(path, integrity string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != integrity {
		return fmt.Errorf("the registry gave something else than what is pinned: %s, not %s; nothing of it is used", got, integrity)
	}
	return nil
}

// isAsked holds what an archive says of itself against what was asked for.
func isAsked(archive, spec string) error {
	text, err := manifest(archive)
	if err != nil {
		return err
	}
	var is struct{ Name, Version string }
	if err := json.Unmarshal(text, &is); err != nil {
		return fmt.Errorf("the package.json of %s: %w", spec, err)
	}
	if got := is.Name + "@" + is.Version; got != spec {
		return fmt.Errorf("the registry gave %q for %s; nothing of it is used", got, spec)
	}
	return nil
}

func findNPM() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not in the PATH: install Node.js with npm on this host, agents come from its registry, or use --ak install=inside")
	}
	return npm, nil
}

// npmPack has npm fetch an archive, and runs nothing of it.
func npmPack(ctx context.Context, spec, dir string) (string, error) {
	npm, err := findNPM()
	if err != nil {
		return "", err
	}
	if err := runClient(ctx, spec, dir, npm, "pack", spec, "--pack-destination", dir, "--ignore-scripts", "--loglevel=error", "--no-update-notifier"); err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d archives", spec, len(found))
	}
	return found[0], nil
}
