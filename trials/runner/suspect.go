package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"

	"harborgate/trials"
)

// outputScan is how much of the test output is looked through.
const outputScan = 256 << 10

// signs in the test output of a verifier that could not do its work. They count
// only when the reward is not a full one: tests may print such lines on purpose.
var signs = []struct {
	code    string
	pattern *regexp.Regexp
	says    string
}{
	{"host_not_resolved", regexp.MustCompile(`(?i)(could not resolve host|temporary failure in name resolution|temporary failure resolving|name or service not known|failed to lookup address|getaddrinfo (enotfound|eai_again)|bad address '|no such host|nodename nor servname)`),
		"the verifier could not resolve a host"},
	{"network_unreachable", regexp.MustCompile(`(?i)(network is unreachable|failed to establish a new connection|could not connect to server|connection timed out after)`),
		"the verifier could not reach the network"},
	{"command_not_found", regexp.MustCompile(`(?m)^\S*(sh|bash|test\.sh)\S*: (line \d+: )?(\d+: )?\S+: (command )?not found$|(?m)^(/usr/bin/)?env: .*: No such file or directory$|: bad interpreter:`),
		"the verifier ran a command that does not exist"},
	{"killed", regexp.MustCompile(`(?m)^\S*(sh|bash|test\.sh)\S*: line \d+:\s+\d+ Killed`),
		"a process of the verifier was killed"},
}

// suspect notes why a verdict may say nothing about the agent. The reward is
// left as it is.
func (x *run) suspect(v verdict) {
	s := x.verifierStatus
	if x.separate() {
		x.doubtArtifacts()
	}
	if s.OOMKilled {
		x.doubt("out_of_memory", "the kernel killed a process of the verifier because the sandbox ran out of memory")
	}
	if s.Code == 126 || s.Code == 127 {
		x.doubt("command_not_found", fmt.Sprintf("the test script ended with exit code %d: it, or the last command in it, could not be started", s.Code))
	}
	if n, ok := x.collectedTests(); ok && n == 0 {
		x.doubt("nothing_collected", "ctrf.json says that no test was collected")
	}
	if len(v.extras) > 0 {
		x.doubt("reward_extras", fmt.Sprintf("reward.json holds %d entries that are no numbers", len(v.extras)))
	}
	if main, ok := v.rewards.Main(); ok && main.Value >= 1 {
		return
	}
	out, err := x.t.Sink.Ends(testOutput, outputScan/2)
	if err != nil {
		return
	}
	for _, sign := range signs {
		if line := sign.pattern.Find(out); line != nil {
			x.doubt(sign.code, fmt.Sprintf("%s: %s", sign.says, bytes.ToValidUTF8(bytes.TrimSpace(line), []byte("\uFFFD"))))
		}
	}
}

// doubtArtifacts says that tests which know the artifacts alone do not get all
// that the agent left there.
func (x *run) doubtArtifacts() {
	if x.missing.count == 0 {
		return
	}
	list := strings.Join(x.missing.first, "; ")
	if more := x.missing.count - len(x.missing.first); more > 0 {
		list += fmt.Sprintf("; and %d more", more)
	}
	x.doubt("artifact_incomplete", "the separate verifier did not get all of the artifacts: "+list)
}

func (x *run) doubt(code, message string) {
	for _, s := range x.res.Harborgate.Suspect {
		if s.Code == code {
			return
		}
	}
	x.res.Harborgate.Suspect = append(x.res.Harborgate.Suspect, trials.Suspicion{Code: code, Message: message})
}

// collectedTests reads how many tests the common test report counts.
func (x *run) collectedTests() (int, bool) {
	b, err := x.t.Sink.Read(path.Join("verifier", "ctrf.json"), 16<<20)
	if err != nil {
		return 0, false
	}
	var report struct {
		Results struct {
			Summary struct{ Tests *int }
			Tests   []json.RawMessage
		}
	}
	if json.Unmarshal(b, &report) != nil || report.Results.Summary.Tests == nil {
		return 0, false
	}
	return max(*report.Results.Summary.Tests, len(report.Results.Tests)), true
}
