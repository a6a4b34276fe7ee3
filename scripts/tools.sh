#!/usr/bin/env bash
# Puts pinned tools into .tools/bin: tools.sh golangci-lint…
#
# Versions are those of tools/go.mod. A binary is kept under its version, so a
# new pin builds anew and an old one is found again. One of the same version in
# PATH or in Go's bin directory is taken; else it is built, which takes minutes,
# once.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "tools: $*" >&2; }
die() { say "$*"; exit 1; }

# module prints the module that holds a tool, and the package to build in it.
module() {
  case $1 in
    golangci-lint) echo github.com/golangci/golangci-lint/v2 github.com/golangci/golangci-lint/v2/cmd/golangci-lint ;;
    *) die "no tool $1 is pinned in tools/go.mod" ;;
  esac
}

# found prints a binary of the right version that is here already.
found() { # tool version
  local at
  for at in "$(command -v "$1" || true)" "$(go env GOPATH)/bin/$1"; do
    [[ -x $at && $("$at" version --short 2>/dev/null) == "${2#v}" ]] || continue
    echo "$at"
    return
  done
  return 1
}

mkdir -p .tools/bin
for tool in "$@"; do
  read -r mod package < <(module "$tool")
  version=$(go list -C tools -m -f '{{.Version}}' "$mod")
  kept=.tools/bin/$tool-$version
  if [[ ! -x $kept ]]; then
    if at=$(found "$tool" "$version"); then
      cp "$at" "$kept.new"
    else
      say "building $tool $version; this takes minutes, once"
      go build -C tools -o "../$kept.new" "$package"
    fi
    mv "$kept.new" "$kept"
  fi
  ln -sf "$tool-$version" ".tools/bin/$tool"
done
