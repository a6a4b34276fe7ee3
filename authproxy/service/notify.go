package service

import (
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// What the supervisor is told.
const (
	ready    = daemon.SdNotifyReady
	stopping = daemon.SdNotifyStopping
	alive    = daemon.SdNotifyWatchdog
)

// reloading is what begins a reload; ready ends it. systemd wants to know when it
// was said.
func reloading() string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // there always is one
	return fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/int64(time.Microsecond))
}

// notify tells the supervisor; without one it does nothing.
func notify(state string) error {
	if _, err := daemon.SdNotify(false, state); err != nil {
		return fmt.Errorf("tell the supervisor: %w", err)
	}
	return nil
}

// heart beats twice as often as the supervisor wants a sign of life; never, when it
// wants none.
func heart() (beat <-chan time.Time, stop func()) {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(every / 2)
	return t.C, t.Stop
}
