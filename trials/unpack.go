package trials

import (
	"fmt"
	"slices"
)

// Unpack says where and how a tar stream from a sandbox is stored in a trial's
// directory.
type Unpack struct {
	Dir string // below the trial's directory
	// File stores the stream's single entry as this file of Dir.
	File string
	// Keep are names below Dir that are not overwritten: the host wrote them.
	Keep []string
	// Want decides by name below Dir; nil takes everything.
	Want func(name string) bool
}

// Unpacked counts what was stored and names what was not.
type Unpacked struct {
	Files, Dirs int
	Bytes       int64
	Skipped     []Skipped
	Links       []Link
}

// Skipped is one entry that was not stored.
type Skipped struct{ Name, Reason string }

// Link is a symbolic link of the stream. None is made on the host; another
// sandbox may get it. Target is as the link has it, not empty, and whatever the
// sandbox likes.
type Link struct{ Name, Target string }

// LeftOut lists all entries that are not on the host, links among them.
func (u Unpacked) LeftOut() []Skipped {
	out := slices.Clone(u.Skipped)
	for _, l := range u.Links {
		out = append(out, Skipped{l.Name, fmt.Sprintf("it is a symbolic link to %q", l.Target)})
	}
	return out
}
