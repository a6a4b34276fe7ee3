package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// proxy stands between harbor and the engine, on a socket of its own, and
// misbehaves on request.
type proxy struct {
	socket  string
	forward *httputil.ReverseProxy

	mu     sync.Mutex // guards what follows
	server *http.Server
	rules  []*fault
	thawed chan struct{} // closed unless frozen
	ended  sync.WaitGroup
}

// fault strikes the requests that fit, left times; below zero is always.
type fault struct {
	method, action string
	path           *regexp.Regexp
	delay          time.Duration
	left           int
	healed         chan struct{}
}

// strikes are what a fault does; false lets the request through to the engine.
var strikes = map[string]func(w http.ResponseWriter, r *http.Request, f *fault) (done bool){
	"500": func(w http.ResponseWriter, _ *http.Request, _ *fault) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"message":"injected fault"}`)
		return true
	},
	"404-network": func(w http.ResponseWriter, _ *http.Request, _ *fault) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"network 0123456789ab not found"}`)
		return true
	},
	// hang answers never, and does nothing.
	"hang": func(_ http.ResponseWriter, r *http.Request, f *fault) bool {
		select {
		case <-r.Context().Done():
		case <-f.healed:
		}
		panic(http.ErrAbortHandler)
	},
	// late waits first, and then does it.
	"late": func(_ http.ResponseWriter, r *http.Request, f *fault) bool {
		select {
		case <-r.Context().Done():
		case <-time.After(f.delay):
		}
		return false
	},
	// lose does it, and cuts the connection instead of an answer.
	"lose": func(http.ResponseWriter, *http.Request, *fault) bool { return false },
}

type faultKey struct{}

// engineSocket is where the real engine listens.
func engineSocket() string {
	if s, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		return s
	}
	return "/var/run/docker.sock"
}

func newProxy(socket string) *proxy {
	p := &proxy{socket: socket, thawed: make(chan struct{})}
	close(p.thawed)
	var d net.Dialer
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.forward = &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "engine", r.In.Host
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.DialContext(ctx, "unix", engineSocket())
			return &cold{Conn: c, p: p}, err
		}},
		ModifyResponse: func(r *http.Response) error {
			if f, ok := r.Request.Context().Value(faultKey{}).(*fault); ok && f.action == "lose" {
				_ = r.Body.Close()
				return errors.New("the answer is lost")
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return p
}

// cold is a connection to the engine of which nothing arrives while the proxy is
// frozen.
type cold struct {
	net.Conn
	p *proxy
}

func (c *cold) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.mu.Lock()
	thawed := c.p.thawed
	c.p.mu.Unlock()
	<-thawed
	return n, err
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := p.strike(r); f != nil {
		if strikes[f.action](w, r, f) {
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), faultKey{}, f))
	}
	p.forward.ServeHTTP(w, r)
}

func (p *proxy) strike(r *http.Request) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.rules {
		if f.left != 0 && (f.method == "ANY" || f.method == r.Method) && f.path.MatchString(r.URL.Path) {
			f.left--
			return f
		}
	}
	return nil
}

func (p *proxy) up() error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "unix", p.socket)
	if err != nil {
		return err
	}
	if err := os.Chmod(p.socket, 0o666); err != nil {
		return err
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // it tells of every cut connection
	s := &http.Server{Handler: p, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	s.BaseContext = func(net.Listener) context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		s.RegisterOnShutdown(cancel)
		return ctx
	}
	p.mu.Lock()
	p.server = s
	p.mu.Unlock()
	p.ended.Go(func() { _ = s.Serve(l) })
	return nil
}

// down is an engine that has ended: nobody listens, all connections are cut.
func (p *proxy) down() {
	p.mu.Lock()
	s := p.server
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ctx) // ends the hijacked ones too, by their context
	_ = s.Close()
	p.ended.Wait()
}

func (p *proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if frozen {
		p.thawed = make(chan struct{})
		return
	}
	select {
	case <-p.thawed:
	default:
		close(p.thawed)
	}
}

func (p *proxy) add(f *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, f)
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.rules {
		close(f.healed)
	}
	p.rules = nil
}

// troubles are what an engine may do at random: method, path and action.
var troubles = [][]string{
	{"POST", "/containers/create", "500"}, {"POST", "/containers/create", "lose"}, {"POST", "/containers/create", "late=1s"},
	{"POST", "/start$", "500"}, {"POST", "/start$", "lose"}, {"POST", "/start$", "404-network"}, {"POST", "/attach$", "500"},
	{"DELETE", "/containers/", "500"}, {"DELETE", "/containers/", "lose"}, {"DELETE", "/containers/", "late=2s"},
	{"GET", "/images/", "500"}, {"GET", "/containers/json", "500"}, {"ANY", "/exec", "500"}, {"POST", "/containers/create", "hang"},
}

