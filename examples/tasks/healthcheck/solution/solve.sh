#!/bin/sh
cp /run/service.ready /app/word.txt
