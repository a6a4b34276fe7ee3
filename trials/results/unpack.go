package results

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/internal/insideproto"
	"harborgate/trials"
)

const (
	// maxSkipped bounds the list of what was left out; the rest is only counted.
	maxSkipped = 100
	// maxName is what systems take as a path, in bytes.
	maxName = 4096
	// maxLinks bounds the names and targets of one stream's links, in bytes: they
	// are kept in memory.
	maxLinks = 8 << 20
	// maxReason bounds what a sandbox says about an entry, in bytes.
	maxReason = 200
)

// unpacker stores one tar stream. Every entry is a file or a directory of its
// own below the trial's directory, whatever the stream says.
type unpacker struct {
	t    *Trial
	opt  trials.Unpack
	made map[string]bool // directories that exist
	more int
	held int // bytes of links
	got  trials.Unpacked
}

// Unpack stores a stream from a sandbox. Entries that are no plain files or
// directories, that would land elsewhere, that are too large or that the sandbox
// could not send are skipped and listed, and so are links; only a broken stream
// or a failing disk is an error.
func (t *Trial) Unpack(stream io.Reader, o trials.Unpack) (trials.Unpacked, error) {
	u := &unpacker{t: t, opt: o, made: map[string]bool{}}
	if err := u.mkdir("."); err != nil {
		return u.got, err
	}
	r := tar.NewReader(stream)
	for {
		hdr, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u.got, fmt.Errorf("read what the sandbox sent for %s: %w", o.Dir, err)
		}
		if err := u.entry(hdr, r); err != nil {
			return u.got, err
		}
	}
	if u.more > 0 {
		u.got.Skipped = append(u.got.Skipped, trials.Skipped{Name: "…", Reason: fmt.Sprintf("%d more entries", u.more)})
	}
	return u.got, nil
}

func (u *unpacker) skip(name, reason string) {
	if len(u.got.Skipped) >= maxSkipped {
		u.more++
		return
	}
	u.got.Skipped = append(u.got.Skipped, trials.Skipped{Name: name, Reason: reason})
}

// notStored says why an entry of a type is never stored.
var notStored = map[byte]string{
	tar.TypeChar:  "it is a device",
	tar.TypeBlock: "it is a device",
	tar.TypeFifo:  "it is a pipe",
}

// known are the types of entries that are stored or listed as links.
const known = string(tar.TypeReg) + string(tar.TypeDir) + string(tar.TypeLink) + string(tar.TypeSymlink) + string(tar.TypeGNUSparse)

func (u *unpacker) entry(hdr *tar.Header, body io.Reader) error {
	name := path.Clean(hdr.Name)
	if u.opt.File != "" {
		name = u.opt.File
	}
	if name == "." {
		return nil
	}
	if u.opt.Want != nil && !u.opt.Want(name) || slices.Contains(u.opt.Keep, name) {
		return nil
	}
	if reason := u.refused(name, hdr); reason != "" {
		u.skip(name, reason)
		return nil
	}
	var err error
	switch hdr.Typeflag {
	case tar.TypeDir:
		err = u.mkdir(name)
	case tar.TypeSymlink:
		u.link(name, hdr.Linkname)
	case tar.TypeLink:
		err = u.hardLink(name, path.Clean(hdr.Linkname))
	default:
		err = u.file(name, hdr, body)
	}
	var refusal *nameError
	if errors.As(err, &refusal) && !diskFailed(err) {
		u.skip(name, err.Error())
		return nil
	}
	return err
}

// nameError is what the file system has against one name (too long, a file where
// a directory should be): the entry is left out.
type nameError struct{ err error }

func (e *nameError) Error() string { return e.err.Error() }
func (e *nameError) Unwrap() error { return e.err }

