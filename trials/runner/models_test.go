package runner

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/agents"
	"harborgate/agents/packages"
	"harborgate/trials"
)

// granting grants every phase, and answers "hi" to whoever asks.
type granting struct {
	guard
	wants   []Want
	ended   []trials.Phase
	failure map[trials.Phase]*trials.Failure
	err     error
	idle    bool // nobody asks anything
}

func (g *granting) Grant(_ context.Context, w Want) (*Grant, error) {
	g.wants = append(g.wants, w)
	if g.err != nil {
		return nil, g.err
	}
	return &Grant{
		Handle: func(c net.Conn) {
			defer c.Close()
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nhi\n")
		},
		Access: func(url string) agents.Access {
			return agents.Access{URL: url, Token: "hgt_token", Upstreams: []agents.Upstream{{Name: "up", Dialect: "openai"}}}
		},
		End: func() (trials.Metered, *trials.Failure) {
			g.ended = append(g.ended, w.Phase)
			if g.idle {
				return trials.Metered{Grant: "g"}, g.failure[w.Phase]
			}
			return trials.Metered{Grant: "g", Requests: 1}, g.failure[w.Phase]
		},
	}, nil
}

func grantingRig(t *testing.T, agent, tests string) (*rig, *granting) {
	r := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\n" + tests + "\n"}).command(agent)
	model := "openai/m"
	r.try.Config.Agent.ModelName = &model
	g := &granting{failure: map[trials.Phase]*trials.Failure{}}
	r.options = func(o *Options) { o.Credentials = g }
	return r, g
}

const askProxy = `[ "$(curl -sf $OPENAI_BASE_URL/x)" = hi ] || exit 9; echo "$OPENAI_API_KEY"`

func TestPhasesHaveTheirOwnWayToModels(t *testing.T) {
	t.Parallel()
	r, g := grantingRig(t, askProxy, askProxy+"; echo 1 > /logs/verifier/reward.txt")
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if len(g.wants) != 2 || g.wants[0].Agent == nil || *g.wants[0].Agent.ModelName != "openai/m" || g.wants[1].Agent != nil || len(g.ended) != 2 {
		t.Errorf("wanted %+v, ended %v", g.wants, g.ended)
	}
	if left := time.Until(g.wants[0].Until); left <= 0 || left > time.Minute {
		t.Errorf("the agent's grant ends in %s, its phase in a minute", left)
	}
	if res.Harborgate.Metered[trials.PhaseVerifier].Requests != 1 {
		t.Errorf("metered %+v", res.Harborgate.Metered)
	}
	for _, name := range []string{"agent/command.txt", "verifier/test-stdout.txt"} {
		if strings.Contains(r.file(name), "hgt_token") {
			t.Errorf("the token is in %s", name)
		}
	}
}

func TestModelsOutOfReachDecideAboutTheTry(t *testing.T) {
	t.Parallel()
	down := func(p trials.Phase) *trials.Failure { return trials.NewFailure(p, trials.CauseModels, "", "down") }
	for name, c := range map[string]struct {
		agent string
		phase trials.Phase
	}{
		"the agent ended well":         {"true", trials.PhaseAgentExecution},
		"the agent failed":             {"exit 3", trials.PhaseAgentExecution},
		"the verifier graded with 0":   {"true", trials.PhaseVerifier},
		"the verifier wrote no reward": {"touch /app/none", trials.PhaseVerifier},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, g := grantingRig(t, c.agent, "[ -e /app/none ] || echo 0 > /logs/verifier/reward.txt")
			g.failure[c.phase] = down(c.phase)
			res := r.run(t.Context())
			want(t, res, "null", trials.ExcModels)
			if res.Harborgate.Failure.Blame != trials.BlameInfrastructure || !res.ExceptionInfo.Policy.ShouldRetry {
				t.Errorf("%+v", res.Harborgate.Failure)
			}
		})
	}
}

// An agent that waited for models until its time was over did not use it.
func TestTimeoutWithoutModelsIsNotTheAgents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, g := grantingRig(t, "sleep 600", "echo 0 > /logs/verifier/reward.txt")
		g.failure[trials.PhaseAgentExecution] = trials.NewFailure(trials.PhaseAgentExecution, trials.CauseModels, "", "down")
		want(t, r.run(t.Context()), "null", trials.ExcModels)
	})
}

func TestGrantThatCannotBeHad(t *testing.T) {
	t.Parallel()
	r, g := grantingRig(t, "true", "echo 1 > /logs/verifier/reward.txt")
	g.err = errors.New("upstreams.up: the key is not there")
	res := r.run(t.Context())
	want(t, res, "null", trials.ExcModels)
	if !strings.Contains(res.ExceptionInfo.Message, "the key is not there") {
		t.Errorf("%+v", res.ExceptionInfo)
	}
}

// withProgram makes the agent one whose program is a script.
func (r *rig) withProgram(name, file, script string) *rig {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	options := r.options
	r.options = func(o *Options) {
		options(o)
		o.Packages = func(context.Context, packages.Package) (string, error) { return dir, nil }
	}
	return r.agent(name, nil)
}

// A program that ends before it asked a model anything was no agent at work.
func TestAnAgentThatAskedNoModelHasNoVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		idle              bool
		reward, exception string
	}{
		"it asked nothing":     {true, "null", trials.ExcAgentSetup},
		"it asked, and failed": {false, "0.0", trials.ExcNonZeroExit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, g := grantingRig(t, "", "echo 0 > /logs/verifier/reward.txt")
			g.idle = c.idle
			r.withProgram("claude-code", "claude", `[ "$1" = --version ] && exit 0; echo broken; exit 1`)
			res := r.run(t.Context())
			want(t, res, c.reward, c.exception)
			if c.idle && (res.Harborgate.Failure.Blame != trials.BlameInfrastructure || !strings.Contains(res.ExceptionInfo.Message, "asked no model")) {
				t.Errorf("%+v", res.Harborgate.Failure)
			}
		})
	}
}

// What the sandbox exempts from its proxies stays exempt, and the way to models is.
func TestTheImagesProxiesAreNotOnTheWayToModels(t *testing.T) {
	t.Parallel()
	r, _ := grantingRig(t, `echo "$NO_PROXY $no_proxy"`, `echo "$NO_PROXY"; echo 1 > /logs/verifier/reward.txt`)
	r.try.Config.Agent.Env = trials.Env{"no_proxy": "mirror.example"}
	want(t, r.run(t.Context()), "1.0", "")
	const loopback = "localhost,127.0.0.1,::1"
	if got := r.file("agent/command.txt"); got != loopback+",mirror.example "+loopback+",mirror.example\n" {
		t.Errorf("the agent sees %q", got)
	}
	if got := r.file("verifier/test-stdout.txt"); got != loopback+"\n" {
		t.Errorf("the tests see %q", got)
	}
}
