package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"harborgate/internal/app"
	"harborgate/internal/events"
	"harborgate/trials"
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

func newProgress(ctx context.Context, e *env, log *events.Log, plan *app.Plan) *progress {
	state := newJobState(plan.Total())
	if plan.Past != nil {
		state.keep(plan.Past.Kept)
	}
	ch, _ := log.Subscribe(eventBuffer)
	return startProgress(ctx, e, state, ch, plan.Config.Quiet)
}

// startProgress shows what a channel brings, until that is closed, and that the
// context ended.
func startProgress(ctx context.Context, e *env, state *jobState, ch <-chan trials.Event, quiet bool) *progress {
	p := &progress{out: e.err, quiet: quiet, state: state, done: make(chan struct{})}
	if s, ok := e.err.(*screen); ok && wantsLive(e.lookup) {
		p.live, p.out = true, s.file // each line is made harmless by itself
		if w, _, err := term.GetSize(int(s.file.Fd())); err == nil {
			p.width = w
		}
	}
	go p.follow(ctx, ch)
	return p
}

// plainPlaces are variables that ask for lines instead of a display that is drawn
// again and again, with the value that does; "" is any.
var plainPlaces = map[string]string{"TERM": "dumb", "CI": "", "NO_COLOR": ""}

// wantsLive reports whether the surroundings stand a display that is drawn anew.
func wantsLive(lookup func(string) (string, bool)) bool {
	for name, value := range plainPlaces {
		if v, ok := lookup(name); ok && v != "" && (value == "" || v == value) {
			return false
		}
	}
	return true
}

// stopping is said when a job was asked to stop, which takes a moment.
const stopping = "harbor: stopping: running trials are ended and their sandboxes removed; the same again stops at once"

// wait returns when the last event is shown.
func (p *progress) wait() { <-p.done }

func (p *progress) follow(ctx context.Context, ch <-chan trials.Event) {
	ended := ctx.Done()
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
		case <-ended:
			ended = nil
			p.draw(nil)
			say(stopping)
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
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", p.lines) // a ^C may have moved it to the right
	}
	for _, l := range lines {
		b.WriteString(clip(oneLine(l), p.width))
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

// mostShown is how many running trials the display lists, the slowest first.
const mostShown = 8

// render is the live display.
func (s *jobState) render(now time.Time, quiet bool) []string {
	out := []string{s.headline(now)}
	if s.waits != "" {
		out = append(out, "  "+s.waits)
	}
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
		b += fmt.Sprintf("  mean %.3f (%d of %d graded)", s.mean(), s.graded, done)
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
