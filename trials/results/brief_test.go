package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"harborgate/trials"
)

// shortened is what a list is told of a whole result.
func shortened(r *trials.Result) *trials.Result {
	out := *r
	c := trials.TrialConfig{
		Task: r.Config.Task, TrialName: r.Config.TrialName, TrialsDir: r.Config.TrialsDir, Agent: r.Config.Agent,
		OverrideErrorPolicy: r.Config.OverrideErrorPolicy, JobID: r.Config.JobID,
	}
	out.Config, out.TaskID, out.StepResults = c, trials.TaskID{}, nil
	if r.AgentResult != nil {
		out.AgentResult = &trials.AgentResult{Usage: r.AgentResult.Usage}
	}
	if x := r.Harborgate; x != nil {
		out.Harborgate = &trials.Extra{
			Provider: x.Provider, Attempt: x.Attempt, Try: x.Try, Retries: x.Retries, Failure: x.Failure, Suspect: x.Suspect,
			WaitSec: x.WaitSec, SnapshotSec: x.SnapshotSec, SnapshotQueueSec: x.SnapshotQueueSec, TaskDigest: x.TaskDigest,
		}
	}
	return &out
}

const ours = `{"schema_version": 1, "id": "x", "trial_name": "a__2222222", "config": {"task": {"path": "t"}, "agent": {"name": "nop", "env": {"A": "\"}{"}}},
	"agent_result": {"n_input_tokens": 3, "rollout_details": [[1, {"a": "]"}]]}, "finished_at": "2026-01-02T03:04:05Z", "step_results": null, "reward_valid": true,
	"verifier_result": {"rewards": {"reward": 1}}, "harborgate": {"attempt": 2, "try": 3, "retries": 1, "wait_sec": 3, "snapshot_sec": 2, "snapshot_queue_sec": 1.5, "suspect": [{"code": "c", "message": "\\"}], "notes": [{}], "task_digest": "sha256:0"}}`

func TestBriefResultsSayTheSame(t *testing.T) {
	t.Parallel()
	docs := map[string][]byte{"ours": []byte(ours)}
	for _, name := range []string{"harbor-0.26-success.json", "harbor-0.26-json-reward-artifacts.json", "harbor-0.26-agent-timeout.json", "harbor-0.5.json"} {
		docs[name] = golden(t, name)
	}
	reader := newBrief()
	for range 2 { // the second time from memory
		for name, b := range docs {
			whole, err := ParseTrialResult(b, name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := reader.parse(b, name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(jsonOf(t, shortened(whole)), jsonOf(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// B110: a file that was cut off anywhere is unreadable, and never half a result.
func TestB110CutResultsAreUnreadable(t *testing.T) {
	t.Parallel()
	whole := golden(t, "harbor-0.26-success.json")
	for n := range whole[:len(whole)-1] {
		if r, err := newBrief().parse(whole[:n], "result.json"); err == nil {
			t.Fatalf("%d bytes of %d were read: %+v", n, len(whole), r)
		}
	}
	if _, err := newBrief().parse([]byte(`{"trial_name": "x"}`), "result.json"); err == nil || !strings.Contains(err.Error(), "finished_at") {
		t.Errorf("a trial that has not ended: %v", err)
	}
	if _, err := newBrief().parse([]byte(`{"stats": {}}`), "result.json"); err == nil || !strings.Contains(err.Error(), "no trial's") {
		t.Errorf("a job's result: %v", err)
	}
}

func TestReadTrials(t *testing.T) {
	t.Parallel()
	job := t.TempDir()
	put := func(name, content string) {
		t.Helper()
		p := filepath.Join(job, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	put("c__2222222/result.json", ours)
	put("a__2222222/trial.log", "")
	put("b__2222222/result.json", ours[:100])
	r, err := ParseTrialResult([]byte(ours), "ours")
	if err != nil {
		t.Fatal(err)
	}
	put("trials/old__2222222/result.json", strings.ReplaceAll(ours, r.TrialName, "old__2222222"))
	put("w__2222222/tries/1/result.json", ours) // waits for its next try
	put("notes/text", "not a trial")
	put(".hidden/result.json", ours)
	put("config.json", "{}")
	found, err := ReadTrials(job)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		state := "read"
		if f.Err != nil {
			state = "unreadable"
		}
		if errors.Is(f.Err, fs.ErrNotExist) {
			state = "none"
		}
		if (f.Result != nil) != (state == "read") {
			t.Errorf("%s: %v with %v", f.Name(), f.Result, f.Err)
		}
		got = append(got, f.Name()+" "+state)
	}
	want := []string{"a__2222222 none", "b__2222222 unreadable", "c__2222222 read", "old__2222222 read", "w__2222222 none"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if whole, err := ReadWholeTrials(job); err != nil || len(whole) != 5 || len(whole[2].Result.Harborgate.Notes) != 1 {
		t.Errorf("%v %v", whole, err)
	}
}

// What json understands, members must see the same way, halves of characters apart;
// what it does not, they may pass over, but must not fall over.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{ours, `{}`, ` { "a" : -1e5 , "b\"" : [ "\\" , {} ] } `, `{"a":1,}`, `{"a"}`, `[1]`, `{"a":"`, `{"a":1}}`, `{"":null}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := map[string]string{}
		err := members(b, func(key string, value gjson.Result) error {
			got[key] = value.Raw
			return nil
		})
		var want map[string]json.RawMessage
		if !utf8.Valid(b) || bytes.Contains(b, []byte(`\ud`)) || bytes.Contains(b, []byte(`\uD`)) || json.Unmarshal(b, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		for key, value := range got {
			if w, ok := want[key]; !ok || len(got) == len(want) && string(w) != value {
				t.Errorf("%q: %q is %q, want %q", b, key, value, w)
			}
		}
	})
}

func BenchmarkBrief(b *testing.B) {
	doc := golden(b, "harbor-0.26-success.json")
	reader := newBrief()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := reader.parse(doc, "result.json"); err != nil {
			b.Fatal(err)
		}
	}
}
