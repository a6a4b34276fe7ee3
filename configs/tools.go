package configs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"gopkg.in/yaml.v3"

	"harborgate/tasks"
	"harborgate/trials"
)

// toolKeys are what a tool server may say.
func toolKeys() []string {
	return []string{"name", "transport", "type", "url", "command", "args", "headers"}
}

// LoadTools reads MCP servers from a file, JSON, YAML or TOML by its name: a list or a
// mapping by name at mcpServers, mcp_servers or environment.mcp_servers. Errors name
// the file.
func LoadTools(file string) ([]trials.MCPServerConfig, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out, err := parseTools(filepath.Ext(file), content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return out, nil
}

func parseTools(ext string, content []byte) ([]trials.MCPServerConfig, error) {
	read, ok := map[string]func([]byte, any) error{".json": json.Unmarshal, ".yaml": yaml.Unmarshal, ".yml": yaml.Unmarshal, ".toml": toml.Unmarshal}[ext]
	if !ok {
		return nil, fmt.Errorf("%q is no format of tool servers: call it .json, .yaml, .yml or .toml", ext)
	}
	var doc map[string]any
	if err := read(content, &doc); err != nil {
		return nil, err
	}
	env, _ := doc["environment"].(map[string]any)
	for _, at := range []any{doc["mcpServers"], doc["mcp_servers"], env["mcp_servers"]} {
		if at != nil {
			return toolList(at)
		}
	}
	return nil, errors.New("there are no tool servers: write them below mcpServers, mcp_servers or environment.mcp_servers")
}

func toolList(at any) ([]trials.MCPServerConfig, error) {
	var list []map[string]any
	switch at := at.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(at)) {
			one, ok := at[name].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("tool server %s is no mapping", name)
			}
			one = maps.Clone(one)
			one["name"] = name
			list = append(list, one)
		}
	case []any:
		for i, v := range at {
			one, ok := v.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("tool server %d is no mapping", i+1)
			}
			list = append(list, one)
		}
	default:
		return nil, errors.New("tool servers are a list, or a mapping by name")
	}
	var out []trials.MCPServerConfig
	for i, one := range list {
		s, err := toolServer(one)
		if err != nil {
			return nil, fmt.Errorf("tool server %v: %w", firstNonNil(one["name"], i+1), err)
		}
		out = append(out, s)
	}
	return out, nil
}

func firstNonNil(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// toolServer reads one; what others call type is its transport.
func toolServer(one map[string]any) (trials.MCPServerConfig, error) {
	for _, key := range slices.Sorted(maps.Keys(one)) {
		if !slices.Contains(toolKeys(), key) {
			if meant := tasks.Closest(key, toolKeys()); meant != "" {
				return trials.MCPServerConfig{}, fmt.Errorf("%s is not a known key (did you mean %s?)", key, meant)
			}
			return trials.MCPServerConfig{}, fmt.Errorf("%s is not a known key: there are %s", key, strings.Join(toolKeys(), ", "))
		}
	}
	one = maps.Clone(one)
	if one["transport"] == nil {
		one["transport"] = one["type"]
	}
	delete(one, "type")
	switch {
	case one["transport"] == nil && one["command"] != nil:
		one["transport"] = "stdio"
	case one["transport"] == nil:
		one["transport"] = "sse"
	case one["transport"] == "http":
		one["transport"] = "streamable-http"
	}
	var s trials.MCPServerConfig
	if remarshal(one, &s) != nil {
		return s, errors.New("a value is of the wrong kind: args is a list of texts, headers a mapping of them, and the others are texts")
	}
	return s, nil
}
