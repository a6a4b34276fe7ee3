#!/usr/bin/env bash
# Runs every example task with its own solution, shows the table, and checks the
# outcomes against examples/expected.json. Results go to $DEMO_JOBS, or jobs/.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${DEMO_JOBS:-jobs}

scripts/engine.sh
scripts/base-image.sh

job=$jobs/demo-$(date +%Y%m%d-%H%M%S)-$$
code=0
bin/harbor run -p examples/tasks -a oracle -o "$jobs" --job-name "$(basename "$job")" >/dev/null || code=$?

# One example cannot run yet, so one trial has no verdict, and 3 says so.
if [[ $code -ne 3 ]]; then
  echo "demo: harbor run ended with exit code $code, want 3" >&2
  exit 1
fi
bin/harbor job show "$job"
echo
bin/harbor job show "$job" --json | go run ./internal/democheck examples/expected.json
echo "Results: $job"
