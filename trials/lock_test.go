package trials

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const helloDigest = "935a60d39f875d62f77a489f2cf743ff3bb4d3fdfcca94d24ccba311e5d9db19"

func TestLocksAreHarbors(t *testing.T) {
	t.Parallel()
	config, err := ReadTrialConfig(golden(t, "trial-config.json"))
	if err != nil {
		t.Fatal(err)
	}
	trial := NewTrialLock(config.Task.Lock("hello-ok", "", helloDigest), "shared", config)
	got, err := MarshalLock(trial)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden(t, "trial-lock.json")), string(got)); diff != "" {
		t.Errorf("trial lock (-want +got):\n%s", diff)
	}

	job := JobLock{
		SchemaVersion:     JobLockSchema,
		CreatedAt:         At(time.Date(2026, 11, 29, 21, 11, 10, 761263000, time.UTC)),
		Harbor:            HarborInfo{Version: "0.26.0", IsEditable: ptr(false)},
		NConcurrentTrials: 4,
		Retry:             NewJobConfig().Retry,
		Trials:            List[TrialLock]{trial},
	}
	if got, err = MarshalLock(job); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden(t, "job-lock.json")), string(got)); diff != "" {
		t.Errorf("job lock (-want +got):\n%s", diff)
	}
}

func TestRegradeLockIsHarbors(t *testing.T) {
	t.Parallel()
	want := bytes.Replace(golden(t, "job-lock-regrade.json"),
		[]byte(`"<elided: same shape as success/>"`), excludesOf(t), 1)
	config := NewTrialConfig(TaskConfig{Path: ptr("tasks/separate")})
	task := config.Task.Lock("separate", "", "e65827034a4df08e9925facc9e8439f76c37b8bae02f5f9622ad96ce85bd4c29")
	trial := NewTrialLock(task, "separate", config)
	trial.SourceTrial = &SourceTrialLock{
		SourceTrial: SourceTrial{
			Action: "regrade", Type: "local", TrialID: ptr("57ab1d76-917a-4be2-a197-ca01f7637fcb"),
			Path: ptr("/ROOT/jobs/separate-verifier/separate__s2A255J"),
		},
		Task: task,
	}
	got, err := MarshalLock(JobLock{
		SchemaVersion:     JobLockSchema,
		CreatedAt:         At(time.Date(2026, 11, 29, 21, 24, 55, 418277000, time.UTC)),
		Harbor:            HarborInfo{Version: "0.26.0", IsEditable: ptr(false)},
		NConcurrentTrials: 4,
		Retry:             NewJobConfig().Retry,
		Trials:            List[TrialLock]{trial},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact(t, want), compact(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTaskLockTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		task TaskConfig
		want string
	}{
		{TaskConfig{Path: ptr("a")}, "local"},
		{TaskConfig{Path: ptr("a"), GitURL: ptr("https://example.org/r.git")}, "git"},
		{TaskConfig{Name: ptr("org/a")}, "package"},
	} {
		if got := c.task.Lock("a", "1.0.0", "00"); got.Type != c.want || got.Digest != "sha256:00" || *got.Version != "1.0.0" {
			t.Errorf("%+v: %+v, want type %s", c.task, got, c.want)
		}
	}
}

// A lock that is written trial by trial is the one that is written at once.
func TestWriteJobLock(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		head := JobLock{SchemaVersion: JobLockSchema, Harbor: HarborInfo{Version: "1"}, NConcurrentTrials: 4}
		whole := head
		whole.Trials = List[TrialLock]{}
		for range n {
			whole.Trials = append(whole.Trials, TrialLock{SchemaVersion: TrialLockSchema, InstallOnly: true})
		}
		want, err := MarshalLock(whole)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		err = WriteJobLock(&got, head, func(yield func(TrialLock, error) bool) {
			for _, l := range whole.Trials {
				if !yield(l, nil) {
					return
				}
			}
		})
		if err != nil || got.String() != string(want) {
			t.Errorf("%d trials: %v, got\n%s\nwant\n%s", n, err, &got, want)
		}
	}
	broken := errors.New("no digest")
	err := WriteJobLock(io.Discard, JobLock{}, func(yield func(TrialLock, error) bool) { yield(TrialLock{}, broken) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
