package service

import (
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"harborgate/authproxy"
)

// settle is how long files must have been left alone: writers need several steps.
const settle = 250 * time.Millisecond

// watcher says when one of some files has become another one. It watches their
// directories, because editors and tools put a new file in the old one's place.
type watcher struct {
	log     *slog.Logger
	events  *fsnotify.Watcher
	changed chan struct{} // gets a value when something has changed
	done    chan struct{}

	mu    sync.Mutex
	files map[string]version
}

// version tells a file from what was there before.
type version struct {
	there bool
	inode uint64
	size  int64
	time  time.Time
	mode  fs.FileMode // a key that others can read is no key
}

func versionOf(path string) version {
	fi, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	v := version{there: true, size: fi.Size(), time: fi.ModTime(), mode: fi.Mode()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		v.inode = st.Ino
	}
	return v
}

func newWatcher(log *slog.Logger) (*watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &watcher{log: log, events: events, changed: make(chan struct{}, 1), done: make(chan struct{}), files: map[string]version{}}
	go w.run()
	return w, nil
}

// follow has exactly these files watched, as they are now.
func (w *watcher) follow(files []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirs := map[string]bool{}
	w.files = map[string]version{}
	for _, f := range files {
		if f != "" {
			w.files[f] = versionOf(f)
			dirs[filepath.Dir(f)] = true
		}
	}
	for _, dir := range w.events.WatchList() {
		if !dirs[dir] {
			_ = w.events.Remove(dir) // it may be gone
		}
		delete(dirs, dir)
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		if err := w.events.Add(dir); err != nil {
			w.log.Warn("changes of files there will not be noticed", "dir", dir, "error", err.Error())
		}
	}
}

// see takes the files as they are now for what is known, and reports whether one
// has changed.
func (w *watcher) see() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for f, before := range w.files {
		if now := versionOf(f); now != before {
			w.files[f], changed = now, true
		}
	}
	return changed
}

// run waits until a burst of events is over, and then looks.
func (w *watcher) run() {
	defer close(w.done)
	quiet := time.NewTimer(settle)
	quiet.Stop()
	for {
		select {
		case _, ok := <-w.events.Events:
			if !ok {
				return
			}
			quiet.Reset(settle)
		case err, ok := <-w.events.Errors:
			if !ok {
				return
			}
			w.log.Warn("a change of a file may have been missed", "error", err.Error())
			quiet.Reset(settle)
		case <-quiet.C:
			if w.see() {
				select {
				case w.changed <- struct{}{}:
				default: // a reload is due already
				}
			}
		}
	}
}

func (w *watcher) close() error {
	err := w.events.Close()
	<-w.done
	return err
}

// keyFiles are the files that keys of a configuration are in.
func keyFiles(c authproxy.Config) []string {
	var out []string
	for _, u := range c.Upstreams {
		for _, k := range u.Keys {
			if path, ok := strings.CutPrefix(string(k), "file:"); ok {
				out = append(out, path)
			}
		}
	}
	return out
}
