// Package service runs an auth proxy for all of a host: its listeners, reloads,
// supervision by systemd, metrics and an end that cuts nobody off who is nearly done.
//
//	                  ┌ data listeners ── Proxy ── upstreams
//	systemd, flags ──▶│
//	                  └ admin socket ─── Proxy.Admin, /metrics
//	SIGHUP, changed files ─▶ reload       audit.jsonl, ledger.jsonl, grants.json ◀─ state
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/usage"
)

// Options are what a service is made of.
type Options struct {
	// Load returns the configuration, at first and for each reload.
	Load func() (authproxy.Config, error)
	// Restart names what has changed in the configuration since the start, and is read
	// only then. May be nil.
	Restart func() []string
	// Sources are where the keys are.
	Sources authproxy.Sources
	// Config is the file behind Load. A change of it, or of a key's file, is a
	// reload.
	Config string
	// StateDir keeps budgets, grants and the audit log; one process at a time has it.
	StateDir string
	// Listen are the addresses of the data plane, HOST:PORT or unix:/path. Sockets
	// that systemd hands over take their place.
	Listen []string
	// Socket is the path of the admin socket. One that systemd hands over with the
	// name "admin" takes its place.
	Socket string
	// Drain is how long open requests get to end when the service is stopped.
	Drain time.Duration
	// Reload gets a value whenever the configuration is to be read again.
	Reload <-chan struct{}
	Log    *slog.Logger
}

// The audit log is set aside at 64 MiB, eight times.
const (
	auditBytes = 64 << 20
	auditFiles = 8
)

// Files in the state directory.
const (
	AuditFile       = "audit.jsonl"
	TranscriptsFile = "transcripts.jsonl"
)

// Service is a proxy with all that it needs. Run it once, and Close it.
type Service struct {
	opts  Options
	proxy *authproxy.Proxy
	audit *authproxy.AuditLog
	said  *authproxy.AuditLog // transcripts of grants that ask for them
	watch *watcher
	meter *meters
	admin net.Listener
	data  []net.Listener
}

// New opens everything. Nothing is answered before Run.
func New(ctx context.Context, o Options) (*Service, error) {
	s := &Service{opts: o, meter: newMeters()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Service) open(ctx context.Context) (err error) {
	o := s.opts
	if s.watch, err = newWatcher(o.Log); err != nil {
		return err
	}
	if s.audit, err = authproxy.OpenAuditLog(filepath.Join(o.StateDir, AuditFile), auditBytes, auditFiles); err != nil {
		return err
	}
	if s.said, err = authproxy.OpenAuditLog(filepath.Join(o.StateDir, TranscriptsFile), auditBytes, auditFiles); err != nil {
		return err
	}
	s.proxy, err = authproxy.New(authproxy.Options{
		Load: s.load, Restart: o.Restart, Sources: o.Sources, StateDir: o.StateDir, Log: o.Log, Audit: s.audit, Transcripts: s.said, Metrics: s.meter,
	})
	if err != nil {
		return err
	}
	if err := s.meter.follow(s.proxy.Status); err != nil {
		return err
	}
	if err := s.proxy.Reload(ctx); err != nil {
		return err
	}
	s.admin, s.data, err = listeners(ctx, o)
	return err
}

// load reads the configuration, and has the files behind it watched.
func (s *Service) load() (authproxy.Config, error) {
	c, err := s.opts.Load()
	if err != nil { // the files of the configuration in force still matter
		s.watch.see()
		return c, err
	}
	s.watch.follow(append(keyFiles(c), s.opts.Config))
	return c, nil
}

// Close lets go of everything; what is open is cut.
func (s *Service) Close() error {
	var errs []error
	for _, l := range append(s.data, s.admin) {
		if l != nil {
			errs = append(errs, ignoreClosed(l.Close()))
		}
	}
	if s.proxy != nil {
		errs = append(errs, s.proxy.Close())
	}
	for _, l := range []*authproxy.AuditLog{s.audit, s.said} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	if s.watch != nil {
		errs = append(errs, s.watch.close())
	}
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Run answers until ctx ends, then drains and returns nil. An error says what broke
// on the way.
func (s *Service) Run(ctx context.Context) error {
	admin := s.adminServer()
	failed := make(chan error, len(s.data)+1)
	var serving sync.WaitGroup
	for _, l := range s.data {
		serving.Go(func() { failed <- s.proxy.Serve(l) })
	}
	serving.Go(func() { failed <- admin.Serve(s.admin) })
	defer func() {
		_ = admin.Close()
		serving.Wait()
		s.admin, s.data = nil, nil // a second Close would take away the socket of the next process
	}()
	s.opts.Log.Info("auth proxy serves", "listen", addresses(s.data), "socket", s.admin.Addr().String())
	if err := notify(ready); err != nil {
		return errors.Join(err, s.stop(nil))
	}
	beat, stop := heart()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return s.stop(beat)
		case err := <-failed:
			return errors.Join(fmt.Errorf("auth proxy: a listener broke: %w", err), s.stop(beat))
		case <-s.opts.Reload:
			s.reload(ctx, "asked to")
		case <-s.watch.changed:
			s.reload(ctx, "a file has changed")
		case <-beat:
			s.beat()
		}
	}
}

