#!/bin/sh
[ "$(tr '\n' ' ' < /app/sorted.txt)" = 'apple pear plum ' ] && reward=1 || reward=0
echo "$reward" > /logs/verifier/reward.txt
