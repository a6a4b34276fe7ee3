package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy/client"
	"harborgate/internal/mockllm"
	"harborgate/trials"
)

// arm is an agent with a model in the format that it speaks.
type arm struct{ agent, dialect, model string }

var arms = []arm{
	{"claude-code", "anthropic", "claude-sonnet-4-5"},
	{"codex", "openai", "gpt-5-codex"},
	{"pi", "openai", "gpt-5"},
	{"omp", "openai", "gpt-5"},
	{"mini-swe-agent", "openai", "gpt-5"},
	{"opencode", "openai", "gpt-5"},
	{"gemini-cli", "gemini", "gemini-2.5-pro"},
	{"qwen-coder", "openai", "gpt-5"},
}

// mishap is what befalls the models of all arms, and what has to become of their
// trials: the exception ("" is none, and full reward), whom it blames, and how often
// the upstream may be asked. Agents differ in how often they ask again themselves.
type mishap struct {
	steps     []mockllm.Step
	always    *mockllm.Step // behind the steps; nil is a model that works
	args      []string
	revoke    bool // ends the grant while the first request is open
	exception string
	blame     string
	asked     map[string][2]int // upstream requests from and to, by agent; "" is all others
	refused   map[string][2]int // answers of the proxy's own
}

var works = mockllm.Step{Command: "echo 'Hello, world!' > /tmp/greeting.txt"}

// attempts is how often the proxy asks an upstream for one request.
const attempts = 3

var mishaps = map[string]mishap{
	"budget-gone": {
		args: []string{"--trial-budget-usd", "0.000001"}, exception: "BudgetExceededError", blame: "agent",
		asked: map[string][2]int{"": {0, 0}}, refused: map[string][2]int{"": {1, 1}},
	},
	"bad-grant": {
		revoke: true, exception: "ModelUnavailableError", blame: "infrastructure",
		asked: map[string][2]int{"": {1, 1}},
	},
	"429-retry-after": {
		steps: []mockllm.Step{{Status: 429, Header: http.Header{"Retry-After": {"2"}}}},
		asked: map[string][2]int{"": {3, 3}}, refused: map[string][2]int{"": {0, 0}},
	},
	"500-for-ever": {
		always: &mockllm.Step{Status: 500}, exception: "ModelUnavailableError", blame: "infrastructure",
		asked: map[string][2]int{
			"claude-code": {13, 13}, "codex": {32, 32}, "pi": {6, 6}, "omp": {attempts, attempts + 69}, "mini-swe-agent": {attempts, attempts + 29},
			"opencode": {attempts, attempts + 9}, "gemini-cli": {attempts, attempts + 9}, "qwen-coder": {attempts, attempts + 29},
		},
	},
	"cut-stream": { // mini-swe-agent does not stream, and a stream for Gemini is one event
		steps: []mockllm.Step{{CutAfter: 2, Command: works.Command}},
		asked: map[string][2]int{"mini-swe-agent": {2, 2}, "gemini-cli": {2, 2}, "": {3, 3}}, refused: map[string][2]int{"": {0, 0}},
	},
	"slow-stream": {
		always: &mockllm.Step{Command: works.Command, Pause: 300 * time.Millisecond, Words: 5},
		asked:  map[string][2]int{"": {2, 2}}, refused: map[string][2]int{"": {0, 0}},
	},
}

// TestAgentFaults lets real agents meet what models and the proxy do to them.
func TestAgentFaults(t *testing.T) {
	t.Parallel()
	if os.Getenv("HARBOR_TEST_FULL") != "1" {
		return
	}
	for name, tr := range mishaps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.befall(tr)
			f.run(tr)
			for _, a := range arms {
				f.check(tr, a)
			}
			f.secret()
		})
	}
}

// fleet is a host on which all arms run at once, each with a model API of its own.
type fleet struct {
	host
	mocks map[string]*mockllm.Server // by agent
	held  chan struct{}              // closed lets first requests go on
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	dir := t.TempDir()
	f := &fleet{host: host{t: t, dir: dir, socket: filepath.Join(dir, "auth.sock")}, mocks: map[string]*mockllm.Server{}, held: make(chan struct{})}
	f.env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "HARBOR_CONFIG=" + filepath.Join(dir, "config.yaml"),
		"XDG_STATE_HOME=" + filepath.Join(dir, "state"), "XDG_CACHE_HOME=" + mustAbs("../.tools/cache"), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST"),
		"HARBOR_AUTH_SOCKET=" + filepath.Join(dir, "auth.sock"),
	}
	f.write("key", serviceKey)
	var upstreams, list strings.Builder
	for _, a := range arms {
		f.mocks[a.agent] = mockllm.New()
		server := httptest.NewServer(f.mocks[a.agent])
		t.Cleanup(server.Close)
		url := server.URL
		if a.dialect == "openai" {
			url += "/v1"
		}
		fmt.Fprintf(&upstreams, "  up-%s: {dialect: %s, base_url: %q, keys: [\"file:%s\"], local: true, attempts: %d, prices: {\"*\": {input: 1, output: 10, search: 0.01}}}\n",
			a.agent, a.dialect, url, filepath.Join(dir, "key"), attempts)
		fmt.Fprintf(&list, "  - {name: %s, model_name: up-%s/%s}\n", a.agent, a.agent, a.model)
	}
	f.write("config.yaml", "upstreams:\n"+upstreams.String()+"auth: {listen: \"127.0.0.1:0\"}\n")
	f.write("job.yaml", fmt.Sprintf("job_name: job\njobs_dir: %s\nn_concurrent_trials: %d\nagents:\n%stasks: [{path: %s}]\n",
		filepath.Join(dir, "jobs"), len(arms), list.String(), filepath.Join(dir, "greet")))
	for name, text := range map[string]string{
		"task.toml":              "schema_version = \"1.4\"\n[environment]\nnetwork_mode = \"no-network\"\n[verifier]\nenvironment_mode = \"shared\"\n",
		"instruction.md":         "Greet.\n",
		"environment/Dockerfile": "FROM debian:bookworm-slim\n",
		"tests/test.sh":          "[ \"$(cat /tmp/greeting.txt)\" = 'Hello, world!' ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, "greet", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		f.write(filepath.Join("greet", name), text)
	}
	return f
}

