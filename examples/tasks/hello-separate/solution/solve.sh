#!/bin/sh
echo 'Hello, world!' > /app/greeting.txt
# This one is not declared, so the tests must not see it.
echo 'from the agent' > /app/scratch.txt
