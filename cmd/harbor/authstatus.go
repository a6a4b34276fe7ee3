package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/authproxy/probe"
	"harborgate/internal/app"
)

// refresh is how often --watch looks.
const refresh = 2 * time.Second

func newAuthStatusCommand(e *env) *cobra.Command {
	var watch bool
	c := jsonFlag(e, &cobra.Command{
		Use:   "status",
		Short: "Show what the auth proxy is doing: limits, keys, budgets, open requests",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withAuth(c, e, func(p *client.Client) error {
				if watch {
					return watching(c.Context(), e, func() error { return showAuth(c.Context(), e, p) })
				}
				return showAuth(c.Context(), e, p)
			})
		},
	})
	c.Flags().BoolVar(&watch, "watch", false, "show it again every two seconds, until interrupted")
	return c
}

// watching shows something again and again, until ctx ends by a signal.
func watching(ctx context.Context, e *env, show func() error) error {
	t := time.NewTicker(refresh)
	defer t.Stop()
	for {
		if !e.json {
			const clear = "\x1b[H\x1b[2J"
			fmt.Fprint(e.out, clear)
		}
		err := show()
		select {
		case <-ctx.Done():
			return stopped(ctx)
		case <-t.C:
		}
		if err != nil {
			return err
		}
	}
}

// showAuth prints the status; a proxy that takes no requests is an error.
func showAuth(ctx context.Context, e *env, p *client.Client) error {
	s, err := p.Status(ctx)
	if err != nil {
		return err
	}
	if e.json {
		err = printJSON(e, s)
	} else {
		authPage(p.Socket(), s, time.Now()).writeText(e.out)
	}
	if err == nil && !s.Ready {
		err = errors.New("the auth proxy takes no requests: it is draining; start it again")
	}
	return err
}

func authPage(socket string, s authproxy.Status, now time.Time) page {
	head := block{heading: "Auth proxy at " + socket}
	head.add("state", authState(s))
	if f := s.Refused; f != nil {
		head.add("configuration", "older than the file, which was refused "+now.Sub(f.Time).Round(time.Second).String()+" ago:", oneLine(f.Error))
	}
	if len(s.Restart) > 0 {
		head.add("restart", "needed for "+strings.Join(s.Restart, ", "))
	}
	head.add("listens on", s.Listen...)
	head.add("tokens", fmt.Sprint(len(s.Grants)))
	head.add("today (UTC)", today(s, now))
	out := page{head}
	for _, u := range s.Upstreams {
		b := upstreamBlock(u, now)
		b.add("base URL", app.ClientURLs(s.Listen, u)...)
		out = append(out, b)
	}
	return append(out, openRequests(s.Streams, now))
}

func authState(s authproxy.Status) string {
	switch {
	case s.Draining:
		return "draining: no new requests are taken"
	case !s.Ready:
		return "not ready"
	}
	return "ready"
}

// today is what the day has come to.
func today(s authproxy.Status, now time.Time) string {
	b := s.Accounts["day/"+now.UTC().Format(time.DateOnly)]
	text := (b.Spent.Money + s.Budgets.SpentElsewhere(now)).String()
	if s.Budgets.Day > 0 {
		text += " of " + s.Budgets.Day.String()
	}
	text += " USD"
	if b.Reserved.Money > 0 {
		text += ", " + b.Reserved.Money.String() + " set aside for open requests"
	}
	return text
}

func upstreamBlock(u authproxy.UpstreamStatus, now time.Time) block {
	b := block{heading: fmt.Sprintf("Upstream %s (%s)", u.Name, u.Dialect), head: []string{"KEY", "STATE", "SERVED", "OPEN", "WAITING"}}
	b.add("at", u.Base)
	b.add("models", u.Models...)
	b.add("limits", limitTexts(u.Limits)...)
	b.add("requests", fmt.Sprintf("%d open", u.Gate.Running), fmt.Sprintf("%d waiting", u.Gate.Waiting))
	if u.Gate.Paused.After(now) {
		b.add("paused", "for "+u.Gate.Paused.Sub(now).Round(time.Second).String()+", as the provider wants")
	}
	for _, k := range u.Keys {
		b.rows = append(b.rows, []string{k.Ref, keyState(k, now), fmt.Sprint(k.Served), fmt.Sprint(k.Gate.Running), fmt.Sprint(k.Gate.Waiting)})
	}
	return b
}

func limitTexts(l authproxy.Limits) []string {
	var out []string
	for _, x := range []struct {
		n    int64
		what string
	}{
		{int64(l.Requests), "requests a minute"}, {l.Input, "input tokens a minute"}, {l.Output, "output tokens a minute"}, {int64(l.Concurrent), "at once"},
	} {
		if x.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return out
}

func keyState(k authproxy.KeyHealth, now time.Time) string {
	if !k.Resting.After(now) {
		return "well"
	}
	rest := "rests for " + k.Resting.Sub(now).Round(time.Second).String()
	if k.Refused {
		return probe.Refusal(k) + ", " + rest
	}
	return rest
}

func openRequests(open []authproxy.Stream, now time.Time) block {
	b := block{heading: plural(len(open), "open request"), head: []string{"SINCE", "TRIAL", "UPSTREAM", "MODEL"}}
	for _, x := range open {
		b.rows = append(b.rows, []string{now.Sub(x.Since).Round(time.Second).String(), x.Trial, x.Upstream, x.Model})
	}
	return b
}
