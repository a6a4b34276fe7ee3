package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Tool is a server of tools, in the Model Context Protocol.
type Tool struct {
	Name      string
	Transport string            // "stdio", "sse" or "streamable-http"
	Command   string            // of stdio
	Args      []string          // of stdio
	URL       string            // of the others
	Headers   map[string]string // of the others; may hold secrets
}

// toolDialect is how an agent writes a tool server down.
type toolDialect struct {
	kind    map[string]string // by transport: what "type" says; "" has none
	address map[string]string // by transport: the key of the URL
	joined  bool              // program and arguments are one list
}

// ClaudeTools is a file for claude's --mcp-config, and mcp.json of omp.
func ClaudeTools(all []Tool) string {
	d := toolDialect{
		kind:    map[string]string{"stdio": "stdio", "sse": "sse", "streamable-http": "http"},
		address: map[string]string{"sse": "url", "streamable-http": "url"},
	}
	doc, err := text(object{"mcpServers": d.all(all)})
	if err != nil {
		panic(err) // strings always have a form in JSON
	}
	return doc
}

// geminiTools is the key mcpServers of the settings of gemini-cli and qwen-code.
func geminiTools(all []Tool) object {
	d := toolDialect{address: map[string]string{"sse": "url", "streamable-http": "httpUrl"}}
	return d.all(all)
}

// openCodeTools is the key mcp of opencode.json.
func openCodeTools(all []Tool) object {
	d := toolDialect{
		kind:    map[string]string{"stdio": "local", "sse": "remote", "streamable-http": "remote"},
		address: map[string]string{"sse": "url", "streamable-http": "url"}, joined: true,
	}
	return d.all(all)
}

// Goose is config/config.yaml of goose: its extensions, of which it has some that make it
// look for further ones, or write applications for its own windows. YAML holds JSON.
func Goose(tools ...Tool) (string, error) {
	out := object{}
	for key, name := range map[string]string{"apps": "apps", "extensionmanager": "Extension Manager"} {
		out[key] = object{"type": "platform", "name": name, "description": "", "enabled": false}
	}
	for _, t := range tools {
		one := object{"name": t.Name, "description": "", "enabled": true}
		if t.Transport == "stdio" {
			one["type"], one["cmd"], one["args"] = "stdio", t.Command, append([]string{}, t.Args...)
		} else {
			one["type"], one["uri"] = "streamable_http", t.URL
		}
		if len(t.Headers) > 0 {
			one["headers"] = t.Headers
		}
		out[t.Name] = one
	}
	return text(object{"extensions": out})
}

func (d toolDialect) all(all []Tool) object {
	out := object{}
	for _, t := range all {
		one := object{}
		if k := d.kind[t.Transport]; k != "" {
			one["type"] = k
		}
		switch {
		case t.Transport != "stdio":
			one[d.address[t.Transport]] = t.URL
		case d.joined:
			one["command"] = append([]string{t.Command}, t.Args...)
		default:
			one["command"], one["args"] = t.Command, append([]string{}, t.Args...)
		}
		if len(t.Headers) > 0 {
			one["headers"] = t.Headers
		}
		out[t.Name] = one
	}
	return out
}

// CodexTools is the value of codex's setting mcp_servers, as an inline table, and the
// variables that it refers to: headers are no part of a command line.
func CodexTools(all []Tool) (table string, variables map[string]string) {
	variables = map[string]string{}
	var servers []string
	for i, t := range all {
		parts := []string{"url=" + inline(t.URL)}
		if t.Transport == "stdio" {
			parts = []string{"command=" + inline(t.Command), "args=" + inline(append([]string{}, t.Args...))}
		}
		var headers []string
		for j, name := range slices.Sorted(maps.Keys(t.Headers)) {
			variable := fmt.Sprintf("HARBOR_TOOL_%d_HEADER_%d", i+1, j+1)
			variables[variable] = t.Headers[name]
			headers = append(headers, inline(name)+"="+inline(variable))
		}
		if len(headers) > 0 {
			parts = append(parts, "env_http_headers={"+strings.Join(headers, ",")+"}")
		}
		servers = append(servers, inline(t.Name)+"={"+strings.Join(parts, ",")+"}")
	}
	return "{" + strings.Join(servers, ",") + "}", variables
}

// inline is a string, or a list of them, as TOML has it on one line; a string is a
// key as well.
func inline(v any) string {
	out, err := toml.Marshal(map[string]any{"v": v})
	if err != nil {
		panic(err) // strings always have a form in TOML
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(out), "v = "), "\n")
}

// DescribeTools tells an agent that knows no tool servers of them, below its
// instruction.
func DescribeTools(all []Tool) string {
	if len(all) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\nThe following MCP servers are available for this task:\n")
	for _, t := range all {
		how := t.Transport + " at " + t.URL
		if t.Transport == "stdio" {
			how = "stdio, started with: " + strings.Join(append([]string{t.Command}, t.Args...), " ")
		}
		fmt.Fprintf(&b, "- %s: %s\n", t.Name, how)
	}
	return b.String()
}
