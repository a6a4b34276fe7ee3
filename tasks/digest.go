package tasks

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Names of files that say what does not belong to a task.
const (
	gitIgnore    = ".gitignore"
	harborIgnore = ".harborignore"
)

// defaultIgnore holds for tasks without a .gitignore.
const defaultIgnore = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"

// Checksum returns the task_checksum of a task directory, 64 hex digits: the
// "dirhash" standard over names and contents of all files, links followed.
// What .harborignore names is left out.
func Checksum(dir string) (string, error) {
	ignore, err := readHarborIgnore(dir)
	if err != nil {
		return "", fmt.Errorf("checksum of %s: %w", dir, err)
	}
	sum, err := dirHash(dir, "", nil, ignore)
	if err == nil && sum == "" {
		err = errors.New("it holds no files")
	}
	if err != nil {
		return "", fmt.Errorf("checksum of %s: %w", dir, err)
	}
	return sum, nil
}

// dirHash returns "" for a directory without files.
func dirHash(root, rel string, above []fs.FileInfo, ignore harborIgnores) (string, error) {
	entries, above, err := followDir(root, rel, above)
	if err != nil {
		return "", err
	}
	var descriptors []string
	for _, e := range entries {
		kind := "data:"
		var sum string
		switch name := path.Join(rel, e.Name()); {
		case e.IsDir():
			kind = "dirhash:"
			sum, err = dirHash(root, name, above, ignore)
		case ignore.ignored(name):
			continue
		default:
			sum, err = fileHash(filepath.Join(root, name))
		}
		if err != nil {
			return "", err
		}
		if sum != "" {
			// "data:" and "dirhash:" sort before "name:", as the standard wants.
			descriptors = append(descriptors, kind+sum+"\x00name:"+e.Name())
		}
	}
	if len(descriptors) == 0 {
		return "", nil
	}
	slices.Sort(descriptors)
	return textHash(strings.Join(descriptors, "\x00\x00")), nil
}

// followed is a directory entry whose link, if it is one, was followed.
type followed struct {
	fs.DirEntry
	info fs.FileInfo
}

func (f followed) IsDir() bool     { return f.info.IsDir() }
func (f followed) IsRegular() bool { return f.info.Mode().IsRegular() }

// followDir lists a directory with links followed. above are the directories on
// the way to it; the result has this one too. A link back to one of them would
// never end and is an error.
func followDir(root, rel string, above []fs.FileInfo) ([]followed, []fs.FileInfo, error) {
	dir := filepath.Join(root, rel)
	self, err := os.Stat(dir)
	if err != nil {
		return nil, nil, err
	}
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, self) }) {
		return nil, nil, fmt.Errorf("%s links back to a directory above it", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	out := make([]followed, len(entries))
	for i, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, nil, err
		}
		out[i] = followed{e, info}
	}
	return out, append(slices.Clip(above), self), nil
}

// ContentHash returns the hash under which a package of the task is published,
// 64 hex digits. It covers what belongs to a task, without what .gitignore and
// .harborignore name.
func ContentHash(dir string) (string, error) {
	files, err := packageFiles(dir)
	if err != nil {
		return "", fmt.Errorf("content hash of %s: %w", dir, err)
	}
	h := sha256.New()
	for _, name := range files {
		sum, err := fileHash(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("content hash of %s: %w", dir, err)
		}
		fmt.Fprintf(h, "%s\x00%s\n", name, sum)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// packageFiles lists the files of a package in order.
func packageFiles(dir string) ([]string, error) {
	rules := parseIgnore(defaultIgnore)
	switch b, err := readRegular(filepath.Join(dir, gitIgnore)); {
	case err == nil:
		rules = parseIgnore(string(b))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	ignore, err := readHarborIgnore(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range []string{ConfigFile, InstructionFile, "README.md", TrajectoryFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	for _, sub := range []string{EnvironmentDir, TestsDir, SolutionDir, StepsDir} {
		if files, err = appendFiles(files, dir, sub, nil); err != nil {
			return nil, err
		}
	}
	files = slices.DeleteFunc(files, func(name string) bool { return rules.ignored(name) || ignore.ignored(name) })
	slices.Sort(files)
	return files, nil
}

// appendFiles adds all files below sub, links followed.
func appendFiles(files []string, root, sub string, above []fs.FileInfo) ([]string, error) {
	entries, above, err := followDir(root, sub, above)
	if errors.Is(err, fs.ErrNotExist) && len(above) == 0 {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(sub, e.Name())
		switch {
		case e.IsDir():
			if files, err = appendFiles(files, root, name, above); err != nil {
				return nil, err
			}
		case e.IsRegular():
			files = append(files, name)
		}
	}
	return files, nil
}

// EnvironmentHash returns Harbor's hash of a build context, 32 hex digits. A
// directory without files is known by its image, or else by the task's name.
func EnvironmentHash(dir, image, name string) (string, error) {
	files, err := contextFiles(dir)
	if err != nil {
		return "", fmt.Errorf("environment hash of %s: %w", dir, err)
	}
	if len(files) == 0 {
		if image == "" {
			image = name
		}
		return textHash(image)[:32], nil
	}
	h := sha256.New()
	for _, f := range files {
		if err := hashFramed(h, filepath.Join(dir, f), f); err != nil {
			return "", fmt.Errorf("environment hash of %s: %w", dir, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:32], nil
}

// contextFiles lists the regular files of a build context, without links and
// without what no build needs.
func contextFiles(dir string) ([]string, error) {
	skip := map[string]bool{".DS_Store": true, ".git": true, "__pycache__": true}
	var files []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p != dir && skip[e.Name()] && e.IsDir():
			return fs.SkipDir
		case !e.Type().IsRegular() || skip[e.Name()]:
			return nil
		}
		rel, err := filepath.Rel(dir, p)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.Sort(files)
	return files, err
}

// hashFramed adds one file: length and name, length and content. Lengths are 32
// bits, big-endian.
func hashFramed(h io.Writer, full, name string) error {
	content, err := readRegular(full)
	if err != nil {
		return err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(name)))
	frame = append(frame, name...)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(content)))
	if _, err := h.Write(frame); err != nil {
		return err
	}
	_, err = h.Write(content)
	return err
}

func fileHash(p string) (string, error) {
	f, err := openRegular(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	// A task has many small files: io.Copy would take 32 KiB for each.
	buf := make([]byte, min(info.Size()+1, 32<<10))
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buf); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func textHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// harborIgnores are the .harborignore files of a task, by the directory that
// they rule.
type harborIgnores map[string]ignoreRules

// readHarborIgnore reads those of tests/ and solution/, and of the steps.
func readHarborIgnore(root string) (harborIgnores, error) {
	dirs := []string{TestsDir, SolutionDir}
	steps, err := os.ReadDir(filepath.Join(root, StepsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, s := range steps {
		dirs = append(dirs, path.Join(StepsDir, s.Name(), TestsDir), path.Join(StepsDir, s.Name(), SolutionDir))
	}
	out := harborIgnores{}
	for _, dir := range dirs {
		b, err := readRegular(filepath.Join(root, dir, harborIgnore))
		switch {
		case err == nil:
			out[dir] = parseIgnore(string(b))
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return out, nil
}

func (h harborIgnores) ignored(rel string) bool {
	for dir, rules := range h {
		if below, ok := strings.CutPrefix(rel, dir+"/"); ok && rules.ignored(below) {
			return true
		}
	}
	return false
}
