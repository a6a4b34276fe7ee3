// Package e2e runs scenarios against the real programs and a real Docker Engine.
// A scenario is a file in testdata/script; adding one means adding a file.
//
// Commands beyond testscript's own:
//
//	jq FILE EXPR            EXPR, in jq's language, must give true
//	golden CASE DIR         DIR must look like Harbor's output in testdata/harbor-0.26/CASE
//	sandboxes N             N sandboxes of this scenario exist now
//	canary KEY              KEY is nowhere in the scenario's directory, plain or encoded
//	signal NAME SIGNAL      sends a signal to a background harbor (exec harbor … &NAME&)
//	has FILE REGEXP         every file that matches the pattern contains the expression
//	await FILE TEXT         waits until a file contains a text
package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/itchyny/gojq"
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
	for name, pkg := range map[string]string{"harbor": "../cmd/harbor", "harbor-inside-linux-" + runtime.GOARCH: "../cmd/harbor-inside"} {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
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
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"jq": jq, "golden": golden, "sandboxes": sandboxes, "canary": canary, "signal": signalJob, "await": await, "has": has,
		},
	})
}

// setUp gives a scenario its own state and cache, and tasks/: those that Harbor's
// output in testdata comes from.
func setUp(e *testscript.Env) error {
	e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
	e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
	e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, ".state"))
	e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, ".cache"))
	e.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
	e.Defer(func() { removeAll(e) })
	if err := os.CopyFS(filepath.Join(e.WorkDir, "tasks"), os.DirFS("testdata/harbor-0.26/tasks")); err != nil {
		return err
	}
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

func sandboxes(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: sandboxes N")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, found := list(ctx, filepath.Join(ts.Getenv("WORK"), ".state"))
	if p != nil {
		defer p.Close()
	}
	if (len(found) == want) == neg {
		ts.Fatalf("%d sandboxes: %v", len(found), found)
	}
}

func jq(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: jq FILE EXPR")
	}
	query, err := gojq.Parse(args[1])
	ts.Check(err)
	for _, file := range glob(ts, args[0]) {
		var input any
		ts.Check(json.Unmarshal([]byte(ts.ReadFile(file)), &input))
		iter := query.Run(input)
		got, ok := iter.Next()
		if err, bad := got.(error); bad {
			ts.Fatalf("%s: %v", file, err)
		}
		if (ok && got == true) == neg {
			ts.Fatalf("%s: %s gave %v\n%s", file, args[1], got, ts.ReadFile(file))
		}
	}
}

// glob expands a pattern below the scenario's directory; "stdout" is itself.
func glob(ts *testscript.TestScript, pattern string) []string {
	if pattern == "stdout" || pattern == "stderr" {
		return []string{pattern}
	}
	found, err := filepath.Glob(ts.MkAbs(pattern))
	ts.Check(err)
	if len(found) == 0 {
		ts.Fatalf("%s: nothing matches", pattern)
	}
	return found
}

// has searches files by pattern; a negated one must not contain the expression.
func has(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: has FILE REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	for _, file := range glob(ts, args[0]) {
		if text := ts.ReadFile(file); re.MatchString(text) == neg {
			ts.Fatalf("%s:\n%s", file, text)
		}
	}
}

// canary looks for a secret in every file, plain and in the usual encodings.
func canary(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: canary KEY [SKIP…]")
	}
	key := args[0]
	forms := []string{key, base64.StdEncoding.EncodeToString([]byte(key)), url.QueryEscape(key)}
	err := filepath.WalkDir(ts.Getenv("WORK"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		for _, skip := range args[1:] {
			if ok, _ := filepath.Match(skip, filepath.Base(path)); ok {
				return nil
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range forms {
			if strings.Contains(string(b), f) {
				return fmt.Errorf("%s holds the secret", path)
			}
		}
		return nil
	})
	ts.Check(err)
}

func signalJob(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME SIGNAL")
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[args[1]]
	var holder struct{ PID int }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(args[0], ".lock"))), &holder))
	ts.Check(syscall.Kill(holder.PID, sig))
}

// await looks again every few milliseconds: a file has no way to tell.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		found, _ := filepath.Glob(ts.MkAbs(args[0]))
		for _, f := range found {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), args[1]) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s never contained %q", args[0], args[1])
		}
	}
}
