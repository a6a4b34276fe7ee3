#!/usr/bin/env bash
# Fuzzes targets for $FUZZTIME each, as many side by side as there are processors.
# A crash is kept by go under testdata/fuzz of its package: commit it as a seed.
#
#   fuzz.sh             every target of the repository
#   fuzz.sh DIR…        those below these directories
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZTIME:-20s}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# fuzz_one runs one target and leaves its output where it failed. That the time was over
# in the middle of a try is no failure, though go before 1.27 says so now and then
# (https://go.dev/issue/75804): then there is no input that fails.
fuzz_one() { # file:target
  local package=./$(dirname "${1%%:*}") target=${1##*:}
  echo "fuzz: $target of $package for $time" >&2
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x -parallel 1 "$package" >"$work/$target" 2>&1 && return
  if grep -qx ' *context deadline exceeded' "$work/$target" && ! grep -q '^ *Failing input written' "$work/$target"; then
    echo "fuzz: $target ended in the middle of a try" >&2
    return
  fi
  mv "$work/$target" "$work/failed $target of ${package//\//.}"
}
export -f fuzz_one
export time work

grep -rhoHE --include='*_test.go' --exclude-dir=testdata '^func Fuzz\w+' "${@:-.}" | sed 's|^\./||; s|:func |:|' | sort |
  xargs -P "$(nproc)" -I{} bash -c 'set -euo pipefail; fuzz_one "$1"' _ {}

shopt -s nullglob
failed=("$work"/failed*)
for f in "${failed[@]}"; do
  echo "fuzz: ${f##*/}" >&2
  tail -n 60 "$f" >&2
done
((${#failed[@]} == 0))
