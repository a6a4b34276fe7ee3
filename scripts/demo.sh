#!/usr/bin/env bash
# Runs every example task with its own solution, shows the table, and checks the
# outcomes against examples/expected.json. Results go to $DEMO_JOBS, or jobs/.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${DEMO_JOBS:-jobs}
name=demo-$(date +%Y%m%d-%H%M%S)-$$

scripts/engine.sh
scripts/base-image.sh

code=0
bin/harbor run -p examples/tasks -a oracle -o "$jobs" --job-name "$name" || code=$?

# One example cannot run yet, so one trial has no verdict, and 3 says so.
if [[ $code -ne 3 ]]; then
  echo "demo: harbor run ended with exit code $code, want 3" >&2
  exit 1
fi
bin/harbor job show "$jobs/$name" --json | go run ./internal/democheck examples/expected.json
