#!/usr/bin/env bash
# Makes the lock files of the agents that are written in Python, for the versions
# that are named here: every package that they need on Linux, with digests of all its
# files and without the name of any registry. Wants uv. Versions of the agents are in
# agents/*.go, too.
set -euo pipefail
cd "$(dirname "$0")/.."
locks=$PWD/agents/locks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf '[tool.uv]\nenvironments = ["sys_platform == %s"]\n' "'linux'" >pyproject.toml

# lock NAME REQUIREMENT [UNNEEDED…]: packages that only other commands of the same
# project import are left out.
lock() {
  echo "$2" >in.txt
  : >without.txt
  for name in "${@:3}"; do
    echo "$name; sys_platform == 'never'" >>without.txt
  done
  echo "# $2, by scripts/python-locks.sh" >"$locks/$1.txt"
  uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-annotate --override without.txt in.txt >>"$locks/$1.txt"
}

lock mini-swe-agent mini-swe-agent==2.4.6 datasets textual
lock aider aider-chat==0.86.2 sounddevice soundfile
