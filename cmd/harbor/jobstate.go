package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// jobState is what the events of a job add up to.
type jobState struct {
	total    int
	started  time.Time
	running  map[string]*runningTrial
	builds   map[string]runningBuild
	ended    map[string]counted // trials that have a result now
	kept     int                // of them, those of earlier processes
	graded   int
	tasks    map[string]verdicts // of those that have one
	means    float64             // the sum over tasks of the means of their verdicts
	ungraded map[trials.Blame]int
	retries  int
	waits    string // why nothing starts, "" when nothing is in the way

	// earlier reads what was finished before a process went on with the job. It is
	// nil for who is that process, and knows.
	earlier func(before time.Time) []stats.Trial
}

// counted is what a trial's result adds to the numbers.
type counted struct {
	task  string
	valid bool
	value float64
	blame trials.Blame
}

// verdicts are those of one task.
type verdicts struct {
	n   int
	sum float64
}

func (v verdicts) mean() float64 {
	if v.n == 0 {
		return 0
	}
	return v.sum / float64(v.n)
}

type runningTrial struct {
	phase string
	since time.Time
}

type runningBuild struct {
	title    string
	since    time.Time
	done, of int // steps
}

func newJobState(total int) *jobState {
	return &jobState{total: total, started: time.Now(), running: map[string]*runningTrial{}, builds: map[string]runningBuild{}, ended: map[string]counted{}, tasks: map[string]verdicts{}, ungraded: map[trials.Blame]int{}}
}

// keep counts the trials that earlier processes finished.
func (s *jobState) keep(kept []stats.Trial) {
	for _, t := range kept {
		main, _ := t.Rewards.Main()
		s.count(t.Name, counted{t.Task, t.Valid, main.Value, t.Blame})
	}
	s.kept = len(s.ended)
}

// count takes a trial's result, instead of an earlier one.
func (s *jobState) count(trial string, e counted) {
	s.forget(trial)
	s.ended[trial] = e
	s.add(e, 1)
}

// forget takes back a result that is not the last one: the trial is tried again.
func (s *jobState) forget(trial string) {
	if e, ok := s.ended[trial]; ok {
		delete(s.ended, trial)
		s.add(e, -1)
	}
}

func (s *jobState) add(e counted, n int) {
	if !e.valid {
		s.ungraded[e.blame] += n
		return
	}
	s.graded += n
	v := s.tasks[e.task]
	s.means -= v.mean()
	v.n, v.sum = v.n+n, v.sum+float64(n)*e.value
	s.means += v.mean()
	if s.tasks[e.task] = v; v.n == 0 {
		delete(s.tasks, e.task)
	}
}

// mean is over tasks, as everywhere.
func (s *jobState) mean() float64 { return s.means / float64(len(s.tasks)) }

// eventData are the members that the display reads.
type eventData struct {
	Phase     string
	Task      string
	Key       string
	Title     string
	Provider  string
	Several   bool // providers
	Error     string
	Cached    bool
	Cancelled bool
	Again     bool
	DurMS     int64 `json:"dur_ms"`
	WaitMS    int64 `json:"wait_ms"`
	Moved     bool  `json:"moved"`
	Rewards   trials.Rewards
	Valid     bool `json:"reward_valid"`
	Installed bool
	Exception string
	Blame     trials.Blame
	Code      string
	Message   string
	Done, Of  int
	NTrials   int `json:"n_trials"`
}

// apply takes one event and returns the line that it is worth, if any.
func (s *jobState) apply(e trials.Event) string {
	var d eventData
	if len(e.Data) > 0 {
		_ = json.Unmarshal(e.Data, &d) // an event of a newer kind shows less
	}
	switch e.Type {
	case trials.EventBuildStart, trials.EventBuildProgress, trials.EventBuildEnd:
		return s.build(e, d)
	case trials.EventJobStart:
		s.begin(e, d)
	case trials.EventStart:
		s.forget(e.Trial)
		s.running[e.Trial] = &runningTrial{phase: "start", since: e.Time}
	case trials.EventPhaseStart:
		if t := s.running[e.Trial]; t != nil {
			t.phase = d.Phase
		}
	case trials.EventRetry:
		s.forget(e.Trial)
		if d.Moved {
			return s.line(e, "%s: try %d does not count, its provider failed it with %s, it is placed again", e.Trial, e.Try, d.Exception)
		}
		s.retries++
		return s.line(e, "%s: try %d failed with %s, again in %s", e.Trial, e.Try, d.Exception, ms(d.WaitMS))
	case trials.EventNote:
		if e.Trial == "" {
			s.outage(d)
			return s.line(e, "%s", d.Message)
		}
		return s.line(e, "%s: %s", e.Trial, d.Message)
	case trials.EventEnd:
		return s.end(e, d)
	default:
	}
	return ""
}

