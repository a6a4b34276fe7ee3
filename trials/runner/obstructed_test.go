package runner

import (
	"slices"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// What an agent makes of its logs is its own doing: the verdict that it gets is the one
// that it would have got, and no other try is made.
func TestAgentCannotWithholdAVerdictByItsLogs(t *testing.T) {
	for name, line := range map[string]string{
		"directory in a file's place": "mkdir -p /logs/agent/command.txt/x",
		"file":                        "rm -rf /logs/agent; echo x > /logs/agent",
		"nothing":                     "rm -rf /logs",
		"file above":                  "rm -rf /logs; echo x > /logs",
		"link above":                  "rm -rf /logs; ln -s /etc /logs",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\nif [ -f /logs/agent/command.txt ]; then echo 0; else echo 2; fi > /logs/verifier/reward.txt\n"}).command(line)
				res := r.run(t.Context())
				want(t, res, "0.0", "")
			})
		})
	}
}

func TestLogsThatCannotBePutBackAreANote(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpUpload, Match: agentDir, Effect: fake.Refuse, Kind: providers.KindInvalid})
		res := r.run(t.Context())
		want(t, res, "1.0", "")
		if !slices.ContainsFunc(res.Harborgate.Notes, func(n trials.Note) bool { return n.Code == "logs_not_returned" }) {
			t.Errorf("notes %+v", res.Harborgate.Notes)
		}
	})
}

// A sandbox that has no working shell any more is nobody's to try again.
func TestSpoiledShellIsNoInfrastructure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil).command("rm -f /bin/sh /bin/bash; mkdir -p /tests; rm -rf /bin")
		res := r.run(t.Context())
		if f := res.Harborgate.Failure; f == nil || f.Blame == trials.BlameInfrastructure || res.ExceptionInfo.Policy.ShouldRetry {
			t.Errorf("failure %+v", f)
		}
		if f := res.Harborgate.Failure; f != nil && strings.TrimSpace(f.Message) == "" {
			t.Error("nothing is said")
		}
	})
}

// The same of artifacts, which are all that a separate verifier gets.
func TestAgentCannotWithholdAVerdictByItsArtifacts(t *testing.T) {
	refuse := func(op fake.Op, nth int) fake.Fault {
		return fake.Fault{Op: op, Match: "/app/o", Nth: nth, Effect: fake.Refuse, Kind: providers.KindInvalid}
	}
	for name, c := range map[string]struct {
		faults  []fake.Fault
		suspect bool // the tests did not see it
	}{
		"links in a circle":          {[]fake.Fault{refuse(fake.OpDownload, 0)}, true},
		"something in its place":     {[]fake.Fault{refuse(fake.OpUpload, 1)}, false},
		"something that stays there": {[]fake.Fault{refuse(fake.OpUpload, 0)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, passOn("", "true")).command("mkdir -p /app/o; echo x > /app/o/x")
				r.world.Inject(c.faults...)
				res := r.run(t.Context())
				want(t, res, "1.0", "")
				if got := res.Harborgate.Suspect; (len(got) > 0) != c.suspect {
					t.Errorf("suspect %+v", got)
				}
			})
		})
	}
}
