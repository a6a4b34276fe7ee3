#!/bin/sh
correct=0
n=0
for want in 2 3 5 7 11 13 17 19 23 29; do
	n=$((n + 1))
	[ "$(sed -n "${n}p" /app/primes.txt)" = "$want" ] && correct=$((correct + 1))
done
[ -s /app/log/work.txt ] && logged=1 || logged=0
printf '{"correct": 0.%d, "logged": %d}\n' "$correct" "$logged" > /logs/verifier/reward.json
