package providertest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"harborgate/providers"
)

// rewrite copies a tar stream and changes its headers; those for which change
// returns false are left out. What cannot be read is passed on as it is.
func rewrite(in io.Reader, change func(h *tar.Header) bool) io.Reader {
	all, err := io.ReadAll(in)
	if err != nil {
		return bytes.NewReader(all)
	}
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(all)), tar.NewWriter(&out)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_ = w.Close()
			return &out
		}
		if err != nil {
			return bytes.NewReader(all)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			return bytes.NewReader(all)
		}
		if !change(h) {
			continue
		}
		h.Format = tar.FormatUnknown
		body = append(body, make([]byte, max(0, int(h.Size)-len(body)))...)[:h.Size]
		if err := w.WriteHeader(h); err != nil {
			return bytes.NewReader(all)
		}
		_, _ = w.Write(body)
	}
}

// uploads changes the entries of uploads.
func uploads(change func(h *tar.Header) bool, also ...string) mutant {
	return mutant{func() breaks {
		return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
			return sb.Sandbox.Upload(ctx, rewrite(in, change), dest)
		}}
	}, also}
}

// dest changes where uploads go; script prepares the place.
func dest(change func(ctx context.Context, sb *brokenBox, dest string) (string, error), also ...string) mutant {
	return mutant{func() breaks {
		return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
			dest, err := change(ctx, sb, dest)
			if err != nil {
				return err
			}
			return sb.Sandbox.Upload(ctx, in, dest)
		}}
	}, also}
}

// ok reports whether a script succeeds in the sandbox.
func ok(ctx context.Context, sb *brokenBox, script string) bool {
	s, err := sb.Sandbox.Exec(ctx, providers.Command{Args: []string{"/bin/sh", "-c", script}})
	return err == nil && s.OK()
}

// silently leaves out entries that should have been refused.
func silently(which func(h *tar.Header) bool, also ...string) mutant {
	return uploads(func(h *tar.Header) bool { return !which(h) }, also...)
}

func uploadMutants() map[string]mutant {
	count := func(limit int) func() breaks {
		return func() breaks {
			n := 0
			return uploads(func(*tar.Header) bool { n++; return n <= limit }).make()
		}
	}
	return map[string]mutant{
		"upload/modes-and-empty": uploads(func(h *tar.Header) bool {
			if h.Mode == 0 {
				h.Mode = 0o644
			}
			return true
		}),
		"upload/links-stay-links": uploads(func(h *tar.Header) bool {
			if h.Linkname == "nowhere/at/all" {
				h.Typeflag, h.Linkname = tar.TypeReg, ""
			}
			return true
		}),
		"upload/odd-names": uploads(func(h *tar.Header) bool { h.Name = strings.TrimSpace(h.Name); return true }),
		"upload/deep-tree": uploads(func(h *tar.Header) bool { return strings.Count(h.Name, "/") < 20 }),
		"upload/big-file": uploads(func(h *tar.Header) bool {
			if h.Size > 1<<20 {
				h.Size = 1 << 20
			}
			return true
		}),
		"upload/many-files": {count(200), nil},
		"upload/owned-by-root": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				err := sb.Sandbox.Upload(ctx, in, dest)
				ok(ctx, sb, "chown 4711:4711 "+dest+"/foreign")
				return err
			}}
		}, nil},
	}
}

func destinationMutants() map[string]mutant {
	return map[string]mutant{
		"upload/into-missing": dest(func(ctx context.Context, sb *brokenBox, dest string) (string, error) {
			if dest == "/a/b/c" && !ok(ctx, sb, "[ -d "+dest+" ]") {
				return "", providers.Errorf(providers.KindInvalid, "upload", "no such directory")
			}
			return dest, nil
		}),
		"upload/into-existing": dest(func(ctx context.Context, sb *brokenBox, dest string) (string, error) {
			if ok(ctx, sb, "[ -d "+dest+" ] && ! [ -L "+dest+" ]") {
				return path.Join(dest, path.Base(dest)), nil
			}
			return dest, nil
		}, "upload/replaces", "upload/refuses-links-that-were-there"),
		"upload/into-linked": dest(func(ctx context.Context, sb *brokenBox, dest string) (string, error) {
			ok(ctx, sb, "[ -L "+dest+" ] && rm "+dest)
			return dest, nil
		}),
		"upload/into-a-file": dest(func(ctx context.Context, sb *brokenBox, dest string) (string, error) {
			ok(ctx, sb, "[ -f "+dest+" ] && rm "+dest)
			return dest, nil
		}),
		"upload/replaces": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				return sb.Sandbox.Upload(ctx, rewrite(in, func(h *tar.Header) bool {
					return h.Name != "f" && h.Name != "l" || !ok(ctx, sb, "[ -e "+dest+"/"+h.Name+" ]")
				}), dest)
			}}
		}, nil},
		"upload/plain-variants": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				var err error
				in = rewrite(in, func(h *tar.Header) bool {
					if strings.HasPrefix(h.Name, "./") {
						err = providers.Errorf(providers.KindInvalid, "upload", "odd name %q", h.Name)
					}
					return true
				})
				return errors.Join(err, sb.Sandbox.Upload(ctx, in, dest))
			}}
		}, nil},
		"upload/cut-off": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				err := sb.Sandbox.Upload(ctx, in, dest)
				if errors.Is(err, io.ErrUnexpectedEOF) {
					return nil
				}
				return err
			}}
		}, nil},
	}
}

