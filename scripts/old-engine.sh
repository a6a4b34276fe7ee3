#!/usr/bin/env bash
# Runs a command against the oldest engine that is supported, Docker 20.10:
#
#   old-engine.sh go test ./providers/docker/...
#   old-engine.sh --fetch         gets the engine and prints where it is, no more
#
# The engine is Debian 12's, unpacked and not installed. It runs beside the
# host's own, with a directory and a network namespace of its own, so neither
# notices the other; the base image is copied over. It ends with the command.
# Needs root on Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "old engine: $*" >&2; }
die() { say "$*"; exit 1; }

base=debian:bookworm-slim
kept=$PWD/.tools/docker-20.10

[[ $# -gt 0 ]] || die "usage: $0 COMMAND…"
[[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null || die "needs root on Debian"

# fetch unpacks the packages of the engine and of what it starts.
fetch() {
  local from
  [[ -x $kept/usr/sbin/dockerd ]] && return
  mkdir -p "$kept"
  from=$(mktemp -d)
  (cd "$from" && apt-get -q -o APT::Sandbox::User=root download docker.io/bookworm containerd/bookworm runc/bookworm tini/bookworm >&2) ||
    die "apt offers no packages of Debian 12 (bookworm) here"
  for package in "$from"/*.deb; do dpkg-deb -x "$package" "$kept"; done
  rm -rf "$from"
}

if [[ $1 == --fetch ]]; then
  fetch
  echo "$kept"
  exit
fi

work=$(mktemp -d)
cleanup() {
  local pid
  pid=$(cat "$work/pid" 2>/dev/null) && kill "$pid" 2>/dev/null
  [[ -z ${engine:-} ]] || wait "$engine" 2>/dev/null
  rm -rf "$work"
}
trap cleanup EXIT

answers() { docker -H "unix://$work/socket" version --format '{{.Server.Version}}' 2>/dev/null; }

fetch
mkdir "$work/root" "$work/exec"
unshare --net -- env PATH="$kept/usr/sbin:$kept/usr/bin:$PATH" \
  bash -c 'ip link set lo up 2>/dev/null; exec dockerd "$@"' dockerd \
  --host "unix://$work/socket" --data-root "$work/root" --exec-root "$work/exec" --pidfile "$work/pid" \
  >"$work/log" 2>&1 &
engine=$!
for _ in {1..120}; do
  answers >/dev/null && break
  kill -0 "$engine" 2>/dev/null || break
  sleep 0.5
done
version=$(answers) || { tail -n 20 "$work/log" >&2; die "the engine did not come up"; }
docker save "$base" | docker -H "unix://$work/socket" load -q >/dev/null
say "Docker Engine $version answers"
DOCKER_HOST=unix://$work/socket "$@"
