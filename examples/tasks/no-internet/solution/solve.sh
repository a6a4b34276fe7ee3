#!/bin/bash
state=offline
# By name, by address, and over IPv6.
for host in deb.debian.org 1.1.1.1 2606:4700:4700::1111; do
	if timeout 2 bash -c "exec 3<>/dev/tcp/$host/80" 2>/dev/null; then
		state=online
	fi
done
echo "$state" > /app/state.txt
