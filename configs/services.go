package configs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed services
var services embed.FS

// Supervisor is what starts the auth proxy and keeps it running.
type Supervisor string

// The supervisors, by the folder of their files in configs/services.
const (
	SystemdSystem Supervisor = "system"
	SystemdUser   Supervisor = "user"
	PM2           Supervisor = "pm2"
)

// AuthListen is where the auth proxy takes requests as a service unless told
// otherwise: on loopback, because whoever reaches it may try tokens, and at a fixed
// port, because tools are configured with it. The port is below those that Linux
// gives to outgoing connections, so it is free after a restart, and none that model
// servers use.
const AuthListen = "127.0.0.1:8741"

// serviceProgram is what the files of configs/services start.
const serviceProgram = "/usr/local/bin/harbor"

// ServiceFile is a file for a supervisor.
type ServiceFile struct {
	Name string // without directory
	Text string
}

// ServiceFiles are those of a supervisor, for a program at an absolute path that takes
// requests at addresses (HOST:PORT or unix:/path; none is the usual one).
func ServiceFiles(s Supervisor, program string, listen []string) ([]ServiceFile, error) {
	if strings.ContainsAny(program, " \t\n\"'\\%$") {
		return nil, fmt.Errorf("the program is at %q: service files cannot say that; install it at a plain path", program)
	}
	dir := path.Join("services", string(s))
	entries, err := fs.ReadDir(services, dir)
	if err != nil {
		return nil, fmt.Errorf("no files for the supervisor %q: %w", s, err)
	}
	var streams []string
	for _, l := range listen {
		if strings.HasSuffix(l, ":0") && s != PM2 {
			return nil, fmt.Errorf("auth.listen: a socket of systemd's needs a fixed port, and %s is none: write one, like %s", l, AuthListen)
		}
		streams = append(streams, "ListenStream="+strings.TrimPrefix(l, "unix:"))
	}
	changes := []string{serviceProgram, program}
	if len(streams) > 0 {
		changes = append(changes, "ListenStream="+AuthListen, strings.Join(streams, "\n"))
	}
	replace := strings.NewReplacer(changes...)
	var out []ServiceFile
	for _, e := range entries {
		text, err := fs.ReadFile(services, path.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, ServiceFile{e.Name(), replace.Replace(string(text))})
	}
	return out, nil
}
