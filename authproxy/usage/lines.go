package usage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Copy writes to w what the log at path says of a grant, line for line as it is there,
// the oldest first. Logs that were set aside before since are not read.
func Copy(w io.Writer, path, grant string, since time.Time) error {
	mark := fmt.Appendf(nil, `"grant":%q`, grant)
	for _, log := range slices.Backward(aside(path)) {
		fi, err := os.Stat(log)
		if errors.Is(err, fs.ErrNotExist) || err == nil && fi.ModTime().Add(coarse).Before(since) {
			continue
		}
		if err == nil {
			err = copyLines(w, log, mark)
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
	}
	return nil
}

// coarse is more than a file's time may be behind the clock.
const coarse = time.Second

// copyLines writes the whole lines of a file that hold mark.
func copyLines(w io.Writer, path string, mark []byte) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, readBuffer)
	for {
		line, err := r.ReadBytes('\n')
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if bytes.Contains(line, mark) {
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
}
