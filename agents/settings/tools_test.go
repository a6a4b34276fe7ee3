package settings

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

func three() []Tool {
	return []Tool{
		{Name: "files", Transport: "stdio", Command: "/opt/x y", Args: []string{"-a", `it's "b"`}},
		{Name: "old.one", Transport: "sse", URL: "http://h/sse", Headers: map[string]string{"X-Key": "secret"}},
		{Name: "new", Transport: "streamable-http", URL: "http://h/mcp"},
	}
}

func TestToolsOfEachAgent(t *testing.T) {
	t.Parallel()
	want(t, read(t, json.Unmarshal, ClaudeTools(three()), nil), `{"mcpServers":{
		"files":{"type":"stdio","command":"/opt/x y","args":["-a","it's \"b\""]},
		"old.one":{"type":"sse","url":"http://h/sse","headers":{"X-Key":"secret"}},
		"new":{"type":"http","url":"http://h/mcp"}}}`)
	want(t, geminiTools(three()), `{
		"files":{"command":"/opt/x y","args":["-a","it's \"b\""]},
		"old.one":{"url":"http://h/sse","headers":{"X-Key":"secret"}},
		"new":{"httpUrl":"http://h/mcp"}}`)
	want(t, openCodeTools(three()), `{
		"files":{"type":"local","command":["/opt/x y","-a","it's \"b\""]},
		"old.one":{"type":"remote","url":"http://h/sse","headers":{"X-Key":"secret"}},
		"new":{"type":"remote","url":"http://h/mcp"}}`)
	goose, err := Goose(three()[0], three()[2])
	want(t, read(t, json.Unmarshal, goose, err), `{"extensions":{
		"apps":{"type":"platform","name":"apps","description":"","enabled":false},
		"extensionmanager":{"type":"platform","name":"Extension Manager","description":"","enabled":false},
		"files":{"type":"stdio","name":"files","description":"","enabled":true,"cmd":"/opt/x y","args":["-a","it's \"b\""]},
		"new":{"type":"streamable_http","name":"new","description":"","enabled":true,"uri":"http://h/mcp"}}}`)
	table, variables := CodexTools(three())
	want(t, read(t, toml.Unmarshal, "mcp_servers = "+table, nil), `{"mcp_servers":{
		"files":{"command":"/opt/x y","args":["-a","it's \"b\""]},
		"old.one":{"url":"http://h/sse","env_http_headers":{"X-Key":"HARBOR_TOOL_2_HEADER_1"}},
		"new":{"url":"http://h/mcp"}}}`)
	if !maps.Equal(variables, map[string]string{"HARBOR_TOOL_2_HEADER_1": "secret"}) || strings.Contains(table, "secret") || strings.Contains(table, "\n") {
		t.Errorf("%s %v", table, variables)
	}
	if got := DescribeTools(three()); !strings.Contains(got, "- old.one: sse at http://h/sse\n") || strings.Contains(got, "secret") {
		t.Errorf("%s", got)
	}
	if DescribeTools(nil) != "" {
		t.Error("no tools are described")
	}
}

func FuzzCodexTools(f *testing.F) {
	f.Add("name", "cmd", "arg")
	f.Add("a.b", "line\nbreak", `'"\`)
	f.Fuzz(func(t *testing.T, name, command, arg string) {
		if !utf8.ValidString(name) || !utf8.ValidString(command) || !utf8.ValidString(arg) { // configurations are text
			return
		}
		table, _ := CodexTools([]Tool{{Name: name, Transport: "stdio", Command: command, Args: []string{arg}}})
		var doc struct {
			V map[string]struct {
				Command string   `toml:"command"`
				Args    []string `toml:"args"`
			} `toml:"v"`
		}
		if err := toml.Unmarshal([]byte("v = "+table), &doc); err != nil || doc.V[name].Command != command || doc.V[name].Args[0] != arg {
			t.Errorf("%q %q %q became %s: %v", name, command, arg, table, err)
		}
	})
}