// misbehave does harm until stop: faults that strike once or twice, and now and then
// an engine that is away for a moment.
func (p *proxy) misbehave(seed uint64, stop <-chan struct{}) {
	random := rand.New(rand.NewPCG(seed, 1))
	pause := func(most int) bool {
		select {
		case <-time.After(time.Duration(1+random.IntN(most)) * time.Millisecond):
			return true
		case <-stop:
			return false
		}
	}
	for pause(1500) {
		if random.IntN(10) == 0 {
			p.down()
			pause(1000)
			if p.up() != nil {
				return
			}
			continue
		}
		p.heal()
		f, err := parseFault(append(troubles[random.IntN(len(troubles))], strconv.Itoa(1+random.IntN(2))))
		if err != nil {
			return
		}
		p.add(f)
	}
}

type proxyKey struct{}

// engine controls a proxy to the engine of this scenario:
//
//	engine proxy                                 harbor talks to the engine through it from here on
//	engine fault METHOD PATH ACTION [TIMES]      requests that fit misbehave: 500, 404-network, hang, lose, late=2s
//	engine heal                                  no more faults
//	engine down, engine up                       nobody listens; somebody does again
//	engine freeze, engine thaw                   nothing more is answered; all is
func engine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: engine proxy|fault|heal|down|up|freeze|thaw")
	}
	if args[0] == "proxy" {
		startProxy(ts)
		return
	}
	p, ok := ts.Value(proxyKey{}).(*proxyHolder)
	if !ok || p.proxy == nil {
		ts.Fatalf("engine proxy comes first")
	}
	switch args[0] {
	case "fault":
		f, err := parseFault(args[1:])
		ts.Check(err)
		p.add(f)
	case "heal":
		p.heal()
	case "down":
		p.down()
	case "up":
		ts.Check(p.up())
	case "freeze", "thaw":
		p.freeze(args[0] == "freeze")
	default:
		ts.Fatalf("engine %s is not known", args[0])
	}
}

// proxyHolder is where a scenario keeps its proxy.
type proxyHolder struct{ *proxy }

func startProxy(ts *testscript.TestScript) {
	h := ts.Value(proxyKey{}).(*proxyHolder)
	// The path of a socket has room for little more than a hundred bytes.
	dir, err := os.MkdirTemp("", "hg-")
	ts.Check(err)
	h.proxy = newProxy(filepath.Join(dir, "engine.sock"))
	ts.Check(h.up())
	ts.Defer(func() {
		h.heal()
		h.freeze(false)
		h.down()
		_ = os.RemoveAll(dir)
	})
	ts.Check(os.Chmod(dir, 0o755))
	ts.Setenv("DOCKER_HOST", "unix://"+h.socket)
}

func parseFault(args []string) (*fault, error) {
	if len(args) < 3 || len(args) > 4 {
		return nil, errors.New("usage: engine fault METHOD PATH ACTION [TIMES]")
	}
	f := &fault{method: args[0], left: -1, healed: make(chan struct{})}
	var err error
	if f.path, err = regexp.Compile(args[1]); err != nil {
		return nil, err
	}
	action, delay, late := strings.Cut(args[2], "=")
	if f.action = action; strikes[action] == nil {
		return nil, fmt.Errorf("fault %s is not known", action)
	}
	if late {
		if f.delay, err = time.ParseDuration(delay); err != nil {
			return nil, err
		}
	}
	if len(args) == 4 {
		f.left, err = strconv.Atoi(args[3])
	}
	return f, err
}

// TestProxy holds that a proxy without faults is none.
func TestProxy(t *testing.T) {
	t.Parallel()
	p := newProxy(filepath.Join(t.TempDir(), "s"))
	if err := p.up(); err != nil {
		t.Fatal(err)
	}
	defer p.down()
	f, err := parseFault([]string{"GET", "/_ping", "500", "1"})
	if err != nil {
		t.Fatal(err)
	}
	p.add(f)
	var d net.Dialer
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "unix", p.socket)
	}}}
	for _, want := range []int{http.StatusInternalServerError, http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine/_ping", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("status %d, want %d", res.StatusCode, want)
		}
	}
}
