package packages

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is a program that the user has: one file of this host, which is copied. What it
// holds pins it, so that one which replaces it is another package.
type File struct {
	Path string // of this host, absolute
	Name string // within the package
	Arch string // that it has to be for, as Go names it
}

// DigestSuffix is behind the program's name for the file with its SHA-256, in
// hexadecimal digits.
const DigestSuffix = ".sha256"

// machines are architectures as Go names them.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{
		"386": elf.EM_386, "amd64": elf.EM_X86_64, "arm": elf.EM_ARM, "arm64": elf.EM_AARCH64,
		"ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
	}
}

// open opens the program when sandboxes can run it.
func (p File) open() (*os.File, error) {
	fi, err := os.Stat(p.Path) // a pipe would not open before somebody writes
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0 {
		return nil, fmt.Errorf("%s is no executable file: name the program itself, and chmod +x it", p.Path)
	}
	f, err := os.Open(p.Path)
	if err != nil {
		return nil, err
	}
	if err := p.fits(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// fits reads what the program is for.
func (p File) fits(f *os.File) error {
	head, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("%s is no program for Linux (ELF): name the program itself, no archive and no script", p.Path)
	}
	if head.OSABI != elf.ELFOSABI_NONE && head.OSABI != elf.ELFOSABI_LINUX {
		return fmt.Errorf("%s is a program for %s, and sandboxes run Linux", p.Path, strings.TrimPrefix(head.OSABI.String(), "ELFOSABI_"))
	}
	if head.Machine != machines()[p.Arch] {
		return fmt.Errorf("%s is a program for %s, and the sandbox is %s: get the one for %s", p.Path, architecture(head.Machine), p.Arch, p.Arch)
	}
	return nil
}

// architecture names a machine as Go does, where Go knows it.
func architecture(m elf.Machine) string {
	known := machines()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name] == m {
			return name
		}
	}
	return m.String()
}

// Ready implements Source.
func (p File) Ready(context.Context) error {
	f, err := p.open()
	if err != nil {
		return err
	}
	return f.Close()
}

// Pin implements Source.
func (p File) Pin(context.Context) (string, error) {
	sum, err := p.copy(io.Discard)
	return short(sum), err
}

// copy gives the digest of what it copied.
func (p File) copy(to io.Writer) ([]byte, error) {
	f, err := p.open()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, to), f); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

// Fetch implements Source.
func (p File) Fetch(_ context.Context, _, dest string) (err error) {
	if err := os.Mkdir(dest, 0o755); err != nil {
		return err
	}
	to, err := os.OpenFile(filepath.Join(dest, p.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	sum, err := p.copy(to)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.WriteFile(p.digest(dest), []byte(hex.EncodeToString(sum)+"\n"), 0o644) //nolint:gosec // everybody in a sandbox reads it
}

func (p File) digest(dir string) string { return filepath.Join(dir, p.Name+DigestSuffix) }

// Holds implements Shifting.
func (p File) Holds(dir string) (string, error) {
	text, err := os.ReadFile(p.digest(dir))
	if err != nil {
		return "", err
	}
	sum, err := hex.DecodeString(strings.TrimSpace(string(text)))
	return short(sum), err
}

// Inside implements Source: no registry has it.
func (p File) Inside() Recipe {
	return Recipe{Script: "echo " + quoted(p.Name+" is a program of the host's: leave out --ak install=inside") + " >&2; exit 1\n"}
}
