package trials

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
}

// Skipped is one entry that was not stored.
type Skipped struct{ Name, Reason string }
