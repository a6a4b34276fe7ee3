package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
)

// Directories inside a sandbox.
const (
	logsDir      = "/logs"
	agentDir     = "/logs/agent"
	verifierDir  = "/logs/verifier"
	artifactsDir = "/logs/artifacts"
	testsDir     = "/tests"
)

// maxPIDs keeps a fork bomb from taking the host along. No real task comes near.
const maxPIDs = 4096

// expiryMargin is how long after its deadline a sandbox may be removed by anybody.
const expiryMargin = time.Hour

// noDeadline is the deadline of a try without limits.
const noDeadline = 7 * 24 * time.Hour

// prepare makes the agent's sandbox: image, container, health, files.
func (x *run) prepare(ctx context.Context) *trials.Failure {
	return x.phase(ctx, trials.PhaseEnvironmentSetup, &x.res.EnvironmentSetup, x.limits.EnvironmentStart, func(ctx context.Context) error {
		if x.separate() { // one that cannot be had must not cost an agent's work
			var err error
			if x.verifierImage, err = x.image(ctx, x.r.opt.Images.Verifier); err != nil {
				return err
			}
		}
		if err := x.fetchBundle(ctx); err != nil {
			return err
		}
		if err := x.start(ctx); err != nil {
			return err
		}
		if err := x.makeLogDirs(ctx); err != nil {
			return err
		}
		if err := x.uploadEnvironment(ctx); err != nil {
			return err
		}
		return x.healthcheck(ctx)
	})
}

// start makes the sandbox. An image that somebody removed after it was found is
// made again, once.
func (x *run) start(ctx context.Context) error {
	mounts, err := x.mounts()
	if err != nil {
		return err
	}
	for again := false; ; again = true {
		from, err := x.agentSource(ctx)
		if err != nil {
			return err
		}
		spec := x.spec(from, x.t.Task.Config.Environment, "env")
		spec.Mounts = mounts
		x.sandbox, err = x.create(ctx, spec)
		if !providers.Is(err, providers.KindNotFound) || again {
			return err
		}
		x.log.Info("the image is gone, it is made again", "image", from)
	}
}

// agentSource gets what the agent's sandbox starts from.
func (x *run) agentSource(ctx context.Context) (providers.Source, error) {
	from, err := x.image(ctx, x.r.opt.Images.Agent)
	if providers.Is(err, providers.KindUnsupported) { // there is no layer: it is installed after the start
		from, err = x.image(ctx, x.r.opt.Images.Environment)
	}
	x.layered = from.Snapshot != ""
	return from, err
}

// image gets one image and remembers to give it back.
func (x *run) image(ctx context.Context, which func(*tasks.Task, trials.TrialConfig, int) (snapshots.Request, error)) (providers.Source, error) {
	var req snapshots.Request
	var err error
	if aside(func() { req, err = which(x.t.Task, *x.t.Config, x.t.Number) }); err != nil {
		return providers.Source{}, err
	}
	x.log.Info("image wanted", "key", req.Key, "title", req.Title)
	begun := time.Now()
	hold, err := x.r.opt.Images.Get(ctx, req)
	x.res.Harborgate.SnapshotSec += seconds(time.Since(begun)) // also for one that cannot be had
	if err != nil {
		return providers.Source{}, unbuilt(req, err)
	}
	x.holds = append(x.holds, hold)
	if hold.Snapshot {
		return providers.Source{Snapshot: hold.Image.ID}, nil
	}
	return providers.Source{Image: hold.Image.ID}, nil
}

// unbuilt says whose failure it is that there is no image: an agent that could not be
// installed is not the task's.
func unbuilt(req snapshots.Request, err error) error {
	var failed *snapshots.BuildError
	kind := providers.KindOf(err)
	if of, ok := errors.AsType[*trials.Failure](err); ok {
		own := *of // trials that wait for one build do not share what they write into
		return &own
	}
	switch {
	case req.Snapshot && errors.As(err, &failed) && failed.Key == req.Key && kind == providers.KindInvalid:
		return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseExit, "", err.Error())
	case req.Snapshot && errors.As(err, &failed) && failed.Key == req.Key && kind == providers.KindTimeout:
		return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseTimeout, "", err.Error())
	case kind == providers.KindInvalid:
		return during(trials.CauseBuild, err)
	}
	return err
}

