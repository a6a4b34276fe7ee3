package runner

import (
	"slices"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// The failure that cost the verdict has the blame and decides about another try;
// that the agent failed, which alone would have been graded, stands beside it.
func TestLostVerdictIsNotBlamedOnTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		files     map[string]string
		agent     string
		fault     fake.Fault
		exception string
		blame     trials.Blame
	}{
		"infrastructure, after an exit code": {
			agent: "exit 3", fault: fake.Fault{Op: fake.OpUpload, Match: "/tests", Effect: fake.Refuse, Kind: providers.KindUnavailable},
			exception: trials.ExcAddTests, blame: trials.BlameInfrastructure,
		},
		"infrastructure, after a time limit": {
			agent: "sleep 600", fault: fake.Fault{Op: fake.OpUpload, Match: "/tests", Effect: fake.Refuse, Kind: providers.KindUnavailable},
			exception: trials.ExcAddTests, blame: trials.BlameInfrastructure,
		},
		"tests without a reward": {
			files: map[string]string{"tests/test.sh": "exit 0\n"}, agent: "exit 3",
			exception: trials.ExcRewardMissing, blame: trials.BlameTask,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, c.files).command(c.agent)
				if c.fault.Op != "" {
					r.world.Inject(c.fault)
				}
				res := r.run(t.Context())
				want(t, res, "null", c.exception)
				x := res.Harborgate
				if x.Failure.Blame != c.blame || !slices.ContainsFunc(x.Notes, func(n trials.Note) bool { return n.Code == "agent_failure" }) {
					t.Errorf("blame %s, notes %+v", x.Failure.Blame, x.Notes)
				}
			})
		})
	}
}
