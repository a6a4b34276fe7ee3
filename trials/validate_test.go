package trials

import (
	"math"
	"strings"
	"testing"
)

func TestValidateJob(t *testing.T) {
	t.Parallel()
	if errs := NewJobConfig().Validate(); len(errs) > 0 {
		t.Fatalf("the defaults are wrong: %v", errs)
	}
	inf, nan := Float(math.Inf(1)), Float(math.NaN())
	for name, c := range map[string]struct {
		change func(*JobConfig)
		want   string // "path: part of the message"; "" is no error
	}{
		"name":               {func(c *JobConfig) { c.JobName = "a/b" }, "job_name: name \"a/b\" contains"},
		"attempts":           {func(c *JobConfig) { c.NAttempts = 0 }, "n_attempts: 0 is less"},
		"concurrent":         {func(c *JobConfig) { c.NConcurrentTrials = -1 }, "n_concurrent_trials: -1 is less"},
		"B026 zero":          {func(c *JobConfig) { c.Timeout = 0 }, "timeout_multiplier: 0 is not a positive"},
		"B026 negative":      {func(c *JobConfig) { c.AgentTimeout = ptr(Float(-1)) }, "agent_timeout_multiplier: -1"},
		"B026 NaN":           {func(c *JobConfig) { c.VerifierTimeout = &nan }, "verifier_timeout_multiplier: NaN"},
		"B026 infinite":      {func(c *JobConfig) { c.AgentSetup = &inf }, "agent_setup_timeout_multiplier: +Inf"},
		"B026 build":         {func(c *JobConfig) { c.EnvironmentBuild = ptr(Float(0)) }, "environment_build_timeout_multiplier: 0"},
		"retries":            {func(c *JobConfig) { c.Retry.MaxRetries = -1 }, "retry.max_retries: -1"},
		"wait":               {func(c *JobConfig) { c.Retry.MinWaitSec = nan }, "retry.min_wait_sec: NaN"},
		"python environment": {func(c *JobConfig) { c.Environment.ImportPath = ptr("m:C") }, "environment.import_path: "},
		"python verifier":    {func(c *JobConfig) { c.Verifier.ImportPath = ptr("m:C") }, "verifier.import_path: "},
		"policy":             {func(c *JobConfig) { c.Environment.CPUEnforcementPolicy = "hard" }, "environment.cpu_enforcement_policy: \"hard\" is not one of auto"},
		"cpus":               {func(c *JobConfig) { c.Environment.OverrideCPUs = ptr(Cores(0)) }, "environment.override_cpus: 0"},
		"memory":             {func(c *JobConfig) { c.Environment.OverrideMemoryMiB = ptr(int64(0)) }, "environment.override_memory_mb: 0"},
		"gpus":               {func(c *JobConfig) { c.Environment.OverrideGPUs = ptr(-1) }, "environment.override_gpus: -1"},
		"mount": {func(c *JobConfig) {
			c.Environment.Mounts = &List[VolumeConfig]{{Type: "bind", Source: "/a", Target: "b"}}
		}, "environment.mounts[0].target: \"b\""},
		"host":                 {func(c *JobConfig) { c.Environment.ExtraAllowedHosts = List[string]{"ok.org", "https://x"} }, "environment.extra_allowed_hosts[1]: host"},
		"metric":               {func(c *JobConfig) { c.Metrics = List[MetricConfig]{{Type: "median"}} }, "metrics[0].type: \"median\""},
		"script metric":        {func(c *JobConfig) { c.Metrics = List[MetricConfig]{{Type: "uv-script"}} }, "metrics[0].kwargs: "},
		"agent override":       {func(c *JobConfig) { c.Agents[0].OverrideTimeoutSec = ptr(Float(-1)) }, "agents[0].override_timeout_sec: -1"},
		"agent zero override":  {func(c *JobConfig) { c.Agents[0].OverrideTimeoutSec = ptr(Float(0)) }, ""},
		"agent pool":           {func(c *JobConfig) { c.Agents[0].NConcurrent = ptr(5) }, "agents[0].n_concurrent: 5 is more than"},
		"group without number": {func(c *JobConfig) { c.Agents[0].ConcurrencyGroup = ptr("g") }, "agents[0].concurrency_group: it needs"},
		"groups differ": {func(c *JobConfig) {
			c.Agents = List[AgentConfig]{
				{ConcurrencyGroup: ptr("g"), NConcurrent: ptr(1)}, {ConcurrencyGroup: ptr("g"), NConcurrent: ptr(2)},
			}
		}, "agents[1].n_concurrent: 2 differs from 1"},
		"format": {func(c *JobConfig) { c.Agents[0].ModelAPIFormat = ptr("x") }, "agents[0].model_api_format: \"x\""},
		"mcp url": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "sse"}}
		}, "agents[0].mcp_servers[0]: it has neither a command (stdio) nor a url"},
		"mcp transport": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "sse", Command: ptr("c")}}
		}, "agents[0].mcp_servers[0].url: transport sse needs it"},
		"mcp both": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "stdio", Command: ptr("c"), URL: ptr("http://h")}}
		}, "agents[0].mcp_servers[0]: it has a command and a url"},
		"mcp reference in a header": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "sse", URL: ptr("u"), Headers: Env{"Authorization": "Bearer ${A}"}}}
		}, "agents[0].mcp_servers[0].headers.Authorization: a credential must be ${VARIABLE} as a whole"},
		"mcp secret": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "sse", URL: ptr("u"), Headers: Env{"Authorization": "Bearer x"}}}
		}, "agents[0].mcp_servers[0].headers.Authorization: a credential"},
		"mcp reference": {func(c *JobConfig) {
			c.Agents[0].MCPServers = List[MCPServerConfig]{{Name: "m", Transport: "sse", URL: ptr("u"), Headers: Env{"Authorization": "${A}"}}}
		}, ""},
		"dataset":       {func(c *JobConfig) { c.Datasets = List[DatasetConfig]{{}} }, "datasets[0]: it needs path"},
		"two datasets":  {func(c *JobConfig) { c.Datasets = List[DatasetConfig]{{Path: ptr("a"), Name: ptr("b")}} }, "datasets[0]: path and name exclude"},
		"repo":          {func(c *JobConfig) { c.Datasets = List[DatasetConfig]{{Repo: ptr("a/b")}} }, ""},
		"task":          {func(c *JobConfig) { c.Tasks = List[TaskConfig]{{}} }, "tasks[0]: it needs exactly one"},
		"commit":        {func(c *JobConfig) { c.Tasks = List[TaskConfig]{{Path: ptr("a"), GitCommitID: ptr("x")}} }, "tasks[0].git_commit_id: it needs"},
		"package":       {func(c *JobConfig) { c.Tasks = List[TaskConfig]{{Name: ptr("no-org")}} }, "tasks[0].name: \"no-org\""},
		"artifact":      {func(c *JobConfig) { c.Artifacts = List[ArtifactConfig]{{Source: "/a", Destination: ptr("../x")}} }, "artifacts[0]: artifact destination"},
		"source action": {func(c *JobConfig) { c.SourceJobs = List[SourceJob]{{Action: "x", Type: "local"}} }, "source_jobs[0].action: \"x\""},
	} {
		job := NewJobConfig()
		c.change(&job)
		var texts []string
		for _, e := range job.Validate() {
			texts = append(texts, e.Error())
		}
		got := strings.Join(texts, "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || len(texts) > 1 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestValidateTrial(t *testing.T) {
	t.Parallel()
	c := NewTrialConfig(TaskConfig{Path: ptr("a")})
	if errs := c.Validate(); len(errs) > 0 {
		t.Fatal(errs)
	}
	c.TrialName, c.Task.Path, c.Timeout = "..", nil, -1
	if errs := c.Validate(); len(errs) != 3 {
		t.Errorf("%d errors, want 3: %v", len(errs), errs)
	}
}
