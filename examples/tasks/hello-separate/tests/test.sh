#!/bin/sh
reward=1
[ "$(cat /app/greeting.txt)" = 'Hello, world!' ] || reward=0
[ ! -e /app/scratch.txt ] || reward=0
echo "$reward" > /logs/verifier/reward.txt
