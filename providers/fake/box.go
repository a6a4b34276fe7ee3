package fake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/tools"
	"harborgate/providers/fake/internal/vfs"
	"harborgate/providers/fake/plane"
)

// box is one sandbox in a World.
type box struct {
	world   *World
	id      providers.ID
	spec    providers.Spec
	image   *image
	created time.Time

	mu sync.Mutex // guards what follows
	// asleep is a running sandbox that nobody has used: its tree and its machine are
	// made when somebody does.
	asleep  bool
	fs      *vfs.FS         // nil while it is the image's
	machine *kernel.Machine // nil while stopped, dead or destroyed
	death   *providers.Death
	gone    bool
}

// settle is how long Create waits for an entrypoint that fails at once.
const settle = 50 * time.Millisecond

// create makes a sandbox. On error nothing is left.
func (p *Provider) create(ctx context.Context, spec providers.Spec) (*box, error) {
	b := &box{world: p.world, spec: spec, created: time.Now()}
	id, wait, err := p.control.Create(ctx, plane.Sandbox{Name: spec.Name, Labels: spec.Labels.Map(), Size: sizeOf(spec.Resources)})
	if err != nil {
		return nil, err
	}
	b.id = id
	if err = p.world.add(b); err == nil {
		err = pause(ctx, wait+p.o.CreateTime)
	}
	if err == nil {
		b.image, err = p.source(ctx, spec)
	}
	if err == nil {
		err = b.prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.discard(ctx, id))
	}
	return b, nil
}

func sizeOf(r providers.Resources) plane.Size {
	return plane.Size{CPUs: r.CPUs, MemoryMiB: r.MemoryMiB, DiskMiB: r.DiskMiB, GPUs: r.GPUs}
}

// source finds or makes what the sandbox starts from.
func (p *Provider) source(ctx context.Context, spec providers.Spec) (*image, error) {
	switch {
	case spec.Source.Build != nil:
		return p.world.build(ctx, *spec.Source.Build)
	case spec.Source.Snapshot != "":
		return p.world.snapshot(spec.Source.Snapshot)
	}
	return p.world.image(spec.Source.Image)
}

// prepare finds the default user, makes the working directory and starts what runs.
func (b *box) prepare(ctx context.Context) error {
	if b.spec.Workdir == "" {
		b.spec.Workdir = b.image.Workdir
	}
	if b.spec.Workdir == "" {
		b.spec.Workdir = "/"
	}
	if b.spec.User == "" {
		b.spec.User = b.image.User
	}
	if b.spec.User == "" {
		b.spec.User = "root"
	}
	if _, _, err := tools.LookupUser(b.image.fs, b.spec.User); err != nil {
		return providers.E(providers.KindInvalid, "create", err)
	}
	info, err := b.image.fs.Stat(vfs.Root(), b.spec.Workdir, true)
	if err == nil && info.IsDir() && len(b.image.Entrypoint) == 0 {
		b.mu.Lock()
		b.asleep = true
		b.mu.Unlock()
		return ctx.Err()
	}
	b.fs = b.image.fs.Fork()
	if err := b.fs.MkdirAll(b.spec.Workdir, 0o755); err != nil {
		return providers.E(providers.KindInvalid, "create", fmt.Errorf("working directory: %w", err))
	}
	return b.start(ctx)
}

// tree is what the sandbox's files are. b.mu is held.
func (b *box) tree() *vfs.FS {
	if b.fs == nil {
		return b.image.fs
	}
	return b.fs
}

// start boots the machine and the image's entrypoint.
func (b *box) start(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.machine != nil || b.asleep || b.gone {
		return b.stateError("start")
	}
	if err := b.boot(); err != nil {
		return err
	}
	if len(b.image.Entrypoint) == 0 || b.spec.Idle {
		return ctx.Err()
	}
	return b.startEntrypoint(ctx, b.machine)
}

// boot makes the machine, and the tree of who has none yet. b.mu is held.
func (b *box) boot() error {
	if b.fs == nil {
		b.fs = b.image.fs.Fork()
	}
	m, err := kernel.New(kernel.Options{
		FS: b.fs, Programs: b.world.programs, Outside: b.world.outside(b.spec.Network),
		Limits: kernel.Limits{PIDs: int(b.spec.Resources.PIDs), MemoryBytes: b.spec.Resources.MemoryMiB << 20},
	})
	if err != nil {
		return providers.E(providers.KindInternal, "create", err)
	}
	b.machine, b.death, b.asleep = m, nil, false
	return nil
}

