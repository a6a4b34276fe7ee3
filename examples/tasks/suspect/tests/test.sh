#!/bin/sh
if pytest /tests/test_greeting.py; then
	echo 1 > /logs/verifier/reward.txt
else
	echo 0 > /logs/verifier/reward.txt
fi
