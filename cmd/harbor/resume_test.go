package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
)

// A secret is not on disk. It comes from the host, or nothing runs.
func TestSecretsOfAStoredConfiguration(t *testing.T) {
	t.Parallel()
	const secret = "sk-12345678-abc"
	stored := func() trials.JobConfig {
		c := trials.NewJobConfig()
		c.Agents[0].Env = trials.Env{"MY_KEY": secret, "PLAIN": "a****b", "FROM_HOST_KEY": "${FROM_HOST_KEY}"}
		c.Verifier.Env = trials.Env{"JUDGE_TOKEN": "short"}
		return c.Redacted(func(string) (string, bool) { return "", false })
	}
	for name, c := range map[string]struct {
		host map[string]string
		said []string
	}{
		"the host has them":   {map[string]string{"MY_KEY": secret, "JUDGE_TOKEN": "short"}, nil},
		"the host has others": {map[string]string{"MY_KEY": "sk-12345678-xyz", "JUDGE_TOKEN": "short"}, []string{"agents[0].env.MY_KEY", "set the variable MY_KEY"}},
		"the host has none":   {nil, []string{"agents[0].env.MY_KEY", "verifier.env.JUDGE_TOKEN"}},
	} {
		cfg := stored()
		o := &runOptions{env: &env{lookup: func(n string) (string, bool) { v, ok := c.host[n]; return v, ok }}}
		err := o.fillSecrets(&cfg)
		if c.said == nil {
			if err != nil || cfg.Agents[0].Env["MY_KEY"] != secret || cfg.Agents[0].Env["PLAIN"] != "a****b" {
				t.Errorf("%s: %v %v", name, cfg.Agents[0].Env, err)
			}
			continue
		}
		for _, said := range c.said {
			if err == nil || !strings.Contains(err.Error(), said) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v, want %q", name, err, said)
			}
		}
	}
}

// Harbor does not write where a job was started, but its trials' addresses tell.
func TestWhereAJobWasStarted(t *testing.T) {
	t.Parallel()
	found := func(uri, dir string) []results.Found {
		return []results.Found{{Err: os.ErrNotExist}, {Result: &trials.Result{
			TrialName: "t__2222222", TrialURI: uri, Config: trials.TrialConfig{TrialsDir: dir},
		}}}
	}
	for _, c := range []struct{ uri, dir, want string }{
		{"file:///home/me/jobs/j/t__2222222", "jobs/j", "/home/me"},
		{"file:///home/me/a/jobs/j/t__2222222", "/home/me/a/jobs/j", ""}, // absolute paths need none
		{"file:///elsewhere/t__2222222", "jobs/j", ""},
		{"", "jobs/j", ""},
	} {
		if got := startedIn(found(c.uri, c.dir)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestWhatRetryFailedSelects(t *testing.T) {
	t.Parallel()
	job := t.TempDir()
	trial := filepath.Join(job, "t__2222222")
	result := `{"trial_name": "t__2222222", "finished_at": "2026-01-02T03:04:05Z", "exception_info": {"exception_type": "MyAgentsOwnError"}}`
	if err := os.MkdirAll(trial, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(trial, results.ResultFile), []byte(result), 0o644); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		redo app.Redo
		said string
	}{
		"":                                   {app.Redo{Exceptions: []string{"CancelledError"}}, ""},
		"--retry-failed Infrastructure,task": {app.Redo{Exceptions: []string{"CancelledError"}, Blames: []trials.Blame{"infrastructure", "task"}}, ""},
		"--retry-failed AgentTimeoutError":   {app.Redo{Exceptions: []string{"CancelledError", "AgentTimeoutError"}}, ""},
		"-f AgentTimeoutError":               {app.Redo{Exceptions: []string{"AgentTimeoutError"}}, ""},
		"-f MyAgentsOwnError --retry-failed harness":   {app.Redo{Exceptions: []string{"MyAgentsOwnError"}, Blames: []trials.Blame{"harness"}}, ""},
		"--retry-failed AgentTimoutError":              {app.Redo{}, "did you mean AgentTimeoutError?"},
		"--retry-failed MyAgentsOwnErrors":             {app.Redo{}, "did you mean MyAgentsOwnError?"},
		"--retry-failed CompletelyUnheardOfInAnyTable": {app.Redo{}, "name a blame"},
	} {
		e := &env{lookup: os.LookupEnv}
		o := &runOptions{env: e, cmd: &cobra.Command{}}
		newResumeFlags(o)
		if err := o.cmd.ParseFlags(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got, err := o.redo(job)
		if want.said != "" {
			if err == nil || !strings.Contains(err.Error(), want.said) {
				t.Errorf("%q: %v", args, err)
			}
			continue
		}
		if diff := cmp.Diff(want.redo, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", args, err, diff)
		}
	}
}
