package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"harborgate/internal/redact"
	"harborgate/providers"
	"harborgate/snapshots"
)

const (
	// putAway bounds the removal of what a build leaves.
	putAway = 30 * time.Second
	// proofTime bounds the one start of what was built.
	proofTime = 2 * time.Minute
	// attempts are how often a removal that fails is tried again.
	attempts = 3
	// leftPause is between two attempts to remove what is left, for who waits for its place.
	leftPause = 10 * time.Second
)

// sandbox makes one for a build. The image's entrypoint does not run there: it may want
// what only a trial gives it, and leave what a snapshot must not have. Its name is its
// own: what an earlier try of the same build left is in nobody's way.
func (im *Images) sandbox(ctx context.Context, from providers.Source, network providers.NetworkMode, log io.Writer) (providers.Sandbox, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(longestBuild)
	}
	name := providers.Name("build", im.Owner, rand.Text())
	s, err := im.Provider.Create(ctx, providers.Spec{
		Name: name, Source: from, Idle: true,
		Network: providers.Network{Mode: network}, Resources: providers.Resources{PIDs: maxPIDs}, Deadline: deadline,
		Labels: providers.Labels{Owner: im.Owner, Host: im.Host, Expires: deadline.Add(expiryMargin)},
	})
	if unanswered(ctx, err) {
		im.remove(ctx, &lost{im: im, name: name}, log)
	}
	return s, err
}

// leftover is a sandbox of a build that could not be removed. Where it runs it takes the
// room of one, so it keeps one lease.
type leftover struct {
	removable
	free func() // gives the lease back; nil as long as its build goes on
}

// remove removes a build's sandbox. What was built does not depend on it: one that
// cannot be removed is tried again when another could be, and is then for RemoveLeft.
func (im *Images) remove(ctx context.Context, s removable, log io.Writer) {
	ctx, cancel := providers.Cleanup(ctx, putAway, putAway)
	defer cancel()
	err := s.Destroy(ctx)
	for range attempts {
		if err == nil {
			break
		}
		select {
		case <-time.After(time.Second):
			err = s.Destroy(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil {
		fmt.Fprintf(log, "harbor: sandbox %s is left for now: %v\n", s.ID(), err)
		im.mu.Lock()
		defer im.mu.Unlock()
		im.left = append(im.left, &leftover{removable: s})
		return
	}
	im.removeMore(ctx)
}

// removeMore removes of what is left what can be removed now.
func (im *Images) removeMore(ctx context.Context) {
	for _, l := range im.leftovers() {
		ctx, cancel := context.WithTimeout(ctx, putAway)
		_ = im.again(ctx, l) // it stays left
		cancel()
	}
}

// KeepRemoving removes what builds left as soon as it can be removed, until it is stopped
// or ctx ends: for who waits for a lease, because what is left may keep the last one.
func (im *Images) KeepRemoving(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var removing sync.WaitGroup
	removing.Go(func() {
		for sleep(ctx, leftPause) {
			im.removeMore(ctx)
		}
	})
	return func() {
		cancel()
		removing.Wait()
	}
}

// OnFree implements scheduler.Possession for a build that is over: free is called at once,
// unless a sandbox is left that keeps no lease yet. That one keeps it until it is gone.
func (im *Images) OnFree(free func()) {
	im.mu.Lock()
	defer im.mu.Unlock()
	for _, l := range im.left {
		if l.free == nil {
			l.free = free
			return
		}
	}
	free()
}

// RemoveLeft tries again to remove builds' sandboxes that could not be removed, and
// returns why those stay that stay.
func (im *Images) RemoveLeft(ctx context.Context) map[providers.ID]error {
	stay := map[providers.ID]error{}
	for _, l := range im.leftovers() {
		ctx, cancel := providers.Cleanup(ctx, putAway, hurry)
		if err := im.again(ctx, l); err != nil {
			stay[l.ID()] = err
		}
		cancel()
	}
	return stay
}

func (im *Images) leftovers() []*leftover {
	im.mu.Lock()
	defer im.mu.Unlock()
	return slices.Clone(im.left)
}

// again is one more attempt.
func (im *Images) again(ctx context.Context, l *leftover) error {
	if err := l.Destroy(ctx); err != nil {
		return err
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	im.left = slices.DeleteFunc(im.left, func(other *leftover) bool { return other == l })
	if l.free != nil {
		l.free()
	}
	return nil
}

// starts proves what was built before anybody counts on it: a sandbox of it runs a
// command. One that does not start is the build's failure, with the reason.
func (im *Images) starts(ctx context.Context, from providers.Source, log io.Writer) error {
	if !im.Prove {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	fmt.Fprintln(log, "harbor: it is started once")
	network := providers.NetworkPublic
	if im.Provider.Info().Can.HasNetwork(providers.NetworkNone) {
		network = providers.NetworkNone
	}
	s, err := im.sandbox(ctx, from, network, log)
	if err == nil {
		defer im.remove(ctx, s, log)
		_, err = s.Exec(ctx, providers.Command{Args: []string{"true"}, User: "root", Dir: "/"})
	}
	if err == nil {
		return nil
	}
	if snapshots.ProviderFailed(err) {
		fmt.Fprintf(log, "harbor: it could not be started: %v\n", err)
		return fmt.Errorf("what was built could not be started once, to prove it: %w", err)
	}
	fmt.Fprintf(log, "harbor: a sandbox of it does not start: %v\n", err)
	return fmt.Errorf("what was built does not start: %w", err)
}

// detector knows what must not be in what is kept.
func (im *Images) detector(ctx context.Context) *redact.Detector {
	if im.Secrets == nil {
		return redact.NewDetector(nil)
	}
	return redact.NewDetector(im.Secrets(ctx))
}

// warnOf names files of a build context that hold secrets: they are the user's own, but
// every agent can read them in the image.
func (im *Images) warnOf(ctx context.Context, title, dir string, log io.Writer) error {
	d := im.detector(ctx)
	return walk(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		p := d.Probe()
		if err := copyFile(p, path); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
		if p.Found != "" {
			words := fmt.Sprintf("%s: %s holds %s, and whoever works in the image can read it", title, path, p.Found)
			fmt.Fprintf(log, "harbor: warning: %s\n", words)
			im.tell("secret_in_context", words)
		}
		return nil
	})
}

func (im *Images) tell(code, words string) {
	if im.OnNote != nil {
		im.OnNote(code, words)
	}
}
