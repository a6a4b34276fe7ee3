#!/bin/sh
# The exit code does not matter, the number in reward.txt does.
mkdir -p /logs/verifier
if [ "$(cat /app/greeting.txt)" = "Hello, world!" ]; then
	echo 1 > /logs/verifier/reward.txt
else
	echo 0 > /logs/verifier/reward.txt
fi
