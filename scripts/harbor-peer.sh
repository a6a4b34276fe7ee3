#!/usr/bin/env bash
# Holds our job directories against Harbor itself, from its package registry: its
# viewer shows them, it goes on with a finished job of ours without running or
# changing a trial, it grades one again, and we read what it then leaves.
#
# Harbor runs in a container with this host's engine, client and compose plugin.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.26.0
image=harborgate-peer:$version
say() { echo "harbor peer: $*" >&2; }
die() { say "$*"; exit 1; }

work=$(mktemp -d)
name=harborgate-peer-$$
cleanup() {
  docker rm -f "$name" >/dev/null 2>&1 || true
  docker run --rm -v "$work:$work" debian:bookworm-slim find "$work" -mindepth 1 -delete
  rm -rf "$work"
}
trap cleanup EXIT
export XDG_STATE_HOME=$work/state

scripts/base-image.sh python:3.13-slim
docker build -q -t "$image" - >/dev/null <<END
FROM python:3.13-slim
RUN python3 -m venv /opt/harbor && /opt/harbor/bin/pip install -q --no-cache-dir harbor==$version
ENV PATH=/opt/harbor/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
END

plugin=$(docker info --format '{{range .ClientInfo.Plugins}}{{if eq .Name "compose"}}{{.Path}}{{end}}{{end}}')
[[ -n $plugin ]] || die "the docker command has no compose plugin, which Harbor needs"
socket=$(docker context inspect --format '{{.Endpoints.docker.Host}}')
[[ $socket == unix://* ]] || die "Harbor needs the engine's unix socket, this one is at $socket"
docker run -d --name "$name" --init --volume "$work:$work" --workdir "$work" \
  --volume "${socket#unix://}:/var/run/docker.sock" \
  --volume "$(command -v docker):/usr/local/bin/docker:ro" \
  --volume "$plugin:/usr/local/lib/docker/cli-plugins/docker-compose:ro" \
  "$image" sleep infinity >/dev/null
peer() { timeout 300 docker exec "$name" "$@"; }

# verdicts prints a digest of every result of a trial.
verdicts() { (cd "$work/jobs/$1" && sha256sum ./*__*/result.json); }

cp -r examples/tasks "$work/tasks"
bin/harbor run -p "$work/tasks" -a oracle -o "$work/jobs" --job-name ours -q >/dev/null || [[ $? -eq 3 ]] || die "the examples do not run"
bin/harbor run -p "$work/tasks/hello-separate" -a oracle -k 2 -o "$work/jobs" --job-name separate -q >/dev/null

say "harbor job resume"
verdicts ours >"$work/before"
peer harbor job resume -p jobs/ours >"$work/log" 2>&1 || { cat "$work/log" >&2; die "Harbor does not go on with a finished job of ours"; }
verdicts ours | diff "$work/before" - || die "Harbor changed or repeated trials of a finished job of ours"

say "harbor job regrade"
peer harbor job regrade jobs/separate -p tasks/hello-separate --job-name regraded -o jobs >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; die "Harbor does not grade a job of ours again"; }
grep -q 'mean reward 1.000' "$work/log" || { cat "$work/log" >&2; die "Harbor grades a job of ours differently"; }

say "trajectories"
XDG_CACHE_HOME=$PWD/.tools/cache scripts/demo-agents.sh "$work/jobs/agents" >"$work/log" 2>&1 || { cat "$work/log" >&2; die "the demo of agents does not run"; }
peer python3 -c '
import glob
from harbor.models.trajectories import Trajectory
found = glob.glob("jobs/agents*/*/agent/trajectory.json")
assert len(found) == 2, found
for path in found:
    assert len(Trajectory.model_validate_json(open(path).read()).steps) > 2, path
' >"$work/log" 2>&1 || { cat "$work/log" >&2; die "Harbor does not read our trajectories"; }

say "harbor view"
docker exec -d "$name" harbor view jobs --no-build --port 8391
peer python3 - <<'END'
import json, sys, time, urllib.error, urllib.request

base = "http://127.0.0.1:8391/api/jobs"

def get(path, patience=0):
    end = time.monotonic() + patience
    while True:
        try:
            with urllib.request.urlopen(base + path) as answer:
                return answer.read()
        except urllib.error.HTTPError as e:
            sys.exit(f"harbor view answers {e.code} to {path}: {e.read()[:500]}")
        except urllib.error.URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)

get("", patience=120)
for job in ("ours", "separate", "regraded", "agents-claude-code", "agents-codex"):
    for part in ("", "/config", "/tasks", "/chart-trials", "/analysis"):
        get(f"/{job}{part}")
    items = json.loads(get(f"/{job}/trials"))["items"]
    if not items:
        sys.exit(f"harbor view finds no trials in {job}")
    for trial in items:
        for part in ("", "/trajectory", "/verifier-output", "/files", "/artifacts", "/agent-logs", "/files/result.json"):
            get(f"/{job}/trials/{trial['name']}{part}")
END

say "our own commands on what Harbor left"
for job in ours regraded; do bin/harbor job show "$work/jobs/$job" >/dev/null || [[ $? -eq 3 ]] || die "harbor job show $job fails"; done
bin/harbor job resume "$work/jobs/ours" -q >/dev/null || [[ $? -eq 3 ]] || die "harbor job resume fails on a job that Harbor had"
verdicts ours | diff "$work/before" - || die "we changed or repeated trials of a finished job"
say "Harbor $version reads what we write, and we what it writes"
