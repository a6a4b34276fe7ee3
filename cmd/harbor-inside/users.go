package main

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"harborgate/internal/insideproto"
)

// account is who a command runs as.
type account struct {
	name     string // "" without an entry in passwd
	uid, gid int
	groups   []int // with gid
	home     string
}

// credential is nil when nothing changes, because even root may lack the right to
// ask for a change. We then keep our groups: those that the sandbox was given.
func (a account) credential() *syscall.Credential {
	if a.uid == os.Geteuid() && a.gid == os.Getegid() {
		return nil
	}
	c := &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	for _, g := range a.groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}

// lookUpUser resolves "name", "uid", "name:group" or "uid:gid" by the passwd and
// group files in dir, as container engines do: numbers need no entry, and a group
// that is named is the only one. "" is our own user.
func lookUpUser(dir, spec string) (account, error) {
	name, group, hasGroup := strings.Cut(spec, ":")
	if name == "" {
		name = strconv.Itoa(os.Geteuid())
	}
	a, err := findUser(filepath.Join(dir, "passwd"), name)
	if err != nil {
		return account{}, err
	}
	if hasGroup {
		a.gid, err = findGroup(filepath.Join(dir, "group"), group)
		a.groups = []int{a.gid}
		return a, err
	}
	a.groups, err = memberships(filepath.Join(dir, "group"), a)
	return a, err
}

func findUser(file, name string) (account, error) {
	id, numeric := number(name)
	found := account{uid: id, home: "/"}
	ok := numeric
	if name == "root" {
		found, ok = account{name: "root", home: "/root"}, true
	}
	match := false
	err := eachLine(file, 7, func(f []string) bool {
		uid, uidOK := number(f[2])
		gid, gidOK := number(f[3])
		if !uidOK || !gidOK || f[0] != name && !(numeric && uid == id) {
			return true
		}
		match = true
		found = account{name: f[0], uid: uid, gid: gid, home: f[5]}
		return false
	})
	if err != nil {
		return account{}, err
	}
	if !ok && !match {
		return account{}, insideproto.Refuse(insideproto.Invalid, "there is no user %q", name)
	}
	if found.home == "" {
		found.home = "/"
	}
	return found, nil
}

func findGroup(file, name string) (int, error) {
	gid, ok := number(name)
	if name == "root" {
		gid, ok = 0, true
	}
	match := false
	err := eachLine(file, 3, func(f []string) bool {
		n, nOK := number(f[2])
		if f[0] != name || !nOK {
			return true
		}
		gid, match = n, true
		return false
	})
	if err == nil && !ok && !match {
		err = insideproto.Refuse(insideproto.Invalid, "there is no group %q", name)
	}
	return gid, err
}

// maxGroups is what Linux allows (NGROUPS_MAX).
const maxGroups = 65536

// memberships lists the groups of a user, the primary one first.
func memberships(file string, a account) ([]int, error) {
	groups := []int{a.gid}
	if a.name == "" {
		return groups, nil
	}
	err := eachLine(file, 4, func(f []string) bool {
		gid, ok := number(f[2])
		if ok && gid != a.gid && slices.Contains(strings.Split(f[3], ","), a.name) {
			groups = append(groups, gid)
		}
		return len(groups) < maxGroups
	})
	return groups, err
}

// number parses a uid or gid.
func number(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return int(n), err == nil && n >= 0 && n <= 1<<32-2
}

// maxLine bounds the lines of passwd and group, which the sandbox can write.
const maxLine = 1 << 20

// eachLine calls f with the fields of every line that has at least n, until f
// returns false. A missing file is empty.
func eachLine(file string, n int, f func([]string) bool) error {
	r, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return insideproto.Refuse(insideproto.Invalid, "look up the user: %v", err)
	}
	defer r.Close()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) >= n && !f(fields) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return insideproto.Refuse(insideproto.Invalid, "look up the user in %s: %v", file, err)
	}
	return nil
}
