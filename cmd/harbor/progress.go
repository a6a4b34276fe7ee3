package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"harborgate/internal/app"
	"harborgate/internal/events"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// redraw is how often the live display is drawn anew.
const redraw = 250 * time.Millisecond

// heartbeat is how long a log of lines is silent at most.
const heartbeat = 30 * time.Second

// eventBuffer is far more than a job emits between two redraws.
const eventBuffer = 4096

// progress follows a job's events: a live display on a terminal, plain lines
// elsewhere.
type progress struct {
	out   io.Writer
	live  bool
	quiet bool
	width int
	state *jobState
	lines int // drawn last time
	done  chan struct{}
}

func newProgress(e *env, log *events.Log, plan *app.Plan) *progress {
	p := &progress{out: e.err, quiet: plan.Config.Quiet, state: newJobState(plan.Total()), done: make(chan struct{})}
	if plan.Past != nil {
		p.state.keep(plan.Past.Kept)
	}
	if f, ok := e.err.(*os.File); ok && isLive(f, e.lookup) {
		p.live = true
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.width = w
		}
	}
	ch, _ := log.Subscribe(eventBuffer)
	go p.follow(ch)
	return p
}

// plainPlaces are variables that ask for lines instead of a display that is drawn
// again and again, with the value that does; "" is any.
var plainPlaces = map[string]string{"TERM": "dumb", "CI": "", "NO_COLOR": ""}

// isLive reports whether a display can be drawn anew on a file.
func isLive(f *os.File, lookup func(string) (string, bool)) bool {
	for name, value := range plainPlaces {
		if v, ok := lookup(name); ok && v != "" && (value == "" || v == value) {
			return false
		}
	}
	return term.IsTerminal(int(f.Fd()))
}

// wait returns when the last event is shown.
func (p *progress) wait() { <-p.done }

func (p *progress) follow(ch <-chan trials.Event) {
	defer close(p.done)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	said := time.Now()
	say := func(line string) {
		said = time.Now()
		fmt.Fprintln(p.out, line)
	}
	for {
		select {
		case e, ok := <-ch:
			if !ok {
				p.draw(nil)
				return
			}
			line := p.state.apply(e)
			if !p.live && !p.quiet && line != "" {
				say(line)
			}
		case now := <-tick.C:
			switch {
			case p.live:
				p.draw(p.state.render(now, p.quiet))
			case now.Sub(said) >= heartbeat:
				say(p.state.alive(now))
			}
		}
	}
}

// draw replaces what was drawn before.
func (p *progress) draw(lines []string) {
	if !p.live {
		return
	}
	var b strings.Builder
	if p.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.lines)
	}
	for _, l := range lines {
		b.WriteString(clip(l, p.width))
		b.WriteByte('\n')
	}
	p.lines = len(lines)
	fmt.Fprint(p.out, b.String())
}

func clip(s string, width int) string {
	if r := []rune(s); width > 1 && len(r) >= width {
		return string(r[:width-2]) + "…"
	}
	return s
}

// jobState is what the events of a job add up to.
type jobState struct {
	total    int
	started  time.Time
	running  map[string]*runningTrial
	builds   map[string]runningBuild
	ended    map[string]counted // trials that have a result now
	kept     int                // of them, those of earlier processes
	graded   int
	sum      float64
	ungraded map[trials.Blame]int
	retries  int
}

// counted is what a trial's result adds to the numbers.
type counted struct {
	valid bool
	value float64
	blame trials.Blame
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
	return &jobState{total: total, started: time.Now(), running: map[string]*runningTrial{}, builds: map[string]runningBuild{}, ended: map[string]counted{}, ungraded: map[trials.Blame]int{}}
}

