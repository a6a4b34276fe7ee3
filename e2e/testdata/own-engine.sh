#!/usr/bin/env bash
# A Docker Engine of a scenario's own, in DIR, with a network and mounts of its own,
# to be stopped and filled without anybody else noticing. Needs root.
#
#   own-engine.sh start DIR [SIZE [FLAG…]]   listens at DIR/sock; SIZE is of its disk,
#                                 FLAGs are for dockerd
#   own-engine.sh start-old DIR   the same, with the oldest engine that is supported
#   own-engine.sh stop DIR
#   own-engine.sh kill DIR        SIGKILL, as a crash
#   own-engine.sh pause|go-on DIR    SIGSTOP, SIGCONT
set -euo pipefail
dir=$2

answers() { docker -H "unix://$dir/sock" version >/dev/null 2>&1; }

start() { # size, flags
  mkdir -p "$dir/root" "$dir/exec"
  setsid unshare --net --mount bash -c '
    ip link set lo up 2>/dev/null
    [[ -z $2 ]] || mount -t tmpfs -o "size=$2" tmpfs "$1/root"
    exec dockerd --host "unix://$1/sock" --data-root "$1/root" --exec-root "$1/exec" --pidfile "$1/pid" "${@:3}"
  ' dockerd "$dir" "$1" "${@:2}" >>"$dir/log" 2>&1 </dev/null &
  for _ in {1..120}; do
    answers && break
    sleep 0.25
  done
  answers || { tail -n 20 "$dir/log" >&2; exit 1; }
  docker -H "unix://$dir/sock" image inspect debian:bookworm-slim >/dev/null 2>&1 ||
    env -u DOCKER_HOST docker save debian:bookworm-slim | docker -H "unix://$dir/sock" load -q >/dev/null
}

stop() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 0
  kill -CONT "$pid"
  kill "$pid"
  for _ in {1..240}; do
    [[ -e $dir/pid ]] || return 0
    sleep 0.25
  done
  exit 1
}

case $1 in
  start-old)
    old=$("$(dirname "$0")/../../scripts/old-engine.sh" --fetch)
    PATH=$old/usr/sbin:$old/usr/bin:$PATH start "${3:-}" "${@:4}"
    ;;
  start) start "${3:-}" "${@:4}" ;;
  stop) stop ;;
  kill)
    kill -KILL "$(cat "$dir/pid")"
    rm -f "$dir/pid"
    ;;
  pause) kill -STOP "$(cat "$dir/pid")" ;;
  go-on) kill -CONT "$(cat "$dir/pid")" ;;
esac
