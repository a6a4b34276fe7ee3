package authproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Admin answers the administration of the proxy, as JSON. Serve it on a socket of
// ListenAdmin and nowhere else: whoever reaches it can mint grants. It never
// returns a key, and a token only to whoever minted it.
//
//	GET    /v1/status          everything that the proxy is doing
//	POST   /v1/grants          mint: a GrantSpec in, {"id","token"} out
//	GET    /v1/grants/{id}     one grant
//	DELETE /v1/grants/{id}     revoke: its totals out
//	POST   /v1/grants/{id}/connect  upgrades to a connection of the data plane, from the grant's source
//	GET    /v1/upstreams/{name}/models  what the upstream says that it has
//	GET    /v1/upstreams/{name}/priced  what of ?model= has a price
//	POST   /v1/reload          204, or what is wrong
//	POST   /v1/drain           204 once nothing is being answered; ?timeout=25s
func (p *Proxy) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, p.Status()) })
	mux.HandleFunc("POST /v1/grants", p.adminMint)
	mux.HandleFunc("GET /v1/grants/{id}", func(w http.ResponseWriter, r *http.Request) {
		g, ok := p.Grant(r.PathValue("id"))
		replyIf(w, g, ok)
	})
	mux.HandleFunc("DELETE /v1/grants/{id}", func(w http.ResponseWriter, r *http.Request) {
		t, ok := p.Revoke(r.PathValue("id"))
		replyIf(w, t, ok)
	})
	mux.HandleFunc("POST /v1/grants/{id}/connect", p.adminConnect)
	mux.HandleFunc("GET /v1/upstreams/{name}/models", p.adminModels)
	mux.HandleFunc("GET /v1/upstreams/{name}/priced", p.adminPriced)
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) { replyTo(w, p.Reload(r.Context())) })
	mux.HandleFunc("POST /v1/drain", p.adminDrain)
	return p.logged(mux)
}

// logged writes down who administers. Whoever only looks, or carries connections, does
// so all the time.
func (p *Proxy) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _ := r.Context().Value(peerKey{}).(*unix.Ucred)
		if peer == nil {
			peer = &unix.Ucred{}
		}
		level := slog.LevelInfo
		if r.Method == http.MethodGet || r.Header.Get("Upgrade") != "" {
			level = slog.LevelDebug
		}
		p.opts.Log.Log(r.Context(), level, "administered", "method", r.Method, "path", r.URL.Path, "pid", peer.Pid, "uid", peer.Uid, "gid", peer.Gid)
		next.ServeHTTP(w, r)
	})
}

// Minted is the answer to a new grant. The token is shown this once.
type Minted struct {
	ID    string    `json:"id"`
	Token string    `json:"token"`
	Spec  GrantSpec `json:"spec"` // as it is in force
}

func (p *Proxy) adminMint(w http.ResponseWriter, r *http.Request) {
	const largest = 64 << 10
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, largest))
	d.DisallowUnknownFields()
	var spec GrantSpec
	if err := d.Decode(&spec); err != nil {
		replyTo(w, fmt.Errorf("read grant: %w", err))
		return
	}
	token, id, err := p.Mint(spec)
	if err != nil {
		replyTo(w, err)
		return
	}
	reply(w, http.StatusCreated, Minted{ID: id, Token: token, Spec: spec})
}

func (p *Proxy) adminDrain(w http.ResponseWriter, r *http.Request) {
	timeout := 25 * time.Second
	if text := r.URL.Query().Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			replyTo(w, errors.New("timeout: write a duration, like 25s"))
			return
		}
		timeout = d
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err := p.Drain(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("requests that were still open after %s were cut", timeout)
	}
	replyTo(w, err)
}

func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "the answer has no form in JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that left misses nothing
}

func replyIf(w http.ResponseWriter, v any, ok bool) {
	if !ok {
		reply(w, http.StatusNotFound, map[string]string{"error": "there is no such grant"})
		return
	}
	reply(w, http.StatusOK, v)
}

func replyTo(w http.ResponseWriter, err error) {
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// peerKey is the key of the other side's process within a connection's context.
type peerKey struct{}

// AdminServer returns a server for p.Admin that knows its peers.
func (p *Proxy) AdminServer() *http.Server {
	return &http.Server{
		Handler:           p.Admin(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if cred, err := peerOf(c); err == nil {
				ctx = context.WithValue(ctx, peerKey{}, cred)
			}
			return ctx
		},
	}
}

func peerOf(c net.Conn) (*unix.Ucred, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("no unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, credErr)
}

// AdminGroup is the group whose members may administer, where it exists.
const AdminGroup = "harborgate"

// ListenAdmin listens on a unix socket that its owner and AdminGroup can use. A
// socket that a dead process left is replaced, one that answers is not. Without
// that group, or for who is no member, it is the owner's alone.
func ListenAdmin(ctx context.Context, path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	var d net.Dialer
	if c, err := d.DialContext(ctx, "unix", path); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("admin socket %s: another process answers there; stop it, or set auth.socket", path)
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("admin socket: %w", err)
		}
	}
	l, err := placed(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return l, nil
}

// placed makes the socket where nobody else can see it, and moves it to its path
// when it has its owner and mode: there is no moment in which others may connect.
func placed(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	hidden := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	mode := os.FileMode(0o600)
	if g, err := user.LookupGroup(AdminGroup); err == nil {
		gid, err := strconv.Atoi(g.Gid)
		if err == nil && os.Chown(hidden, -1, gid) == nil { // only a member can give it to the group
			mode = 0o660
		}
	}
	if err := errors.Join(os.Chmod(hidden, mode), os.Rename(hidden, path)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &adminListener{UnixListener: l, path: path}, nil
}

// adminListener goes by the path of its socket, and removes it when it is closed.
type adminListener struct {
	*net.UnixListener
	path string
}

// Addr is where clients find the socket.
func (l *adminListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends the listener.
func (l *adminListener) Close() error { return errors.Join(l.UnixListener.Close(), os.Remove(l.path)) }
