package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"

	"harborgate/providers"
)

const (
	// removeLimit bounds a removal that nobody waits for any more.
	removeLimit = 60 * time.Second
	// answerLimit bounds the wait for the engine's answer after a cancel.
	answerLimit = 2 * time.Minute
	// hurry bounds it for whoever was cancelled, and for Close.
	hurry = 5 * time.Second
)

// Create makes, starts and connects one container.
func (p *Provider) Create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	if err := spec.Validate(p.Info().Can); err != nil {
		return nil, p.fail("create", "", err)
	}
	f, err := p.ask(ctx)
	if err != nil {
		return nil, err
	}
	img, err := p.imageFor(ctx, spec)
	if err != nil {
		return nil, err
	}
	if spec.Idle {
		img.Entrypoint = nil
	}
	if img.Arch != "" && img.Arch != f.arch {
		p.log.Warn("image is for another architecture than the engine", "image", spec.Source.Image, "arch", img.Arch, "engine", f.arch)
	}
	inside, err := p.helper.find(img.archOr(f.arch))
	if err != nil {
		return nil, p.fail("create", "", err)
	}
	id, err := p.createContainer(ctx, spec, img, inside)
	if err != nil {
		return nil, err
	}
	s := &sandbox{p: p, id: id, spec: spec}
	if err := s.start(ctx, img, inside); err != nil {
		s.closeStreams()
		p.removeDetached(ctx, id)
		return nil, err
	}
	return s, nil
}

// createContainer returns the id of a container that is not started. The
// engine's answer is awaited even when ctx ends, because only then is it known
// what must be removed.
func (p *Provider) createContainer(ctx context.Context, spec providers.Spec, img imageConfig, inside string) (string, error) {
	type answer struct {
		id  string
		err error
	}
	answers := make(chan answer, 1)
	asked, cancel := context.WithTimeout(p.alive, answerLimit)
	p.late.Add(1)
	go func() {
		defer p.late.Done()
		defer cancel()
		id, err := p.askForContainer(asked, spec, img, inside)
		switch {
		case err == nil && ctx.Err() != nil:
			p.removeDetached(p.alive, id)
			err = ctx.Err()
		case p.alive.Err() != nil:
			p.log.Error("the engine did not answer whether it made a container, one may be left: `harbor cleanup` will remove it", "name", spec.Name)
		}
		answers <- answer{id, err}
	}()
	select {
	case a := <-answers:
		return a.id, p.fail("create", spec.Name, a.err)
	case <-ctx.Done():
	}
	// A quick engine has cleaned up by the time we return; a dead one must not
	// hold the caller for ever. Close waits for the rest.
	select {
	case a := <-answers:
		if a.err == nil {
			p.removeDetached(ctx, a.id)
		}
	case <-time.After(hurry):
	}
	return "", ctx.Err()
}

func (p *Provider) askForContainer(ctx context.Context, spec providers.Spec, img imageConfig, inside string) (string, error) {
	for {
		copied := p.helper.mustCopy()
		cfg, host := containerConfig(spec, img, inside, copied)
		made, err := p.engine.ContainerCreate(ctx, cfg, host, &network.NetworkingConfig{}, nil, spec.Name)
		if err == nil {
			return made.ID, nil
		}
		if !copied && strings.Contains(err.Error(), "bind source path does not exist") && strings.Contains(err.Error(), inside) {
			p.log.Info("the engine does not see this host's files, harbor-inside is copied into each sandbox", "engine", p.engine.DaemonHost())
			p.helper.setCopy()
			continue
		}
		if kindOf(err) == providers.KindNotFound {
			p.configs.Remove(img.ref) // somebody removed the image
		}
		return "", p.unclear(spec.Name, err)
	}
}

// unclear settles a create whose outcome is not known: whatever of that name
// and with our labels exists is removed.
func (p *Provider) unclear(name string, err error) error {
	if k := kindOf(err); k != providers.KindUnavailable && k != providers.KindInternal && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(p.alive, removeLimit)
	defer cancel()
	found, lerr := p.List(ctx, providers.Selector{
		NamePrefix: name, Labels: map[string]string{providers.LabelOwner: ""},
	})
	if lerr != nil {
		return err
	}
	for _, r := range found {
		p.removeDetached(ctx, string(r.ID))
	}
	return err
}

func containerConfig(spec providers.Spec, img imageConfig, inside string, copied bool) (*container.Config, *container.HostConfig) {
	user := spec.User
	if user == "" {
		user = img.User
	}
	args := []string{"init", "--stdio", "--user", user, "--"}
	if len(img.Entrypoint) > 0 {
		args = slices.Concat(args, img.Entrypoint, []string{insidePath, "keepalive"})
	}
	cfg := &container.Config{
		Image:      img.ref,
		Entrypoint: []string{insidePath},
		Cmd:        args,
		User:       "0:0", // of harbor-inside; commands run as spec.User
		WorkingDir: spec.Workdir,
		Env:        environ(spec.Env),
		Labels:     spec.Labels.Map(),
		StopSignal: "SIGKILL",
		OpenStdin:  true,
		StdinOnce:  true,
	}
	host := &container.HostConfig{
		NetworkMode: "bridge",
		LogConfig:   container.LogConfig{Type: "none"}, // its output is our session
		Resources: container.Resources{
			NanoCPUs:   int64(spec.Resources.CPUs * 1e9),
			Memory:     spec.Resources.MemoryMiB << 20,
			MemorySwap: spec.Resources.MemoryMiB << 20, // the limit is a limit: no swap beyond it
		},
	}
	if spec.Network.ModeOrPublic() == providers.NetworkNone {
		host.NetworkMode = "none"
	}
	if n := spec.Resources.PIDs; n > 0 {
		host.PidsLimit = &n
	}
	if !copied {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: inside, Target: insidePath, ReadOnly: true})
	}
	for _, m := range spec.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return cfg, host
}

