package trials

import (
	"encoding/json"
	"testing"
	"time"
)

func TestTimesOfTrials(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 2*3600)
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 1, 2, 5, 4, 5, 678901234, zone), `"2026-01-02T03:04:05.678901Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), `"2026-01-02T03:04:05Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 999, time.UTC), `"2026-01-02T03:04:05Z"`},
		{time.Date(2026, 1, 2, 3, 4, 5, 1000, time.UTC), `"2026-01-02T03:04:05.000001Z"`},
	} {
		at := At(c.at)
		b, err := json.Marshal(at)
		if err != nil || string(b) != c.want {
			t.Errorf("%s %v, want %s", b, err, c.want)
		}
		var back Time
		if err := json.Unmarshal(b, &back); err != nil || !back.Equal(at.Time) {
			t.Errorf("%s is read back as %s %v", b, back, err)
		}
	}
	want := time.Date(2026, 1, 2, 3, 4, 5, 500000000, time.UTC)
	for _, text := range []string{`"2026-01-02T03:04:05.5"`, `"2026-01-02T03:04:05.500000"`, `"2026-01-02T05:04:05.5+02:00"`, `"2026-01-02T03:04:05.500000Z"`} {
		var got Time
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) {
			t.Errorf("%s is read as %s %v", text, got, err)
		}
	}
	for _, bad := range []string{`"yesterday"`, `""`, `5`, `"2026-13-01T00:00:00Z"`} {
		var got Time
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is read as %s", bad, got)
		}
	}
}

func TestTimesOfJobsAreLocal(t *testing.T) {
	t.Parallel()
	at := LocalAt(time.Date(2026, 7, 2, 3, 4, 5, 6000, time.Local))
	b, err := json.Marshal(at)
	if err != nil || string(b) != `"2026-07-02T03:04:05.000006"` {
		t.Errorf("%s %v", b, err)
	}
	var back LocalTime
	if err := json.Unmarshal(b, &back); err != nil || !back.Equal(at.Time) {
		t.Errorf("read back as %s %v", back, err)
	}
}

func TestDurationOfAPhase(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		t    *Timing
		want time.Duration
	}{
		{nil, 0}, {&Timing{}, 0}, {&Timing{StartedAt: At(now)}, 0},
		{&Timing{StartedAt: At(now), FinishedAt: At(now.Add(90 * time.Second))}, 90 * time.Second},
	} {
		if got := c.t.Duration(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.t, got, c.want)
		}
	}
}

// A reward that is not known is null, never 0, and nothing is left out.
func TestEmptyResultIsWrittenInFull(t *testing.T) {
	t.Parallel()
	b, err := MarshalIndent(Result{TaskName: "<a&b>"})
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"verifier_result", "exception_info", "agent_result", "finished_at", "step_results"} {
		if string(doc[key]) != "null" {
			t.Errorf("%s is %s", key, doc[key])
		}
	}
	if string(doc["task_name"]) != `"<a&b>"` {
		t.Errorf("task_name is %s", doc["task_name"])
	}
	if b[len(b)-1] == '\n' {
		t.Error("there is a newline at the end")
	}
}

func TestEventsHoldTheirData(t *testing.T) {
	t.Parallel()
	e := NewEvent(EventEnd, "trial", 2, 3, map[string]int{"a": 1})
	if e.Type != EventEnd || e.Trial != "trial" || e.Attempt != 2 || e.Try != 3 || string(e.Data) != `{"a":1}` {
		t.Errorf("%+v", e)
	}
	if e := NewEvent(EventCancel, "", 0, 0, nil); e.Data != nil {
		t.Errorf("data %s", e.Data)
	}
	if e := NewEvent(EventNote, "", 0, 0, func() {}); !json.Valid(e.Data) {
		t.Errorf("what cannot be written became %s", e.Data)
	}
}
