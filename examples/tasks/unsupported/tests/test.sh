#!/bin/sh
[ -s /app/greeting.txt ] && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
