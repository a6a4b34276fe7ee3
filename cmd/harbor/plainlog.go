package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// plainLog shows errors that are logged as a sentence, as everything else that a
// command says: what happened, why, and what it happened to. What is less than an
// error is for logs in files.
type plainLog struct {
	w     io.Writer
	attrs []slog.Attr
}

func (l plainLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l plainLog) Handle(_ context.Context, r slog.Record) error {
	why, about := "", []string{}
	show := func(a slog.Attr) bool {
		if a.Key == "error" {
			why = ": " + a.Value.String()
		} else {
			about = append(about, a.Key+" "+a.Value.String())
		}
		return true
	}
	for _, a := range l.attrs {
		show(a)
	}
	r.Attrs(show)
	line := r.Message + why
	if len(about) > 0 {
		line += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintln(l.w, "harbor:", printable(line))
	return err
}

func (l plainLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)
	return l
}

// WithGroup leaves names as they are: nothing here is read by programs.
func (l plainLog) WithGroup(string) slog.Handler { return l }
