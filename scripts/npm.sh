#!/usr/bin/env bash
# Makes sure that npm is there, by which agents are fetched.
set -euo pipefail

die() { echo "npm: $*" >&2; exit 1; }

command -v npm >/dev/null && exit
command -v apt-get >/dev/null && [[ $(id -u) -eq 0 ]] || die "it is missing: install nodejs and npm"
DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends npm >&2 ||
  die "its package cannot be had: run apt-get update, or install nodejs and npm"
