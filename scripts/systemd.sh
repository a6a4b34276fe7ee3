#!/usr/bin/env bash
# Makes sure that systemd-analyze and systemd-socket-activate are there, with which
# units are tested. The package is only unpacked and configured: where systemd is not
# PID 1, nothing of it runs.
set -euo pipefail

die() { echo "systemd: $*" >&2; exit 1; }

present() { command -v systemd-analyze >/dev/null && command -v systemd-socket-activate >/dev/null; }

present && exit
command -v apt-get >/dev/null && [[ $(id -u) -eq 0 ]] || die "systemd-analyze is missing: install the package systemd"
DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends systemd >&2 ||
  die "its package cannot be had: run apt-get update, or install systemd"
present || die "the package systemd holds no systemd-analyze: install one that does"
