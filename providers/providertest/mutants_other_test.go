package providertest_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"harborgate/providers"
)

// brokenBuilder, brokenStopper: optional interfaces that are found before those
// of the provider that they wrap.
type brokenBuilder struct {
	providers.Provider
	providers.ImageBuilder
	build  func(ctx context.Context, b providers.Build) (providers.Image, error)
	remove func(ctx context.Context, id string) error
	pull   func(ctx context.Context, ref string) (providers.Image, error)
}

func (b *brokenBuilder) Unwrap() providers.Provider { return b.Provider }

func (b *brokenBuilder) BuildImage(ctx context.Context, build providers.Build) (providers.Image, error) {
	if b.build != nil {
		return b.build(ctx, build)
	}
	return b.ImageBuilder.BuildImage(ctx, build)
}

func (b *brokenBuilder) RemoveImage(ctx context.Context, id string) error {
	if b.remove != nil {
		return b.remove(ctx, id)
	}
	return b.ImageBuilder.RemoveImage(ctx, id)
}

func (b *brokenBuilder) PullImage(ctx context.Context, ref string, progress io.Writer) (providers.Image, error) {
	if b.pull != nil {
		return b.pull(ctx, ref)
	}
	return b.ImageBuilder.PullImage(ctx, ref, progress)
}

// builder is a mutant of ImageBuilder.
func builder(change func(b *brokenBuilder), also ...string) mutant {
	return mutant{func() breaks {
		return breaks{optional: func(p providers.Provider) providers.Provider {
			inner, _ := providers.As[providers.ImageBuilder](p)
			b := &brokenBuilder{Provider: p, ImageBuilder: inner}
			change(b)
			return b
		}}
	}, also}
}

// brokenStopper does not stop.
type brokenStopper struct {
	providers.Provider
	providers.Stopper
}

func (s *brokenStopper) Unwrap() providers.Provider { return s.Provider }

func (s *brokenStopper) Stop(ctx context.Context, _ providers.ID) error { return ctx.Err() }

func otherMutants() map[string]mutant {
	return map[string]mutant{
		"limit/memory-kills-the-command": status(func(s *providers.ExitStatus) {
			if s.Code == 137 {
				s.OOMKilled = false
			}
		}),
		"limit/memory-death-of-a-child": status(func(s *providers.ExitStatus) { s.OOMKilled = s.OOMKilled && !s.OK() }),
		"limit/processes":               created(func(s *providers.Spec) { s.Resources.PIDs = 0 }),
		"limit/zombies-are-reaped": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if strings.Contains(script(cmd), "sleep 0.01 &") {
				ok(ctx, sb, "for i in 1 2 3 4 5 6 7 8 9; do sleep 100000 & done")
			}
			return s, err
		}),

		"provider/info-is-static": {func() breaks {
			n := 0
			return breaks{info: func(i providers.Info) providers.Info {
				n++
				i.Name += strconv.Itoa(n)
				return i
			}}
		}, nil},
		"provider/capabilities-agree": {func() breaks {
			return breaks{info: func(i providers.Info) providers.Info {
				i.Can.Stops = false
				return i
			}}
		}, nil},
		"provider/check": {func() breaks {
			return breaks{check: func(context.Context, providers.Provider) error { return errors.New("out of order") }}
		}, nil},
	}
}

func optionalMutants() map[string]mutant {
	return map[string]mutant{
		"snapshot/restores": created(func(s *providers.Spec) {
			if s.Source.Snapshot != "" && !strings.Contains(s.Source.Snapshot, "no-such") {
				s.Source = providers.Source{Image: "fake:debian"}
			}
		}, "snapshot/behaves-as-its-image"),
		"snapshot/behaves-as-its-image": created(func(s *providers.Spec) {
			if s.Source.Snapshot != "" {
				s.Env = map[string]string{"OF_SPEC": "left"}
			}
		}),
		"snapshot/unknown": failing(func(s providers.Spec, err error) error {
			if s.Source.Snapshot != "" {
				return providers.E(providers.KindInternal, "create", errors.New("restore failed"))
			}
			return err
		}),
		"stop/keeps-the-disk": {func() breaks {
			return breaks{optional: func(p providers.Provider) providers.Provider {
				inner, _ := providers.As[providers.Stopper](p)
				return &brokenStopper{p, inner}
			}}
		}, nil},
		"build/runs": builder(func(b *brokenBuilder) {
			b.remove = func(ctx context.Context, id string) error {
				if _, err := b.InspectImage(ctx, id); err != nil {
					return err
				}
				return b.ImageBuilder.RemoveImage(ctx, id)
			}
		}),
		"build/failure-shows-its-log": builder(func(b *brokenBuilder) {
			b.build = func(ctx context.Context, build providers.Build) (providers.Image, error) {
				img, err := b.ImageBuilder.BuildImage(ctx, build)
				if err != nil {
					err = providers.E(providers.KindOf(err), "build", errors.New("exit code 9"))
				}
				return img, err
			}
		}),
		"build/unknown-image": builder(func(b *brokenBuilder) {
			b.pull = func(context.Context, string) (providers.Image, error) {
				return providers.Image{}, providers.E(providers.KindInternal, "pull", errors.New("the registry said no"))
			}
		}),
	}
}
