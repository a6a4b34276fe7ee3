package runner

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/snapshots"
	"harborgate/trials"
)

// far is a provider whose images come from a registry that wants to be asked slowly.
type far struct {
	*fake.Provider
	pulls   atomic.Int32
	present atomic.Bool
	refuses int32 // first pulls
}

func (f *far) InspectImage(ctx context.Context, ref string) (providers.Image, error) {
	if !f.present.Load() {
		return providers.Image{}, providers.Errorf(providers.KindNotFound, "inspect", "no image %s", ref)
	}
	return f.Provider.InspectImage(ctx, ref)
}

func (f *far) PullImage(ctx context.Context, ref string, progress io.Writer) (providers.Image, error) {
	n := f.pulls.Add(1)
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
		return providers.Image{}, ctx.Err()
	}
	if n <= f.refuses {
		return providers.Image{}, &providers.Error{Op: "pull", Kind: providers.KindRateLimited, RetryAfter: time.Second}
	}
	f.present.Store(true)
	return f.Provider.PullImage(ctx, ref, progress)
}

// TestB056ImageIsPulledOnce, however many trials want it at once; a registry that asks
// for patience is nobody's verdict, and is asked again.
func TestB056ImageIsPulledOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		f := &far{Provider: fake.New(fake.Options{World: b.world}), refuses: 1}
		b.p = &looked{Provider: f}
		files := map[string]string{"task.toml": helloToml + "docker_image = \"debian\"\n", "environment/Dockerfile": ""}
		im, task := b.images(), writeTask(t, files)
		for round, pulls := range []int32{1, 2, 2} {
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					req, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
					if err != nil {
						t.Error(err)
						return
					}
					hold, err := im.Get(t.Context(), req)
					hold.Release()
					if refused := round == 0; refused != providers.Is(err, providers.KindRateLimited) {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			wg.Wait()
			if n := f.pulls.Load(); n != pulls {
				t.Errorf("round %d: %d pulls, want %d", round, n, pulls)
			}
		}
	})
	t.Run("blame", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			for _, kind := range []providers.Kind{providers.KindRateLimited, providers.KindNotFound} {
				r := newRig(t, map[string]string{"task.toml": helloToml + "docker_image = \"far\"\n", "environment/Dockerfile": ""})
				if err := r.world.SetImage("far", fake.Image{Missing: true}); err != nil {
					t.Fatal(err)
				}
				r.world.Inject(fake.Fault{Op: fake.OpBuild, Match: "far", Effect: fake.Refuse, Kind: kind})
				res := r.run(t.Context())
				if res.VerifierResult != nil || res.RewardValid || res.Harborgate.Failure == nil || res.Harborgate.Failure.Phase != trials.PhaseEnvironmentSetup {
					t.Errorf("%s: %+v", kind, res.Harborgate.Failure)
				}
				if f := res.Harborgate.Failure; kind == providers.KindRateLimited && f.Blame != trials.BlameInfrastructure {
					t.Errorf("%s: %+v", kind, f)
				}
			}
		})
	})
}

// A trial without a job that is to be built is built, each time.
func TestForcedTrialWithoutAJobIsBuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	task, c := writeTask(t, nil), trials.NewTrialConfig(trials.TaskConfig{})
	c.Environment.ForceBuild = true
	var keys []snapshots.Key
	for _, process := range []string{"one", "one", "two"} {
		im := b.images()
		im.Owner = process
		r, err := im.Environment(task, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, r.Key)
	}
	if keys[0] != keys[1] || keys[1] == keys[2] {
		t.Errorf("%q", keys)
	}
}
