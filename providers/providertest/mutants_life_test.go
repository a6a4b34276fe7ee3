package providertest_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"harborgate/providers"
)

// exposes changes what handlers get.
func exposes(change func(sb *brokenBox, handle func(net.Conn)) func(net.Conn), also ...string) mutant {
	return mutant{func() breaks {
		return breaks{expose: func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error) {
			return sb.Sandbox.Expose(ctx, change(sb, handle))
		}}
	}, also}
}

// conns changes connections before handlers get them.
func conns(change func(sb *brokenBox, c net.Conn) net.Conn, also ...string) mutant {
	return exposes(func(sb *brokenBox, handle func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { handle(change(sb, c)) }
	}, also...)
}

// plain is a connection that cannot end one direction.
type plain struct{ net.Conn }

// short ends after so many bytes.
type short struct {
	net.Conn
	left int
}

func (s *short) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	return n, err
}

func (s *short) CloseWrite() error {
	if half, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// timeless ignores deadlines.
type timeless struct{ net.Conn }

func (timeless) SetReadDeadline(time.Time) error { return nil }

// undead does not notice that its sandbox is gone.
type undead struct {
	net.Conn
	sb *brokenBox
}

func (u undead) Read(b []byte) (int, error) {
	n, err := u.Conn.Read(b)
	if err != nil && u.sb.destroyed.Load() {
		<-time.After(patience)
	}
	return n, err
}

func exposeMutants() map[string]mutant {
	return map[string]mutant{
		"expose/request-and-answer": {func() breaks {
			var n atomic.Int32
			return exposes(func(_ *brokenBox, handle func(net.Conn)) func(net.Conn) {
				return func(c net.Conn) {
					if n.Add(1) == 3 {
						_ = c.Close()
						return
					}
					handle(c)
				}
			}).make()
		}, []string{"expose/many-at-once", "expose/two-ports"}},
		"expose/without-network": {func() breaks {
			return breaks{expose: func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error) {
				if sb.spec.Network.Mode == providers.NetworkNone {
					return "", nil, providers.Errorf(providers.KindUnsupported, "expose", "no network")
				}
				return sb.Sandbox.Expose(ctx, handle)
			}}
		}, nil},
		"expose/many-at-once": {func() breaks {
			turn := make(chan struct{}, 8)
			return exposes(func(_ *brokenBox, handle func(net.Conn)) func(net.Conn) {
				return func(c net.Conn) {
					select {
					case turn <- struct{}{}:
						handle(c)
					default:
						_ = c.Close()
					}
				}
			}).make()
		}, nil},
		"expose/large-bodies": conns(func(_ *brokenBox, c net.Conn) net.Conn {
			return &short{c, 100_000}
		}),
		"expose/half-close": conns(func(_ *brokenBox, c net.Conn) net.Conn { return plain{c} }),
	}
}

func closingMutants() map[string]mutant {
	return map[string]mutant{
		"expose/two-ports": {func() breaks {
			return breaks{expose: func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error) {
				url, closer, err := sb.Sandbox.Expose(ctx, handle)
				sb.closers = append(sb.closers, closer)
				return url, func() error {
					for _, c := range sb.closers {
						_ = c()
					}
					return nil
				}, err
			}}
		}, nil},
		"expose/close-ends-all": {func() breaks {
			return breaks{expose: func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error) {
				url, _, err := sb.Sandbox.Expose(ctx, handle)
				return url, func() error { return nil }, err
			}}
		}, nil},
		"expose/destroy-ends-all": {func() breaks {
			b := conns(func(sb *brokenBox, c net.Conn) net.Conn { return undead{c, sb} }, "").make()
			b.remove = func(ctx context.Context, sb *brokenBox) error {
				sb.destroyed.Store(true)
				return sb.Sandbox.Destroy(ctx)
			}
			return b
		}, []string{"expose/half-close"}},
		"expose/deadlines": conns(func(_ *brokenBox, c net.Conn) net.Conn { return timeless{c} }, "expose/half-close"),
	}
}

func networkMutants() map[string]mutant {
	return map[string]mutant{
		"network/none-reaches-nothing": created(func(s *providers.Spec) {
			s.Network = providers.Network{Mode: providers.NetworkAllowList, Hosts: []string{"198.51.100.7"}}
		}),
		"network/none-resolves-nothing": created(func(s *providers.Spec) {
			s.Network = providers.Network{Mode: providers.NetworkAllowList, Hosts: []string{"example.com"}}
		}),
	}
}

// failing changes the errors of Create.
func failing(change func(s providers.Spec, err error) error, also ...string) mutant {
	return mutant{func() breaks {
		return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
			sb, err := p.Create(ctx, s)
			if err != nil {
				return nil, change(s, err)
			}
			return sb, nil
		}}
	}, also}
}

