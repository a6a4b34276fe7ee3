#!/usr/bin/env bash
# Puts pm2 into .tools/pm2, from npm, and prints the path of the program.
set -euo pipefail
cd "$(dirname "$0")/.."

version=7.0.4
kept=.tools/pm2/$version/node_modules/.bin/pm2

die() { echo "pm2: $*" >&2; exit 1; }

if [[ ! -x $kept ]]; then
  command -v npm >/dev/null || die "npm is missing: install nodejs and npm"
  mkdir -p ".tools/pm2/$version"
  npm install --prefix ".tools/pm2/$version" --no-audit --no-fund --loglevel=error "pm2@$version" >&2 || die "npm cannot install it"
fi
echo "$PWD/$kept"
