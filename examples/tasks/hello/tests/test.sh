#!/bin/sh
# The verdict is the number in reward.txt, whatever the exit code is.
if [ "$(cat /app/greeting.txt)" = 'Hello, world!' ]; then
	echo 1 > /logs/verifier/reward.txt
else
	echo 0 > /logs/verifier/reward.txt
fi
