package app

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"harborgate/configs"
)

// AuthSettings is the block auth of config.yaml: the auth proxy as a service of
// this host.
type AuthSettings struct {
	// Listen is the address of the data plane: HOST:PORT, or unix:/path; several are
	// divided by commas.
	Listen string `json:"listen"`
	// Socket is that of the administration.
	Socket string `json:"socket"`

	chosen bool // the configuration names the socket, so it must answer
	alone  bool // no other is looked for
}

// systemSocket is where a service of the whole host is.
const systemSocket = "/run/harborgate/auth.sock"

// ReadAuthSettings reads the block. Unless it names a socket, that is
// $HARBOR_AUTH_SOCKET, $XDG_RUNTIME_DIR/harborgate/auth.sock, without that variable the one of the whole
// host for root, and one in the state directory for others.
func ReadAuthSettings(h configs.Host, dirs Dirs, lookup func(string) (string, bool)) (AuthSettings, error) {
	var s AuthSettings
	if err := h.Auth.Decode(&s); err != nil {
		return s, err
	}
	run, ok := lookup("XDG_RUNTIME_DIR")
	named, _ := lookup("HARBOR_AUTH_SOCKET")
	switch {
	case s.Socket != "" && !filepath.IsAbs(s.Socket):
		return s, fmt.Errorf("%s.socket: %q is not an absolute path", h.Auth.Where(), s.Socket)
	case s.Socket != "":
		s.chosen = true
	case filepath.IsAbs(named):
		s.Socket, s.alone = named, true
	case ok && filepath.IsAbs(run):
		s.Socket = filepath.Join(run, "harborgate", "auth.sock")
	case os.Getuid() == 0:
		s.Socket = systemSocket
	default:
		s.Socket = filepath.Join(dirs.State, "auth", "auth.sock")
	}
	return s, nil
}

// answering is the socket at which a service answers; "" is none. One that the
// user named is returned whether it answers or not.
func (s AuthSettings) answering(ctx context.Context) string {
	if s.chosen {
		return s.Socket
	}
	var d net.Dialer
	for _, path := range []string{s.Socket, systemSocket} {
		if s.alone && path != s.Socket {
			break
		}
		if c, err := d.DialContext(ctx, "unix", path); err == nil {
			_ = c.Close()
			return path
		}
	}
	return ""
}
