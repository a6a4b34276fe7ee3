#!/bin/sh
sleep 1.5 # by now a survivor of the agent would have written
[ "$(cat /app/state.txt)" = 'done' ] && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
