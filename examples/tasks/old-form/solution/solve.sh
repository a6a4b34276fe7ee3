#!/bin/sh
sort /app/fruit.txt > /app/sorted.txt
