package runner

import (
	"errors"
	"fmt"
	"maps"

	"harborgate/agents"
	"harborgate/tasks"
	"harborgate/trials"
)

// readTools puts together the MCP servers of the task and those of the job, with
// values of the host in their headers. A model credential is none: what a header
// holds goes wherever its server is.
func (x *run) readTools() error {
	if !agents.Thinks(x.t.Config.Agent) {
		return nil
	}
	var errs []error
	for _, s := range x.t.Task.Config.Environment.MCPServers {
		errs = append(errs, x.addTool(s, "task.toml [[environment.mcp_servers]]"))
	}
	for _, c := range x.t.Config.Agent.MCPServers {
		s := tasks.MCPServer{Name: c.Name, Transport: c.Transport, Args: c.Args, Headers: c.Headers}
		if c.URL != nil {
			s.URL = *c.URL
		}
		if c.Command != nil {
			s.Command = *c.Command
		}
		errs = append(errs, x.addTool(s, "mcp_servers"))
	}
	return errors.Join(errs...)
}

func (x *run) addTool(s tasks.MCPServer, where string) error {
	headers, err := tasks.ResolveEnv(s.Headers, fmt.Sprintf("%s %s headers", where, s.Name), x.r.opt.Lookup)
	if err != nil {
		return err
	}
	if c := x.r.opt.Credentials; c != nil {
		passed, _, _ := c.Guard(trials.PhaseAgentExecution, nil, headers)
		for name := range headers {
			if _, ok := passed[name]; !ok {
				return fmt.Errorf("%s %s: the header %s holds the key of a model, which does not go into a sandbox: give the server a token of its own", where, s.Name, name)
			}
		}
	}
	x.hide(secretsOf(s.Headers, headers)...)
	s.Headers = maps.Clone(headers)
	x.tools = append(x.tools, s)
	return nil
}
