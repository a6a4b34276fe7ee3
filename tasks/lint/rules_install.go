package lint

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"harborgate/tasks"
)

// run is a command of a Dockerfile or of a test script.
type run struct {
	command
	path string
}

// builds are the commands of all Dockerfiles. A RUN over several lines counts as its
// first.
func (s *subject) builds() []run {
	var out []run
	for _, d := range s.images {
		for _, n := range d.nodes {
			if !strings.EqualFold(n.Value, "run") || n.Next == nil {
				continue
			}
			var cs []command
			if n.Attributes["json"] {
				c := command{line: n.StartLine}
				for a := n.Next; a != nil; a = a.Next {
					c.words = append(c.words, &a.Value)
				}
				cs = c.expanded(0)
			} else {
				cs = commands(n.Next.Value)
			}
			for _, c := range cs {
				c.line = n.StartLine
				out = append(out, run{c, d.path})
			}
		}
	}
	return out
}

// tests are the commands of test scripts; separate takes only those that run in a
// sandbox of their own.
func (s *subject) tests(separate bool) []run {
	var out []run
	seen := map[string]bool{}
	for _, step := range s.units() {
		script, ok := s.task.TestScript(step)
		if !ok || filepath.Ext(script) != ".sh" || seen[script] || separate && s.task.VerifierMode(step) != tasks.VerifierSeparate {
			continue
		}
		seen[script] = true
		content, err := read(script)
		if err != nil {
			continue // another rule says that
		}
		for _, c := range commands(string(content)) {
			out = append(out, run{c, script})
		}
	}
	return out
}

// perLine adds one finding for a line, however many commands it has.
func (s *subject) perLine(r run, format string, args ...any) {
	if n := len(s.findings); n > 0 {
		last := s.findings[n-1]
		if last.Rule == s.rule && last.Path == r.path && number(last.Line) == r.line {
			return
		}
	}
	s.found(r.path, r.line, 0, format, args...)
}

func unpinnedPython(s *subject) {
	for _, r := range append(s.builds(), s.tests(false)...) {
		if loose := looseRequirements(r.command); len(loose) > 0 {
			s.perLine(r, "%s has no exact version: write ==, or install from a requirements or constraints file", strings.Join(loose, ", "))
		}
	}
}

// pipInstalls are the ways to install Python packages that are named on the line.
var pipInstalls = [][]string{
	{"pip", "install"}, {"pip3", "install"}, {"python", "-m", "pip", "install"}, {"python3", "-m", "pip", "install"},
	{"uv", "pip", "install"}, {"uv", "tool", "install"}, {"pipx", "install"},
}

// pipValues are options that are followed by a value.
var pipValues = []string{
	"-i", "--index-url", "--extra-index-url", "--index", "--default-index", "-f", "--find-links", "-t", "--target", "--prefix", "--root",
	"-p", "--python", "--python-version", "--platform", "--timeout", "--retries", "--trusted-host", "--cache-dir", "--proxy", "--cert",
	"--log", "--progress-bar", "--only-binary", "--no-binary", "--upgrade-strategy", "--index-strategy", "-r", "--requirement",
	"--requirements", "-e", "--editable", "--src", "--report", "--config-settings", "--implementation", "--abi",
}

// looseRequirements are the packages of a command that have no exact version.
func looseRequirements(c command) []string {
	for _, words := range pipInstalls {
		rest, ok := c.begins(words...)
		if !ok {
			continue
		}
		return looseOf(rest)
	}
	rest, ok := c.begins("uvx")
	if !ok {
		rest, ok = c.begins("uv", "tool", "run")
	}
	if !ok {
		return nil
	}
	var out []string
	for i := 0; i+1 < len(rest); i++ { // what it runs itself is its own to choose
		if rest[i] != nil && slices.Contains([]string{"--with", "-w", "--from"}, *rest[i]) && rest[i+1] != nil && !pinned(*rest[i+1]) {
			out = append(out, *rest[i+1])
		}
	}
	return out
}

