package inside_test

import (
	"archive/tar"
	"bytes"
	"io"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/inside"
)

// everywhere runs a benchmark against the companion as a process of this host, which
// shows our own costs, and in a container behind the engine's.
func everywhere(b *testing.B, f func(*testing.B, *inside.Session)) {
	b.Run("process", func(b *testing.B) { f(b, open(b, inside.Options{})) })
	b.Run("container", func(b *testing.B) { f(b, start(b, nil).open(b)) })
}

func BenchmarkExec(b *testing.B) { everywhere(b, benchmarkExec) }

func benchmarkExec(b *testing.B, s *inside.Session) {
	cmd := providers.Command{Args: []string{"true"}}
	b.Run("one", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			begin := time.Now()
			if _, err := s.Exec(b.Context(), cmd); err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(begin))
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
	})
	b.Run("eight", func(b *testing.B) {
		b.SetParallelism(4) // times two processors
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := s.Exec(b.Context(), cmd); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "execs/s")
	})
}

func BenchmarkOutput(b *testing.B) { everywhere(b, benchmarkOutput) }

func benchmarkOutput(b *testing.B, s *inside.Session) {
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		n := 0
		_, err := s.Exec(b.Context(), providers.Command{
			Args: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}, Stdout: writeFunc(func(p []byte) { n += len(p) }),
		})
		if err != nil || n != size {
			b.Fatalf("%d bytes, %v", n, err)
		}
	}
}

func BenchmarkTransfer(b *testing.B) { everywhere(b, benchmarkTransfer) }

func benchmarkTransfer(b *testing.B, s *inside.Session) {
	const size = 64 << 20
	var t bytes.Buffer
	dir := b.TempDir()
	w := tar.NewWriter(&t)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: size, Mode: 0o644}); err != nil {
		b.Fatal(err)
	}
	if _, err := w.Write(bytes.Repeat([]byte("0123456789abcdef"), size/16)); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("upload", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if err := s.Upload(b.Context(), bytes.NewReader(t.Bytes()), dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("download", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := s.Download(b.Context(), dir)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, r); err != nil {
				b.Fatal(err)
			}
			r.Close()
		}
	})
}

// BenchmarkRelay measures a round trip from a process of this host, over the
// companion and two pipes, to the handler and back; and the same over TCP alone.
func BenchmarkRelay(b *testing.B) {
	s := open(b, inside.Options{})
	reply := func(c net.Conn) {
		defer c.Close()
		_, _ = io.Copy(c, c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go reply(c)
		}
	}()
	relayed, _ := expose(b, s, reply)
	for name, addr := range map[string]string{"direct": l.Addr().String(), "relayed": relayed} {
		b.Run(name, func(b *testing.B) {
			c := dial(b, addr)
			buf := make([]byte, 1024)
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