func (f *fleet) befall(tr mishap) {
	last := works
	if tr.always != nil {
		last = *tr.always
	}
	for _, m := range f.mocks {
		if tr.revoke {
			m.Script(mockllm.Step{Hold: f.held})
		}
		m.Script(tr.steps...)
		m.Always(func(mockllm.Request) mockllm.Step { return last })
	}
}

// run runs the job; where grants are to be revoked, with a service and in the middle.
func (f *fleet) run(tr mishap) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 15*time.Minute)
	defer cancel()
	if tr.revoke {
		serve := exec.CommandContext(ctx, filepath.Join(bin, "harbor"), "auth", "serve")
		serve.Env, serve.Dir = f.env, f.dir
		if err := serve.Start(); err != nil {
			f.t.Fatal(err)
		}
		defer func() { _ = serve.Process.Kill(); _ = serve.Wait() }()
		c := client.New(f.socket)
		f.ready(c)
		go f.revokeAll(ctx, c)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "harbor"), append([]string{"run", "-c", "job.yaml", "-q", "-y"}, tr.args...)...)
	cmd.Env, cmd.Dir = f.env, f.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) {
		f.t.Fatalf("%v\n%s", err, out)
	}
}

// revokeAll ends all grants as soon as every arm has asked once.
func (f *fleet) revokeAll(ctx context.Context, c *client.Client) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		waiting = false
		for _, m := range f.mocks {
			waiting = waiting || len(m.Requests()) == 0
		}
	}
	status, err := c.Status(ctx)
	for _, g := range status.Grants {
		_, revoked := c.Revoke(ctx, g.ID)
		err = errors.Join(err, revoked)
	}
	if err != nil {
		f.t.Errorf("revoke: %v", err)
	}
	close(f.held)
}

func (f *fleet) check(tr mishap, a arm) {
	f.t.Helper()
	var res *trials.Result
	found, _ := filepath.Glob(filepath.Join(f.dir, "jobs", "job", "*__*", "result.json"))
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			f.t.Fatal(err)
		}
		var r trials.Result
		if err := json.Unmarshal(text, &r); err != nil {
			f.t.Fatal(err)
		}
		if r.AgentInfo.Name == a.agent {
			res = &r
		}
	}
	if res == nil {
		f.t.Fatalf("no trial of %s in %v", a.agent, found)
	}
	exception, blame, why := "", "", ""
	if res.ExceptionInfo != nil {
		exception, blame, why = res.ExceptionInfo.Type, string(res.Harborgate.Failure.Blame), res.ExceptionInfo.Message
	}
	metered := res.Harborgate.Metered[trials.PhaseAgentExecution]
	asked := len(f.mocks[a.agent].Requests())
	if exception != tr.exception || blame != tr.blame || (exception == "") != (res.VerifierResult != nil) {
		f.t.Errorf("%s: %q, blamed on %q, want %q on %q", a.agent, exception, blame, tr.exception, tr.blame)
	}
	f.within(a, "upstream requests", asked, tr.asked)
	f.within(a, "answers of the proxy's own", int(metered.Refused), tr.refused)
	took := res.AgentExecution.FinishedAt.Sub(res.AgentExecution.StartedAt.Time)
	f.t.Logf("%s: %s, %s, %d upstream requests, %d requests, %d refused, %s", a.agent, exception, why, asked, metered.Requests, metered.Refused, took)
}

func (f *fleet) within(a arm, what string, n int, limits map[string][2]int) {
	f.t.Helper()
	limit, ok := limits[a.agent]
	if !ok {
		limit, ok = limits[""]
	}
	if ok && (n < limit[0] || n > limit[1]) {
		f.t.Errorf("%s: %d %s, want from %d to %d", a.agent, n, what, limit[0], limit[1])
	}
}
