package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"harborgate/providers"
	"harborgate/trials"
)

// fullSink has no room for one log.
type fullSink struct {
	Sink
	log string
}

func (s fullSink) Stream(name string) (io.WriteCloser, error) {
	if strings.HasPrefix(name, s.log) {
		return full{}, nil
	}
	return s.Sink.Stream(name)
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("write log: %w", syscall.ENOSPC) }
func (full) Close() error              { return nil }

// That a log does not fit on the disk is not the sandbox's death, nor the provider's
// doing, although the provider reports it.
func TestFullDiskIsTheHostsFailure(t *testing.T) {
	for log, phase := range map[string]trials.Phase{"agent/": trials.PhaseAgentExecution, "verifier/": trials.PhaseVerifier} {
		t.Run(string(phase), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, map[string]string{"tests/test.sh": "echo tested; echo 1 > /logs/verifier/reward.txt\n"}).command("echo hello")
				r.try.Sink = fullSink{r.try.Sink, log}
				res := r.run(t.Context())
				if got := exception(res); got != trials.ExcHost || res.RewardValid {
					t.Errorf("exception %q, the reward counts: %v", got, res.RewardValid)
				}
				wantFailure(t, res, phase, trials.CauseHost, trials.BlameInfrastructure)
			})
		})
	}
}

// What follows from the removal of the trial's directory is the host's failure, and
// only that: other files that are missing keep their cause.
func TestRemovedTrialDirectoryIsTheHostsFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	x := &run{t: &r.try}
	_, missing := os.Lstat(r.dir + "/agent/none")
	cases := map[error]trials.Cause{
		during(trials.CauseUpload, missing):                                                 trials.CauseUpload,
		providers.E(providers.KindUnavailable, "exec", errors.New("gone")):                  trials.CauseProvider,
		providers.E(providers.KindInternal, "exec", fmt.Errorf("copy: %w", syscall.EMFILE)): trials.CauseHost,
	}
	check := func() {
		t.Helper()
		for err, want := range cases {
			if got := x.causeOf(err, providers.KindOf(err)); got != want {
				t.Errorf("%v: %s, want %s", err, got, want)
			}
		}
	}
	check()
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	cases = map[error]trials.Cause{
		during(trials.CauseUpload, missing):                                trials.CauseHost,
		providers.E(providers.KindUnavailable, "exec", errors.New("gone")): trials.CauseProvider,
	}
	check()
}
