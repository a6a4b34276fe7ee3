package packages

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Recipe is how a package gets into a sandbox by a registry's client in there.
type Recipe struct {
	// Needs are the clients: NeedNPM, NeedPip.
	Needs []string
	// Script is for sh, which gets Input. It fills the directory $1, and may write to
	// the working directory, which nobody keeps.
	Script string
	Input  string
}

// Clients that recipes need.
const (
	NeedNPM = "npm"
	NeedPip = "pip"
)

// Inside implements Source.
func (a Archive) Inside() Recipe {
	return Recipe{Needs: []string{NeedNPM}, Script: "set -eu\n" + a.inside(".")}
}

// inside fetches, holds against the digest and unpacks, below a directory of $1.
func (a Archive) inside(dir string) string {
	var check string
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(a.Integrity, "sha512-")); err == nil && len(sum) > 0 {
		check = fmt.Sprintf("echo '%s  'archive.tgz | sha512sum -c - >/dev/null\n", hex.EncodeToString(sum))
	}
	return fmt.Sprintf(`rm -f ./*.tgz
npm pack %[1]s --ignore-scripts --loglevel=error --no-update-notifier
mv ./*.tgz archive.tgz
%[2]smkdir -p "$1"/%[3]s
tar -xzf archive.tgz -C "$1"/%[3]s --strip-components=%[4]d %[5]s
`, quoted(a.Spec), check, quoted(dir), strings.Count(a.Below, "/")+1, quoted(a.Below)) + runnable
}

// runnable gives programs that come without it the right to be run, as put does, where
// the image has a find. Small files are none: there are many of them.
const runnable = `! command -v find >/dev/null || find "$1" -type f ! -perm -100 -size +64k -exec sh -c '
for f; do if head -c 4 "$f" | grep -q ELF; then chmod 755 "$f"; fi; done' sh {} +
`

// Inside implements Source.
func (as Archives) Inside() Recipe {
	var b strings.Builder
	b.WriteString("set -eu\n")
	for _, dir := range slices.Sorted(maps.Keys(as)) {
		b.WriteString(as[dir].inside(dir))
	}
	return Recipe{Needs: []string{NeedNPM}, Script: b.String()}
}

// Inside implements Source: the image's own Python has to do.
func (i Interpreter) Inside() Recipe {
	return Recipe{Needs: []string{NeedPip}, Script: fmt.Sprintf(`set -eu
python3 -c 'import sys
if not (3, %[1]d) <= sys.version_info[:2] < (3, %[2]d):
    sys.exit("the image has Python %%d.%%d, and the agent wants 3.%[1]d to 3.%[3]d" %% sys.version_info[:2])'
mkdir -p "$1"
printf '#!/bin/sh\nexec %%s -I -S -X utf8 "$@"\n' "$(command -v python3)" >"$1"/%[4]s
chmod 755 "$1"/%[4]s
`, i.From, i.Below, i.Below-1, PythonProgram)}
}

// Inside implements Source.
func (w Wheels) Inside() Recipe {
	const install = `set -eu
python3 -m pip install --quiet --no-input --no-user --no-cache-dir --no-compile --disable-pip-version-check --root-user-action=ignore --only-binary :all: --target "$1" `
	if w.Lock == "" {
		return Recipe{Needs: []string{NeedPip}, Script: install + quoted(w.Spec) + "\n"}
	}
	return Recipe{Needs: []string{NeedPip}, Script: "cat >requirements.txt\n" + install + "--no-deps --require-hashes -r requirements.txt\n", Input: w.Lock}
}

// quoted is a word for sh.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
