#!/bin/sh
# The smallest agent: it reads the instruction, takes the first text in backquotes
# for what to write, and the second for where.
#
#   harbor run -p examples/tasks/hello -a command --ak script=examples/agent.sh
set -eu
quoted() { sed -n 's/^[^`]*`\([^`]*\)`[^`]*`\([^`]*\)`.*/\'"$1"'/p' "$HARBOR_INSTRUCTION_FILE" | head -n 1; }
text=$(quoted 1)
file=$(quoted 2)
echo "writing '$text' into $file"
echo "$text" > "$file"
