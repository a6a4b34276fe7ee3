package snapshots

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"harborgate/internal/atomicfile"
	"harborgate/providers"
)

// failedFor is how long a build that failed by its own fault is not tried again by
// those who do not ask for that: long enough for a job after a job, not for a day.
const failedFor = 5 * time.Minute

// BuildError is why there is no image: the build of this key failed, which may be that
// of another image that the wanted one is made from.
type BuildError struct {
	Key   Key
	Title string
	Log   string    // file with what the build said
	Past  time.Time // when an earlier process saw it fail; zero is just now
	Err   error
}

func (e *BuildError) Error() string {
	if e.Past.IsZero() {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (it failed like this at %s and was not tried again; a retry of the trial or `harbor snapshot build` does, its log is %s)",
		e.Err, e.Past.Local().Format(time.TimeOnly), e.Log)
}

func (e *BuildError) Unwrap() error { return e.Err }

// failure is a failed build on disk.
type failure struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// failedBefore is the error of a build that failed a short time ago, nil when there is
// none or the request wants to know again.
func (s *Store) failedBefore(r Request) error {
	if r.Try > 1 || r.Again {
		return nil
	}
	b, err := os.ReadFile(s.path(r.Key, ".failed"))
	if err != nil {
		return nil //nolint:nilerr // nobody remembers one
	}
	var f failure
	if err := json.Unmarshal(b, &f); err != nil {
		return nil //nolint:nilerr // a build will tell
	}
	if age := time.Since(f.At); age < 0 || age > failedFor {
		return nil
	}
	return &BuildError{
		Key: r.Key, Title: r.Title, Log: s.LogPath(r.Key), Past: f.At,
		Err: &providers.Error{Kind: providers.KindInvalid, Err: errors.New(f.Message)},
	}
}

// failed makes a build's error one of this key, unless it is that of another image,
// and remembers it when the build itself is to blame.
func (s *Store) failed(r Request, err error) error {
	var inner *BuildError
	if errors.As(err, &inner) {
		return err
	}
	if providers.Is(err, providers.KindInvalid) && !passing(err) {
		b, jerr := json.Marshal(failure{time.Now().UTC(), err.Error()})
		if jerr == nil {
			jerr = atomicfile.Write(s.path(r.Key, ".failed"), b, 0o600)
		}
		if jerr != nil {
			s.log.Warn("a failed build is not remembered, the next job tries it again", "title", r.Title, "error", jerr)
		}
	}
	return &BuildError{Key: r.Key, Title: r.Title, Log: s.LogPath(r.Key), Err: err}
}
