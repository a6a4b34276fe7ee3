package shell

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"harborgate/providers/fake/internal/kernel"
)

func (sh *shell) waitBuiltin(args []string) int {
	pids := sh.jobs
	named := len(args) > 1
	if named {
		pids = nil
		for _, a := range args[1:] {
			pid, err := strconv.Atoi(a)
			if err != nil {
				sh.errorf("wait: %s: not a process", a)
				return 2
			}
			pids = append(pids, pid)
		}
	}
	status := 0
	for _, pid := range slices.Clone(pids) {
		s, ok, interrupted := sh.p.Wait(pid, true)
		if interrupted {
			return 128 + int(sh.runTraps())
		}
		sh.jobs = slices.DeleteFunc(sh.jobs, func(j int) bool { return j == pid })
		status = s.Code
		if !ok {
			status = 127
		}
	}
	if !named {
		return 0
	}
	return status
}

// names of signals, as kill and trap take them.
func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "PIPE": syscall.SIGPIPE, "ALRM": syscall.SIGALRM,
		"TERM": syscall.SIGTERM, "CHLD": syscall.SIGCHLD, "CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP,
		"SEGV": syscall.SIGSEGV, "ABRT": syscall.SIGABRT,
	}
}

// signalOf reads a signal's name or number.
func signalOf(s string) (syscall.Signal, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return syscall.Signal(n), n >= 0 && n < 65
	}
	sig, ok := signals()[strings.TrimPrefix(strings.ToUpper(s), "SIG")]
	return sig, ok
}

func (sh *shell) kill(args []string) int {
	args = args[1:]
	sig := syscall.SIGTERM
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name := args[0][1:]
		args = args[1:]
		if name == "s" && len(args) > 0 {
			name, args = args[0], args[1:]
		}
		var ok bool
		if sig, ok = signalOf(name); !ok {
			sh.errorf("kill: %s: invalid signal", name)
			return 2
		}
	}
	status := 0
	for _, a := range args {
		pid, err := strconv.Atoi(a)
		if err == nil {
			err = sh.p.Signal(pid, sig)
		}
		if err != nil {
			sh.errorf("kill: (%s): %v", a, err)
			status = 1
		}
	}
	return status
}

func (sh *shell) trap(args []string) int {
	if len(args) < 3 {
		return 0
	}
	action := args[1]
	for _, name := range args[2:] {
		if name == "0" || name == "EXIT" {
			sh.setTrap("EXIT", action)
			continue
		}
		if name == "ERR" || name == "DEBUG" || name == "RETURN" {
			continue
		}
		sig, ok := signalOf(name)
		if !ok {
			sh.errorf("trap: %s: bad trap", name)
			return 1
		}
		sh.setTrap(strconv.Itoa(int(sig)), action)
		sh.p.Handle(sig, map[string]kernel.Disposition{"": kernel.Ignore, "-": kernel.Default}[action])
		if action != "" && action != "-" {
			sh.p.Handle(sig, kernel.Catch)
		}
	}
	return 0
}

func (sh *shell) setTrap(key, action string) {
	if action == "-" {
		delete(sh.traps, key)
		return
	}
	sh.traps[key] = action
}

// runTraps runs the actions of the signals that have arrived and returns the
// last one.
func (sh *shell) runTraps() syscall.Signal {
	if len(sh.traps) == 0 || sh.inTrap {
		return 0
	}
	var last syscall.Signal
	for _, sig := range sh.p.Pending() {
		last = sig
		status := sh.status
		sh.inTrap = true
		sh.eval(sh.traps[strconv.Itoa(int(sig))])
		sh.inTrap = false
		sh.status = status
	}
	return last
}
