package packages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elfOf is the head of a program, with something behind it.
func elfOf(t *testing.T, machine elf.Machine, abi elf.OSABI, tail string) []byte {
	t.Helper()
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(head.Ident[:], elf.ELFMAG)
	head.Ident[elf.EI_CLASS], head.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	head.Ident[elf.EI_VERSION], head.Ident[elf.EI_OSABI] = byte(elf.EV_CURRENT), byte(abi)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, head); err != nil {
		t.Fatal(err)
	}
	b.WriteString(tail)
	return b.Bytes()
}

func replace(t *testing.T, path string, content []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatSandboxesCannotRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	linux := elfOf(t, elf.EM_X86_64, elf.ELFOSABI_NONE, "")
	for name, c := range map[string]struct {
		content []byte
		mode    os.FileMode
		said    string
	}{
		"good":    {linux, 0o755, ""},
		"plain":   {linux, 0o644, "chmod +x"},
		"script":  {[]byte("#!/bin/sh\n"), 0o755, "no program for Linux (ELF)"},
		"arm":     {elfOf(t, elf.EM_AARCH64, elf.ELFOSABI_LINUX, ""), 0o755, "a program for arm64, and the sandbox is amd64"},
		"sparc":   {elfOf(t, elf.EM_SPARCV9, elf.ELFOSABI_NONE, ""), 0o755, "a program for EM_SPARCV9, and the sandbox is amd64"},
		"freebsd": {elfOf(t, elf.EM_X86_64, elf.ELFOSABI_FREEBSD, ""), 0o755, "a program for FREEBSD, and sandboxes run Linux"},
	} {
		p := File{Path: filepath.Join(dir, name), Name: "agent", Arch: "amd64"}
		replace(t, p.Path, c.content, c.mode)
		_, pin := p.Pin(t.Context())
		for _, err := range []error{pin, p.Ready(t.Context())} {
			if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
				t.Errorf("%s: %v, want %q", name, err, c.said)
			}
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, "nowhere")} {
		if _, err := (File{Path: path, Arch: "amd64"}).Pin(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What a job has begun with it goes on with, whatever becomes of the file.
func TestFileThatIsReplacedIsAnotherPackage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cache, path := filepath.Join(dir, "cache"), filepath.Join(dir, "agent")
	p := Package{Name: "agent-amd64", Version: "own", From: File{Path: path, Name: "agent", Arch: "amd64"}}
	first := elfOf(t, elf.EM_X86_64, elf.ELFOSABI_NONE, "first")
	replace(t, path, first, 0o700)
	job := NewCache(cache)
	begun, err := job.Get(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(begun, "agent"))
	if fi, _ := os.Stat(filepath.Join(begun, "agent")); err != nil || !bytes.Equal(got, first) || fi.Mode() != 0o755 {
		t.Errorf("%q %v", got, err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(first))
	if text, err := os.ReadFile(filepath.Join(begun, "agent"+DigestSuffix)); err != nil || string(text) != sum+"\n" || !strings.HasSuffix(begun, "-own-"+sum[:12]) {
		t.Errorf("%s %v in %s", text, err, begun)
	}

	replace(t, path, elfOf(t, elf.EM_X86_64, elf.ELFOSABI_NONE, "second"), 0o700)
	if again, err := job.Get(t.Context(), p); err != nil || again != begun {
		t.Errorf("%s %v, want %s", again, err, begun)
	}
	if other, err := NewCache(cache).Get(t.Context(), p); err != nil || other == begun {
		t.Errorf("%s %v", other, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if again, err := job.Get(t.Context(), p); err != nil || again != begun {
		t.Errorf("without the file: %s %v", again, err)
	}
}

// swapped is a file that somebody replaces between the look at it and its copy.
type swapped struct {
	File
	swap func()
}

func (s swapped) Fetch(ctx context.Context, work, dest string) error {
	s.swap()
	return s.File.Fetch(ctx, work, dest)
}

func TestFileThatIsReplacedBeforeItsCopyIsNotUsed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent")
	replace(t, path, elfOf(t, elf.EM_X86_64, elf.ELFOSABI_NONE, "first"), 0o755)
	from := swapped{File{Path: path, Name: "agent", Arch: "amd64"}, func() {
		replace(t, path, elfOf(t, elf.EM_X86_64, elf.ELFOSABI_NONE, "second"), 0o755)
	}}
	_, err := NewCache(filepath.Join(dir, "cache")).Get(t.Context(), Package{Name: "agent", Version: "own", From: from})
	if err == nil || !strings.Contains(err.Error(), "replaced before it was copied") {
		t.Errorf("%v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cache", "agent-own-*[0-9a-f]")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestFileHasNoWayInWithoutTheHost(t *testing.T) {
	t.Parallel()
	if script := (File{Name: "agent"}).Inside().Script; !strings.Contains(script, "exit 1") {
		t.Errorf("%s", script)
	}
}
