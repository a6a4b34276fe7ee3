package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/service"
	"harborgate/configs"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// serve runs an auth proxy as a service for the rig's mock; the job's own process
// has no key and no upstream.
func (r *modelRig) serve() (socket string) {
	r.t.Helper()
	dir := r.t.TempDir()
	socket = filepath.Join(dir, "auth.sock")
	c, err := ProxyConfig(r.app.Host, r.app.opt.Lookup)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := service.New(r.t.Context(), service.Options{
		Load: func() (authproxy.Config, error) { return c, nil }, Sources: authproxy.Sources{LookupEnv: r.app.opt.Lookup},
		StateDir: dir, Socket: socket, Listen: []string{"unix:" + filepath.Join(dir, "data.sock")}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(s.Run(ctx), s.Close()) }()
	r.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	config := filepath.Join(r.t.TempDir(), "config.yaml")
	put(r.t, config, "auth: {socket: "+socket+"}\n")
	r.app = newApp(r.t, hostOf(r.t, map[string]string{"HARBOR_CONFIG": config}))
	return socket
}

func TestJobUsesTheServiceOfTheHost(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+"\n"+askLine, "")
	r.serve()
	_, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	if m := res.Harborgate.Metered[trials.PhaseAgentExecution]; m.Requests != 2 || m.CostUSD == nil || *m.CostUSD == 0 || len(m.Models) != 1 {
		t.Errorf("metered %+v", m)
	}
	if got := r.mock.Requests(); len(got) != 2 || got[0].Header.Get("X-Api-Key") != realKey {
		t.Errorf("the upstream got %+v", got)
	}
}

// What the service has audited of a trial lies beside its result, as of a proxy of the
// job's own.
func TestRequestsAtTheServiceAreListedBesideTheTrial(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+"\n"+askLine, "")
	r.serve()
	if _, _, err := r.run(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(r.cfg.JobsDir, "*", "*", requestsFile))
	if len(files) != 1 {
		t.Fatalf("%v", files)
	}
	text, err := os.ReadFile(files[0])
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(lines) != 2 || strings.Contains(string(text), realKey) {
		t.Fatalf("%v, %d lines", err, len(lines))
	}
	for _, line := range lines {
		var rec authproxy.Record
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.End != authproxy.Complete || rec.Phase != string(trials.PhaseAgentExecution) {
			t.Errorf("%v %+v", err, rec)
		}
	}
}

func TestJobBudgetHoldsAtTheService(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+"\n"+askLine, "")
	r.serve()
	r.set.Budget = 2_000_000
	_, _, err := r.run()
	var spent *BudgetError
	if !errors.As(err, &spent) {
		t.Errorf("got %v, %d requests arrived", err, len(r.mock.Requests()))
	}
}

// A service that the user named and that is not there is no reason to do without.
func TestServiceThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, "auth: {socket: /nonexistent/auth.sock}\n")
	_, _, err := r.run()
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/auth.sock") {
		t.Errorf("got %v", err)
	}
}

func TestAuthSettings(t *testing.T) {
	t.Parallel()
	dirs := Dirs{State: "/state"}
	s, err := ReadAuthSettings(configs.Host{}, dirs, variables(map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}))
	if err != nil || s.Socket != "/run/user/7/harborgate/auth.sock" || s.chosen {
		t.Errorf("%+v %v", s, err)
	}
	s, err = ReadAuthSettings(configs.Host{}, dirs, variables(map[string]string{"XDG_RUNTIME_DIR": "/run/user/7", "HARBOR_AUTH_SOCKET": "/a.sock"}))
	if err != nil || s.Socket != "/a.sock" || s.answering(t.Context()) != "" {
		t.Errorf("%+v %v", s, err)
	}
	h := configured(t, "auth: {socket: here.sock}\n")
	if _, err := ReadAuthSettings(h, dirs, variables(nil)); err == nil || !strings.Contains(err.Error(), "auth.socket") {
		t.Errorf("got %v", err)
	}
}

// The connections of a sandbox are those of its trial: its token is worth nothing on
// the service's listener, and on the connections of another trial.
func TestAttack13TokensOfTrialsAtTheService(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, "")
	r.serve()
	agent := &r.cfg.Agents[0]
	dir := t.TempDir()
	m := r.app.newModels(t.Context(), Settings{}, user{name: "job", id: "id", agents: r.cfg.Agents, trialDir: func(string) string { return dir }}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = m.close() })
	grant := func(trial string) *runner.Grant {
		g, err := m.Grant(t.Context(), runner.Want{Trial: trial, Try: 1, Phase: trials.PhaseAgentExecution, Agent: agent, Until: time.Now().Add(time.Hour)})
		if err != nil || g == nil {
			t.Fatalf("%v %v", g, err)
		}
		return g
	}
	mine, theirs := grant("a"), grant("b")
	token := mine.Access("http://proxy").Token
	c, err := r.app.AuthClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, row := range []struct {
		name string
		dial func() net.Conn
		want int
	}{
		{"its own sandbox", piped(mine.Handle), http.StatusOK},
		{"another's sandbox", piped(theirs.Handle), http.StatusUnauthorized},
		{"the host", func() net.Conn {
			conn, err := c.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}, http.StatusUnauthorized},
	} {
		tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return row.dial(), nil }, DisableKeepAlives: true}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://proxy/anthropic/v1/messages", strings.NewReader(ask))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", token)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != row.want {
			t.Errorf("%s: %d, want %d", row.name, resp.StatusCode, row.want)
		}
	}
	mine.End()
	theirs.End()
}

// piped is a connection that a sandbox's exposed port hands over.
func piped(handle func(net.Conn)) func() net.Conn {
	return func() net.Conn {
		near, far := net.Pipe()
		go handle(far)
		return near
	}
}

// A token of a process that was killed is revoked with the sandboxes that it left.
func TestSweepRevokesTokensOfKilledProcesses(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, "")
	r.serve()
	c, err := r.app.AuthClient(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for trial, owner := range map[string]string{
		"dead": r.app.grantOwner("4194305-1-00000000-00000000"), "elsewhere": "other/4194305-1-00000000-00000000", "nobody": "",
	} {
		spec := authproxy.GrantSpec{Owner: owner, Job: "j", Trial: trial, Phase: "p", Upstreams: []string{"anthropic"}, Expires: time.Now().Add(time.Hour)}
		if _, err := c.Mint(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	m := r.app.newModels(t.Context(), Settings{}, user{name: "job", id: "id", agents: r.cfg.Agents, trialDir: func(string) string { return dir }}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = m.close() })
	g, err := m.Grant(t.Context(), runner.Want{Trial: "alive", Phase: trials.PhaseAgentExecution, Agent: &r.cfg.Agents[0], Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.End()
	inForce := func() []string {
		s, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, g := range s.Grants {
			out = append(out, g.Spec.Trial)
		}
		slices.Sort(out)
		return out
	}
	if left, err := r.app.RevokeLeft(t.Context(), true); err != nil || len(left) != 1 || left[0].Spec.Trial != "dead" || len(inForce()) != 4 {
		t.Errorf("%+v %v", left, err)
	}
	p := fake.New(fake.Options{})
	defer p.Close()
	if err := r.app.Sweep(t.Context(), p); err != nil {
		t.Error(err)
	}
	if got := inForce(); !slices.Equal(got, []string{"alive", "elsewhere", "nobody"}) {
		t.Errorf("in force: %v", got)
	}
}
