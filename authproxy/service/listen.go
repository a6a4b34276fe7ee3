package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"harborgate/authproxy"
)

// adminName is the name of the admin socket among those that systemd hands over
// (FileDescriptorName=).
const adminName = "admin"

// listeners are those that systemd hands over, and for what is not among them
// those of the options.
func listeners(ctx context.Context, o Options) (admin net.Listener, data []net.Listener, err error) {
	defer func() {
		if err != nil {
			closeAll(append(data, admin))
			admin, data = nil, nil
		}
	}()
	given, err := activation.ListenersWithNames()
	if err != nil {
		return nil, nil, fmt.Errorf("take over sockets: %w", err)
	}
	for name, ls := range given {
		if slices.Contains(ls, nil) {
			closeAll(ls)
			return admin, data, fmt.Errorf("take over sockets: %s is no listening socket", name)
		}
		if name == adminName {
			admin = ls[0]
			closeAll(ls[1:])
			continue
		}
		data = append(data, ls...)
	}
	if admin == nil {
		if admin, err = authproxy.ListenAdmin(ctx, o.Socket); err != nil {
			return nil, data, err
		}
	}
	if len(data) > 0 {
		return admin, data, nil
	}
	for _, address := range o.Listen {
		l, err := listen(ctx, address)
		if err != nil {
			return admin, data, err
		}
		data = append(data, l)
	}
	return admin, data, nil
}

// unixPrefix begins an address that is the path of a socket.
const unixPrefix = "unix:"

// listen opens one address of the data plane. A socket of the file system is for
// the same users as the admin socket.
func listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		return authproxy.ListenAdmin(ctx, path)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		var at *net.OpError
		if errors.As(err, &at) {
			err = at.Err
		}
		return nil, fmt.Errorf("listen on %s: %w: set auth.listen to another address", address, err)
	}
	return l, nil
}

func closeAll(ls []net.Listener) {
	for _, l := range ls {
		if l != nil {
			_ = l.Close()
		}
	}
}

// addresses are where listeners listen.
func addresses(ls []net.Listener) []string {
	out := make([]string, len(ls))
	for i, l := range ls {
		out[i] = l.Addr().Network() + ":" + l.Addr().String()
	}
	return out
}