func looseOf(words []*string) []string {
	var out []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w == nil: // known when it runs
		case *w == "-c" || *w == "--constraint" || strings.HasPrefix(*w, "--constraint="):
			return nil
		case slices.Contains(pipValues, *w):
			i++
		case !strings.HasPrefix(*w, "-") && !pinned(*w):
			out = append(out, *w)
		}
	}
	return out
}

var (
	exactVersion = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?\s*={2,3}\s*[A-Za-z0-9][A-Za-z0-9._+!-]*$`)
	exactCommit  = regexp.MustCompile(`^git\+.*@[0-9a-f]{40}(#.*)?$`)
)

// pinned reports a requirement that always is the same: an exact version, a commit, or
// a file that the task brings along.
func pinned(requirement string) bool {
	r, _, _ := strings.Cut(requirement, ";")
	r = strings.TrimSpace(r)
	local := strings.HasPrefix(r, ".") || strings.HasPrefix(r, "/") || !strings.Contains(r, "://") && strings.HasSuffix(r, ".whl")
	return local || exactVersion.MatchString(r) || exactCommit.MatchString(r)
}

// installs are commands that install packages.
var installs = [][]string{
	{"apt-get", "install"}, {"apt", "install"}, {"apk", "add"}, {"yum", "install"}, {"dnf", "install"}, {"microdnf", "install"},
	{"pip", "install"}, {"pip3", "install"}, {"python", "-m", "pip", "install"}, {"python3", "-m", "pip", "install"},
	{"uv", "pip", "install"}, {"uv", "tool", "install"}, {"uv", "sync"}, {"uv", "add"}, {"pipx", "install"}, {"poetry", "install"}, {"conda", "install"},
	{"npm", "install"}, {"npm", "ci"}, {"yarn", "add"}, {"yarn", "install"}, {"pnpm", "install"}, {"pnpm", "add"},
	{"cargo", "install"}, {"go", "install"}, {"gem", "install"}, {"bundle", "install"},
}

func verifierInstall(s *subject) {
	for _, r := range s.tests(true) {
		for _, words := range installs {
			if _, ok := r.begins(words...); ok {
				s.perLine(r, "`%s` during the trial makes verdicts depend on a network: install it in the verifier's image", strings.Join(words, " "))
				break
			}
		}
		if _, ok := r.begins("uvx"); ok || r.uvRunWith() {
			s.perLine(r, "`%s` fetches packages during the trial: install them in the verifier's image", r.name())
		}
	}
}

func (c command) uvRunWith() bool {
	rest, ok := c.begins("uv", "run")
	return ok && slices.ContainsFunc(rest, func(w *string) bool { return w != nil && strings.HasPrefix(*w, "--with") })
}

// downloads are commands that fetch what an address names.
var downloads = [][]string{{"curl"}, {"wget"}, {"aria2c"}, {"git", "clone"}}

func verifierDownload(s *subject) {
	for _, r := range s.tests(true) {
		for _, words := range downloads {
			rest, ok := r.begins(words...)
			if !ok || words[0] == "curl" && !r.kept && !slices.ContainsFunc(rest, savesFile) {
				continue // what is only looked at may be a service under test
			}
			for _, w := range rest {
				if w != nil && external(*w) {
					s.perLine(r, "`%s` fetches %s during the trial: bring it along in the verifier's image, or ignore this rule where a live service is what is tested",
						strings.Join(words, " "), *w)
				}
			}
		}
	}
}

var saving = regexp.MustCompile(`^(-[A-Za-z]*[oO]|--output|--output=.*|--remote-name|--remote-name-all)$`)

func savesFile(w *string) bool { return w != nil && saving.MatchString(*w) }

// external reports an address outside of the sandbox. Names without a dot are services
// of the task.
func external(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return false
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		return !ip.IsLoopback() && !ip.IsPrivate() && !ip.IsUnspecified()
	}
	return strings.Contains(host, ".") && !strings.HasSuffix(host, ".local") && !strings.HasSuffix(host, ".internal")
}