// startEntrypoint runs the image's entrypoint and watches it: when it ends, the
// sandbox has died. b.mu is held.
func (b *box) startEntrypoint(ctx context.Context, m *kernel.Machine) error {
	account, cred, err := tools.LookupUser(b.fs, b.spec.User)
	if err != nil {
		return providers.E(providers.KindInvalid, "create", err)
	}
	out := kernel.NewOutlet()
	first, err := m.Start(kernel.Spawn{
		Args: slices.Concat(b.image.Entrypoint, []string{"sleep", "infinity"}),
		Env:  b.environ(account.Home, nil), Dir: b.spec.Workdir, Cred: cred,
		Stdio: [3]*kernel.Desc{kernel.Empty(), out.Desc(1), out.Desc(2)},
	})
	if err != nil {
		m.PowerOff()
		b.machine = nil
		return &providers.Error{Op: "create", Kind: providers.KindInvalid, Death: &providers.Death{ExitCode: kernel.ExitCode(err)}, Err: err}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		text := tailOf(out, first.Done())
		b.dieOn(m, providers.Death{ExitCode: first.Result().Code, Output: text})
	}()
	t := time.NewTimer(settle)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-first.Done():
	}
	b.mu.Unlock()
	<-ended
	b.mu.Lock()
	return b.stateError("create")
}

// tailBytes is how much of an entrypoint's output a Death carries.
const tailBytes = 4 << 10

// tailOf reads an outlet until done is closed and returns the end of it.
func tailOf(out *kernel.Outlet, done <-chan struct{}) string {
	var tail []byte
	keep := func(b []byte) {
		tail = append(tail, b...)
		tail = tail[max(0, len(tail)-tailBytes):]
	}
	for {
		c, ok, wait := out.Next()
		if ok {
			keep(c.Bytes)
			continue
		}
		select {
		case <-wait:
		case <-done:
			for _, c := range out.Detach() {
				keep(c.Bytes)
			}
			return string(tail)
		}
	}
}

// environ is the environment of a process of the sandbox.
func (b *box) environ(home string, more ...map[string]string) []string {
	vars := map[string]string{"PATH": kernel.DefaultPath, "HOME": home, "HOSTNAME": "fake"}
	for _, m := range slices.Concat([]map[string]string{b.image.Env, b.spec.Env}, more) {
		maps.Copy(vars, m)
	}
	out := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		out = append(out, k+"="+vars[k])
	}
	return out
}

// running returns the machine, or why there is none.
func (b *box) running(op string) (*kernel.Machine, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asleep {
		if err := b.boot(); err != nil {
			return nil, err
		}
	}
	if b.machine == nil || b.gone {
		return nil, b.stateError(op)
	}
	return b.machine, nil
}

// stateError says why the sandbox cannot do op. b.mu is held.
func (b *box) stateError(op string) error {
	e := &providers.Error{Op: op, ID: string(b.id), Kind: providers.KindUnavailable, Death: b.death}
	switch {
	case b.gone:
		e.Kind, e.Err = providers.KindNotFound, errNoSandbox
	case b.death != nil:
	case b.machine != nil || b.asleep:
		e.Kind, e.Err = providers.KindInvalid, fmt.Errorf("the sandbox is running")
	default:
		e.Err = fmt.Errorf("the sandbox is stopped; start it first")
	}
	return e
}

// dieOn is die for the machine that was running then.
func (b *box) dieOn(m *kernel.Machine, d providers.Death) {
	b.mu.Lock()
	same := b.machine == m
	b.mu.Unlock()
	if same {
		b.die(d)
	}
}

func (b *box) die(d providers.Death) {
	b.mu.Lock()
	m := b.machine
	if m != nil || b.asleep {
		b.death = &d
	}
	b.machine, b.asleep = nil, false
	b.mu.Unlock()
	if m != nil {
		m.PowerOff()
	}
}

// stop switches the machine off and keeps the files.
func (b *box) stop() {
	b.mu.Lock()
	m := b.machine
	b.machine, b.asleep = nil, false
	b.mu.Unlock()
	if m != nil {
		m.PowerOff()
		b.mu.Lock()
		b.fs = b.fs.Clone()
		b.mu.Unlock()
	}
}

// destroy removes the sandbox. Twice is fine.
func (b *box) destroy() {
	b.mu.Lock()
	m := b.machine
	b.machine, b.asleep, b.gone = nil, false, true
	b.mu.Unlock()
	if m != nil {
		m.PowerOff()
	}
	b.world.forget(b)
}

// entry is the sandbox on a list.
func (b *box) entry() plane.Sandbox {
	return plane.Sandbox{ID: b.id, Name: b.spec.Name, Labels: b.spec.Labels.Map(), Created: b.created}
}

// States as an engine calls them.
const (
	stateRunning = "running"
	stateExited  = "exited"
)

func (b *box) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.machine == nil && !b.asleep {
		return stateExited
	}
	return stateRunning
}
