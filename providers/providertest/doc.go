// Package providertest is the conformance suite: what every driver must do,
// whatever is behind it. A driver's test is
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Harness{Open: …, Spec: …, …})
//	}
//
// Cases are values in a list. They report to a Reporter, not to *testing.T, so
// that the suite itself is tested (every case has a broken provider that fails
// it) and so that a command can run it against a live account:
//
//	for _, c := range providertest.Cases() {
//		if providertest.Applies(c, h, p.Info().Can) { providertest.RunCase(ctx, c, h, reporter) }
//	}
//
// Inside sandboxes the cases need a POSIX shell, coreutils, /proc, and bash for
// its /dev/tcp: what debian-slim has. Each case makes its own sandboxes, runs
// beside others, and leaves nothing: afterwards List must show nothing of it.
//
// To add a case: write a function, put it into the list of its group, and add a
// broken provider for it to the table in broken_test.go.
package providertest

import (
	"context"

	"harborgate/providers"
)

// Reporter is told how a case goes. *testing.T is one.
type Reporter interface {
	Logf(format string, args ...any)
	// Errorf notes a failure; the case goes on.
	Errorf(format string, args ...any)
	// FailNow ends the case's goroutine; the case has failed.
	FailNow()
}

// Harness is what the suite must know about a driver.
type Harness struct {
	// Open returns a fresh instance. All instances see the same resources. The
	// suite closes it.
	Open func() (providers.Provider, error)

	// Spec returns a usable spec. The suite sets its name and adds to its labels.
	Spec func() providers.Spec

	// Sources for cases that need a special one; a case whose source has no field
	// set does not apply.
	Sources Sources

	// HostAddrs ("host:port") answer on the host, or wherever the sandbox is not;
	// a sandbox without network must not reach them.
	HostAddrs []string

	// Slow multiplies the time that things may take and shrinks what is moved.
	Slow bool

	// Parallel is how many cases run at once; 0 is 4.
	Parallel int

	// ExemptRealProcesses lists the cases that do not apply because the sandbox
	// has no real processes. Run fails unless it is empty or names exactly the
	// cases with NeedRealProcesses, so that nobody exempts a case in passing.
	ExemptRealProcesses []string
}

// Sources are special things to start sandboxes from: the usable source with the
// script as its entrypoint, which gets the driver's own command as "$@".
type Sources struct {
	Service providers.Source // ServiceEntrypoint
	Failing providers.Source // FailingEntrypoint
	Late    providers.Source // LateEntrypoint
	Unknown providers.Source // a reference that leads nowhere
}

// Entrypoint scripts of Sources, for /bin/sh.
const (
	// ServiceEntrypoint leaves a service running: it turns /tmp/ping into
	// /tmp/pong.
	ServiceEntrypoint = "#!/bin/sh\n" +
		"(while :; do [ -e /tmp/ping ] && mv /tmp/ping /tmp/pong; sleep 0.05; done) &\n" +
		"exec \"$@\"\n"
	// FailingEntrypoint ends at once with code 3 and says why.
	FailingEntrypoint = "#!/bin/sh\necho cannot find the license >&2\nexit 3\n"
	// LateEntrypoint takes its time before the sandbox's own process starts.
	LateEntrypoint = "#!/bin/sh\nsleep 1\ntouch /tmp/entrypoint-done\nexec \"$@\"\n"
)

// Need is a reason why a case may not apply to a driver.
type Need string

// Needs. The first ones are capabilities.
const (
	NeedUsers     Need = "users"
	NeedTTY       Need = "tty"
	NeedMemory    Need = "memory limit"
	NeedPIDs      Need = "pid limit"
	NeedNoNetwork Need = "no-network mode"
	NeedSnapshots Need = "snapshots"
	NeedBuilds    Need = "image builds from a context directory"
	NeedStops     Need = "stop and start"

	NeedService Need = "a source with a service"
	NeedFailing Need = "a source that fails at once"
	NeedLate    Need = "a source that starts late"
	NeedUnknown Need = "an unknown source"

	// NeedRealProcesses is for what only a real kernel can show.
	NeedRealProcesses Need = "real processes"
)

// Case is one requirement.
type Case struct {
	Name  string // "group/requirement"
	Needs []Need
	Run   func(ctx context.Context, e *Env)
}

// Cases returns all cases, grouped.
func Cases() []Case {
	var out []Case
	for _, group := range [][]Case{
		execCases(), outputCases(), environmentCases(), userCases(), cancelCases(), leftoverCases(),
		uploadCases(), hostileCases(), downloadCases(), exposeCases(), networkCases(),
		createCases(), listCases(), destroyCases(), limitCases(), capabilityCases(), optionalCases(),
	} {
		out = append(out, group...)
	}
	return out
}

// Applies reports whether a driver with these capabilities has to pass the case.
func Applies(c Case, h Harness, can providers.Capabilities) bool {
	set := func(s providers.Source) bool {
		_, err := s.Kind()
		return err == nil
	}
	met := map[Need]bool{
		NeedUsers: can.Users, NeedTTY: can.TTY, NeedMemory: can.Memory, NeedPIDs: can.PIDs,
		NeedNoNetwork: can.HasNetwork(providers.NetworkNone), NeedSnapshots: can.Snapshots,
		NeedBuilds: can.Builds && h.Spec().Source.Image != "", NeedStops: can.Stops,
		NeedService: set(h.Sources.Service), NeedFailing: set(h.Sources.Failing),
		NeedLate: set(h.Sources.Late), NeedUnknown: set(h.Sources.Unknown),
		NeedRealProcesses: len(h.ExemptRealProcesses) == 0,
	}
	for _, n := range c.Needs {
		if !met[n] {
			return false
		}
	}
	return true
}
