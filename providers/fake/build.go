package fake

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"strings"

	"harborgate/providers"
	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/vfs"
)

// BuildImage implements providers.ImageBuilder for simple Dockerfiles: FROM, COPY
// and ADD of local files, WORKDIR, ENV, ARG, USER, ENTRYPOINT, and RUN in the
// fake shell. LABEL, EXPOSE, CMD, VOLUME and their like change nothing here.
func (p *Provider) BuildImage(ctx context.Context, b providers.Build) (providers.Image, error) {
	var out providers.Image
	err := p.world.perform(ctx, OpBuild, b.Tag, func(ctx context.Context) (*box, error) {
		img, err := p.world.build(ctx, b)
		if err == nil {
			out = img.public()
		}
		return nil, err
	})
	return out, err
}

// InspectImage implements providers.ImageBuilder.
func (p *Provider) InspectImage(ctx context.Context, ref string) (providers.Image, error) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	img, ok := p.world.images[ref]
	if !ok || img.Missing {
		return providers.Image{}, providers.Errorf(providers.KindNotFound, "inspect", "image %q is not present", ref)
	}
	return img.public(), ctx.Err()
}

// RemoveImage implements providers.ImageBuilder.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.boxes {
		if b.image != nil && b.image.id == id {
			return providers.Errorf(providers.KindDenied, "remove image", "image %s is used by %s", id, b.id)
		}
	}
	delete(w.images, id)
	return ctx.Err()
}

// build makes an image, or finds the one made from the same content before.
func (w *World) build(ctx context.Context, b providers.Build) (*image, error) {
	fail := func(err error) (*image, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, providers.E(providers.KindInvalid, "build", fmt.Errorf("%s: %w", b.ContextDir, err))
	}
	dir, err := os.OpenRoot(b.ContextDir)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = dir.Close() }()
	name := b.Dockerfile
	if name == "" {
		name = "Dockerfile"
	}
	source, err := fs.ReadFile(dir.FS(), name)
	if err != nil {
		return fail(err)
	}
	id, err := contentID(dir.FS(), name)
	if err != nil {
		return fail(err)
	}
	w.mu.Lock()
	done, ok := w.images[id]
	w.mu.Unlock()
	if ok && !b.NoCache {
		return done, nil
	}
	steps, err := parseDockerfile(string(source))
	if err != nil {
		return fail(err)
	}
	build := &building{world: w, context: dir.FS(), ctx: ctx, log: &bytes.Buffer{}, progress: b.Progress}
	for _, s := range steps {
		if err := build.step(s); err != nil {
			return fail(fmt.Errorf("line %d: %s: %w\n%s", s.line, s.op, err, lastBytes(build.log.Bytes())))
		}
	}
	if build.image == nil {
		return fail(errors.New("the Dockerfile has no FROM"))
	}
	build.image.id, build.image.labels = id, b.Labels
	w.mu.Lock()
	w.images[id] = build.image
	w.mu.Unlock()
	return build.image, nil
}

func lastBytes(b []byte) string { return string(b[max(0, len(b)-tailBytes):]) }

// contentID depends on every byte of the context and on the Dockerfile's name.
func contentID(dir fs.FS, dockerfile string) (string, error) {
	h := sha256.New()
	_, _ = io.WriteString(h, dockerfile)
	err := fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(dir, name)
		_, _ = fmt.Fprintf(h, "\x00%s\x00%d\x00", name, len(content))
		_, _ = h.Write(content)
		return err
	})
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), err
}

// instruction is one line of a Dockerfile.
type instruction struct {
	line int
	op   string
	args string
}

// parseDockerfile splits a Dockerfile into instructions and joins continued
// lines.
func parseDockerfile(src string) ([]instruction, error) {
	var out []instruction
	lines := strings.Split(src, "\n")
	for i := 0; i < len(lines); i++ {
		start := i
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for strings.HasSuffix(line, "\\") && i+1 < len(lines) {
			i++
			if next := strings.TrimSpace(lines[i]); !strings.HasPrefix(next, "#") {
				line = strings.TrimSuffix(line, "\\") + next
			} else {
				line = strings.TrimSuffix(line, "\\") + "\\"
			}
		}
		op, args, _ := strings.Cut(line, " ")
		if op = strings.ToUpper(op); !knownInstruction(op) {
			return nil, fmt.Errorf("line %d: unknown instruction %q", start+1, op)
		}
		out = append(out, instruction{start + 1, op, strings.TrimSpace(args)})
	}
	return out, nil
}

func knownInstruction(op string) bool {
	_, ok := instructions()[op]
	return ok
}

// instructions is what each instruction does.
func instructions() map[string]func(*building, string) error {
	nothing := func(*building, string) error { return nil }
	return map[string]func(*building, string) error{
		"FROM": (*building).from, "RUN": (*building).run, "COPY": (*building).copy, "ADD": (*building).copy,
		"WORKDIR": (*building).workdir, "ENV": (*building).env, "USER": (*building).user, "ENTRYPOINT": (*building).entrypoint,
		"ARG": nothing, "LABEL": nothing, "EXPOSE": nothing, "CMD": nothing, "VOLUME": nothing, "SHELL": nothing,
		"HEALTHCHECK": nothing, "STOPSIGNAL": nothing, "MAINTAINER": nothing, "ONBUILD": nothing,
	}
}

// building is a build under way.
type building struct {
	world    *World
	context  fs.FS
	ctx      context.Context //nolint:containedctx // lives as long as one call
	image    *image
	log      *bytes.Buffer
	progress io.Writer
}

