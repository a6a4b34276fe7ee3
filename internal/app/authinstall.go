package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"harborgate/configs"
	"harborgate/internal/atomicfile"
)

// Installation is the auth proxy as a supervisor will run it.
type Installation struct {
	Files []PlacedFile `json:"files"`
	Dirs  []string     `json:"dirs,omitempty"` // made beside them, for their owner alone
	First []string     `json:"first"`          // what must be there before it can start
	Next  []string     `json:"next"`           // commands that start it
}

// PlacedFile is a file with its place.
type PlacedFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// PlanAuthService says which files make a supervisor run the auth proxy, with what
// config.yaml says about addresses. root is put before the places of the system, the
// program's too; empty is this host. A program that the supervisor could not start is an
// error.
func PlanAuthService(s configs.Supervisor, program, root string, lookup func(string) (string, bool)) (Installation, error) {
	host, problems := configs.LoadHost(lookup, configs.Types{})
	if err := problems.Err(); err != nil {
		return Installation{}, err
	}
	dirs, err := FindDirs(lookup)
	if err != nil {
		return Installation{}, err
	}
	set, err := ReadAuthSettings(host, dirs, lookup)
	if err != nil {
		return Installation{}, err
	}
	files, err := configs.ServiceFiles(s, program, set.addresses())
	if err == nil {
		err = checkProgram(s, program, root)
	}
	if err != nil {
		return Installation{}, err
	}
	config, _ := configs.HostPath(func(name string) (string, bool) {
		if name == "HARBOR_CONFIG" { // it may be anywhere; supervisors look at home
			return "", false
		}
		return lookup(name)
	})
	at := placesOf(s, filepath.Dir(config))
	out := Installation{First: at.first, Next: at.next}
	for _, f := range files {
		dir := at.files
		if at.others[f.Name] != "" {
			dir = at.others[f.Name]
		}
		out.Files = append(out.Files, PlacedFile{filepath.Join(root, dir, f.Name), f.Text})
	}
	for _, d := range at.private {
		out.Dirs = append(out.Dirs, filepath.Join(root, d))
	}
	return out, nil
}

// places are where files of a supervisor go, and what is to be done then.
type places struct {
	files   string
	others  map[string]string // by name of the file
	private []string
	first   []string
	next    []string
}

// placesOf knows the supervisors. config is the directory of config.yaml.
func placesOf(s configs.Supervisor, config string) places {
	switch s {
	case configs.SystemdSystem:
		return places{
			files: "/etc/systemd/system", others: map[string]string{"harborgate.conf": "/etc/sysusers.d"}, private: []string{"/etc/harborgate/keys"},
			first: []string{
				"/etc/harborgate/config.yaml, with an upstream: see docs/auth-proxy.md",
				"its key, e.g. /etc/harborgate/keys/anthropic: credential:key_anthropic in config.yaml",
			},
			next: []string{
				"systemd-sysusers", "systemctl daemon-reload",
				"systemctl enable --now harbor-auth.socket harbor-auth-admin.socket harbor-auth.service",
			},
		}
	case configs.SystemdUser:
		return places{
			files: filepath.Join(filepath.Dir(config), "systemd", "user"),
			first: ownFirst(config),
			next: []string{
				"systemctl --user daemon-reload",
				"systemctl --user enable --now harbor-auth.socket harbor-auth-admin.socket harbor-auth.service",
			},
		}
	}
	return places{files: config, first: ownFirst(config), next: []string{"pm2 start " + filepath.Join(config, "ecosystem.config.cjs"), "pm2 save"}}
}

// ownFirst is what a service of one user needs. Supervisors keep the variables of a
// shell from it.
func ownFirst(config string) []string {
	return []string{
		filepath.Join(config, "config.yaml") + ", with an upstream: see docs/auth-proxy.md",
		"its key, in a file of mode 0600: file:/path in config.yaml",
	}
}

// Install writes the files. One that is there with other content is somebody's work:
// unless by force, nothing is written then.
func (i Installation) Install(force bool) error {
	var foreign []string
	for _, f := range i.Files {
		was, err := os.ReadFile(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && string(was) == f.Text:
		case err != nil:
			return fmt.Errorf("install: %w", err)
		default:
			foreign = append(foreign, f.Path)
		}
	}
	if len(foreign) > 0 && !force {
		return fmt.Errorf("%s: there is something else already: compare with --print, replace with --force", strings.Join(foreign, ", "))
	}
	if err := i.write(); err != nil {
		return fmt.Errorf("install: %w: run it as root, or for one user with --user", err)
	}
	return nil
}

// write stops at the first thing that cannot be made: the others fail for the same
// reason.
func (i Installation) write() error {
	for _, d := range i.Dirs { // what is around it, the service must be able to enter
		if err := makeOpen(filepath.Dir(d)); err != nil {
			return err
		}
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for _, f := range i.Files {
		if err := makeOpen(filepath.Dir(f.Path)); err != nil {
			return err
		}
		if err := atomicfile.Write(f.Path, []byte(f.Text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeOpen makes a directory that all can enter, whatever the umask. One that is there
// stays as it is.
func makeOpen(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}
