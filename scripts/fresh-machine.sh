#!/usr/bin/env bash
# Tries what the README promises on a fresh machine: a bare Debian without
# Docker, with a clean clone of the last commit and Go. The machine is a
# privileged container; the engine that comes to be in it ends with it.
#
#   fresh-machine.sh            make demo, twice
#   fresh-machine.sh COMMAND…   something else
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $# -gt 0 ]] || set -- 'make demo && make demo && scripts/engine.sh stop'

work=$(mktemp -d)
trap 'docker run --rm -v "$work:/work" debian:bookworm-slim rm -rf /work/clone; rm -rf "$work"' EXIT
git clone -q . "$work/clone"

# Modules come from this host's cache, so that only Debian's mirror is needed.
docker run --rm --privileged \
  --volume /var/lib/docker \
  --volume "$work/clone:/src" --workdir /src \
  --volume "$(go env GOROOT):/usr/local/go:ro" \
  --volume "$(go env GOMODCACHE):/root/go/pkg/mod" \
  --env GOFLAGS=-buildvcs=false --env GOTOOLCHAIN=local --env DEBIAN_FRONTEND=noninteractive \
  --env PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  debian:bookworm-slim bash -euc '
    apt-get -qq update
    apt-get -qq install --no-install-recommends make git ca-certificates >/dev/null 2>&1
    bash -euc "$*"' fresh-machine "$@"
