// Package e2e runs scenarios against the real programs and a real Docker Engine.
// A scenario is a file in testdata/script, or in testdata/full when it is slow;
// adding one means adding a file. The reports that a scenario reproduces are in
// its name.
//
// Commands beyond testscript's own:
//
//	task DIR…               completes a task of the archive with a Dockerfile, an
//	                        instruction, a solution and tests that give 1
//	code N PROGRAM ARG…     runs a program, which must exit with N
//	jq FILE EXPR            EXPR, in jq's language, must give true; of a .jsonl file
//	                        it gets the array of its lines
//	has FILE REGEXP         every file that matches the pattern contains the expression
//	bytes FILE N            the file has N bytes, or at most as many with <N
//	await FILE TEXT [N]     waits until the files that match contain a text, N times
//	signal JOB SIGNAL       sends a signal to the harbor that runs a job
//	within DURATION         background programs end by then; wait comes after it
//	memory N                waits for background programs; none may have had more MiB
//	sandboxes N             N sandboxes of this scenario exist now
//	engine …                puts a proxy before the engine and controls it, see proxy_test.go
//	watch JOB, unwatch JOB  reads a job all the time; its numbers must always add up
//	golden CASE DIR         DIR must look like Harbor's output in testdata/harbor-0.26/CASE
//	model ARG…              starts the mock model API; $MODEL_URL is where it is
//	provider ARG…           starts the control plane of a simulated provider; $PROVIDER_URL
//	canary KEY              KEY is nowhere in the scenario's directory, plain, halved or encoded
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"harborgate/providers"
	"harborgate/providers/docker"
)

// bin is where TestMain puts the programs.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "harbor-e2e-")
	if err != nil {
		panic(err)
	}
	bin = dir
	for _, b := range []struct{ name, pkg, arch string }{
		{"harbor", "../cmd/harbor", runtime.GOARCH}, {"harbor-sim", "../cmd/harbor-sim", runtime.GOARCH},
		{"harbor-inside-linux-amd64", "../cmd/harbor-inside", "amd64"}, {"harbor-inside-linux-arm64", "../cmd/harbor-inside", "arm64"},
	} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, b.name), b.pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+b.arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", b.name, err, out)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	testscript.Run(t, scenarios("testdata/script"))
}

// TestScenariosFull runs what takes more than some twenty seconds, for
// `make test-full`.
func TestScenariosFull(t *testing.T) {
	t.Parallel()
	if os.Getenv("HARBOR_TEST_FULL") == "1" {
		testscript.Run(t, scenarios("testdata/full"))
	}
}

func scenarios(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "bytes": size, "canary": canary, "code": code, "golden": golden, "has": has, "jq": jq,
			"memory": memory, "sandboxes": sandboxes, "signal": signalJob, "task": completeTask,
			"model": simulator("model", "MODEL_URL"), "provider": simulator("provider", "PROVIDER_URL"),
			"engine": engine, "within": within, "watch": watch, "unwatch": unwatch,
		},
	}
}

// setUp gives a scenario its own state and cache. $GOLDEN is where Harbor's output
// is, and the tasks that it comes from; $AGENTS_CACHE keeps agents' programs from run
// to run; $OWN_ENGINE starts an engine of the
// scenario's own in $WORK/e, which ends with it.
func setUp(e *testscript.Env) error {
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, ".state"))
	e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
	e.Setenv("REAL_HOME", os.Getenv("HOME")) // registries' clients have their settings there
	e.Setenv("HARBOR_AUTH_SOCKET", filepath.Join(e.WorkDir, ".run", "auth.sock"))
	e.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
	e.Setenv("AGENTS_CACHE", mustAbs("../.tools/cache"))
	e.Setenv("GOLDEN", mustAbs("testdata/harbor-0.26"))
	e.Values[proxyKey{}], e.Values[watchersKey{}] = &proxyHolder{}, watchers{}
	engine := mustAbs("testdata/own-engine.sh")
	e.Setenv("OWN_ENGINE", engine)
	e.Defer(func() {
		removeAll(e)
		for _, dir := range []string{"e", "old"} { // most scenarios start none
			_ = exec.Command(engine, "stop", filepath.Join(e.WorkDir, dir)).Run()
		}
	})
	return os.MkdirAll(filepath.Join(e.WorkDir, "home"), 0o755)
}

func mustAbs(p string) string {
	a, err := filepath.Abs(p)
	if err != nil {
		panic(err)
	}
	return a
}

// removeAll keeps a failed scenario from leaving anything.
func removeAll(e *testscript.Env) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, found := list(ctx, filepath.Join(e.WorkDir, ".state"))
	if p == nil {
		return
	}
	defer p.Close()
	for _, r := range found {
		_ = p.Destroy(ctx, r.ID)
	}
}

// list finds what the host of a state directory has at the engine.
func list(ctx context.Context, state string) (*docker.Provider, []providers.Resource) {
	host, err := os.ReadFile(filepath.Join(state, "harborgate", "host"))
	if err != nil {
		return nil, nil // harbor never ran
	}
	p, err := docker.New(docker.Options{})
	if err != nil {
		return nil, nil
	}
	found, err := p.List(ctx, providers.Selector{Labels: map[string]string{providers.LabelHost: string(host)}})
	if err != nil {
		return p, nil
	}
	return p, found
}
