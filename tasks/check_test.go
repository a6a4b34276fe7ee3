package tasks

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// checked runs Check on one task and returns a line per problem, with paths
// relative to the task.
func checked(t *testing.T, archive string) string {
	t.Helper()
	dir := write(t, archive)
	var lines []string
	for _, p := range Check(t.Context(), dir) {
		rel, err := filepath.Rel(dir, p.File)
		if err != nil {
			t.Fatal(err)
		}
		if p.Next == "" {
			t.Errorf("no next step in %+v", p)
		}
		lines = append(lines, fmt.Sprintf("%s:%d %s %s", rel, p.Line, p.Severity, p.Code))
	}
	return strings.Join(lines, "\n")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const (
		toml   = "-- task.toml --\n"
		solved = files + "-- solution/solve.sh --\n#!/bin/sh\ntrue\n"
	)
	for name, c := range map[string]struct{ archive, want string }{
		"good":             {toml + solved, ""},
		"no solution":      {toml + files, ".:0 warning missing-solution"},
		"blank image":      {toml + "[environment]\ndocker_image = \" \"\n" + solved, "task.toml:2 info blank-image"},
		"all at once":      {toml + "[agent]\ntimeout_secs = 1\n-- environment/Dockerfile --\nRUN x\n", "task.toml:2 error misspelt-key\ninstruction.md:0 error missing-file\ntests/test.sh:0 error missing-file\n.:0 warning missing-solution\nenvironment/Dockerfile:0 error no-from"},
		"crlf":             {toml + solved + "-- tests/test.sh --\n#!/bin/sh\r\necho 1 > /logs/verifier/reward.txt\n", "tests/test.sh:1 error crlf-script"},
		"no shebang":       {toml + solved + "-- tests/test.sh --\necho 1 > /logs/verifier/reward.txt\n", "tests/test.sh:1 warning no-shebang"},
		"empty script":     {toml + solved + "-- solution/solve.sh --\n", "solution/solve.sh:0 warning empty-script"},
		"no reward":        {toml + solved + "-- tests/test.sh --\n#!/bin/sh\nexit 1\n", "tests/test.sh:0 warning no-reward"},
		"reward by others": {toml + solved + "-- tests/test.sh --\n#!/bin/sh\npython3 /tests/t.py\n-- tests/t.py --\nopen('/logs/verifier/reward.json', 'w')\n", ""},
		"empty list":       {toml + "environment.network_mode = \"allowlist\"\n" + solved, "task.toml:0 warning empty-allowlist\ntask.toml:0 info need-allowlist"},
		"artifacts":        {toml + "artifacts = [\"/app\", \"/app/x\", {source = \"/y\", destination = \"app/x/z\"}]\n" + solved, "task.toml:0 warning overlapping-artifacts\ntask.toml:0 warning overlapping-artifacts\ntask.toml:0 warning overlapping-artifacts"},
		"artifacts apart":  {toml + "artifacts = [\"/app\", \"/application\"]\n" + solved, ""},
		"download": {
			toml + "environment.allow_internet = false\n" + solved + "-- tests/test.sh --\n#!/bin/sh\n# curl\napt-get install x; echo 1 > /logs/verifier/reward.txt\n",
			"task.toml:1 info deprecated-key\ntests/test.sh:3 warning verifier-download\ntask.toml:0 info need-no-network",
		},
		"download with network": {toml + solved + "-- tests/test.sh --\n#!/bin/sh\ncurl x; echo 1 > /logs/verifier/reward.txt\n", ""},
		"needs":                 {toml + "environment = {gpus = 1, skills_dir = \"/s\"}\n" + solved, "task.toml:0 info need-gpu\ntask.toml:0 info need-skills"},
		"unlisted step": {
			toml + "[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n" + twoSteps + "-- steps/three/x --\n" +
				"-- tests/test.sh --\n#!/bin/sh\necho > reward.txt\n-- steps/two/tests/test.sh --\n#!/bin/sh\n-- solution/solve.sh --\n#!/bin/sh\n-- steps/two/solution/solve.sh --\n#!/bin/sh\n",
			"steps/three:0 warning unlisted-step\ntask.toml:0 info need-steps",
		},
	} {
		if got := checked(t, c.archive); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestCheckDockerfiles(t *testing.T) {
	t.Parallel()
	const solved = "-- task.toml --\n" + files + "-- solution/solve.sh --\n#!/bin/sh\ntrue\n-- environment/here/x.txt --\nx\n"
	for dockerfile, want := range map[string]string{
		"FROM a\nCOPY here /x\nADD here/x.txt here/*.txt /x/\nCOPY ./here/ /y\nCOPY /here /z\nCOPY ../here /z\nCOPY . /x": "",
		"FROM a\nCOPY gone /x": "environment/Dockerfile:2 error missing-copy-source",
		"FROM a\nRUN true \\\n  && true\nADD --chown=a here gone.txt /x": "environment/Dockerfile:4 error missing-copy-source",
		"FROM a\nCOPY [\"here\", \"gone\", \"/x\"]":                      "environment/Dockerfile:2 error missing-copy-source",
		"FROM a\nCOPY *.none /x":                                         "environment/Dockerfile:2 error missing-copy-source",
		"FROM a AS b\nFROM b\nCOPY --from=b /etc /x":                     "",
		"ARG X\nFROM a\nCOPY $X ${X}/y /x":                               "",
		"FROM a\nADD https://example.org/x git@example.org:r.git /x":     "",
		"FROM a\nCOPY <<EOT /x\ntext\nEOT":                               "",
		"# FROM a\nRUN true":                                             "environment/Dockerfile:0 error no-from",
		"FROM a\nCOPY x":                                                 "",
		"# only a comment":                                               "environment/Dockerfile:1 error bad-dockerfile",
	} {
		if got := checked(t, solved+"-- environment/Dockerfile --\n"+dockerfile+"\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", dockerfile, got, want)
		}
	}
	// With an image, the Dockerfile is used only when a build is forced.
	got := checked(t, solved+"-- task.toml --\nenvironment.docker_image = \"x\"\n-- environment/Dockerfile --\nFROM a\nCOPY gone /x\n")
	if got != "environment/Dockerfile:2 warning missing-copy-source" {
		t.Error(got)
	}
	got = checked(t, solved+"-- tests/Dockerfile --\nFROM a\nCOPY gone /x\n")
	if got != "tests/Dockerfile:2 error missing-copy-source" {
		t.Error(got)
	}
}

func TestCheckPaths(t *testing.T) {
	t.Parallel()
	if ps := Check(t.Context(), filepath.Join(t.TempDir(), "none")); len(ps) != 1 || ps[0].Code != "no-such-path" {
		t.Error(ps)
	}
	if ps := Check(t.Context(), "testdata/golden"); ps.Err() != nil {
		t.Errorf("the recorded tasks are good: %v", ps.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ps := Check(ctx, "testdata/golden"); len(ps) > 0 {
		t.Errorf("checked after the end: %v", ps)
	}
}

func TestCheckGoldenIsStable(t *testing.T) {
	t.Parallel()
	first := Check(t.Context(), "testdata/golden")
	for range 5 {
		if again := Check(t.Context(), "testdata/golden"); brief(again) != brief(first) {
			t.Fatalf("%s\n\n%s", brief(first), brief(again))
		}
	}
}
