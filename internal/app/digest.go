package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"harborgate/tasks"
)

// verdictDirs are the parts of a task that decide verdicts, whoever the agent is.
var verdictDirs = []string{tasks.EnvironmentDir, tasks.TestsDir, tasks.StepsDir}

// leavings are what editors and interpreters leave in a task's directory.
var leavings = []string{"__pycache__", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~"}

// verdictDigest is equal for two task directories that give the same verdicts. It
// does not know comments, metadata, a README, nor anything beside the named
// directories, the instruction and task.toml.
func verdictDigest(dir string, below []string) (string, error) {
	h := sha256.New()
	err := hashSettings(h, filepath.Join(dir, tasks.ConfigFile))
	for _, name := range []string{tasks.InstructionFile, tasks.TrajectoryFile} {
		if ferr := hashFile(h, dir, name); !errors.Is(ferr, fs.ErrNotExist) {
			err = errors.Join(err, ferr)
		}
	}
	for _, name := range below {
		err = errors.Join(err, hashTree(h, dir, name))
	}
	if err != nil {
		return "", fmt.Errorf("digest of task %s: %w", dir, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// hashSettings takes from task.toml what its reader would: values, however they
// are written.
func hashSettings(h io.Writer, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var settings map[string]any
	if err := toml.Unmarshal(b, &settings); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	delete(settings, "metadata")
	if pkg, ok := settings["task"].(map[string]any); ok {
		settings["task"] = pkg["name"]
	}
	return json.NewEncoder(h).Encode(settings)
}

func hashTree(h io.Writer, dir, below string) error {
	// The separator makes a directory that is a link be walked.
	return filepath.WalkDir(filepath.Join(dir, below)+string(filepath.Separator), func(p string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case isLeaving(d.Name()) && d.IsDir():
			return fs.SkipDir
		case d.IsDir() || isLeaving(d.Name()):
			return nil
		}
		return hashFile(h, dir, filepath.ToSlash(rel))
	})
}

func isLeaving(name string) bool {
	for _, pattern := range leavings {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

// hashFile frames a file, so that no two trees read the same. A link counts with
// where it leads and what is there.
func hashFile(h io.Writer, dir, name string) error {
	full := filepath.Join(dir, filepath.FromSlash(name))
	info, err := os.Stat(full)
	if err != nil {
		return err
	}
	target, _ := os.Readlink(full) // "" for what is no link
	fmt.Fprintf(h, "%q %q %v %d\n", name, target, info.Mode()&0o111 != 0, info.Size())
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(full)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}

// digest is of all that can change the trial's verdict and stands in files: the
// task, its solution when that is what runs, and extra instructions.
func (p PlannedTrial) digest() (string, error) {
	of := p.Task.verdict
	if p.Config.Agent.AgentName() == "oracle" {
		of = p.Task.solution
	}
	sum, err := of()
	if err != nil || len(p.Config.ExtraInstructionPaths) == 0 {
		return sum, err
	}
	h := sha256.New()
	fmt.Fprint(h, sum)
	for _, name := range p.Config.ExtraInstructionPaths {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "\n%d ", len(b))
		h.Write(b)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}
