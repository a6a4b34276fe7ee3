#!/usr/bin/env bash
# Fuzzes every target of the repository, one after the other, for $FUZZTIME each.
# A crash is kept by go under testdata/fuzz of its package: commit it as a seed.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${FUZZTIME:-20s}
failed=()
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  echo "fuzz: $target of $package for $time" >&2
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x "$package" || failed+=("$package $target")
done < <(grep -rhoHE --include='*_test.go' --exclude-dir=testdata '^func Fuzz\w+' . | sed 's|^\./||; s|:func |:|' | sort)

if ((${#failed[@]})); then
  printf 'fuzz: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
