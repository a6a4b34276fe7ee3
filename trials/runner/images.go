package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
)

// Images knows which images a trial needs and gets them through the snapshot
// store. Safe for concurrent use.
type Images struct {
	builder  providers.ImageBuilder
	provider string // type
	host     string // that keeps the store; on the images, so that none is forgotten
	store    *snapshots.Store

	// OnStep is told how far a build is; nil is nobody. Set it before the first use.
	OnStep func(key snapshots.Key, done, of int)

	digests sync.Map // context directory → func() (string, error), computed once
}

// NewImages returns nil images for a provider that has none; Need says so. host is
// the id of the host that keeps the store.
func NewImages(p providers.Provider, store *snapshots.Store, host string) *Images {
	b, _ := providers.As[providers.ImageBuilder](p)
	return &Images{builder: b, provider: p.Info().Type, store: store, host: host}
}

// imageLabel is on images that we build. Containers carry other keys, so that a
// sweep for the one never finds the other.
const imageLabel = "harborgate.image.key"

// ImageHostLabel names the host whose store has the image, or had it.
const ImageHostLabel = "harborgate.image.host"

// BuiltKey is the key under which an image was built here, "" when it was not.
func BuiltKey(img providers.Image) snapshots.Key { return snapshots.Key(img.Labels[imageLabel]) }

// Needed lists the images of a trial: its environment and, when verification is
// separate, the verifier's. try sets failed builds apart.
func (im *Images) Needed(task *tasks.Task, c trials.TrialConfig, try int) ([]snapshots.Request, error) {
	env, err := im.Environment(task, c, try)
	if err != nil {
		return nil, err
	}
	out := []snapshots.Request{env}
	if task.VerifierMode(nil) == tasks.VerifierSeparate && !c.Verifier.Disable && !c.InstallOnly {
		ver, err := im.Verifier(task, c, try)
		if err != nil {
			return nil, err
		}
		if ver.Key != env.Key {
			out = append(out, ver)
		}
	}
	return out, nil
}

// Environment is the image of the agent's sandbox.
func (im *Images) Environment(task *tasks.Task, c trials.TrialConfig, try int) (snapshots.Request, error) {
	_, hasDockerfile := task.Dockerfile()
	ref := task.Config.Environment.Image
	if ref != "" && (!c.Environment.ForceBuild || !hasDockerfile) {
		return im.pull(ref, try)
	}
	return im.build(task, task.Name, task.EnvironmentDir(), c, try)
}

// Verifier is the image of a separate verifier's sandbox.
func (im *Images) Verifier(task *tasks.Task, c trials.TrialConfig, try int) (snapshots.Request, error) {
	src := task.VerifierSource(nil)
	if src.Image != "" {
		return im.pull(src.Image, try)
	}
	return im.build(task, task.Name+" verifier", src.ContextDir, c, try)
}

// Get returns when the image is there. The limit bounds this trial's wait.
func (im *Images) Get(ctx context.Context, r snapshots.Request) (*snapshots.Hold, error) {
	return im.store.Ensure(ctx, r)
}

func (im *Images) pull(ref string, try int) (snapshots.Request, error) {
	if err := im.able(); err != nil {
		return snapshots.Request{}, err
	}
	return snapshots.Request{
		Key: snapshots.KeyOf(im.provider, "pull", ref), Try: try, Title: "image " + ref, Limit: longestBuild,
		// A tag may move: what counts is what the provider has under it now.
		Check: func(ctx context.Context, _ string) (providers.Image, error) { return im.builder.InspectImage(ctx, ref) },
		Build: func(ctx context.Context, log io.Writer) (providers.Image, error) {
			return im.builder.PullImage(ctx, ref, log)
		},
	}, nil
}

// longestBuild ends pulls, and builds of tasks without a limit, that hang for ever.
const longestBuild = 2 * time.Hour

func (im *Images) build(task *tasks.Task, title, dir string, c trials.TrialConfig, try int) (snapshots.Request, error) {
	if err := im.able(); err != nil {
		return snapshots.Request{}, err
	}
	digest, err := im.digest(dir)
	if err != nil {
		return snapshots.Request{}, err
	}
	parts := []string{im.provider, "build", digest}
	if c.Environment.ForceBuild && c.JobID != nil {
		parts = append(parts, "forced by job", *c.JobID)
	}
	key := snapshots.KeyOf(parts...)
	limit := trials.EffectiveTimeouts(task.Config, nil, c).EnvironmentStart
	return snapshots.Request{
		Key: key, Try: try, Title: "task " + title, Limit: buildTime(limit), Check: im.builder.InspectImage,
		Build: func(ctx context.Context, log io.Writer) (providers.Image, error) {
			begun := time.Now()
			img, err := im.builder.BuildImage(ctx, providers.Build{
				ContextDir: dir, Tag: tag(title, key), Labels: map[string]string{imageLabel: string(key), ImageHostLabel: im.host},
				NoCache: c.Environment.ForceBuild, Progress: im.steps(key, log),
			})
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return img, ended(limitOf(trials.PhaseEnvironmentSetup, limit), trials.PhaseEnvironmentSetup, time.Since(begun))
			}
			return img, err
		},
	}, nil
}

// buildTime is how long the build of an image may take: as long as the trial that
// asks first may wait for its environment.
func buildTime(limit trials.Limit) time.Duration {
	if limit.Seconds <= 0 {
		return longestBuild
	}
	return time.Duration(limit.Seconds * float64(time.Second))
}

func (im *Images) steps(key snapshots.Key, log io.Writer) io.Writer {
	if im.OnStep == nil {
		return log
	}
	return &steps{Writer: log, tell: func(done, of int) { im.OnStep(key, done, of) }}
}

func (im *Images) able() error {
	if im.builder == nil {
		return providers.Errorf(providers.KindUnsupported, "build", "provider %s builds no images", im.provider)
	}
	return nil
}

var notInTag = regexp.MustCompile(`[^a-z0-9]+`)

// tag is a name for humans. The key makes it unique.
func tag(title string, key snapshots.Key) string {
	s := strings.Trim(notInTag.ReplaceAllString(strings.ToLower(title), "-"), "-")
	if s == "" {
		s = "task"
	}
	return "harborgate/" + strings.TrimRight(s[:min(len(s), 60)], "-") + ":" + string(key[:12])
}

// digest names everything in a build context that a build can see.
func (im *Images) digest(dir string) (string, error) {
	f, _ := im.digests.LoadOrStore(dir, sync.OnceValues(func() (string, error) { return contextDigest(dir) }))
	return f.(func() (string, error))()
}

func contextDigest(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %o %d\n", filepath.ToSlash(rel), fi.Mode()&(fs.ModePerm|fs.ModeType|fs.ModeSetuid|fs.ModeSetgid), sizeOf(fi))
		switch {
		case fi.Mode().IsRegular():
			return copyFile(h, path)
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			fmt.Fprintf(h, "%q\n", target)
			return err
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read build context %s: %w", dir, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sizeOf leaves out the size of directories, which says nothing.
func sizeOf(fi fs.FileInfo) int64 {
	if fi.IsDir() {
		return 0
	}
	return fi.Size()
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// BuiltHere reports whether an image carries the label of a build of ours.
func BuiltHere(img providers.Image, key snapshots.Key) bool {
	return img.Labels[imageLabel] == string(key)
}
