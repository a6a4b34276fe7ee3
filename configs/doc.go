// Package configs reads the files that people write: job and trial
// configurations (-c, in layers) and the host's config.yaml.
//
// It is strict where Harbor is not: an unknown key is an error with its place
// and the key that was probably meant, and all errors are reported at once.
//
//	files ─ parse ─▶ documents ─ migrate ─▶ today's form ─ check ─▶ merge ─▶ decode ─▶ validate
//
// Flags come later: the caller changes the returned struct and calls its
// Validate again. Secrets never stand in these files, only references to them.
package configs
