package tasks

import (
	"strings"
)

func (t *table) environment() Environment {
	defer t.done()
	e := Environment{BuildTimeoutSec: DefaultBuildTimeoutSec, OS: Linux}
	e.Network = t.environmentNetwork()
	t.seconds("build_timeout_sec", &e.BuildTimeoutSec, false)
	t.str("docker_image", &e.Image)
	e.Image = strings.TrimSpace(e.Image)
	oneOf(t, "os", &e.OS, Linux, Windows)
	e.CPUs = t.cpus("cpus")
	e.MemoryMiB = t.size("memory_mb", "memory")
	e.StorageMiB = t.size("storage_mb", "storage")
	var gpus int64
	t.integer("gpus", &gpus)
	e.GPUs = int(gpus)
	t.stringList("gpu_types", &e.GPUTypes)
	if tpu := t.table("tpu"); tpu != nil {
		e.TPU = &TPU{}
		tpu.required("type", &e.TPU.Type)
		tpu.required("topology", &e.TPU.Topology)
		tpu.done()
	}
	for _, m := range t.tables("mcp_servers") {
		e.MCPServers = append(e.MCPServers, m.mcpServer())
	}
	e.Env = t.env("env")
	t.str("skills_dir", &e.SkillsDir)
	if h := t.table("healthcheck"); h != nil {
		e.Healthcheck = h.healthcheck()
	}
	t.str("workdir", &e.Workdir)
	if e.Workdir != "" && e.OS == Linux && !strings.HasPrefix(e.Workdir, "/") {
		t.fail("workdir", "relative-workdir", "write an absolute path", "%q is not an absolute path", e.Workdir)
	}
	return e
}

func (t *table) cpus(key string) *float64 {
	var f float64
	read := t.float(key, &f)
	t.note(key, "exclusiveMinimum", 0)
	if !read {
		return nil
	}
	if f <= 0 {
		t.fail(key, "bad-number", "write a number above 0, or remove the key for no limit", "is %v", f)
		return nil
	}
	return &f
}

// size reads a number of MiB, or its old form, a string with a unit.
func (t *table) size(key, oldKey string) *int64 {
	var mib int64
	ok := t.integer(key, &mib)
	if ok && mib == 0 {
		t.fail(key, "bad-number", "write a number of MiB above 0, or remove the key for no limit", "is 0")
		ok = false
	}
	t.note(key, "minimum", 1)
	var text string
	read := t.str(oldKey, &text)
	t.note(oldKey, "deprecated", true)
	if !read {
		if !ok {
			return nil
		}
		return &mib
	}
	old, err := parseSize(text)
	if err != nil {
		t.fail(oldKey, "bad-size", "write "+key+" in MiB", "%v", err)
		return nil
	}
	t.warn(oldKey, "deprecated-size", "write "+key+" in MiB", "is an old form")
	if ok && mib != old {
		t.fail(oldKey, "size-conflict", "keep only "+key, "is %d MiB but %s is %d", old, join(t.path, key), mib)
	}
	return &old
}

// environmentNetwork also reads allow_internet, the old form of network_mode.
func (t *table) environmentNetwork() Network {
	var internet bool
	old := t.boolean("allow_internet", &internet)
	t.note("allow_internet", "deprecated", true)
	mode := NetworkPublic
	if old && !internet {
		mode = NetworkNone
	}
	given := t.has("network_mode") || t.has("allowed_hosts")
	switch {
	case old && given:
		t.warn("allow_internet", "network-conflict", "remove it", "is ignored because network_mode or allowed_hosts is given")
		mode = NetworkPublic
	case old:
		t.deprecated("allow_internet", `write network_mode = "`+string(mode)+`"`)
	}
	return t.network(mode)
}

// network reads a policy; mode is what holds without network_mode.
func (t *table) network(mode NetworkMode) Network {
	n := Network{Mode: mode}
	wellFormed := oneOf(t, "network_mode", &n.Mode, NetworkPublic, NetworkNone, NetworkAllowList) || !t.has("network_mode")
	var hosts []string
	if !t.stringList("allowed_hosts", &hosts) {
		return n
	}
	if n.Mode != NetworkAllowList && wellFormed {
		t.fail("allowed_hosts", "hosts-without-allowlist", `write network_mode = "allowlist" beside it`,
			"is given without network_mode = \"allowlist\"")
	}
	for i, h := range hosts {
		host, err := ParseHost(h)
		if err != nil {
			t.fail(element("allowed_hosts", i), "bad-host", "write only the host", "%v", err)
			continue
		}
		n.Hosts = append(n.Hosts, host)
	}
	return n
}

func (t *table) healthcheck() *Healthcheck {
	defer t.done()
	h := &Healthcheck{IntervalSec: 5, TimeoutSec: 30, StartIntervalSec: 5, Retries: 3}
	t.required("command", &h.Command)
	t.seconds("interval_sec", &h.IntervalSec, true)
	t.seconds("timeout_sec", &h.TimeoutSec, false)
	t.seconds("start_period_sec", &h.StartPeriodSec, true)
	t.seconds("start_interval_sec", &h.StartIntervalSec, true)
	retries := int64(h.Retries)
	t.integer("retries", &retries)
	h.Retries = int(retries)
	return h
}

func (t *table) mcpServer() MCPServer {
	defer t.done()
	s := MCPServer{Transport: "sse"}
	t.required("name", &s.Name)
	oneOf(t, "transport", &s.Transport, "stdio", "sse", "streamable-http", "http")
	if s.Transport == "http" {
		s.Transport = "streamable-http"
	}
	t.str("url", &s.URL)
	t.str("command", &s.Command)
	t.stringList("args", &s.Args)
	s.Headers = t.env("headers")
	needs, value := "url", s.URL
	if s.Transport == "stdio" {
		needs, value = "command", s.Command
	}
	if value == "" {
		t.fail(needs, "missing-key", "add it", "is missing, and transport %s needs it", s.Transport)
	}
	return s
}
