#!/usr/bin/env bash
# Lets Claude Code and Codex, unmodified, finish a task against a model that only
# pretends: no account, no key, no network in the sandbox. Shows what they did and
# what the auth proxy counted.
#
#   demo-agents.sh [JOB]   JOB is what the directories of the jobs begin with
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/engine.sh
scripts/base-image.sh
scripts/npm.sh
work=$(mktemp -d)
model=
job=${1:-jobs/demo-agents-$(date +%Y%m%d-%H%M%S)-$$}
mkdir -p "$(dirname "$job")"
trap '[[ -z $model ]] || kill "$model" 2>/dev/null || true; rm -rf "$work"' EXIT

cat >"$work/script.yaml" <<'EOF'
- {command: "echo 'Hello, world!' > /app/greeting.txt", forever: true}
EOF
mkfifo "$work/said"
bin/harbor-sim model --key a-key-of-the-demo --script "$work/script.yaml" >"$work/said" &
model=$!
read -r _ url <"$work/said"
cat >"$work/config.yaml" <<EOF
upstreams:
  anthropic: &model {dialect: anthropic, base_url: "$url", keys: ["env:DEMO_KEY"], local: true, prices: {"*": {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}}
  openai: {<<: *model, dialect: openai, base_url: "$url/v1"}
EOF
export DEMO_KEY=a-key-of-the-demo HARBOR_CONFIG=$work/config.yaml

cp -r examples/tasks/hello "$work/hello"
printf '\n[environment]\nnetwork_mode = "no-network"\n' >>"$work/hello/task.toml"
for arm in claude-code=anthropic/claude-sonnet-4-5 codex=openai/gpt-5-codex; do
  bin/harbor run -q -p "$work/hello" -a "${arm%%=*}" -m "${arm#*=}" -o "$(dirname "$job")" --job-name "$(basename "$job")-${arm%%=*}" >/dev/null
  bin/harbor trial show "$job-${arm%%=*}"/hello__*
  echo
done
echo "Results: $job-claude-code $job-codex"