// adminServer is the proxy's, with metrics and sums of the audit log.
func (s *Service) adminServer() *http.Server {
	server := s.proxy.AdminServer()
	mux := http.NewServeMux()
	mux.Handle("/", server.Handler)
	mux.Handle("GET /metrics", s.meter.handler())
	mux.HandleFunc("GET /v1/usage", s.usage)
	mux.HandleFunc("GET /v1/grants/{id}/records", s.records)
	server.Handler = mux
	return server
}

// records answers with the lines of the audit log about a grant, which may have ended:
// ?since=TIME, when it was made.
func (s *Service) records(w http.ResponseWriter, r *http.Request) {
	since, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("since"))
	if err != nil {
		http.Error(w, `{"error":"since: write a time, like 2006-01-02T15:04:05Z"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	if err := usage.Copy(w, filepath.Join(s.opts.StateDir, AuditFile), r.PathValue("id"), since); err != nil {
		s.opts.Log.Error("records cannot be read", "error", err.Error())
		panic(http.ErrAbortHandler) // what was sent must not look complete
	}
}

// usage answers with a usage.Report: ?by=job&job=NAME&since=TIME.
func (s *Service) usage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f := usage.Filter{Job: q.Get("job")}
	var report usage.Report
	var err error
	if text := q.Get("since"); text != "" {
		f.Since, err = time.Parse(time.RFC3339Nano, text)
	}
	if err == nil {
		report, err = usage.Read([]string{filepath.Join(s.opts.StateDir, AuditFile)}, usage.By(q.Get("by")), f)
	}
	w.Header().Set("Content-Type", "application/json")
	var answer any = report
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer) // a client that left misses nothing
}

// reload reads the configuration again. A bad one changes nothing.
func (s *Service) reload(ctx context.Context, why string) {
	if err := notify(reloading()); err != nil {
		s.opts.Log.Warn("the supervisor cannot be told", "error", err.Error())
	}
	err := s.proxy.Reload(ctx)
	s.meter.reloaded(err)
	if err != nil {
		s.opts.Log.Error("reload failed, what was in force stays", "why", why, "error", err.Error())
	} else {
		s.opts.Log.Info("reloaded", "why", why)
	}
	if err := notify(ready); err != nil {
		s.opts.Log.Warn("the supervisor cannot be told", "error", err.Error())
	}
}

// beat tells the supervisor that all is well: it takes the locks that a request
// takes, so a service that hangs is silent.
func (s *Service) beat() {
	_ = s.proxy.Status()
	if err := notify(alive); err != nil {
		s.opts.Log.Warn("the supervisor cannot be told", "error", err.Error())
	}
}

// stop takes no more connections and waits for open requests, for a while. The
// sockets of a supervisor keep new ones for the next process.
func (s *Service) stop(beat <-chan time.Time) error {
	if err := notify(stopping); err != nil {
		s.opts.Log.Warn("the supervisor cannot be told", "error", err.Error())
	}
	for _, l := range s.data {
		_ = l.Close()
	}
	open := len(s.proxy.Status().Streams)
	s.opts.Log.Info("draining", "open", open, "limit", s.opts.Drain.String())
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.Drain)
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- s.proxy.Drain(ctx) }()
	for {
		select {
		case err := <-drained:
			if err != nil {
				s.opts.Log.Warn("what was open after the limit was cut", "limit", s.opts.Drain.String())
			}
			s.opts.Log.Info("stopped")
			return nil
		case <-beat:
			s.beat()
		}
	}
}