// spec puts the task's wishes and the job's overrides together. role sets the
// sandboxes of one try apart.
func (x *run) spec(from providers.Source, env tasks.Environment, role string) providers.Spec {
	c := x.t.Config.Environment
	now := time.Now()
	deadline := now.Add(noDeadline)
	if d, ok := x.total(); ok {
		deadline = now.Add(d)
	}
	job := x.t.Job
	if x.t.Config.JobID != nil {
		job = *x.t.Config.JobID
	}
	s := providers.Spec{
		Name:     providers.Name(job, x.t.ID, x.t.Config.TrialName, strconv.Itoa(x.t.Number), role),
		Source:   from,
		Network:  providers.Network{Mode: providers.NetworkMode(env.Network.Mode)},
		Workdir:  env.Workdir,
		Env:      x.env.public,
		Deadline: deadline,
		Labels: providers.Labels{
			Owner: x.r.opt.Owner, Host: x.r.opt.Host, Job: x.t.Job, Trial: x.t.Config.TrialName,
			Expires: deadline.Add(expiryMargin),
		},
		Progress: func(line string) { x.log.Info("provider", "says", line) },
	}
	s.Resources = limits(env, c)
	if env.StorageMiB != nil || c.OverrideStorageMiB != nil {
		if !x.r.opt.Provider.Info().Can.Disk {
			x.log.Info("storage is not limited by this provider")
		}
	}
	return s
}

func limits(env tasks.Environment, c trials.EnvironmentConfig) providers.Resources {
	r := providers.Resources{PIDs: maxPIDs}
	if c.CPUEnforcementPolicy != "ignore" {
		r.CPUs = first((*float64)(c.OverrideCPUs), env.CPUs)
	}
	if c.MemoryEnforcementPolicy != "ignore" {
		r.MemoryMiB = first(c.OverrideMemoryMiB, env.MemoryMiB)
	}
	r.DiskMiB = first(c.OverrideStorageMiB, env.StorageMiB)
	return r
}

func first[T any](values ...*T) (zero T) {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return zero
}

func (x *run) create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	begun := time.Now()
	s, err := x.r.opt.Provider.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	x.cutter.add(ctx, s)
	x.log.Info("sandbox created", "sandbox", s.ID(), "name", spec.Name, "dur_ms", time.Since(begun).Milliseconds())
	return s, nil
}

