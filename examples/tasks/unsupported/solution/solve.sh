#!/bin/sh
echo 'Hello, world!' > /app/greeting.txt
