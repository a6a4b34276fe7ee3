#!/bin/sh
# The agent's word is not enough: the loopback must be the only interface, and
# there must be no route. Both files have header lines.
reward=1
[ "$(cat /app/state.txt)" = offline ] || reward=0
[ "$(ls /sys/class/net)" = lo ] || reward=0
[ "$(wc -l < /proc/net/route)" -le 1 ] || reward=0
echo "$reward" > /logs/verifier/reward.txt