func (u *unpacker) refused(name string, hdr *tar.Header) string {
	limits := u.t.limits
	switch {
	case !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0):
		return "its name leads outside"
	case len(name) > maxName:
		return fmt.Sprintf("its name has %d bytes, more than %d", len(name), maxName)
	case hdr.PAXRecords[insideproto.SkippedRecord] != "":
		reason := hdr.PAXRecords[insideproto.SkippedRecord]
		return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "\uFFFD")
	case notStored[hdr.Typeflag] != "":
		return notStored[hdr.Typeflag]
	case strings.IndexByte(known, hdr.Typeflag) < 0:
		return fmt.Sprintf("it is of an unknown type %q", hdr.Typeflag)
	case hdr.Size > limits.FileBytes:
		return fmt.Sprintf("it has %d bytes, more than the %d that one file may have", hdr.Size, limits.FileBytes)
	case u.t.used.bytes+hdr.Size > limits.TotalBytes:
		return fmt.Sprintf("the trial's files would have more than %d bytes", limits.TotalBytes)
	case u.t.used.files >= limits.Files:
		return fmt.Sprintf("the trial has %d files already", limits.Files)
	}
	return ""
}

// mkdir makes a directory below Dir, with its parents. Each counts against the
// limit of files: a stream of directories fills a disk as well.
func (u *unpacker) mkdir(name string) error {
	if u.made[name] {
		return nil
	}
	if name == "." {
		u.made[name] = true
		return u.t.root.MkdirAll(filepath.FromSlash(u.opt.Dir), 0o755)
	}
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	full := filepath.FromSlash(path.Join(u.opt.Dir, name))
	err := u.t.root.Mkdir(full, 0o755)
	if errors.Is(err, fs.ErrExist) {
		fi, serr := u.t.root.Lstat(full)
		if serr == nil && fi.IsDir() {
			err = nil
		}
	}
	if err != nil {
		return &nameError{err}
	}
	u.made[name] = true
	u.t.used.files++
	u.got.Dirs++
	return nil
}

func (u *unpacker) file(name string, hdr *tar.Header, body io.Reader) error {
	if err := u.mkdir(path.Dir(name)); err != nil {
		return err
	}
	f, err := u.create(name, hdr.FileInfo().Mode().Perm()&0o755|0o600)
	if err != nil {
		return &nameError{err}
	}
	n, err := io.Copy(f, body)
	u.t.used.files++
	u.t.used.bytes += n
	u.got.Files++
	u.got.Bytes += n
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store %s: %w", path.Join(u.opt.Dir, name), err)
	}
	return nil
}

// create makes a new file, never writing through one that is there.
func (u *unpacker) create(name string, mode fs.FileMode) (*os.File, error) {
	full := filepath.FromSlash(path.Join(u.opt.Dir, name))
	if err := u.t.root.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return u.t.root.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// link lists a symbolic link. It counts as a file.
func (u *unpacker) link(name, target string) {
	if target == "" || len(target) > maxName || strings.ContainsRune(target, 0) {
		u.skip(name, fmt.Sprintf("it is a symbolic link to a name of %d bytes that no file can have", len(target)))
		return
	}
	if u.held += len(name) + len(target); u.held > maxLinks {
		u.skip(name, fmt.Sprintf("it is a symbolic link, and there are more than %d bytes of them", maxLinks))
		return
	}
	u.t.used.files++
	u.got.Links = append(u.got.Links, trials.Link{Name: name, Target: target})
}

// hardLink copies the file that was stored under the other name: links are not
// made on the host.
func (u *unpacker) hardLink(name, target string) error {
	full := path.Join(u.opt.Dir, target)
	if !filepath.IsLocal(filepath.FromSlash(target)) {
		u.skip(name, "it is a hard link that leads outside")
		return nil
	}
	if name == target {
		return nil // it is there already
	}
	src, size, err := u.t.open(full)
	if err != nil {
		u.skip(name, "it is a hard link to something that was not stored")
		return nil
	}
	defer src.Close()
	hdr := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	if reason := u.refused(name, hdr); reason != "" {
		u.skip(name, reason)
		return nil
	}
	return u.file(name, hdr, src)
}
