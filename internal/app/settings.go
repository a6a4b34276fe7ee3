package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/agents/settings"
	"harborgate/internal/atomicfile"
)

// SettingsKey is how settings get at a token.
type SettingsKey = settings.Key

// SettingsFormat is a file with which an agent uses a proxy.
type SettingsFormat struct {
	Name  string
	Agent string
	Place string // where the agent looks for it

	dialects  []string // that the agent speaks
	one       bool     // it has room for one upstream
	lists     bool     // it says which models there are
	qualified bool     // its models are named with their provider
	text      func(all []settings.Provider, k settings.Key, model string) (string, error)
	// beside is set where base URL and token are variables, and not in the file.
	beside bool
}

// SettingsFormats lists them, in order of their names.
func SettingsFormats() []SettingsFormat {
	every := []string{"anthropic", "openai", "gemini", "openrouter"}
	return []SettingsFormat{
		{Name: "claude", Agent: "Claude Code", Place: "~/.claude/settings.json", dialects: []string{"anthropic"}, one: true,
			text: func(all []settings.Provider, k settings.Key, model string) (string, error) {
				return settings.Claude(all[0], k, model)
			}},
		{Name: "codex", Agent: "Codex", Place: "~/.codex/config.toml", dialects: []string{"openai", "openrouter"}, text: settings.Codex},
		{Name: "env", Agent: "whatever reads variables", Place: "a shell", dialects: every, beside: true},
		{Name: "gemini", Agent: "Gemini CLI", Place: "~/.gemini/settings.json", dialects: []string{"gemini"}, one: true, beside: true,
			text: func(_ []settings.Provider, _ settings.Key, model string) (string, error) {
				return settings.Gemini(model)
			}},
		{Name: "models.json", Agent: "pi", Place: "~/.pi/agent/models.json", dialects: every, lists: true,
			text: func(all []settings.Provider, k settings.Key, _ string) (string, error) { return settings.Pi(all, k) }},
		{Name: "models.yml", Agent: "omp", Place: "~/.omp/agent/models.yml", dialects: every, lists: true,
			text: func(all []settings.Provider, k settings.Key, _ string) (string, error) { return settings.Omp(all, k) }},
		{Name: "opencode", Agent: "opencode", Place: "~/.config/opencode/opencode.json", dialects: every, qualified: true, lists: true,
			text: func(all []settings.Provider, k settings.Key, model string) (string, error) {
				return settings.OpenCode(all, k, model)
			}},
		{Name: "qwen", Agent: "Qwen Code", Place: "~/.qwen/settings.json", dialects: []string{"openai", "openrouter"}, one: true, beside: true,
			text: func(_ []settings.Provider, _ settings.Key, model string) (string, error) { return settings.Qwen(model) }},
	}
}

// SettingsQuery says what settings are about.
type SettingsQuery struct {
	Format SettingsFormat
	Key    SettingsKey
	Model  string // that is used unless the user says otherwise, "upstream/id" or "id"; "" leaves that to the agent
}

// providerPrefix tells our upstreams from providers that agents have built in, whose
// models they would list beside ours.
const providerPrefix = "harbor-"

// route is an upstream as an agent is told about it.
type route struct {
	settings.Provider
	upstream agents.Upstream
	proxy    string // address
}

// Settings are the text of a file, and the lines for a shell that it does not do
// without, if there are any. Upstreams of which no model is known are left out,
// unless there are no others, and the file would not list models anyway.
func (q SettingsQuery) Settings(offers []Offer) (text, beside string, err error) {
	routes, model := q.routes(offers, false)
	if len(routes) == 0 && !q.Format.lists {
		routes, model = q.routes(offers, true)
	}
	if err := q.check(routes, model); err != nil {
		return "", "", err
	}
	token := q.Key.Text
	if token == "" {
		token = "$" + q.Key.Variable
	}
	access := agents.Access{URL: routes[0].proxy, Token: token}
	var all []settings.Provider
	for _, r := range routes {
		all, access.Upstreams = append(all, r.Provider), append(access.Upstreams, r.upstream)
	}
	lines := settings.Variables(access.Env(), q.Key)
	if q.Format.text == nil {
		return lines, "", nil
	}
	if q.Format.qualified && model != "" {
		model = all[0].Name + "/" + model
	}
	if text, err = q.Format.text(all, q.Key, model); err != nil || !q.Format.beside {
		return text, "", err
	}
	return text, lines, nil
}

