#!/bin/sh
echo 'done' > /app/state.txt
# A survivor would spoil the result after the limit, while the tests look at it.
setsid sh -c "sleep 3.5; echo spoilt > /app/state.txt" &
sleep 600
