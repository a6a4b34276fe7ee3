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
	ImagesOptions
	builder providers.ImageBuilder // nil for a provider that builds none; requests say so
	keeper  providers.Snapshotter  // nil for a provider that keeps none
	kind    string                 // type of the provider

	digests sync.Map // context directory → func() (string, error), computed once

	mu   sync.Mutex // guards left
	left []*leftover
}

// ImagesOptions are what Images work with.
type ImagesOptions struct {
	Provider providers.Provider
	Store    *snapshots.Store
	// Owner and Host are of the labels of builds' sandboxes. Images have the host that
	// keeps the store, too, so that none is forgotten.
	Owner, Host string
	// Secrets are values that nothing kept may hold, with the variables that have them, ""
	// for none; nil has none. It is asked when something is built.
	Secrets func(ctx context.Context) map[string]string
	// Prove starts what was built once before anything counts on it.
	Prove bool
	// OnStep is told how far a build is, OnNote what users should know of one; nil is
	// nobody.
	OnStep func(key snapshots.Key, done, of int)
	OnNote func(code, words string)
}

// NewImages returns the images of a provider.
func NewImages(o ImagesOptions) *Images {
	b, _ := providers.As[providers.ImageBuilder](o.Provider)
	k, _ := providers.As[providers.Snapshotter](o.Provider)
	return &Images{ImagesOptions: o, builder: b, keeper: k, kind: o.Provider.Info().Type}
}

// Needed lists the images of a trial: what the agent's sandbox starts from and, when
// verification is separate, what the verifier's does. try sets failed builds apart.
func (im *Images) Needed(task *tasks.Task, c trials.TrialConfig, try int) ([]snapshots.Request, error) {
	env, err := im.Agent(task, c, try)
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
	if ref := reference(task, c); ref != "" {
		return im.pull(ref, try)
	}
	return im.build(task, task.Name, task.EnvironmentDir(), c, try)
}

// reference is of the ready image of a task, "" when it is built.
func reference(task *tasks.Task, c trials.TrialConfig) string {
	if _, hasDockerfile := task.Dockerfile(); hasDockerfile && c.Environment.ForceBuild {
		return ""
	}
	return task.Config.Environment.Image
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
	return im.Store.Ensure(ctx, r)
}

func (im *Images) pull(ref string, try int) (snapshots.Request, error) {
	if err := im.able(); err != nil {
		return snapshots.Request{}, err
	}
	return snapshots.Request{
		Key: snapshots.KeyOf(im.kind, "pull", ref), Try: try, Title: "image " + ref, Limit: longestBuild, Pulled: true,
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
	parts := []string{im.kind, "build", digest}
	if c.Environment.ForceBuild {
		by := im.Owner // of a trial without a job
		if c.JobID != nil {
			by = *c.JobID
		}
		parts = append(parts, "forced by", by)
	}
	key := snapshots.KeyOf(parts...)
	limit := trials.EffectiveTimeouts(task.Config, nil, c).EnvironmentStart
	return snapshots.Request{
		Key: key, Try: try, Title: "task " + title, Limit: buildTime(limit), Check: im.standing,
		Build: func(ctx context.Context, log io.Writer) (providers.Image, error) {
			begun := time.Now()
			if err := im.warnOf(ctx, "task "+title, dir, log); err != nil {
				return providers.Image{}, err
			}
			name := tag(title, key)
			img, err := im.builder.BuildImage(ctx, providers.Build{
				ContextDir: dir, Tag: name,
				Labels:  map[string]string{imageLabel: string(key), ImageHostLabel: im.Host, nameLabel: name, basesLabel: im.bases(ctx, dir)},
				NoCache: c.Environment.ForceBuild, Progress: im.steps(key, log),
			})
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return img, ended(limitOf(trials.PhaseEnvironmentSetup, limit), trials.PhaseEnvironmentSetup, time.Since(begun))
			}
			if err == nil {
				err = im.proven(ctx, img, dir, digest, log)
			}
			return img, err
		},
	}, nil
}

// proven removes an image that does not start, or is not of what its key stands for.
func (im *Images) proven(ctx context.Context, img providers.Image, dir, digest string, log io.Writer) error {
	err := im.unchanged(dir, digest)
	if err == nil {
		err = im.starts(ctx, providers.Source{Image: img.ID}, log)
	}
	if err == nil {
		return nil
	}
	detached, cancel := providers.Cleanup(ctx, putAway, putAway)
	defer cancel()
	return errors.Join(err, im.builder.RemoveImage(detached, img.ID))
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
		return providers.Errorf(providers.KindUnsupported, "build", "provider %s builds no images", im.kind)
	}
	return nil
}

// digest names everything in a build context that a build can see.
func (im *Images) digest(dir string) (string, error) {
	f, _ := im.digests.LoadOrStore(dir, sync.OnceValues(func() (string, error) { return contextDigest(dir) }))
	return f.(func() (string, error))()
}

// unchanged fails when a build context is not any more what it was when its digest was
// taken, which may be hours ago. Who asks again asks for what is there now.
func (im *Images) unchanged(dir, digest string) error {
	now, err := contextDigest(dir)
	if err == nil && now != digest {
		err = providers.Errorf(providers.KindUnavailable, "build", "%s was changed before its image was built, or meanwhile", dir)
	}
	if err != nil {
		im.digests.Delete(dir)
	}
	return err
}

func contextDigest(dir string) (string, error) {
	h := sha256.New()
	err := walk(dir, func(path string, d fs.DirEntry, err error) error {
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

// walk goes through a directory that may be a link: the separator makes it be followed,
// as builds follow it.
func walk(dir string, visit fs.WalkDirFunc) error {
	return filepath.WalkDir(dir+string(filepath.Separator), visit)
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
