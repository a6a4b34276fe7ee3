package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/trials"
)

// specs keeps what the provider was asked for.
func (r *rig) specs(out *[]providers.Spec) {
	r.options = func(o *Options) {
		o.Provider = &watched{Provider: o.Provider, create: func(s providers.Spec) { *out = append(*out, s) }}
		o.Lookup = func(name string) (string, bool) {
			v, ok := map[string]string{"HOST_TOKEN": "h0st-s3cret", "HOST_PLAIN": "from the host"}[name]
			return v, ok
		}
	}
}

const envToml = `[environment.env]
PLAIN = "plain"
FROM_HOST = "${HOST_PLAIN}"
API_KEY = "literal-secret"
DEFAULTED = "${NOT_SET:-fallback}"
[verifier.env]
JUDGE = "${HOST_TOKEN}"
`

// A spec may be shown to anybody: what came from the host or is called like a
// secret reaches commands alone.
func TestSecretsAreNeverInASpec(t *testing.T) {
	t.Parallel()
	const show = `printf '%s|' "$PLAIN" "$FROM_HOST" "$API_KEY" "$DEFAULTED" "$JOB" "$AGENT" "$JUDGE"`
	r := newRig(t, map[string]string{
		"task.toml":     helloToml + envToml,
		"tests/test.sh": "#!/bin/sh\n" + show + "\necho 1 > /logs/verifier/reward.txt\n",
	}).command(show)
	r.try.Config.Environment.Env = trials.Env{"JOB": "${HOST_TOKEN}"}
	r.try.Config.Agent.Env = trials.Env{"AGENT": "agent only"}
	var specs []providers.Spec
	r.specs(&specs)
	want(t, r.run(t.Context()), "1.0", "")
	if diff := cmp.Diff(map[string]string{"PLAIN": "plain"}, specs[0].Env); diff != "" {
		t.Errorf("environment in the spec (-want +got):\n%s", diff)
	}
	if got, want := r.file("agent/command.txt"), "plain|from the host|[REDACTED]|fallback|[REDACTED]|agent only||"; got != want {
		t.Errorf("the agent sees %q, want %q", got, want)
	}
	if got, want := r.file("verifier/test-stdout.txt"), "plain|from the host|[REDACTED]|fallback|[REDACTED]||[REDACTED]|"; got != want {
		t.Errorf("the verifier sees %q, want %q", got, want)
	}
	// The logs show by their marks that the values were there.
	for _, name := range []string{"agent/command.txt", "config.json", "result.json", "lock.json", "trial.log"} {
		if strings.Contains(r.file(name), "h0st-s3cret") {
			t.Errorf("%s holds the secret", name)
		}
	}
}

// guard withholds one variable from agents.
type guard struct{}

func (guard) Guard(p trials.Phase, _ *trials.AgentConfig, env map[string]string) (guarded, replaced map[string]string, notes []trials.Note) {
	if _, ok := env["MODEL"]; !ok || p == trials.PhaseVerifier {
		return env, nil, nil
	}
	out := mergeEnv(env)
	delete(out, "MODEL")
	return out, nil, []trials.Note{{Code: "withheld", Message: "MODEL is withheld"}}
}

func (guard) Grant(context.Context, Want) (*Grant, error) { return nil, nil }

