package packages

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
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

func (a Archive) fetch(ctx context.Context, work, dest string, pack packer) error {
	archive, err := pack(ctx, a.Spec, work)
	if err != nil {
		return err
	}
	if err := verify(archive, a.Integrity); a.Integrity != "" && err != nil {
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

// npmPack has npm fetch an archive, and runs nothing of it.
func npmPack(ctx context.Context, spec, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not there: install Node.js with npm on this host, agents come from its registry")
	}
	cmd := exec.CommandContext(ctx, npm, "pack", spec, "--pack-destination", dir, "--ignore-scripts", "--loglevel=error", "--no-update-notifier")
	cmd.Dir, cmd.Env = dir, environment(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		const end = 2000
		return "", fmt.Errorf("npm pack %s: %w: %s", spec, err, bytes.TrimSpace(out[max(0, len(out)-end):]))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d archives", spec, len(found))
	}
	return found[0], nil
}
