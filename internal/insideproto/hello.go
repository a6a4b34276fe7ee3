package insideproto

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// Hello is the first thing that each side says.
type Hello struct {
	Version int `json:"version"`
	// Boot is random per life of the companion. When it changes, the commands of
	// the former life are gone.
	Boot string `json:"boot,omitempty"`
}

const (
	helloMagic = "HGIN"
	maxHello   = 1 << 10
)

// WriteHello sends h.
func WriteHello(w io.Writer, h Hello) error {
	p, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode hello: %w", err)
	}
	b := binary.BigEndian.AppendUint32([]byte(helloMagic), uint32(len(p)))
	_, err = w.Write(append(b, p...))
	return err
}

// ReadHello reads the other side's Hello and nothing beyond it. When something
// else is there, the error shows its beginning: it is often the message of
// whatever failed to start the companion.
func ReadHello(r io.Reader) (Hello, error) {
	var magic [len(helloMagic)]byte
	n, err := io.ReadFull(r, magic[:])
	if err != nil {
		return Hello{}, fmt.Errorf("no greeting after %q: %w", Printable(string(magic[:n]), maxHello), err)
	}
	if !bytes.Equal(magic[:], []byte(helloMagic)) {
		rest := make([]byte, 256)
		n, _ := r.Read(rest)
		return Hello{}, fmt.Errorf("%w: no greeting but %q", ErrFrame, Printable(string(magic[:])+string(rest[:n]), maxHello))
	}
	p, err := readSized(r, maxHello)
	if err != nil {
		return Hello{}, err
	}
	var h Hello
	if err := ParseRecord(p, &h); err != nil {
		return Hello{}, err
	}
	return h, nil
}

// CheckVersion compares the other side's version with ours.
func CheckVersion(h Hello) error {
	if h.Version != Version {
		return fmt.Errorf("harbor and harbor-inside are of different releases: protocol %d here, %d there; recreate the sandbox", Version, h.Version)
	}
	return nil
}

// MuxConfig is how both sides set up yamux. Windows stay small because each open
// stream can cost the host as much memory as its window.
func MuxConfig() *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:          64,
		EnableKeepAlive:        true,
		KeepAliveInterval:      15 * time.Second,
		ConnectionWriteTimeout: 30 * time.Second,
		MaxStreamWindowSize:    256 << 10,
		StreamOpenTimeout:      60 * time.Second,
		StreamCloseTimeout:     30 * time.Second,
		LogOutput:              io.Discard,
	}
}
