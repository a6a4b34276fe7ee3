package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const job = `{"result": {}, "trials": [
  {"task_name": "good", "verifier_result": {"rewards": {"reward": 1.0}}, "exception_info": null, "harborgate": {}},
  {"task_name": "late", "verifier_result": {"rewards": {"reward": 0}}, "exception_info": {"exception_type": "AgentTimeoutError"}, "harborgate": {}},
  {"task_name": "odd", "verifier_result": {"rewards": {"a": 0.5}}, "exception_info": null, "harborgate": {"suspect": [{"code": "killed"}]}},
  {"task_name": "none", "verifier_result": null, "exception_info": {"exception_type": "UnsupportedTaskError"}}
]}`

const expected = `{
  "good": {"rewards": {"reward": 1}},
  "late": {"rewards": {"reward": 0}, "exception": "AgentTimeoutError"},
  "odd": {"rewards": {"a": 0.5}, "suspect": ["killed"]},
  "none": {"exception": "UnsupportedTaskError"}
}`

func TestRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, from, to string // changed in the job
		want           string // in the error; "" is none
	}{
		{name: "as expected"},
		{"another reward", `{"reward": 1.0}`, `{"reward": 0.5}`, `task good came to {"rewards":{"reward":0.5}}`},
		{"another exception", "AgentTimeoutError", "RuntimeError", "task late came to"},
		{"no suspicion", `{"code": "killed"}`, "", "task odd came to"},
		{"a verdict where none is expected", `"verifier_result": null`, `"verifier_result": {"rewards": {"reward": 1}}`, "task none came to"},
		{"a task is missing", `"task_name": "good"`, `"task_name": "new"`, "task good has no trial\ntask new is not expected"},
		{"a task twice", `"task_name": "late"`, `"task_name": "good"`, "more than one trial"},
		{"no JSON", `{"result"`, `result`, "not the JSON of a job"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "expected.json")
			if err := os.WriteFile(path, []byte(expected), 0o600); err != nil {
				t.Fatal(err)
			}
			var report strings.Builder
			err := run(path, strings.NewReader(strings.Replace(job, c.from, c.to, 1)), &report)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("run: %v", err)
			case c.want == "" && report.String() != "All 4 outcomes are the expected ones.\n":
				t.Errorf("report: %q", report.String())
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("run: %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestRunSaysWhichFileIsWrong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "expected.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(path, strings.NewReader(job), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("run: %v, want an error that names %s", err, path)
	}
}