// keep counts the trials that earlier processes finished.
func (s *jobState) keep(kept []stats.Trial) {
	for _, t := range kept {
		main, _ := t.Rewards.Main()
		s.count(t.Name, counted{t.Valid, main.Value, t.Blame})
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
	s.sum += float64(n) * e.value
}

// eventData are the members that the display reads.
type eventData struct {
	Phase     string
	Key       string
	Title     string
	Error     string
	Cached    bool
	DurMS     int64 `json:"dur_ms"`
	WaitMS    int64 `json:"wait_ms"`
	Rewards   trials.Rewards
	Valid     bool `json:"reward_valid"`
	Exception string
	Blame     trials.Blame
	Message   string
	Done, Of  int
}

// apply takes one event and returns the line that it is worth, if any.
func (s *jobState) apply(e trials.Event) string {
	var d eventData
	if len(e.Data) > 0 {
		_ = json.Unmarshal(e.Data, &d) // an event of a newer kind shows less
	}
	switch e.Type {
	case trials.EventStart:
		s.running[e.Trial] = &runningTrial{phase: "start", since: e.Time}
	case trials.EventPhaseStart:
		if t := s.running[e.Trial]; t != nil {
			t.phase = d.Phase
		}
	case trials.EventBuildStart:
		s.builds[d.Key] = runningBuild{title: d.Title, since: e.Time}
	case trials.EventBuildProgress:
		if b, ok := s.builds[d.Key]; ok {
			b.done, b.of = d.Done, d.Of
			s.builds[d.Key] = b
		}
	case trials.EventBuildEnd:
		delete(s.builds, d.Key)
		if !d.Cached || d.Error != "" {
			return s.line(e, "image of %s: %s", d.Title, ended(d))
		}
	case trials.EventRetry:
		s.retries++
		s.forget(e.Trial)
		return s.line(e, "%s: try %d failed with %s, again in %s", e.Trial, e.Try, d.Exception, ms(d.WaitMS))
	case trials.EventNote:
		if e.Trial == "" {
			return s.line(e, "%s", d.Message)
		}
		return s.line(e, "%s: %s", e.Trial, d.Message)
	case trials.EventEnd:
		return s.end(e, d)
	default:
	}
	return ""
}

func ended(d eventData) string {
	if d.Error != "" {
		first, _, _ := strings.Cut(d.Error, "\n")
		return "failed: " + first
	}
	return "ready after " + ms(d.DurMS)
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
	s.count(e.Trial, counted{d.Valid, main.Value, d.Blame})
	verdict := "no verdict"
	if d.Valid {
		verdict = "reward " + rewardText(d.Rewards)
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
	return fmt.Sprintf("%s [%d/%d] ", e.Time.Local().Format("15:04:05"), len(s.ended), s.total) + printable(fmt.Sprintf(format, args...))
}

// alive says that the job goes on though nothing ended.
func (s *jobState) alive(now time.Time) string {
	longest := time.Duration(0)
	for _, t := range s.running {
		longest = max(longest, now.Sub(t.since))
	}
	return fmt.Sprintf("%s [%d/%d] %d running, the longest for %s, %d images being made", now.Local().Format("15:04:05"),
		len(s.ended), s.total, len(s.running), longest.Round(time.Second), len(s.builds))
}

// mostShown is how many running trials the display lists, the slowest first.
const mostShown = 8

// render is the live display.
func (s *jobState) render(now time.Time, quiet bool) []string {
	out := []string{s.headline(now)}
	if quiet {
		return out
	}
	phases := map[string]int{}
	names := make([]string, 0, len(s.running))
	for name, t := range s.running {
		phases[t.phase]++
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return s.running[a].since.Compare(s.running[b].since) })
	if len(phases) > 0 {
		var parts []string
		for _, p := range append([]trials.Phase{"start"}, trials.Phases()...) {
			if n := phases[string(p)]; n > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", p, n))
			}
		}
		out = append(out, "  "+strings.Join(parts, " · "))
	}
	for _, key := range slices.Sorted(maps.Keys(s.builds)) {
		b := s.builds[key]
		out = append(out, fmt.Sprintf("  %7s  image of %s  %s", now.Sub(b.since).Round(time.Second), b.title, b.bar()))
	}
	for i, name := range names {
		if i == mostShown {
			out = append(out, fmt.Sprintf("           and %d more", len(names)-i))
			break
		}
		t := s.running[name]
		out = append(out, fmt.Sprintf("  %7s  %s  %s", now.Sub(t.since).Round(time.Second), name, t.phase))
	}
	return out
}

// bar shows the steps of a build, as far as the builder numbers them.
func (b runningBuild) bar() string {
	if b.of == 0 {
		return ""
	}
	return fmt.Sprintf("%s step %d of %d", bar(b.done, b.of, 10), b.done, b.of)
}

func bar(done, of, width int) string {
	filled := 0
	if of > 0 {
		filled = width * done / of
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", width-filled)
}

func (s *jobState) headline(now time.Time) string {
	done := len(s.ended)
	b := fmt.Sprintf("%s %d/%d  %s", bar(done, s.total, 20), done, s.total, now.Sub(s.started).Round(time.Second))
	if s.graded > 0 {
		b += fmt.Sprintf("  mean %.3f (%d of %d graded)", s.sum/float64(s.graded), s.graded, done)
	}
	for _, blame := range trials.Blames() {
		if n := s.ungraded[blame]; n > 0 {
			b += fmt.Sprintf("  %d %s", n, blame)
		}
	}
	if s.retries > 0 {
		b += fmt.Sprintf("  %d retries", s.retries)
	}
	if mine := done - s.kept; mine > 0 && done < s.total {
		left := now.Sub(s.started) / time.Duration(mine) * time.Duration(s.total-done)
		b += fmt.Sprintf("  ETA %s", left.Round(time.Second))
	}
	return b
}
