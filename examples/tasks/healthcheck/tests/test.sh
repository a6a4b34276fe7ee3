#!/bin/sh
[ "$(cat /app/word.txt)" = harbour ] && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
