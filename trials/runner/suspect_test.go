package runner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// signLines are what real verifiers print when they cannot do their work.
var signLines = map[string][]string{
	"host_not_resolved": {
		"curl: (6) Could not resolve host: astral.sh",
		"W: Failed to fetch http://deb.debian.org/x  Temporary failure resolving 'deb.debian.org'",
		"ERROR: [Errno -3] Temporary failure in name resolution",
		"socket.gaierror: [Errno -2] Name or service not known",
		"npm error code EAI_AGAIN getaddrinfo EAI_AGAIN registry.npmjs.org",
		"wget: bad address 'example.org'",
		"dial tcp: lookup proxy.golang.org: no such host",
		"error: failed to lookup address information",
	},
	"network_unreachable": {
		"connect: Network is unreachable",
		"urllib3.exceptions.NewConnectionError: Failed to establish a new connection: [Errno 111]",
		"curl: (7) Failed to connect to x port 443 after 0 ms: Could not connect to server",
		"curl: (28) Connection timed out after 30001 milliseconds",
	},
	"command_not_found": {
		"/tests/test.sh: line 3: uvx: command not found",
		"/tests/test.sh: 3: pytest: not found",
		"bash: line 1: pytest: command not found",
		"sh: 1: pytest: not found",
		"/usr/bin/env: 'python3': No such file or directory",
		"env: python: No such file or directory",
		"/tests/test.sh: /usr/bin/zsh: bad interpreter: No such file or directory",
	},
	"killed": {"/tests/test.sh: line 9:   123 Killed                  python big.py"},
}

func TestSignsOfAVerifierThatCouldNotWork(t *testing.T) {
	t.Parallel()
	found := func(line string) []string {
		var out []string
		for _, s := range signs {
			if s.pattern.MatchString(line) {
				out = append(out, s.code)
			}
		}
		return out
	}
	covered := map[string]bool{}
	for code, lines := range signLines {
		covered[code] = true
		for _, line := range lines {
			if diff := cmp.Diff([]string{code}, found("before\n"+line+"\nafter")); diff != "" {
				t.Errorf("%s: %s", line, diff)
			}
		}
	}
	for _, s := range signs {
		if !covered[s.code] {
			t.Errorf("sign %s has no example", s.code)
		}
	}
	for _, line := range []string{
		"AssertionError: file /app/out.txt not found", "FAILED test_x.py::test_y - FileNotFoundError: not found",
		"E   assert 404 == 200", "test_command_not_found PASSED", "the process was Killed by the test",
	} {
		if got := found(line); got != nil {
			t.Errorf("%s: %v", line, got)
		}
	}
}

func TestSuspicions(t *testing.T) {
	t.Parallel()
	const zero = "echo 0 > /logs/verifier/reward.txt"
	const full = "echo 1 > /logs/verifier/reward.txt"
	ctrf := func(tests string) string {
		return `echo '{"results":{"tool":{"name":"x"},"summary":{` + tests + `},"tests":[]}}' > /logs/verifier/ctrf.json; `
	}
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"honest zero":          {zero, []string{}},
		"no host":              {"echo 'curl: (6) Could not resolve host: x'; " + zero, []string{"host_not_resolved"}},
		"the same, full":       {"echo 'curl: (6) Could not resolve host: x'; " + full, []string{}},
		"two signs":            {"echo 'Network is unreachable'; echo '/tests/test.sh: 3: x: not found'; " + zero, []string{"command_not_found", "network_unreachable"}},
		"exit code 127":        {zero + "; exit 127", []string{"command_not_found"}},
		"exit code 126, full":  {full + "; exit 126", []string{"command_not_found"}},
		"no tests":             {ctrf(`"tests":0`) + zero, []string{"nothing_collected"}},
		"no tests, full":       {ctrf(`"tests":0`) + full, []string{"nothing_collected"}},
		"some tests":           {ctrf(`"tests":3,"failed":3`) + zero, []string{}},
		"report without count": {ctrf("") + zero, []string{}},
		"broken report":        {"echo '{' > /logs/verifier/ctrf.json; " + zero, []string{}},
		"extras":               {`echo '{"reward":1,"log":"x"}' > /logs/verifier/reward.json`, []string{"reward_extras"}},
		"no reward at all":     {"echo 'bash: line 1: pytest: command not found'", []string{"command_not_found"}},
		"far down":             {"head -c 1000000 /dev/zero; echo; echo 'Network is unreachable'; " + zero, []string{"network_unreachable"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\n" + c.script + "\n"}).run(t.Context())
			if diff := cmp.Diff(c.want, suspicions(res)); diff != "" {
				t.Errorf("suspicions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSuspicionDoesNotTouchTheReward(t *testing.T) {
	t.Parallel()
	res := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\necho Network is unreachable\necho 0.5 > /logs/verifier/reward.txt\n"}).run(t.Context())
	want(t, res, "0.5", "")
	if !res.RewardValid || len(res.Harborgate.Suspect) != 1 || !strings.Contains(res.Harborgate.Suspect[0].Message, "unreachable") {
		t.Errorf("%v %+v", res.RewardValid, res.Harborgate.Suspect)
	}
}

// A process that needs more than the sandbox has is killed; the sandbox lives on.
func TestMemoryDeaths(t *testing.T) {
	t.Parallel()
	const eat = "tail -c 100M /dev/zero >/dev/null"
	const zero = "; echo 0 > /logs/verifier/reward.txt"
	for name, c := range map[string]struct {
		agent, tests, reward, exception string
		suspect                         []string
		noted                           bool
	}{
		"agent":                   {eat, "true" + zero, "0.0", trials.ExcNonZeroExit, []string{}, true},
		"verifier with reward":    {"true", eat + zero, "0.0", "", []string{"out_of_memory"}, false},
		"verifier without reward": {"true", eat, "null", trials.ExcMemoryLimit, []string{"out_of_memory"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, map[string]string{
				"task.toml":     helloToml + "memory_mb = 64\n",
				"tests/test.sh": "#!/bin/sh\n" + c.tests + "\n",
			})
			res := r.command(c.agent).run(t.Context())
			want(t, res, c.reward, c.exception)
			if diff := cmp.Diff(c.suspect, suspicions(res)); diff != "" {
				t.Errorf("suspicions (-want +got):\n%s", diff)
			}
			if got := strings.Contains(notes(res), "oom_killed"); got != c.noted {
				t.Errorf("notes: %s", notes(res))
			}
		})
	}
}
