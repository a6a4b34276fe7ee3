package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/tools"
	"harborgate/providers/fake/internal/vfs"
)

// sandbox is a handle on a box. Several may exist.
type sandbox struct {
	p   *Provider
	box *box
}

func (s *sandbox) ID() providers.ID { return s.box.id }

// perform strikes faults and names the sandbox in errors.
func (s *sandbox) perform(ctx context.Context, op Op, subject string, do func(context.Context) error) error {
	err := s.box.world.perform(ctx, op, s.box.spec.Name+" "+subject, func(ctx context.Context) (*box, error) {
		if err := s.inside(ctx); err != nil {
			return nil, err
		}
		return s.box, do(ctx)
	})
	var e *providers.Error
	if errors.As(err, &e) && e.ID == "" {
		e.ID = string(s.box.id)
	}
	return err
}

func (s *sandbox) Destroy(ctx context.Context) error {
	return s.box.world.perform(ctx, OpDestroy, string(s.box.id), func(ctx context.Context) (*box, error) {
		return nil, s.p.remove(ctx, s.box.id)
	})
}

func (s *sandbox) Expose(ctx context.Context, handle func(net.Conn)) (url string, closer func() error, err error) {
	err = s.perform(ctx, OpExpose, "", func(context.Context) error {
		m, err := s.box.running("expose")
		if err != nil {
			return err
		}
		l, err := m.Listen(0, handle)
		if err != nil {
			return providers.E(providers.KindUnavailable, "expose", err)
		}
		url = "http://127.0.0.1:" + strconv.Itoa(l.Port)
		closer = func() error {
			l.Close()
			return nil
		}
		return nil
	})
	return url, closer, err
}

func (s *sandbox) Exec(ctx context.Context, cmd providers.Command) (status providers.ExitStatus, err error) {
	err = s.perform(ctx, OpExec, strings.Join(cmd.Args, " "), func(ctx context.Context) error {
		if err := pause(ctx, s.p.o.ExecTime); err != nil {
			return err
		}
		m, err := s.box.running("exec")
		if err != nil {
			return err
		}
		status, err = s.box.exec(ctx, m, cmd)
		return err
	})
	return status, err
}

// exec runs one command on a running machine.
func (b *box) exec(ctx context.Context, m *kernel.Machine, cmd providers.Command) (providers.ExitStatus, error) {
	spawn, err := b.spawn(m, cmd)
	if err != nil {
		return providers.ExitStatus{}, err
	}
	out := kernel.NewOutlet()
	stdin, feed := stdinOf(cmd)
	spawn.Stdio = [3]*kernel.Desc{stdin, out.Desc(1), out.Desc(2)}
	if cmd.TTY != nil {
		size := &kernel.Size{Rows: int(cmd.TTY.Rows), Cols: int(cmd.TTY.Cols)}
		spawn.Stdio[2] = out.Desc(1)
		for _, d := range spawn.Stdio {
			d.Terminal = size
		}
	}
	kills := m.OOMKills()
	p, err := m.Start(spawn)
	if err != nil {
		if feed != nil {
			feed.Close()
		}
		return b.cannotStart(m, cmd, err)
	}
	if feed != nil {
		go pump(feed, cmd.Stdin)
	}
	killed := make(chan struct{})
	stopWatching := context.AfterFunc(ctx, func() {
		defer close(killed)
		terminate(m, p.Job(), cmd.Grace)
	})
	werr := deliver(out, p.Done(), cmd)
	if !stopWatching() {
		<-killed
		return providers.ExitStatus{}, ctx.Err()
	}
	status := providers.ExitStatus{Code: p.Result().Code, Signal: p.Result().Signal, OOMKilled: m.OOMKills() > kills}
	if cmd.KillLeftovers {
		status.Leftovers = m.KillJob(p.Job())
	}
	if _, err := b.running("exec"); err != nil {
		return providers.ExitStatus{}, err
	}
	return status, providers.E(providers.KindInternal, "exec", werr)
}

