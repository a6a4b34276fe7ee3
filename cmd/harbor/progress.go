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

	"harborgate/internal/events"
	"harborgate/trials"
)

// redraw is how often the live display is drawn anew.
const redraw = 250 * time.Millisecond

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

func newProgress(e *env, log *events.Log, total int, quiet bool) *progress {
	p := &progress{out: e.err, quiet: quiet, state: newJobState(total), done: make(chan struct{})}
	if f, ok := e.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.live = true
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			p.width = w
		}
	}
	ch, _ := log.Subscribe(eventBuffer)
	go p.follow(ch)
	return p
}

// wait returns when the last event is shown.
func (p *progress) wait() { <-p.done }

func (p *progress) follow(ch <-chan trials.Event) {
	defer close(p.done)
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case e, ok := <-ch:
			if !ok {
				p.draw(nil)
				return
			}
			line := p.state.apply(e)
			if !p.live && !p.quiet && line != "" {
				fmt.Fprintln(p.out, line)
			}
		case <-tick.C:
			if p.live {
				p.draw(p.state.render(time.Now(), p.quiet))
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
	done     int
	graded   int
	sum      float64
	ungraded map[string]int
	retries  int
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
	return &jobState{total: total, started: time.Now(), running: map[string]*runningTrial{}, builds: map[string]runningBuild{}, ungraded: map[string]int{}}
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
	Blame     string
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
		s.done--
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
	s.done++
	verdict := "no verdict"
	if d.Valid {
		s.graded++
		main, _ := d.Rewards.Main()
		s.sum += main.Value
		verdict = "reward " + rewardText(d.Rewards)
	} else {
		s.ungraded[d.Blame]++
	}
	if d.Exception != "" {
		verdict += ", " + d.Exception
		if d.Blame != "" {
			verdict += " (" + d.Blame + ")"
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
	return fmt.Sprintf("%s [%d/%d] ", e.Time.Local().Format("15:04:05"), s.done, s.total) + printable(fmt.Sprintf(format, args...))
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
	b := fmt.Sprintf("%s %d/%d  %s", bar(s.done, s.total, 20), s.done, s.total, now.Sub(s.started).Round(time.Second))
	if s.graded > 0 {
		b += fmt.Sprintf("  mean %.3f (%d of %d graded)", s.sum/float64(s.graded), s.graded, s.done)
	}
	for _, blame := range trials.Blames() {
		if n := s.ungraded[string(blame)]; n > 0 {
			b += fmt.Sprintf("  %d %s", n, blame)
		}
	}
	if s.retries > 0 {
		b += fmt.Sprintf("  %d retries", s.retries)
	}
	if s.done > 0 && s.done < s.total {
		left := now.Sub(s.started) / time.Duration(s.done) * time.Duration(s.total-s.done)
		b += fmt.Sprintf("  ETA %s", left.Round(time.Second))
	}
	return b
}
