package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func ptr[T any](v T) *T { return &v }

func TestLoadTools(t *testing.T) {
	t.Parallel()
	stdio := trials.MCPServerConfig{Name: "files", Transport: "stdio", Command: ptr("/opt/files"), Args: trials.List[string]{"-a"}}
	web := trials.MCPServerConfig{Name: "web", Transport: "streamable-http", URL: ptr("http://h/mcp"), Headers: trials.Env{"X-Key": "${K}"}}
	old := trials.MCPServerConfig{Name: "old", Transport: "sse", URL: ptr("http://h/sse")}
	for name, c := range map[string]struct {
		file, text string
		want       []trials.MCPServerConfig
	}{
		"Claude's form": {"a.json", `{"mcpServers":{"web":{"type":"http","url":"http://h/mcp","headers":{"X-Key":"${K}"}},"files":{"command":"/opt/files","args":["-a"]}}}`, []trials.MCPServerConfig{stdio, web}},
		"a list":        {"a.yaml", "mcpServers:\n- {name: files, transport: stdio, command: /opt/files, args: [-a]}\n- {name: old, url: 'http://h/sse'}\n", []trials.MCPServerConfig{stdio, old}},
		"of a task":     {"a.toml", "[[environment.mcp_servers]]\nname = \"old\"\nurl = \"http://h/sse\"\n", []trials.MCPServerConfig{old}},
		"of a job":      {"a.yml", "mcp_servers: [{name: old, transport: sse, url: 'http://h/sse'}]", []trials.MCPServerConfig{old}},
	} {
		got, err := LoadTools(files(t, c.file, c.text)[0])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestToolFilesThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, text, want string }{
		{"a.txt", "", `".txt" is no format`},
		{"a.json", "{", "unexpected end"},
		{"a.json", `{"servers":{}}`, "write them below mcpServers"},
		{"a.json", `{"mcpServers":3}`, "a list, or a mapping"},
		{"a.json", `{"mcpServers":{"x":3}}`, "tool server x is no mapping"},
		{"a.json", `{"mcpServers":{"x":{"urll":"http://h"}}}`, "tool server x: urll is not a known key (did you mean url?)"},
		{"a.json", `{"mcpServers":{"x":{"command":"c","env":{"A":"b"}}}}`, "env is not a known key"},
		{"a.json", `{"mcpServers":[{"name":"x","command":"c","args":"-a"}]}`, "tool server x: a value is of the wrong kind"},
	} {
		file := files(t, c.file, c.text)[0]
		if _, err := LoadTools(file); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if _, err := LoadTools("/no/such/file.json"); err == nil {
		t.Error("a file that is not there is read")
	}
}

func FuzzParseTools(f *testing.F) {
	f.Add(".json", []byte(`{"mcpServers":{"x":{"type":"http","url":"u"}}}`))
	f.Add(".yaml", []byte("mcp_servers: [{name: a, 1: 2}]"))
	f.Add(".toml", []byte("[environment]\nmcp_servers = [{name = 'a', args = [1]}]"))
	f.Fuzz(func(t *testing.T, ext string, content []byte) {
		got, err := parseTools(ext, content)
		for _, s := range got {
			if err == nil && s.Transport == "http" {
				t.Errorf("%+v", s)
			}
		}
	})
}
