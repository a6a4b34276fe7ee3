#!/bin/sh
grep -c "$LEVEL" events.log > count.txt
