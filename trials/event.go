package trials

import (
	"encoding/json"
	"time"
)

// EventVersion is the v of an event line.
const EventVersion = 1

// EventType says what happened. Harbor's own names where it has one.
type EventType string

// Event types of a job's events.jsonl, with what their data holds.
const (
	EventJobStart   EventType = "job-start"   // {job_id, n_trials, provider, concurrency}
	EventJobEnd     EventType = "job-end"     // {counts}
	EventQueued     EventType = "queued"      // {task}
	EventPlaced     EventType = "placed"      // {provider, reason, passed}; no provider when none can run it
	EventBuildStart EventType = "build-start" // {key, title, provider, several}: several says that the job has other providers, too
	// EventBuildProgress is {key, done, of}: it goes to listeners, not into the file.
	EventBuildProgress EventType = "build-progress"
	EventBuildEnd      EventType = "build-end" // beside these {cached, dur_ms, error, cancelled, again}: again says that the provider failed it and it is made again
	EventStart         EventType = "start"
	EventPhaseStart    EventType = "phase-start" // {phase}
	EventPhaseEnd      EventType = "phase-end"   // {phase, dur_ms, error}
	EventRetry         EventType = "retry"       // {exception, wait_ms}
	EventNote          EventType = "note"        // {code, message}
	EventEnd           EventType = "end"         // {task, rewards, reward_valid, installed, exception, blame}
	EventCancel        EventType = "cancel"
	EventRemoved       EventType = "removed" // {sandbox, dur_ms, error}
	// EventPutBack is of a trial that was run again on purpose, whose try was cut off or
	// failed: its earlier result is in force once more.
	EventPutBack EventType = "put-back"
)

// Event is one line of events.jsonl. Seq grows by one per line of a job.
type Event struct {
	V       int             `json:"v"`
	Seq     int64           `json:"seq"`
	Time    time.Time       `json:"time"`
	Type    EventType       `json:"type"`
	Trial   string          `json:"trial,omitempty"`
	Attempt int             `json:"attempt,omitempty"`
	Try     int             `json:"try,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// NewEvent makes an event; the log that stores it fills in V, Seq and Time.
// data must be marshalable; it is a small map or struct of ours.
func NewEvent(t EventType, trial string, attempt, try int, data any) Event {
	e := Event{Type: t, Trial: trial, Attempt: attempt, Try: try}
	if data != nil {
		b, err := json.Marshal(data)
		if err != nil {
			b, _ = json.Marshal(map[string]string{"unmarshalable": err.Error()})
		}
		e.Data = b
	}
	return e
}