// routes are those that the agent can use, that of the model that was asked for
// first, with the upstream's name for it. silent ones are upstreams that did not say
// which models they have.
func (q SettingsQuery) routes(offers []Offer, silent bool) (all []route, model string) {
	for _, o := range offers {
		id, chosen := o.chosen(q.Model)
		unknown := len(o.Models) == 0 && !(silent && o.Problem != "")
		if !slices.Contains(q.Format.dialects, o.Dialect) || unknown || q.Format.one && q.Model != "" && !chosen {
			continue
		}
		r := route{
			settings.Provider{Name: providerPrefix + o.Upstream, Dialect: o.Dialect, Base: o.BaseURL},
			agents.Upstream{Name: o.Upstream, Dialect: o.Dialect}, strings.TrimSuffix(o.BaseURL, "/"+o.Upstream),
		}
		for _, m := range o.Models {
			r.Models = append(r.Models, settings.Model{ID: m.ID, Context: m.Context, Output: m.Output})
		}
		if chosen && model == "" {
			model, all = id, slices.Insert(all, 0, r)
		} else {
			all = append(all, r)
		}
	}
	return all, model
}

// chosen reports whether a model that was asked for is the offer's, and its id.
func (o Offer) chosen(model string) (id string, ok bool) {
	if model == "" {
		return "", false
	}
	id, named := strings.CutPrefix(model, o.Upstream+"/")
	if named && len(o.Models) == 0 { // it does not say which it has
		return id, true
	}
	for _, m := range o.Models {
		if m.ID == id || m.ID == model {
			return m.ID, true
		}
	}
	return "", false
}

func (q SettingsQuery) check(all []route, model string) error {
	f := q.Format
	switch speaks := strings.Join(f.dialects, ", "); {
	case q.Model != "" && model == "":
		return fmt.Errorf("there is no upstream with model %s for %s, which speaks %s: see `harbor auth models`", q.Model, f.Agent, speaks)
	case len(all) == 0:
		return fmt.Errorf("there is no upstream with models for %s, which speaks %s: see `harbor auth models` and `harbor auth check`", f.Agent, speaks)
	case all[0].Base == "":
		return errors.New("no auth proxy takes TCP connections on this host, which agents need: start `harbor auth serve`, set auth.listen to HOST:PORT, or give the address with --url")
	case f.one && len(all) > 1:
		var names []string
		for _, r := range all {
			names = append(names, r.upstream.Name)
		}
		return fmt.Errorf("%s has room for one upstream: name one of %s", f.Agent, strings.Join(names, ", "))
	}
	return nil
}

// WriteSettings writes a file that only its user can read. It replaces what it wrote
// itself, by what the state directory remembers of that, and nothing else.
func (a *App) WriteSettings(path, text string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	record := filepath.Join(a.authDir(), "settings", digest(path))
	if err := replaceable(path, text, record); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(path, []byte(text), 0o600); err != nil {
		return err
	}
	return atomicfile.Write(record, []byte(digest(text)), 0o600)
}

// replaceable says why a path must stay as it is, unless it is free, empty, or holds what
// was written last or is to be written.
func replaceable(path, text, record string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.IsDir():
		return fmt.Errorf("%s is a directory: name a file in it", path)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s is a link, or no file, and is not written through: name the file itself", path)
	}
	there, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(there) == 0 || string(there) == text || string(was) == digest(string(there)) {
		return nil
	}
	return fmt.Errorf("%s holds what harbor did not write, or somebody has changed it: move it away, or print the settings and merge them yourself", path)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