func lifeMutants() map[string]mutant {
	return map[string]mutant{
		"create/usable-at-once": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			if !sb.used && strings.Contains(script(cmd), "usable") {
				sb.used = true
				return providers.ExitStatus{}, providers.Errorf(providers.KindUnavailable, "exec", "not yet")
			}
			return sb.Sandbox.Exec(ctx, cmd)
		}, "create/late-entrypoint"),
		"create/late-entrypoint": created(func(s *providers.Spec) {
			s.Source.Image = strings.Replace(s.Source.Image, "late", "debian", 1)
		}),
		"create/failing-entrypoint": failing(func(_ providers.Spec, err error) error {
			var e *providers.Error
			if errors.As(err, &e) && e.Death != nil {
				return providers.Errorf(e.Kind, e.Op, "it died")
			}
			return err
		}),
		"create/unknown-source": failing(func(s providers.Spec, err error) error {
			if providers.Is(err, providers.KindNotFound) {
				return providers.E(providers.KindInternal, "create", errors.New("pull failed"))
			}
			return err
		}),
		"create/invalid-specs": created(func(s *providers.Spec) { s.NoHelper = false }),
		"create/name-taken": {func() breaks {
			return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
				sb, err := p.Create(ctx, s)
				if providers.Is(err, providers.KindAlreadyExists) {
					s.Name = providers.Name(s.Name, "again")
					return p.Create(ctx, s)
				}
				return sb, err
			}}
		}, nil},
		"create/cancelled": {func() breaks {
			return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
				sb, err := p.Create(context.WithoutCancel(ctx), s)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return sb, err
			}}
		}, nil},
		"create/isolated": {func() breaks {
			var first providers.Sandbox
			var name string
			return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
				if first != nil && name != s.Name && s.Validate(p.Info().Can) == nil && s.Source.Image == "fake:debian" {
					return first, ctx.Err()
				}
				sb, err := p.Create(ctx, s)
				if err == nil {
					first, name = sb, s.Name
				}
				return sb, err
			}}
		}, nil},
	}
}

func listMutants() map[string]mutant {
	return map[string]mutant{
		"list/labels": {func() breaks {
			return breaks{list: func(ctx context.Context, p providers.Provider, sel providers.Selector) ([]providers.Resource, error) {
				list, err := p.List(ctx, sel)
				for _, r := range list {
					delete(r.Labels, providers.LabelExpires)
				}
				return list, err
			}}
		}, nil},
		"list/selects": {func() breaks {
			return breaks{list: func(ctx context.Context, p providers.Provider, sel providers.Selector) ([]providers.Resource, error) {
				loose := providers.Selector{NamePrefix: sel.NamePrefix, Labels: map[string]string{}}
				for k := range sel.Labels {
					loose.Labels[k] = ""
				}
				return p.List(ctx, loose)
			}}
		}, nil},
		"list/of-another-instance": {func() breaks { return ownOnly().list() }, nil},
	}
}

func destroyMutants() map[string]mutant {
	return map[string]mutant{
		"destroy/removes": {func() breaks {
			return breaks{
				exec: func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
					sb.used = true
					return sb.Sandbox.Exec(ctx, cmd)
				},
				remove: func(ctx context.Context, sb *brokenBox) error {
					if sb.removals++; sb.removals == 1 && !sb.used {
						return nil
					}
					return sb.Sandbox.Destroy(ctx)
				},
			}
		}, []string{"destroy/name-is-free-again", "destroy/then-nothing-works"}},
		"destroy/twice": {func() breaks {
			return breaks{remove: func(ctx context.Context, sb *brokenBox) error {
				if sb.removals++; sb.removals == 2 {
					return providers.Errorf(providers.KindNotFound, "destroy", "it is gone")
				}
				return sb.Sandbox.Destroy(ctx)
			}}
		}, []string{"destroy/removes", "destroy/then-nothing-works", "destroy/while-a-command-runs"}},
		"destroy/unknown-id": {func() breaks {
			return breaks{destroy: func(ctx context.Context, p providers.Provider, id providers.ID) error {
				if !strings.HasPrefix(string(id), "fake-") {
					return providers.Errorf(providers.KindNotFound, "destroy", "no such sandbox")
				}
				return p.Destroy(ctx, id)
			}}
		}, nil},
		"destroy/from-another-instance": {func() breaks { return ownOnly().destroy() }, nil},
		"destroy/while-a-command-runs": execs(func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error) {
			s, err := sb.Sandbox.Exec(ctx, cmd)
			if providers.Is(err, providers.KindNotFound) && strings.Contains(script(cmd), "sleep 1000") {
				return providers.ExitStatus{Code: 137, Signal: 9}, nil
			}
			return s, err
		}),
		"destroy/then-nothing-works": {func() breaks {
			return breaks{expose: func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error) {
				url, closer, err := sb.Sandbox.Expose(ctx, handle)
				if providers.Is(err, providers.KindNotFound) {
					return "http://127.0.0.1:1", func() error { return nil }, nil
				}
				return url, closer, err
			}}
		}, nil},
		"destroy/name-is-free-again": {func() breaks {
			used := map[string]bool{}
			return breaks{create: func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
				if used[s.Name] {
					return nil, providers.Errorf(providers.KindAlreadyExists, "create", "the name was used before")
				}
				used[s.Name] = true
				return p.Create(ctx, s)
			}}
		}, nil},
	}
}

// owned are the ids that each instance has made.
type owned struct {
	mu  sync.Mutex // guards ids
	ids map[providers.Provider]map[providers.ID]bool
}

func ownOnly() *owned { return &owned{ids: map[providers.Provider]map[providers.ID]bool{}} }

func (o *owned) create(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
	sb, err := p.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[p] == nil {
		o.ids[p] = map[providers.ID]bool{}
	}
	o.ids[p][sb.ID()] = true
	return sb, nil
}

func (o *owned) has(p providers.Provider, id providers.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[p][id]
}

// list sees only what the instance itself has made.
func (o *owned) list() breaks {
	return breaks{create: o.create, list: func(ctx context.Context, p providers.Provider, sel providers.Selector) ([]providers.Resource, error) {
		list, err := p.List(ctx, sel)
		var mine []providers.Resource
		for _, r := range list {
			if o.has(p, r.ID) {
				mine = append(mine, r)
			}
		}
		return mine, err
	}}
}

// destroy needs the instance that made the sandbox.
func (o *owned) destroy() breaks {
	return breaks{create: o.create, destroy: func(ctx context.Context, p providers.Provider, id providers.ID) error {
		if !o.has(p, id) {
			return nil
		}
		return p.Destroy(ctx, id)
	}}
}
