#!/usr/bin/env bash
# Makes sure that a Docker Engine answers, with as little as possible:
#
#   1. one answers already (DOCKER_HOST, docker context, default socket): done
#   2. one is installed and we are root: start it
#   3. Debian 12 as root: install the engine of the next release, start it
#      (Debian 13 and later as root: that of the release itself)
#   4. otherwise: say what to install
#
#   engine.sh          do the above; safe to repeat
#   engine.sh stop     stop the engine that step 2 or 3 started, and no other
set -euo pipefail

state=${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/harborgate/engine
pidfile=$state/pid
[[ $(id -u) -eq 0 && -w /var/log ]] && log=/var/log/harborgate-dockerd.log || log=$state/dockerd.log

say() { echo "engine: $*" >&2; }
die() { say "$*"; exit 1; }

answers() { timeout 20 docker version --format '{{.Server.Version}}' 2>/dev/null; }

# identity tells a process from a later one with the same pid: its start time.
# A dead one that nobody has reaped has none.
identity() { awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$1/stat" 2>/dev/null; }

# ours prints the pid of the engine that an earlier run started, if it still runs.
ours() {
  local pid born
  read -r pid born 2>/dev/null <"$pidfile" || return 1
  [[ $(identity "$pid") == "$born" ]] && echo "$pid"
}

# clear_stale removes pid files of engines that were killed: a dead process that
# nobody has reaped, or another one with its pid, keeps dockerd from starting.
clear_stale() {
  local file pid name state
  for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
    pid=$(cat "$file" 2>/dev/null) || continue
    name=$(cat "/proc/$pid/comm" 2>/dev/null || true)
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null || true)
    if [[ $state == Z || ( $name != dockerd && $name != containerd ) ]]; then rm -f "$file"; fi
  done
}

wait_for_answer() { # seconds
  local end=$((SECONDS + $1))
  until answers >/dev/null; do
    ((SECONDS < end)) || return 1
    sleep 0.5
  done
}

start() {
  if ours >/dev/null; then
    wait_for_answer 30 || die "the engine that was started earlier does not answer: see $log, then '$0 stop'"
    return
  fi
  mkdir -p "$state"
  # A session of its own, so that Ctrl-C in this terminal does not end it.
  clear_stale
  setsid dockerd >>"$log" 2>&1 </dev/null &
  local pid=$!
  echo "$pid $(identity "$pid")" >"$pidfile"
  if ! wait_for_answer 60; then
    tail -n 20 "$log" >&2
    die "dockerd did not come up: its log is $log"
  fi
  say "started dockerd, pid $pid, log $log"
}

stop() {
  local pid
  pid=$(ours) || { say "nothing to stop: no engine was started from here"; return; }
  kill "$pid"
  for _ in {1..60}; do
    [[ -e /proc/$pid ]] || break
    sleep 0.5
  done
  [[ -e /proc/$pid ]] && die "dockerd, pid $pid, does not end: see $log"
  rm -f "$pidfile"
  say "stopped dockerd, pid $pid"
}

# apt runs apt-get without questions and waits for whoever holds its locks.
apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 "$@" >&2
}

# update repeats, because the lock of the package lists is not waited for.
update() {
  for _ in {1..10}; do
    apt update && return
    sleep 6
  done
  die "apt-get update failed"
}

# debian_sources prints "URI suite component" of every Debian source that apt
# uses, in whichever form it is written down.
debian_sources() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u
}

# add_release derives sources of a release from those of another, and pins them
# so low that nothing comes from there unasked.
add_release() { # from to
  local uri suite component keys=/usr/share/keyrings/debian-archive-keyring.gpg
  debian_sources | grep -q " $2 " && return
  {
    echo "# Made by Harborgate's scripts/engine.sh, for the Docker Engine; pinned in preferences.d."
    debian_sources | while read -r uri suite component; do
      [[ $suite == "$1" || $suite == "$1-"* && $component == main ]] || continue
      printf '\nTypes: deb\nURIs: %s\nSuites: %s\nComponents: %s\n' "$uri" "${suite/#$1/$2}" "$component"
      [[ ! -e $keys ]] || echo "Signed-By: $keys"
    done
  } >"/etc/apt/sources.list.d/harborgate-$2.sources"
  printf 'Package: *\nPin: release n=%s*\nPin-Priority: 100\n' "$2" >"/etc/apt/preferences.d/harborgate-$2"
  say "added $2 to apt's sources, at priority 100"
  update
}

# packages prints what is missing. A client that is there already stays the one.
packages() { # suffix
  command -v dockerd >/dev/null || echo "docker.io$1"
  command -v docker >/dev/null || echo "docker-cli$1"
  docker buildx version >/dev/null 2>&1 || echo "docker-buildx$1"
  docker compose version >/dev/null 2>&1 || echo "docker-compose$1"
}

install() {
  local id='' codename='' suffix='' wanted
  if [[ -r /etc/os-release ]]; then
    id=$(. /etc/os-release && echo "${ID:-}")
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  fi
  [[ $id == debian ]] || die "no Docker Engine answers, and only Debian is set up by itself. Install Docker Engine 20.10 or later (https://docs.docker.com/engine/install/), start it, and repeat."
  [[ $(id -u) -eq 0 ]] || die "no Docker Engine answers. Start it (sudo systemctl start docker), join its group (sudo usermod -aG docker $(id -un)), or run this as root: it then installs the engine."
  say "no Docker Engine here: installing one from Debian"
  update
  if [[ $codename == bookworm ]]; then
    # Its own engine, 20.10, builds no image with a cache mount or a here-document.
    add_release bookworm trixie
    suffix=/trixie
  fi
  mapfile -t wanted < <(packages "$suffix")
  apt install --no-install-recommends "${wanted[@]}" iptables ca-certificates
}

ensure() {
  local version
  if version=$(answers); then
    say "Docker Engine $version answers"
    return
  fi
  [[ -z ${DOCKER_HOST:-} ]] || die "no Docker Engine answers at DOCKER_HOST=$DOCKER_HOST: start it there, or unset DOCKER_HOST"
  if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
    install
    # The package may have started it, where there is an init system.
    if [[ -e /run/systemd/system ]]; then wait_for_answer 20 || true; fi
  fi
  if ! answers >/dev/null; then
    [[ $(id -u) -eq 0 ]] || die "Docker is installed, and no engine answers. Start it: sudo systemctl start docker (or as root: $0). If it runs, join its group: sudo usermod -aG docker $(id -un)"
    start
  fi
  say "Docker Engine $(answers) answers"
}

case ${1:-ensure} in
  ensure) ensure ;;
  stop) stop ;;
  *) die "usage: $0 [stop]" ;;
esac
