package main

import (
	"sync"
	"time"
)

// lease ends a daemon that no host has spoken with for a while, where the sandbox
// does not end by itself. A nil lease is never over.
type lease struct {
	length time.Duration
	over   chan int // receives the daemon's exit code

	mu      sync.Mutex
	holders int
	timer   *time.Timer
}

func newLease(length time.Duration) *lease {
	l := &lease{length: length, over: make(chan int, 1)}
	l.timer = time.AfterFunc(length, l.expire)
	return l
}

// hold keeps the lease from running out until drop is called as often.
func (l *lease) hold() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders++
	l.timer.Stop()
}

func (l *lease) drop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders--
	if l.holders == 0 {
		l.timer.Reset(l.length)
	}
}

func (l *lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == 0 {
		select {
		case l.over <- 0:
		default:
		}
	}
}