func (b *building) step(s instruction) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.progress != nil {
		_, _ = fmt.Fprintf(b.progress, "%s %s\n", s.op, s.args)
	}
	if b.image == nil && s.op != "FROM" && s.op != "ARG" {
		return errors.New("it stands before FROM")
	}
	return instructions()[s.op](b, s.args)
}

func (b *building) from(args string) error {
	ref, _, _ := strings.Cut(args, " ")
	found, err := b.world.image(ref)
	if err != nil {
		return err
	}
	made := *found
	made.fs, made.Env = found.fs.Clone(), maps.Clone(found.Env)
	b.image = &made
	return nil
}

func (b *building) workdir(args string) error {
	if !path.IsAbs(args) {
		args = path.Join("/", b.image.Workdir, args)
	}
	b.image.Workdir = args
	return b.image.fs.MkdirAll(args, 0o755)
}

func (b *building) user(args string) error {
	b.image.User = args
	return nil
}

func (b *building) env(args string) error {
	if b.image.Env == nil {
		b.image.Env = map[string]string{}
	}
	if name, value, ok := strings.Cut(args, " "); ok && !strings.Contains(name, "=") {
		b.image.Env[name] = strings.TrimSpace(value) // the old form, one variable
		return nil
	}
	for _, field := range splitQuoted(args) {
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VALUE", field)
		}
		b.image.Env[name] = value
	}
	return nil
}

// splitQuoted splits at blanks outside double or single quotes and removes the
// quotes.
func splitQuoted(s string) []string {
	var out []string
	var field strings.Builder
	quote, started := rune(0), false
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, started = r, true
		case quote == 0 && r == ' ':
			if started {
				out = append(out, field.String())
			}
			field.Reset()
			started = false
		default:
			field.WriteRune(r)
			started = true
		}
	}
	if started {
		out = append(out, field.String())
	}
	return out
}

func (b *building) entrypoint(args string) error {
	var list []string
	if err := json.Unmarshal([]byte(args), &list); err != nil {
		list = []string{"/bin/sh", "-c", args}
	}
	b.image.Entrypoint = list
	return nil
}

// run runs a command in the tree so far.
func (b *building) run(args string) error {
	var list []string
	if err := json.Unmarshal([]byte(args), &list); err != nil {
		list = []string{"/bin/sh", "-c", args}
	}
	tree := b.image.fs.Clone()
	m, err := kernel.New(kernel.Options{FS: tree, Programs: b.world.programs, Outside: b.world.outside(providers.Network{})})
	if err != nil {
		return err
	}
	defer m.PowerOff()
	temporary := &box{image: b.image, fs: tree, machine: m, world: b.world}
	temporary.spec.Workdir, temporary.spec.User = b.image.Workdir, b.image.User
	if temporary.spec.Workdir == "" {
		temporary.spec.Workdir = "/"
	}
	if temporary.spec.User == "" {
		temporary.spec.User = "root"
	}
	status, err := temporary.exec(b.ctx, m, providers.Command{Args: list, Stdout: b.log, Stderr: b.log, KillLeftovers: true})
	if err != nil {
		return err
	}
	if !status.OK() {
		return fmt.Errorf("%q failed with %s", args, status)
	}
	b.image.fs = tree.Clone()
	return nil
}

// copy copies files of the context: sources, then a destination.
func (b *building) copy(args string) error {
	var words []string
	if json.Unmarshal([]byte(args), &words) != nil {
		words = splitQuoted(args)
	}
	for len(words) > 0 && strings.HasPrefix(words[0], "--") {
		if strings.HasPrefix(words[0], "--from") {
			return errors.New("copying from another stage is not supported by the fake provider")
		}
		words = words[1:]
	}
	if len(words) < 2 {
		return errors.New("want sources and a destination")
	}
	dest := words[len(words)-1]
	intoDir := strings.HasSuffix(dest, "/") || len(words) > 2 || dest == "."
	if !path.IsAbs(dest) {
		dest = path.Join("/", b.image.Workdir, dest)
	}
	for _, source := range words[:len(words)-1] {
		if err := b.copyOne(path.Clean(strings.TrimPrefix(source, "/")), dest, intoDir); err != nil {
			return err
		}
	}
	return nil
}

func (b *building) copyOne(pattern, dest string, intoDir bool) error {
	names, err := fs.Glob(b.context, pattern)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("%q is not in the build context", pattern)
	}
	for _, source := range names {
		info, err := fs.Stat(b.context, source)
		if err != nil {
			return err
		}
		to := dest
		if at, err := b.image.fs.Stat(vfs.Root(), dest, true); !info.IsDir() && (intoDir || len(names) > 1 || err == nil && at.IsDir()) {
			to = path.Join(dest, path.Base(source))
		}
		if err := b.copyTree(source, to); err != nil {
			return err
		}
	}
	return nil
}

func (b *building) copyTree(source, dest string) error {
	return fs.WalkDir(b.context, source, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := path.Join(dest, strings.TrimPrefix(strings.TrimPrefix(name, source), "/"))
		if source == "." && name != "." {
			to = path.Join(dest, name)
		}
		if d.IsDir() {
			return b.image.fs.MkdirAll(to, 0o755)
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		content, err := fs.ReadFile(b.context, name)
		if err != nil {
			return err
		}
		return b.image.fs.WriteFile(to, content, info.Mode().Perm())
	})
}
