#!/usr/bin/env bash
# Makes base images available to the engine, each by the first way that works:
#
#   1. it is there already
#   2. it is pulled from its registry
#   3. Debian as root: it is made from this host's Debian mirror (mmdebstrap)
#
#   base-image.sh                  debian:bookworm-slim, which tests and examples use
#   base-image.sh NAME:TAG…        others of the table below
#
# An image made by way 3 holds the certificates that this host trusts, so that
# package clients in it work behind a company's proxy, and carries the label
# harborgate.stand-in. Replace one by the original with `docker pull`.
set -euo pipefail

say() { echo "base image: $*" >&2; }
die() { say "$*"; exit 1; }

pull_limit=${HARBOR_PULL_TIMEOUT:-120} # seconds

# recipe prints "suite packages" of an image that can be made here.
recipe() {
  case $1 in
    debian:bookworm-slim | debian:bookworm | debian:12-slim | debian:12) echo bookworm ca-certificates ;;
    debian:trixie-slim | debian:trixie | debian:13-slim | debian:13) echo trixie ca-certificates ;;
    python:3.11-slim | python:3.11-slim-bookworm) echo bookworm ca-certificates,python3,python3-venv,python3-pip ;;
    python:3.13-slim | python:3.13-slim-trixie) echo trixie ca-certificates,python3,python3-venv,python3-pip ;;
    *) return 1 ;;
  esac
}

present() { docker image inspect "$1" >/dev/null 2>&1; }

# mirror prints the Debian archive that this host installs from.
mirror() {
  local uri
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' | grep -v security | sort -u | head -n 1)
  echo "${uri:-http://deb.debian.org/debian}"
}

install_mmdebstrap() {
  command -v mmdebstrap >/dev/null && return
  [[ $(id -u) -eq 0 ]] && command -v apt-get >/dev/null ||
    die "$1 could not be pulled, and making it needs root on Debian. Allow docker pull $1, or load it with docker load"
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install --no-install-recommends mmdebstrap >&2
}

# make_image builds the smallest Debian with the packages of the recipe.
make_image() { # name
  local name=$1 suite packages bundle=/etc/ssl/certs/ca-certificates.crt
  local changes=(--change 'CMD ["bash"]' --change 'LABEL harborgate.stand-in=true')
  # Clients with trust stores of their own must be told of added certificates.
  ! compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null ||
    changes+=(--change "ENV SSL_CERT_FILE=$bundle PIP_CERT=$bundle REQUESTS_CA_BUNDLE=$bundle NODE_EXTRA_CA_CERTS=$bundle")
  read -r suite packages < <(recipe "$name") ||
    die "$name could not be pulled, and there is no recipe for it in $0"
  install_mmdebstrap "$name"
  say "making $name from Debian $suite"
  mmdebstrap --quiet --variant=minbase --include="$packages" \
    --customize-hook='cp /usr/local/share/ca-certificates/*.crt "$1/usr/local/share/ca-certificates/" 2>/dev/null || true' \
    --customize-hook='chroot "$1" update-ca-certificates >/dev/null 2>&1' \
    --customize-hook='[ ! -e "$1/usr/bin/python3" ] || ln -sf python3 "$1/usr/bin/python"' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/*_* "$1"/var/cache/apt/*.bin' \
    "$suite" - "$(mirror)" |
    docker import "${changes[@]}" - "$name" >/dev/null
}

ensure() { # name
  if present "$1"; then
    say "$1 is there"
  elif timeout "$pull_limit" docker pull -q "$1" >/dev/null 2>&1; then
    say "$1 was pulled"
  else
    make_image "$1"
    say "$1 was made"
  fi
}

docker version >/dev/null 2>&1 || die "no Docker Engine answers: run scripts/engine.sh first"
[[ $# -gt 0 ]] || set -- debian:bookworm-slim
for name in "$@"; do ensure "$name"; done
