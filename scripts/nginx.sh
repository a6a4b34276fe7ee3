#!/usr/bin/env bash
# Puts Debian's nginx into .tools/nginx, for comparisons, and prints its path. It is
# unpacked, not installed: no service is started. One in PATH is taken as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "nginx: $*" >&2; exit 1; }

kept=.tools/nginx/usr/sbin/nginx
if at=$(command -v nginx); then
  echo "$at"
  exit
fi
if [[ ! -x $kept ]]; then
  command -v apt-get >/dev/null || die "there is none: install nginx, or run this on Debian"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && apt-get -qq -o APT::Sandbox::User=root download nginx) || die "its package cannot be had: run apt-get update, or install nginx"
  mkdir -p .tools/nginx
  dpkg -x "$work"/nginx_*.deb .tools/nginx
  [[ -x $kept ]] || die "the package holds no nginx: install nginx"
fi
echo "$PWD/$kept"
