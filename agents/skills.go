package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// skillFile makes a directory a skill.
const skillFile = "SKILL.md"

// skillsStage is where skills of this host arrive in a sandbox.
const skillsStage = "/harbor-agent-input/skills"

// skillsIn lists the skills of a directory: itself, or those directly below it.
func skillsIn(dir string) ([]string, error) {
	if fi, err := os.Stat(dir); err != nil || !fi.IsDir() {
		return nil, fmt.Errorf("skill %s is no directory of this host: skills from a registry or from git are not fetched; give the directory", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, skillFile)); err == nil {
		return []string{dir}, nil
	}
	below, err := filepath.Glob(filepath.Join(dir, "*", skillFile))
	if err != nil || len(below) == 0 {
		return nil, fmt.Errorf("skill %s: there is no %s in it, nor in the directories below it", dir, skillFile)
	}
	for i := range below {
		below[i] = filepath.Dir(below[i])
	}
	return below, nil
}

func checkSkills(dirs []string) error {
	seen := map[string]string{}
	for _, dir := range dirs {
		all, err := skillsIn(dir)
		if err != nil {
			return err
		}
		for _, s := range all {
			name := filepath.Base(s)
			if other, twice := seen[name]; twice {
				return fmt.Errorf("skills %s and %s have the same name: leave one out, or rename its directory", other, s)
			}
			seen[name] = s
		}
	}
	return nil
}

// bringSkills puts the task's skills, which are in the sandbox, and the job's, which
// are on this host, where the agent looks for them. Its own user copies them, so that
// the directories are its.
func (a *installed) bringSkills(ctx context.Context, w *Workplace) error {
	if a.facts.skills == nil {
		return nil
	}
	var sources []string // in the sandbox; the job's come last and count
	if dir := w.Task.Config.Environment.SkillsDir; dir != "" {
		sources = append(sources, dir)
	}
	for _, dir := range a.skills {
		all, err := skillsIn(dir)
		if err != nil {
			return err
		}
		for _, s := range all {
			if err := w.Upload(ctx, s, skillsStage+"/"+filepath.Base(s)); err != nil {
				return err
			}
		}
	}
	if len(a.skills) > 0 {
		sources = append(sources, skillsStage)
	}
	for _, from := range sources {
		const script = `case $2 in "~/"*) to=$HOME/${2#??} ;; /tmp/*) umask 077; to=$2 ;; *) to=$2 ;; esac; mkdir -p "$to" && cp -R "$1"/. "$to"/`
		status, err := w.Sandbox.Exec(ctx, providers.Command{
			Args: []string{"sh", "-c", script, "sh", from, a.facts.skills(a.home(), w.LogsDir)}, User: w.User,
		})
		if err != nil {
			return err
		}
		if !status.OK() {
			return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseInvalidConfig, "",
				fmt.Sprintf("the skills in %s could not be copied for agent %s: cp ended with %s; is it there, and can the agent's user read it?", from, a.facts.name, status))
		}
	}
	return nil
}

// toolsOf are MCP servers as settings are told of them. Of two with one name the
// later one counts: the job's comes behind the task's.
func toolsOf(all []tasks.MCPServer) []settings.Tool {
	at := map[string]int{}
	var out []settings.Tool
	for _, s := range all {
		t := settings.Tool{Name: s.Name, Transport: s.Transport, Command: s.Command, Args: s.Args, URL: s.URL, Headers: s.Headers}
		if i, twice := at[s.Name]; twice {
			out[i] = t
			continue
		}
		at[s.Name] = len(out)
		out = append(out, t)
	}
	return out
}

// checkTransports refuses MCP servers that the agent would leave out.
func (f facts) checkTransports(all []settings.Tool) error {
	for _, t := range all {
		if f.transports != nil && !slices.Contains(f.transports, t.Transport) {
			return fmt.Errorf("agent %s reaches MCP servers by %s alone, and %s is %s: leave it out, or reach it otherwise",
				f.name, strings.Join(f.transports, " and "), t.Name, t.Transport)
		}
	}
	return nil
}
