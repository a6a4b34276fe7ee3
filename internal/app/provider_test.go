package app

import (
	"log/slog"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/limit"
	"harborgate/trials"
)

const hostConfig = `version: 1
providers:
  pool:
    type: fake
    limits: {calls_per_sec: 100, creates_per_sec: 10, sandboxes: 3}
    options: {create_sec: 0.001}
  wrong:
    type: fake
    options: {creat_sec: 1}
  cloud:
    type: fake
    options: {simulate: nosuch.yaml}
  away:
    type: daytona
`

func TestProviders(t *testing.T) {
	t.Parallel()
	config := t.TempDir() + "/config.yaml"
	put(t, config, hostConfig)
	a := newApp(t, hostOf(t, map[string]string{"HARBOR_CONFIG": config}))
	if got := strings.Join(a.ProviderNames(), " "); got != "away cloud docker fake pool wrong" {
		t.Errorf("names: %s", got)
	}
	p, err := a.Provider("pool")
	if err != nil {
		t.Fatal(err)
	}
	if i := p.Info(); i.Name != "pool" || i.Type != "fake" {
		t.Errorf("%+v", i)
	}
	if again, err := a.Provider("pool"); err != nil || again != p {
		t.Errorf("opened twice: %v", err)
	}
	if _, ok := providers.As[providers.ImageBuilder](p); !ok {
		t.Error("decorators hide what the driver can")
	}
	if err := CheckProvider(t.Context(), p); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		kind providers.Kind
		said string
	}{
		"nosuch":  {providers.KindInvalid, "config.yaml"},
		"daytona": {providers.KindUnsupported, "not built yet"},
		"away":    {providers.KindUnsupported, "not built yet"},
		"wrong":   {providers.KindInternal, config + ":9:15: providers.wrong.options.creat_sec"},
		"cloud":   {providers.KindInternal, config + ":12:15: providers.cloud.options.simulate: "},
	} {
		if _, err := a.Provider(name); err == nil || !strings.Contains(err.Error(), c.said) || providers.KindOf(err) != c.kind {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.Provider("fake"); err != nil {
		t.Errorf("a type is a name as well: %v", err)
	}
}

// Each call pays the rate limit: the limiter is the innermost.
func TestOrderOfDecorators(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	p, err := a.Provider("fake")
	if err != nil {
		t.Fatal(err)
	}
	var layers []providers.Provider
	for p != nil {
		layers = append(layers, p)
		u, ok := p.(interface{ Unwrap() providers.Provider })
		if !ok {
			break
		}
		p = u.Unwrap()
	}
	if len(layers) != 4 {
		t.Fatalf("%d layers", len(layers))
	}
	if _, ok := layers[2].(*limit.Provider); !ok {
		t.Errorf("layers %T", layers)
	}
}

func TestConfigurationOfAnotherKind(t *testing.T) {
	t.Parallel()
	config := t.TempDir() + "/config.yaml"
	put(t, config, "version: 1\nprovidrs: {}\n")
	if _, err := New(Options{Lookup: hostOf(t, map[string]string{"HARBOR_CONFIG": config}), Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "providers") {
		t.Errorf("%v", err)
	}
}

func TestCheckJob(t *testing.T) {
	t.Parallel()
	text := "x"
	for name, c := range map[string]struct {
		change func(*trials.JobConfig)
		said   string
	}{
		"fine":          {func(*trials.JobConfig) {}, ""},
		"import path":   {func(c *trials.JobConfig) { c.Environment.ImportPath = &text }, "import_path"},
		"compose":       {func(c *trials.JobConfig) { c.Environment.ExtraDockerCompose = trials.List[string]{"x"} }, "compose"},
		"stream":        {func(c *trials.JobConfig) { c.Environment.Stream = true }, "stream"},
		"TPU":           {func(c *trials.JobConfig) { c.Environment.OverrideTPU = &trials.TPUConfig{} }, "TPU"},
		"kwarg":         {func(c *trials.JobConfig) { c.Environment.Kwargs = trials.Object[any]{"x": 1} }, `"x"`},
		"verifier":      {func(c *trials.JobConfig) { c.Verifier.ImportPath = &text }, "verifier.import_path"},
		"user":          {func(c *trials.JobConfig) { c.UserAgent = &trials.UserAgentConfig{} }, "user_agent"},
		"earlier jobs":  {func(c *trials.JobConfig) { c.SourceJobs = trials.List[trials.SourceJob]{{}} }, "source_jobs"},
		"metric script": {func(c *trials.JobConfig) { c.Metrics = trials.List[trials.MetricConfig]{{Type: "uv-script"}} }, "metrics[0]"},
	} {
		cfg := trials.NewJobConfig()
		c.change(&cfg)
		if err := CheckJob(cfg); (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := EnvironmentName(trials.EnvironmentConfig{}); n != "docker" {
		t.Errorf("the environment is %s unless said otherwise", n)
	}
}