// outage takes a note about the job as a whole.
func (s *jobState) outage(d eventData) {
	switch d.Code {
	case app.NoteOutage:
		s.waits = d.Message
	case app.NoteOutageOver:
		s.waits = ""
	}
}

// build takes an event of an image that is being made.
func (s *jobState) build(e trials.Event, d eventData) string {
	b, known := s.builds[d.Key]
	if d.Several {
		d.Title += " at " + d.Provider
	}
	switch e.Type {
	case trials.EventBuildStart:
		s.builds[d.Key] = runningBuild{title: d.Title, since: e.Time}
	case trials.EventBuildProgress:
		if known {
			b.done, b.of = d.Done, d.Of
			s.builds[d.Key] = b
		}
	default:
		delete(s.builds, d.Key)
		if !d.Cached || d.Error != "" {
			return s.line(e, "image of %s: %s", d.Title, ended(d))
		}
	}
	return ""
}

// begin is for who follows a job from outside: a process takes it up, the first or
// one that goes on. What another did before has ended, whatever it left.
func (s *jobState) begin(e trials.Event, d eventData) {
	if s.earlier == nil {
		return
	}
	next := newJobState(d.NTrials)
	next.started, next.earlier = e.Time, s.earlier
	next.keep(s.earlier(e.Time))
	*s = *next
}

func ended(d eventData) string {
	switch {
	case d.Cancelled: // the job was asked to stop
		return "stopped"
	case d.Again:
		return "not made, its provider failed it; it is made again: " + firstLine(d.Error)
	case d.Error != "":
		return "failed: " + firstLine(d.Error)
	}
	return "ready after " + ms(d.DurMS)
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

func ms(n int64) string {
	return (time.Duration(n) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func (s *jobState) end(e trials.Event, d eventData) string {
	took := time.Duration(0)
	if t := s.running[e.Trial]; t != nil {
		took = e.Time.Sub(t.since).Round(100 * time.Millisecond)
	}
	delete(s.running, e.Trial)
	main, _ := d.Rewards.Main()
	s.count(e.Trial, counted{d.Task, d.Valid, main.Value, d.Blame})
	verdict := "no verdict"
	switch {
	case d.Valid:
		verdict = "reward " + rewardText(d.Rewards)
	case d.Installed:
		verdict = "installed"
	}
	if d.Exception != "" {
		verdict += ", " + d.Exception
		if d.Blame != "" {
			verdict += " (" + string(d.Blame) + ")"
		}
	}
	return s.line(e, "%s: %s, %s", e.Trial, verdict, took)
}

func rewardText(r trials.Rewards) string {
	var parts []string
	for _, x := range r {
		if len(r) == 1 {
			return x.Value.String()
		}
		parts = append(parts, x.Key+"="+x.Value.String())
	}
	return strings.Join(parts, " ")
}

func (s *jobState) line(e trials.Event, format string, args ...any) string {
	return fmt.Sprintf("%s [%d/%d] ", e.Time.Local().Format("15:04:05"), len(s.ended), s.total) + oneLine(fmt.Sprintf(format, args...))
}

// alive says that the job goes on though nothing ended.
func (s *jobState) alive(now time.Time) string {
	longest := time.Duration(0)
	for _, t := range s.running {
		longest = max(longest, now.Sub(t.since))
	}
	line := fmt.Sprintf("%s [%d/%d] %d running, the longest for %s, %d images being made", now.Local().Format("15:04:05"),
		len(s.ended), s.total, len(s.running), longest.Round(time.Second), len(s.builds))
	if s.waits != "" {
		line += "; " + oneLine(s.waits)
	}
	return line
}