func hostileMutants() map[string]mutant {
	return map[string]mutant{
		"upload/refuses-absolute-names": silently(func(h *tar.Header) bool { return path.IsAbs(h.Name) }),
		"upload/refuses-dot-dot": silently(func(h *tar.Header) bool {
			return strings.Contains(h.Name, "..")
		}),
		"upload/refuses-writing-through-links": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				linked := false
				return sb.Sandbox.Upload(ctx, rewrite(in, func(h *tar.Header) bool {
					linked = linked || h.Name == "way"
					return !linked || h.Name != "way/evil"
				}), dest)
			}}
		}, nil},
		"upload/refuses-links-that-were-there": {func() breaks {
			return breaks{upload: func(ctx context.Context, sb *brokenBox, in io.Reader, dest string) error {
				if ok(ctx, sb, "[ -L "+dest+"/way ]") {
					dest = "/tmp"
					in = rewrite(in, func(h *tar.Header) bool { h.Name = "evil"; return true })
				}
				return sb.Sandbox.Upload(ctx, in, dest)
			}}
		}, nil},
		"upload/refuses-hard-links-out": silently(func(h *tar.Header) bool {
			return h.Typeflag == tar.TypeLink && strings.HasPrefix(h.Linkname, "..")
		}),
		"upload/refuses-devices": silently(func(h *tar.Header) bool { return h.Typeflag == tar.TypeChar }),
	}
}

// downloads changes the entries of downloads.
func downloads(change func(h *tar.Header) bool, also ...string) mutant {
	return mutant{func() breaks {
		return breaks{download: func(ctx context.Context, sb *brokenBox, path string) (io.ReadCloser, error) {
			stream, err := sb.Sandbox.Download(ctx, path)
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{rewrite(stream, change), stream}, nil
		}}
	}, also}
}

// grudging is a stream that does not like to be closed before its end.
type grudging struct {
	io.ReadCloser
	ended bool
}

func (g *grudging) Read(b []byte) (int, error) {
	n, err := g.ReadCloser.Read(b)
	g.ended = g.ended || errors.Is(err, io.EOF)
	return n, err
}

func (g *grudging) Close() error {
	err := g.ReadCloser.Close()
	if !g.ended {
		return fmt.Errorf("closed before its end")
	}
	return err
}

func downloadMutants() map[string]mutant {
	return map[string]mutant{
		"download/one-file": downloads(func(h *tar.Header) bool {
			if h.Name == "a file" {
				h.Name = "d/a file"
			}
			return true
		}),
		"download/missing": {func() breaks {
			return breaks{download: func(ctx context.Context, sb *brokenBox, path string) (io.ReadCloser, error) {
				stream, err := sb.Sandbox.Download(ctx, path)
				if providers.Is(err, providers.KindNotFound) {
					return io.NopCloser(bytes.NewReader(make([]byte, 1024))), nil
				}
				return stream, err
			}}
		}, nil},
		"download/fifo-and-device": {func() breaks {
			stopped := false
			return downloads(func(h *tar.Header) bool {
				stopped = stopped || h.Typeflag == tar.TypeFifo
				return !stopped
			}).make()
		}, nil},
		"download/never-follows-links": downloads(func(h *tar.Header) bool {
			if h.Typeflag == tar.TypeSymlink {
				h.Typeflag, h.Linkname = tar.TypeReg, ""
			}
			return true
		}),
		"download/closed-early": {func() breaks {
			return breaks{download: func(ctx context.Context, sb *brokenBox, path string) (io.ReadCloser, error) {
				stream, err := sb.Sandbox.Download(ctx, path)
				if err != nil {
					return nil, err
				}
				return &grudging{ReadCloser: stream}, nil
			}}
		}, nil},
		"download/whatever-the-owner": downloads(func(h *tar.Header) bool { return h.Mode != 0 }),
	}
}
