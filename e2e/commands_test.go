package e2e

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/itchyny/gojq"
	"github.com/rogpeppe/go-internal/testscript"
)

type defaultFile struct{ name, text string }

// defaults are the files of a task that a scenario need not write.
var defaults = []defaultFile{
	{"task.toml", "schema_version = \"1.4\"\n"},
	{"instruction.md", "Do it.\n"},
	{"solution/solve.sh", "true\n"},
	{"tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n"},
}

func completeTask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: task DIR…")
	}
	for _, arg := range args {
		dir := ts.MkAbs(arg)
		for _, d := range defaults {
			ts.Check(writeMissing(filepath.Join(dir, d.name), d.text))
		}
		if strings.Contains(ts.ReadFile(filepath.Join(dir, "task.toml")), "docker_image") {
			continue
		}
		ts.Check(writeMissing(filepath.Join(dir, "environment", "Dockerfile"), "FROM debian:bookworm-slim\n"))
	}
}

func writeMissing(name, text string) error {
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	ts.Check(err)
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func size(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bytes FILE N")
	}
	limit, most := strings.CutPrefix(args[1], "<")
	want, err := strconv.ParseInt(limit, 10, 64)
	ts.Check(err)
	for _, file := range glob(ts, args[0]) {
		fi, err := os.Stat(file)
		ts.Check(err)
		if got := fi.Size(); got != want && !(most && got < want) {
			ts.Fatalf("%s has %d bytes, want %s", file, got, args[1])
		}
	}
}

// within fails when background programs have not ended by then; wait comes after it.
func within(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: within DURATION")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for _, cmd := range ts.BackgroundCmds() {
		for _, runs := highWater(cmd.Process.Pid); runs; _, runs = highWater(cmd.Process.Pid) {
			select {
			case <-tick.C:
			case <-late:
				ts.Fatalf("%v still runs after %s", cmd.Args, limit)
			}
		}
	}
}

// memory reads the high-water mark until the process is gone: the last value seen
// is at most a tick old.
func memory(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: memory N")
	}
	limit, err := strconv.Atoi(args[0])
	ts.Check(err)
	running := ts.BackgroundCmds()
	if len(running) == 0 {
		ts.Fatalf("no program runs in the background")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	peak := 0
	for _, cmd := range running {
		for kib, ok := highWater(cmd.Process.Pid); ok; kib, ok = highWater(cmd.Process.Pid) {
			peak = max(peak, kib)
			<-tick.C
		}
	}
	ts.Logf("peak memory %d MiB", peak>>10)
	if peak == 0 || peak>>10 > limit {
		ts.Fatalf("peak memory is %d KiB, want at most %d MiB", peak, limit)
	}
}

var highWaterLine = regexp.MustCompile(`(?m)^VmHWM:\s+(\d+) kB$`)

// highWater is the most memory that a process had, in KiB; a zombie has none.
func highWater(pid int) (int, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	m := highWaterLine.FindSubmatch(b)
	if m == nil {
		return 0, false
	}
	kib, err := strconv.Atoi(string(m[1]))
	return kib, err == nil
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
		input, err := parse(file, ts.ReadFile(file))
		ts.Check(err)
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

// parse reads a JSON document, or the array of the documents that are a file's
// lines.
func parse(name, text string) (any, error) {
	if strings.HasSuffix(name, ".jsonl") {
		text = "[" + strings.ReplaceAll(strings.TrimSpace(text), "\n", ",") + "]"
	}
	var input any
	if err := json.Unmarshal([]byte(text), &input); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return input, nil
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
	forms := formsOf(args[0])
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

// formsOf are what a key looks like where it should not be: plain, its halves,
// escaped, in hex, and in base64 as a part of any text.
func formsOf(key string) []string {
	half := len(key) / 2
	forms := []string{key, key[:half], key[half:], url.QueryEscape(key), hex.EncodeToString([]byte(key))}
	for _, before := range []string{"", "x", "xx"} {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := enc.EncodeToString([]byte(before + key))
			forms = append(forms, text[(len(before)*8+5)/6:len(text)-1]) // what depends on the key alone
		}
	}
	return forms
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
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: await FILE TEXT [TIMES]")
	}
	times := 1
	if len(args) == 3 {
		var err error
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for occurrences(ts.MkAbs(args[0]), args[1]) < times {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s never contained %q %d times", args[0], args[1], times)
		}
	}
}

// occurrences counts a text in all files that match, those that cannot be read yet
// left out.
func occurrences(pattern, text string) int {
	found, _ := filepath.Glob(pattern) // of a pattern that is wrong nothing is found
	n := 0
	for _, f := range found {
		if b, err := os.ReadFile(f); err == nil {
			n += strings.Count(string(b), text)
		}
	}
	return n
}
