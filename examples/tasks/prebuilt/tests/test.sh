#!/bin/sh
reward=1
[ "$(cat count.txt)" = 2 ] || reward=0
# 256 MiB, where version 2 or version 1 of control groups shows it.
[ "$(cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null)" = 268435456 ] || reward=0
echo "$reward" > /logs/verifier/reward.txt