// spawn checks the command and says how it starts.
func (b *box) spawn(m *kernel.Machine, cmd providers.Command) (kernel.Spawn, error) {
	invalid := func(err error) (kernel.Spawn, error) {
		return kernel.Spawn{}, providers.E(providers.KindInvalid, "exec", err)
	}
	if len(cmd.Args) == 0 {
		return invalid(errors.New("the command is empty"))
	}
	user := cmd.User
	if user == "" {
		user = b.spec.User
	}
	account, cred, err := tools.LookupUser(m.FS, user)
	if err != nil {
		return invalid(fmt.Errorf("%w of sandbox %s", err, b.id))
	}
	dir := cmd.Dir
	if dir == "" {
		dir = b.spec.Workdir
	}
	if info, err := m.FS.Stat(vfs.Root(), dir, true); err != nil || !info.IsDir() {
		return invalid(fmt.Errorf("working directory %s is not a directory of sandbox %s", dir, b.id))
	}
	env := b.environ(account.Home, cmd.Env, cmd.SecretEnv)
	for _, s := range append(env, cmd.Args...) {
		if strings.ContainsRune(s, 0) {
			return invalid(errors.New("an argument or variable contains a zero byte"))
		}
	}
	return kernel.Spawn{Args: cmd.Args, Env: env, Dir: dir, Cred: cred}, nil
}

// cannotStart is 127 or 126 with a message, as a shell would have it, or the
// error that explains what can never be started.
func (b *box) cannotStart(m *kernel.Machine, cmd providers.Command, err error) (providers.ExitStatus, error) {
	switch {
	case errors.Is(err, syscall.E2BIG):
		return providers.ExitStatus{}, providers.Errorf(providers.KindInvalid, "exec",
			"an argument or variable is %d bytes or longer, or all together are over %d: pass it by standard input or as a file",
			kernel.MaxArgBytes, kernel.MaxArgsBytes)
	case errors.Is(err, syscall.EAGAIN):
		if _, err := b.running("exec"); err != nil {
			return providers.ExitStatus{}, err
		}
		return providers.ExitStatus{}, providers.E(providers.KindExhausted, "exec", errors.New("the sandbox's process limit is reached"))
	}
	if cmd.Stderr != nil {
		_, _ = fmt.Fprintf(cmd.Stderr, "%s: %v\n", cmd.Args[0], err)
	}
	return providers.ExitStatus{Code: kernel.ExitCode(err)}, nil
}

func stdinOf(cmd providers.Command) (*kernel.Desc, *kernel.Feed) {
	if cmd.Stdin == nil {
		return kernel.Empty(), nil
	}
	return kernel.NewPipe()
}

// pump copies the command's input until one side is done with it. It outlives
// Exec when the reader blocks.
func pump(feed *kernel.Feed, r io.Reader) {
	defer feed.Close()
	_, _ = io.Copy(struct{ io.Writer }{feed}, r)
}

// deliver writes output until the command has ended and nothing of it is left.
func deliver(out *kernel.Outlet, done <-chan struct{}, cmd providers.Command) error {
	var failed error
	write := func(c kernel.Chunk) {
		w := cmd.Stdout
		if c.Stream == 2 {
			w = cmd.Stderr
		}
		if w == nil || failed != nil {
			return
		}
		if _, err := w.Write(c.Bytes); err != nil {
			failed = fmt.Errorf("write output: %w", err)
		}
	}
	for {
		c, ok, wait := out.Next()
		if ok {
			write(c)
			continue
		}
		select {
		case <-wait:
		case <-done:
			for _, c := range out.Detach() {
				write(c)
			}
			return failed
		}
	}
}

// terminate ends a job: SIGTERM, a grace, SIGKILL until nothing is left.
func terminate(m *kernel.Machine, job *kernel.Job, grace time.Duration) {
	if grace > 0 && m.SignalJob(job, syscall.SIGTERM) > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-job.Empty():
		case <-t.C:
		}
	}
	m.KillJob(job)
}
