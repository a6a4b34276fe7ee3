// Package insideproto is the language between harbor and harbor-inside, its
// companion inside a sandbox.
//
// Over one duplex byte stream both sides exchange a [Hello], then speak yamux
// ([MuxConfig]): the host is its client, the companion its server. Every yamux
// stream begins with one [Header] and goes on as frames: one byte of type, four
// bytes of length (big endian), payload.
//
//	exec    host → inside   FrameStdin…, FrameEnd, FrameAck, FrameKill, FrameDone
//	        inside → host   FrameAccepted, FrameStdout/FrameStderr…, FrameAck, FrameExit or FrameRefused
//	put     host → inside   FrameBody… (a tar stream), FrameEnd
//	        inside → host   FrameEnd or FrameRefused
//	get     inside → host   FrameAccepted, FrameBody… (a tar stream), FrameEnd; or FrameRefused
//	expose  inside → host   FrameAccepted (the port), then nothing until either side closes
//	relay   both            FrameBody…, FrameEnd; opened by inside, one per connection
//
// A yamux close is never the end of data. It means "I am done with this stream
// altogether", and the other side closes at once. What ends data is FrameEnd with
// the count of bytes, so nothing that was cut off looks complete.
//
// Both ends treat each other as hostile. Every length is capped before memory is
// taken, and every decoder is fuzzed.
package insideproto

import "time"

// Version is the protocol's version. Host and companion of different versions
// refuse each other.
const Version = 1

// Limits of what either side takes from the other, in bytes.
const (
	// MaxChunk is the largest payload of a frame that carries data.
	MaxChunk = 64 << 10
	// MaxRecord is the largest payload of every other frame.
	MaxRecord = 8 << 10
	// MaxHeader is the largest header of a stream that the host opens: it holds
	// arguments and environment.
	MaxHeader = 16 << 20
	// MaxRelayHeader is the largest header of a stream that the companion opens.
	MaxRelayHeader = 256
	// MaxArg is the longest argument or environment entry that Linux passes to a
	// program, without the final NUL (MAX_ARG_STRLEN).
	MaxArg = 128<<10 - 1
	// MaxArgs is how much argv and the environment may be together. Kernels
	// allow a quarter of the stack limit, never more than this.
	MaxArgs = 6 << 20
)

// MaxFile is the size in bytes above which get does not send a file: a sparse one
// costs nothing inside, and hours of zeros here.
const MaxFile = 2 << 30

// SkippedRecord is the PAX record of an entry that get lists without its content:
// a regular file of Size 0, or a directory whose entries do not follow. Its value
// says why, for people.
const SkippedRecord = "HARBOR.skipped"

// Windows of one command, in bytes.
const (
	// OutputWindow is how much output the companion keeps until the host
	// acknowledged it, and all it keeps while no session is there.
	OutputWindow = 1 << 20
	// OutputPatience is how long a command with a full window waits for a broken
	// session before its output is lost.
	OutputPatience = 10 * time.Second
	// StdinWindow is how much input the host sends ahead of what the command read.
	StdinWindow = 256 << 10
)

// MaxRelays is how many connections one session carries from the sandbox to the
// host at a time. Further ones wait in the sandbox.
const MaxRelays = 128

// HandshakeTimeout is how long either side waits for the other's Hello.
const HandshakeTimeout = 15 * time.Second