func environ(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}

// removeDetached removes a container for a caller that is gone.
func (p *Provider) removeDetached(ctx context.Context, id string) {
	ctx, cancel := providers.Cleanup(ctx, removeLimit, hurry)
	defer cancel()
	if err := p.Destroy(ctx, providers.ID(id)); err != nil {
		p.log.Warn("container could not be removed, `harbor cleanup` will", "sandbox", id, "error", err)
	}
}

// Destroy kills and removes a container, with its anonymous volumes.
func (p *Provider) Destroy(ctx context.Context, id providers.ID) error {
	for {
		err := p.engine.ContainerRemove(ctx, string(id), container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || kindOf(err) == providers.KindNotFound:
			return p.destroyOther(ctx, id)
		case strings.Contains(err.Error(), "is already in progress"):
			if err := p.waitGone(ctx, id); err != nil {
				return p.fail("destroy", string(id), err)
			}
		default:
			return p.fail("destroy", string(id), err)
		}
	}
}

// waitGone waits for another caller's removal to end.
func (p *Provider) waitGone(ctx context.Context, id providers.ID) error {
	done, errs := p.engine.ContainerWait(ctx, string(id), container.WaitConditionRemoved)
	select {
	case <-done:
		return nil
	case err := <-errs:
		if kindOf(err) == providers.KindNotFound {
			return nil
		}
		return err
	}
}

// destroyOther removes a network or a volume: List returns those too, and
// their ids are in other name spaces than a container's.
func (p *Provider) destroyOther(ctx context.Context, id providers.ID) error {
	name, isVolume := strings.CutPrefix(string(id), volumePrefix)
	net, isNetwork := strings.CutPrefix(string(id), networkPrefix)
	var err error
	switch {
	case isVolume:
		err = p.engine.VolumeRemove(ctx, name, true)
	case isNetwork:
		err = p.engine.NetworkRemove(ctx, net)
	}
	if err != nil && kindOf(err) != providers.KindNotFound {
		return p.fail("destroy", string(id), err)
	}
	return nil
}

// start brings a created container to the point where commands run.
func (s *sandbox) start(ctx context.Context, img imageConfig, inside string) error {
	if s.p.helper.mustCopy() {
		tar, err := s.p.helper.archive(inside)
		if err == nil {
			err = s.p.engine.CopyToContainer(ctx, s.id, "/", tar, container.CopyToContainerOptions{})
		}
		if err != nil {
			return s.p.fail("create", s.spec.Name, fmt.Errorf("copy harbor-inside: %w", err))
		}
	}
	if err := s.attach(ctx); err != nil {
		return s.p.fail("create", s.spec.Name, err)
	}
	if err := s.boot(ctx); err != nil {
		return s.p.fail("create", s.spec.Name, s.p.foreign(img, err))
	}
	if err := s.open(ctx, img); err != nil {
		return s.p.foreign(img, err)
	}
	return s.settle(ctx, img)
}

const (
	// startAttempts bounds how often a start is repeated that failed because the
	// engine had not yet seen its own network; startPause is before the first repetition.
	startAttempts = 4
	startPause    = 100 * time.Millisecond
)

// boot starts the container. Some engines lose a race between making a network and
// attaching to it: that one failure, and no other, is tried again.
func (s *sandbox) boot(ctx context.Context) error {
	for n := 1; ; n++ {
		err := s.p.engine.ContainerStart(ctx, s.id, container.StartOptions{})
		if err == nil || n == startAttempts || !networkMissing(err) {
			return err
		}
		s.say(fmt.Sprintf("start %d failed and is tried again: %v", n, err))
		select {
		case <-time.After(startPause << (n - 1)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *sandbox) say(line string) {
	if s.spec.Progress != nil {
		s.spec.Progress(line)
	}
}

var networkPattern = regexp.MustCompile(`network \S+ not found`)

func networkMissing(err error) bool {
	return kindOf(err) == providers.KindNotFound && networkPattern.MatchString(err.Error())
}

// settleTime is how long an entrypoint of the image's own is watched for a
// failure at its start. Images without one cost nothing.
const settleTime = 150 * time.Millisecond

// settle tells an entrypoint that fails at once, which is the image's doing, from
// a sandbox that is lost later.
func (s *sandbox) settle(ctx context.Context, img imageConfig) error {
	if len(img.Entrypoint) == 0 {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	ended, errs := s.p.engine.ContainerWait(short, s.id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return s.p.fail("create", s.spec.Name, s.explain(ctx, errors.New("the container ended")))
	case <-errs: //nolint:errcheck // it runs, or the engine will say at the next call
		return ctx.Err()
	}
}
