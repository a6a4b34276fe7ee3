package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"harborgate/trials"
	"harborgate/trials/results"
)

// roomError says that nothing can be written to a directory that a job needs.
type roomError struct {
	dir string // as the user named it
	err error  // of the system, without the name of a file that nobody knows
}

func (e *roomError) Error() string { return fmt.Sprintf("%s: %v", e.dir, e.err) }
func (e *roomError) Unwrap() error { return e.err }

// remedies are what the user can do about a lack.
func remedies() map[syscall.Errno]string {
	return map[syscall.Errno]string{
		syscall.ENOSPC: "free space there", syscall.EDQUOT: "free space there",
		syscall.EMFILE: "let it have more open files", syscall.ENFILE: "let the host have more open files",
	}
}

// remedy is what the user can do about it.
func (e *roomError) remedy() string {
	for lack, then := range remedies() {
		if errors.Is(e.err, lack) {
			return then
		}
	}
	return "make it writable"
}

// advised says with a roomError what the user can do about it.
func advised(err error) error {
	if room := (*roomError)(nil); errors.As(err, &room) {
		return fmt.Errorf("%w: %s", err, room.remedy())
	}
	return err
}

// lacking says of an error that the host is short of something, if that is why.
func lacking(dir string, err error) error {
	for lack := range remedies() {
		if errors.Is(err, lack) {
			return advised(&roomError{dir: dir, err: lack})
		}
	}
	return err
}

// oneCause says once that the job's directory is gone, or cannot be written: whatever
// else could not be written follows from that.
func oneCause(dir string, err error) error {
	var gone *results.GoneError
	var out *OutageError
	switch {
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &out) && errors.As(out, new(*roomError)):
		return out
	}
	return lacking(dir, err)
}

// CheckRoom finds out before a job goes on that nothing could be written.
func (p *Plan) CheckRoom() error {
	if p.Past == nil || len(p.Trials) == 0 {
		return nil
	}
	return lacking(p.Dir(), hasRoom(p.Dir()))
}

// ended is the error of a job, which Close does not repeat in other words.
func (j *Job) ended(err error) error {
	j.full = trials.HostCause(err) == trials.CauseHost
	return oneCause(j.Plan.Dir(), err)
}

// Emit passes the events of tries on. When the job's directory is gone, what they could
// not write, file by file, is not worth a word: the job says it once.
func (j *Job) Emit(e trials.Event) {
	if e.Type == trials.EventNote && errors.As(j.files.Present(), new(*results.GoneError)) {
		return
	}
	j.Events.Emit(e)
}

// probeBytes must fit into the job's directory: a result with its logs does not
// fit where not even this does.
const probeBytes = 1 << 20

// hasRoom is of the job's directory, and of that where its trials have temporary files.
func (j *Job) hasRoom() error {
	if err := hasRoom(j.Dir); err != nil {
		return roomErrorOf(j.Plan.Dir(), err)
	}
	temp, err := j.app.owner.Temp()
	if err == nil {
		err = hasRoom(temp)
	}
	if err != nil {
		return roomErrorOf(j.app.Dirs.State, err)
	}
	return nil
}

func roomErrorOf(dir string, err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return &roomError{dir: dir, err: err}
}

func hasRoom(dir string) error {
	f, err := os.CreateTemp(dir, "."+results.RoomFile+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close())
}