// mounts are the job's own and, when asked for, the log directories.
func (x *run) mounts() ([]providers.Mount, error) {
	var out []providers.Mount
	if x.kwargs.autoMounting {
		for _, m := range [][2]string{{"agent", agentDir}, {"verifier", verifierDir}, {"artifacts/logs/artifacts", artifactsDir}} {
			dir := x.t.Sink.Path(m[0])
			if err := os.Chmod(dir, 0o777); err != nil {
				return nil, err
			}
			out = append(out, providers.Mount{Source: dir, Target: m[1]})
		}
	}
	if x.r.opt.Provider.Info().Can.Mounts {
		out = append(out, x.bundle...)
	}
	if x.t.Config.Environment.Mounts == nil {
		return out, nil
	}
	for _, m := range *x.t.Config.Environment.Mounts {
		if m.Type != "bind" {
			return nil, providers.Errorf(providers.KindUnsupported, "mount", "mount of %s: type %q is not supported, only bind is", m.Target, m.Type)
		}
		src, err := filepath.Abs(m.Source)
		if err != nil {
			return nil, err
		}
		out = append(out, providers.Mount{Source: src, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return out, nil
}

// makeLogDirs makes the directories that everybody may write to.
func (x *run) makeLogDirs(ctx context.Context) error {
	if x.kwargs.autoMounting {
		return nil // they are mounted
	}
	return openDirs(ctx, x.sandbox, agentDir, verifierDir, artifactsDir)
}

// uploadEnvironment brings the files of a task with a ready image: they stand
// where a Dockerfile would have copied them, in the working directory.
func (x *run) uploadEnvironment(ctx context.Context) error {
	if _, built := x.t.Task.Dockerfile(); built {
		return nil
	}
	dir := x.t.Task.EnvironmentDir()
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil // an image is enough
	}
	if err != nil {
		return err
	}
	dest := x.t.Task.Config.Environment.Workdir
	if dest == "" {
		if dest, err = x.workdir(ctx); err != nil {
			return err
		}
	}
	return during(trials.CauseUpload, upload(ctx, x.sandbox, dir, dest))
}

func (x *run) workdir(ctx context.Context) (string, error) {
	var out strings.Builder
	status, err := x.sandbox.Exec(ctx, providers.Command{Args: []string{"pwd"}, Stdout: &out})
	if err == nil && !status.OK() {
		err = fmt.Errorf("find the working directory: pwd ended with %s", status)
	}
	return strings.TrimRight(out.String(), "\n"), err
}

// healthcheck waits until the environment is ready, as the task defines it.
func (x *run) healthcheck(ctx context.Context) error {
	h := x.t.Task.Config.Environment.Healthcheck
	if h == nil {
		return nil
	}
	begun, failures := time.Now(), 0
	for {
		ok, why, err := x.healthy(ctx, h)
		if ok || err != nil {
			return err
		}
		pause := h.IntervalSec
		if time.Since(begun).Seconds() < h.StartPeriodSec {
			pause = h.StartIntervalSec
		} else if failures++; failures >= h.Retries {
			return trials.NewFailure(trials.PhaseEnvironmentSetup, trials.CauseHealthcheck, "",
				fmt.Sprintf("Healthcheck failed after %d consecutive retries: %s (%s)", h.Retries, h.Command, why))
		}
		select {
		case <-time.After(time.Duration(pause * float64(time.Second))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// healthy runs the check once; why is what it said when it failed.
func (x *run) healthy(ctx context.Context, h *tasks.Healthcheck) (ok bool, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.TimeoutSec*float64(time.Second)))
	defer cancel()
	var out tail
	status, err := x.sandbox.Exec(ctx, providers.Command{Args: shell(h.Command), SecretEnv: x.env.secret, Stdout: &out, Stderr: &out})
	switch {
	case ctx.Err() != nil: // too slow is unhealthy; the caller looks at its own context
		return false, fmt.Sprintf("no answer within %g s", h.TimeoutSec), nil
	case out.String() != "":
		return err == nil && status.OK(), fmt.Sprintf("%s: %s", status, out), err
	default:
		return err == nil && status.OK(), status.String(), err
	}
}

// shell runs a command line of a task with bash, or sh where there is no bash.
func shell(line string) []string {
	return []string{"sh", "-c", `if command -v bash >/dev/null 2>&1; then exec bash -c "$0"; fi; exec sh -c "$0"`, line}
}

// root runs a command line of ours as root.
func (x *run) root(ctx context.Context, s providers.Sandbox, what, line string) error {
	var out tail
	status, err := s.Exec(ctx, providers.Command{Args: []string{"sh", "-c", line}, User: "root", Dir: "/", Stdout: &out, Stderr: &out})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case !status.OK():
		return fmt.Errorf("%s: sh ended with %s: %s", what, status, out)
	}
	return nil
}

// tail keeps the last of what is written, for error messages.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const keep = 500
	*t = append(*t, b...)
	if len(*t) > keep {
		*t = append((*t)[:0], (*t)[len(*t)-keep:]...)
	}
	return len(b), nil
}

func (t tail) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t), "\uFFFD"))
}
