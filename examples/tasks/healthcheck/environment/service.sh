#!/bin/sh
# Takes a second to get ready, then goes on for as long as the sandbox lives.
sleep 1
echo harbour > /run/service.ready
exec sleep infinity
