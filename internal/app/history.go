package app

import (
	"encoding/json"
	"path/filepath"

	"harborgate/internal/events"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// RestoredResult is what a job's events say of its own result, for a result.json that
// cannot be read: id, start, sessions and number of trials. It is zero when there are
// no events; whether the job ended is left open, so that it can go on.
func RestoredResult(dir string) trials.JobResult {
	r := trials.JobResult{SchemaVersion: trials.ResultSchema}
	var sessions []trials.Session
	reader := events.NewReader(filepath.Join(dir, results.EventsFile))
	for {
		some, err := reader.Read()
		if err != nil || len(some) == 0 {
			break
		}
		for _, e := range some {
			if e.Type == trials.EventJobStart {
				sessions = append(sessions, trials.Session{StartedAt: trials.LocalAt(e.Time)})
				r.ID, r.NTotalTrials = begunAs(e, r)
			}
			if n := len(sessions); n > 0 {
				sessions[n-1].EndedAt = trials.LocalAt(e.Time)
			}
		}
	}
	if len(sessions) > 0 {
		r.StartedAt, r.UpdatedAt = sessions[0].StartedAt, sessions[len(sessions)-1].EndedAt
		r.Harborgate = &trials.JobExtra{Sessions: sessions}
	}
	return r
}

// Settled is the summary of a job of which nothing is left to do, as far as its
// directory says; ok is false when it is not finished, or redo wants one of its trials.
// It needs neither the job's tasks nor a directory that can be written.
func Settled(dir string, redo Redo) (s Summary, ok bool) {
	r, err := results.ReadJobResult(dir)
	if err != nil || r.FinishedAt == nil {
		return Summary{}, false
	}
	found, err := results.ReadTrials(dir)
	if err != nil {
		return Summary{}, false
	}
	s = Summary{Result: r, Planned: r.NTotalTrials}
	for _, f := range found {
		if f.Result == nil && f.CopyOf == "" {
			return Summary{}, false
		}
		if f.Result == nil {
			continue
		}
		t := stats.Of(f.Result)
		if redo.wants(t) {
			return Summary{}, false
		}
		s.Trials = append(s.Trials, t)
	}
	return s, len(s.Trials) == s.Planned
}

// begunAs is the id and the number of trials of an event, or those that r has.
func begunAs(e trials.Event, r trials.JobResult) (id string, total int) {
	var begun struct {
		ID     string `json:"job_id"`
		Trials int    `json:"n_trials"`
	}
	if json.Unmarshal(e.Data, &begun) != nil {
		return r.ID, r.NTotalTrials
	}
	return begun.ID, begun.Trials
}
