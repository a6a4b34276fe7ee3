#!/bin/sh
got=$(cat /app/sum.txt)
if [ "$got" = 42 ]; then
	echo 1 > /logs/verifier/reward.txt
else
	echo "sum.txt holds $got, want 42"
	echo 0 > /logs/verifier/reward.txt
fi