func TestCredentialsAreWithheldFromAgents(t *testing.T) {
	t.Parallel()
	const show = "echo \"model=$MODEL other=$OTHER\"\n"
	r := newRig(t, map[string]string{
		"task.toml":     helloToml + "[environment.env]\nMODEL = \"m1\"\nOTHER = \"o\"\n[verifier.env]\nMODEL = \"m2\"\n",
		"tests/test.sh": "#!/bin/sh\n" + show + "echo 1 > /logs/verifier/reward.txt\n",
	}).command(show)
	r.try.Config.Agent.Env = trials.Env{"MODEL": "m3"}
	var specs []providers.Spec
	r.specs(&specs)
	provider := r.options
	r.options = func(o *Options) { provider(o); o.Credentials = guard{} }
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if got := r.file("agent/command.txt"); got != "model= other=o\n" {
		t.Errorf("the agent sees %q", got)
	}
	if got := r.file("verifier/test-stdout.txt"); got != "model=m2 other=o\n" {
		t.Errorf("the verifier sees %q", got)
	}
	if _, ok := specs[0].Env["MODEL"]; ok || strings.Count(notes(res), "MODEL is withheld") != 1 {
		t.Errorf("spec %v, notes %s", specs[0].Env, notes(res))
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	public, secret := split(
		map[string]string{"A": "1", "MY_TOKEN": "2", "T": "3", "MAX_TOKENS": "4", "J": "5"},
		map[string]string{"A": "1", "T": "${X}", "J": "${Y}"}, map[string]string{"J": "literal"},
	)
	if diff := cmp.Diff(map[string]string{"A": "1", "MAX_TOKENS": "4"}, public); diff != "" {
		t.Errorf("public: %s", diff)
	}
	if diff := cmp.Diff(map[string]string{"MY_TOKEN": "2", "T": "3", "J": "5"}, secret); diff != "" {
		t.Errorf("secret: %s", diff)
	}
}

func TestSpecOfATry(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"task.toml": helloToml + "cpus = 2\nmemory_mb = 512\nnetwork_mode = \"no-network\"\nworkdir = \"/work\"\n",
		"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}).agent("nop", nil)
	var specs []providers.Spec
	r.specs(&specs)
	memory := int64(1024)
	r.try.Config.Environment.OverrideMemoryMiB = &memory
	begun := time.Now()
	want(t, r.run(t.Context()), "1.0", "")
	s := specs[0]
	if !providers.IsName(s.Name) || s.Network.Mode != providers.NetworkNone || s.Workdir != "/work" {
		t.Errorf("name %s, network %s, workdir %s", s.Name, s.Network.Mode, s.Workdir)
	}
	if diff := cmp.Diff(providers.Resources{CPUs: 2, MemoryMiB: 1024, PIDs: maxPIDs}, s.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if left := s.Deadline.Sub(begun); left < 600*time.Second+slack || left > 600*time.Second+slack+time.Minute {
		t.Errorf("deadline in %s", left)
	}
	l := s.Labels
	if l.Owner != "owner" || l.Host != "host" || l.Job != "job" || l.Trial != "trial" || l.Expires.Sub(s.Deadline) != time.Hour {
		t.Errorf("labels %+v", l)
	}
}

func TestResourcePolicies(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"task.toml": helloToml + "cpus = 2\nmemory_mb = 512\n"})
	c := r.try.Config.Environment
	c.CPUEnforcementPolicy, c.MemoryEnforcementPolicy = "ignore", "limit"
	if got := limits(r.try.Task.Config.Environment, c); got.CPUs != 0 || got.MemoryMiB != 512 {
		t.Errorf("%+v", got)
	}
}

func TestFilesOfATaskWithAnImage(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{
		"environment/Dockerfile": "", "environment/answer.txt": "42\n",
		"task.toml":     helloToml + "docker_image = \"debian\"\nworkdir = \"/app\"\n",
		"tests/test.sh": "#!/bin/sh\n[ \"$(cat /app/answer.txt)\" = 42 ] && echo 1 > /logs/verifier/reward.txt\n",
	}).agent("nop", nil)
	want(t, r.run(t.Context()), "1.0", "")
}

func TestInstructionIsJoined(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command(`cat "$HARBOR_INSTRUCTION_FILE"`)
	extra := filepath.Join(t.TempDir(), "extra.md")
	if err := os.WriteFile(extra, []byte("from a file"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.try.Config.ExtraInstructionPaths = trials.List[string]{extra}
	r.try.Config.ExtraInstructions = trials.List[string]{"one", "two"}
	r.run(t.Context())
	if got := r.file("agent/command.txt"); !strings.HasPrefix(got, "Greet.") || !strings.HasSuffix(got, "\n\nfrom a file\n\none\n\ntwo") {
		t.Errorf("instruction %q", got)
	}
}

// A server that the agent started is gone during verification, unless asked for.
func TestKeepAgentProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		kwargs trials.Object[any]
		reward string
	}{
		"killed": {nil, "0.0"},
		"kept":   {trials.Object[any]{"keep_agent_processes": true}, "1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, map[string]string{
					"tests/test.sh": "#!/bin/sh\nsleep 5\nif [ -e /app/alive ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
				}).command("(sleep 4; touch /app/alive) >/dev/null 2>&1 &")
				r.try.Config.Environment.Kwargs = c.kwargs
				want(t, r.run(t.Context()), c.reward, "")
			})
		})
	}
}

func TestMountsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ mount trials.VolumeConfig }{
		"volume":                 {trials.VolumeConfig{Type: "volume", Source: "v", Target: "/v"}},
		"provider has no mounts": {trials.VolumeConfig{Type: "bind", Source: "/tmp", Target: "/v"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.try.Config.Environment.Mounts = &trials.List[trials.VolumeConfig]{c.mount}
			want(t, r.run(t.Context()), "null", trials.ExcUnsupportedTask)
		})
	}
}

func TestUploadLeavesOutWhatIsIgnoredAndWhatIsNoFile(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{
		"tests/.harborignore": "*.big\nskipped/\n", "tests/a.big": "x", "tests/skipped/b": "x", "tests/kept/c": "x",
		"tests/test.sh": "#!/bin/sh\ncd /tests; find . -type f | sort; [ -L link ] && echo link; echo 1 > /logs/verifier/reward.txt\n",
	})
	if err := os.Symlink("kept/c", filepath.Join(r.try.Task.Dir, "tests", "link")); err != nil {
		t.Fatal(err)
	}
	want(t, r.run(t.Context()), "1.0", "")
	if got := r.file("verifier/test-stdout.txt"); got != "./kept/c\n./test.sh\nlink\n" {
		t.Errorf("the tests see %q", got)
	}
}

// Public task sets rarely set execute bits.
func TestScriptsNeedNoExecuteBit(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, name := range []string{"tests/test.sh", "solution/solve.sh"} {
		if err := os.Chmod(filepath.Join(r.try.Task.Dir, filepath.FromSlash(name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want(t, r.run(t.Context()), "1.0", "")
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var out tail
	for range 100 {
		_, _ = out.Write([]byte("0123456789"))
	}
	_, _ = out.Write([]byte("end\xff\n"))
	if s := out.String(); len(s) > 510 || !strings.HasSuffix(s, "9end\uFFFD") {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}

// keeper lets no value of the host's key through.
type keeper struct{ guard }

func (keeper) Guard(_ trials.Phase, _ *trials.AgentConfig, env map[string]string) (guarded, replaced map[string]string, notes []trials.Note) {
	out := mergeEnv(env)
	for name, v := range env {
		if v == "sk-model" {
			delete(out, name)
		}
	}
	return out, nil, nil
}

// A header of a tool server goes wherever that server is, which a task may say: a model
// key never does.
func TestHeadersOfToolServers(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{"${TOOL_TOKEN}": "", "${OPENAI_API_KEY}": "holds the key of a model", "${NO_SUCH}": "NO_SUCH"} {
		r := newRig(t, map[string]string{"task.toml": helloToml + "[[environment.mcp_servers]]\nname = \"web\"\nurl = \"http://h/sse\"\nheaders = {Authorization = \"" + header + "\"}\n"})
		agent, model := "codex", "openai/m"
		r.try.Config.Agent = trials.AgentConfig{Name: &agent, ModelName: &model}
		r.options = func(o *Options) {
			o.Credentials = keeper{}
			o.Lookup = func(name string) (string, bool) {
				v, ok := map[string]string{"OPENAI_API_KEY": "sk-model", "TOOL_TOKEN": "t00l-s3cret"}[name]
				return v, ok
			}
		}
		res := r.run(t.Context())
		if res.ExceptionInfo == nil { // its programs are not here
			t.Fatalf("%s: %+v", header, res)
		}
		said := res.ExceptionInfo.Message
		if want != "" && !strings.Contains(said, want) || want == "" && !strings.Contains(said, "packages") {
			t.Errorf("%s: %s", header, said)
		}
		if strings.Contains(r.file("config.json")+r.file("result.json")+r.file("trial.log"), "sk-model") {
			t.Errorf("%s: the key is in the trial's files", header)
		}
	}
}
