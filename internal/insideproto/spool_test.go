package insideproto

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// take reads everything that a spool has, until it would wait or has finished.
func take(t *testing.T, s *Spool, reader int, at int64) (string, int64) {
	t.Helper()
	var out bytes.Buffer
	for at < s.End() {
		frame, next, state := s.Next(reader, at)
		if state != More {
			t.Fatalf("state %d at %d of %d", state, at, s.End())
		}
		out.Write(Payload(frame))
		at = next
	}
	return out.String(), at
}

func attach(t *testing.T, s *Spool, from int64) (int, int64) {
	t.Helper()
	reader, at, err := s.Attach(from)
	if err != nil {
		t.Fatal(err)
	}
	return reader, at
}

func TestSpoolGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := NewSpool(1000, 0)
	for _, p := range []string{"abc", "def", "ghi"} {
		s.Append(FrameStdout, []byte(p))
	}
	r, at := attach(t, s, 0)
	if got, _ := take(t, s, r, at); got != "abcdefghi" {
		t.Errorf("first reader: %q", got)
	}
	r2, at := attach(t, s, 4) // in the middle of a frame
	if got, end := take(t, s, r2, at); got != "efghi" || end != 9 {
		t.Errorf("second reader: %q to %d", got, end)
	}
	if _, _, state := s.Next(r, 0); state != Stale || s.Current(r) || !s.Current(r2) {
		t.Errorf("the first reader is in state %d", state)
	}
	s.Detach(r) // stale: no effect
	if s.Unread() {
		t.Error("a stale reader detached the current one")
	}
	if err := s.Ack(9); err != nil || s.Size() != 0 {
		t.Errorf("%v, %d bytes kept", err, s.Size())
	}
	s.Finish()
	if _, _, state := s.Next(r2, 9); state != Finished {
		t.Errorf("at the end: state %d", state)
	}
	s.Append(FrameStdout, []byte("late"))
	if s.End() != 9 {
		t.Error("appended after the end")
	}
}

func TestSpoolRefusesOffsetsThatNeverWere(t *testing.T) {
	t.Parallel()
	s := NewSpool(1000, 0)
	s.Append(FrameStdout, []byte("abc"))
	for _, at := range []int64{-1, 4, 1 << 62} {
		if err := s.Ack(at); !errors.Is(err, ErrFrame) {
			t.Errorf("ack of %d: %v", at, err)
		}
		if _, _, err := s.Attach(at); !errors.Is(err, ErrFrame) {
			t.Errorf("attach at %d: %v", at, err)
		}
	}
}

func TestSpoolForgetsTheOldestWhenNobodyReads(t *testing.T) {
	t.Parallel()
	s := NewSpool(10*(chunkCost+1), 0)
	for i := range 100 {
		s.Append(FrameStdout, []byte{byte(i)})
	}
	r, at := attach(t, s, 0)
	got, _ := take(t, s, r, at)
	if at != 90 || len(got) != 10 || got[0] != 90 {
		t.Errorf("goes on at %d with %v", at, []byte(got))
	}
}

func TestSpoolLosesNothingWhileItIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSpool(2*(chunkCost+1), 10*time.Second)
		begun := time.Now()
		for range 3 {
			s.Append(FrameStdout, []byte{1})
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("dropped after %s", d)
		}
		if _, at := attach(t, s, 0); at != 1 {
			t.Errorf("goes on at %d", at)
		}
	})
}

func TestSpoolWaits(t *testing.T) {
	t.Parallel()
	for name, patience := range map[string]time.Duration{"with a reader": 0, "always": Forever, "for a while": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewSpool(2*(chunkCost+1), patience)
				if patience == 0 {
					attach(t, s, 0)
				}
				appended := 0
				go func() {
					for range 5 {
						s.Append(FrameStdin, []byte{1})
						appended++
					}
				}()
				synctest.Wait()
				if appended != 2 {
					t.Fatalf("%d appended", appended)
				}
				if err := s.Ack(1); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if appended != 3 {
					t.Errorf("%d appended after an acknowledgement", appended)
				}
				s.Finish()
				synctest.Wait()
				if appended != 5 || s.End() != 3 {
					t.Errorf("%d appended, %d kept, after the end", appended, s.End())
				}
			})
		})
	}
}

func TestSpoolTakesAFrameLargerThanItsLimit(t *testing.T) {
	t.Parallel()
	s := NewSpool(10, Forever)
	s.Append(FrameStdin, make([]byte, 1000))
	if s.End() != 1000 {
		t.Errorf("end %d", s.End())
	}
}
