package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"harborgate/configs"
)

// checkProgram refuses a program that a supervisor could not start: one that is not
// there, below root, or that the unit of the host does not see.
func checkProgram(s configs.Supervisor, program, root string) error {
	const next = "copy it to /usr/local/bin/harbor first, or name another with --program"
	if dir := hiddenFrom(s, program); dir != "" {
		return fmt.Errorf("install: the unit sees nothing of %s, and so not the program %s: %s", dir, program, next)
	}
	at := filepath.Join(root, program)
	fi, err := os.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("install: there is no program %s: %s", at, next)
	case err != nil:
		return fmt.Errorf("install: program %s: %w", at, reason(err))
	case !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("install: %s is no executable file: %s", at, next)
	case s == configs.SystemdSystem && fi.Mode().Perm()&0o001 == 0:
		return fmt.Errorf("install: the unit's user may not execute %s (mode %04o): run chmod 755 on it", at, fi.Mode().Perm())
	}
	if root != "" { // links lead elsewhere there
		return nil
	}
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		return fmt.Errorf("install: program %s: %w", program, reason(err))
	}
	if dir := hiddenFrom(s, real); dir != "" {
		return fmt.Errorf("install: %s leads to %s, and the unit sees nothing of %s: %s", program, real, dir, next)
	}
	return nil
}

// hiddenFrom is the directory that keeps a program from a supervisor; "" is none.
// The unit of the host has PrivateTmp, ProtectHome and PrivateDevices.
func hiddenFrom(s configs.Supervisor, program string) string {
	if s != configs.SystemdSystem {
		return ""
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/home", "/root", "/run/user", "/dev"} {
		if strings.HasPrefix(filepath.Clean(program)+"/", dir+"/") {
			return dir
		}
	}
	return ""
}

// reason is an error of the file system without operation and path.
func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
