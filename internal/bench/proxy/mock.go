package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// What the mock provider answers is asked for by the "x" of a body, see asks.
const (
	wholeAnswer = "whole"
	fewEvents   = "events" // streamEvents of them, streamPause apart, each with the time it was sent at
	heldStream  = "hold"   // one event, and then nothing until the client goes
	longStream  = "long"   // longBytes at once
)

const (
	streamEvents = 50
	streamPause  = 20 * time.Millisecond
	longBytes    = 64 << 20
)

// asks is a request of about 8 KiB for one of the answers above.
func asks(kind string) []byte {
	stream := strconv.FormatBool(kind != wholeAnswer)
	words := bytes.Repeat([]byte("some words "), 735)
	return fmt.Appendf(nil, `{"x":%q,"model":"m","max_tokens":100,"stream":%s,"messages":[{"role":"user","content":%q}]}`, kind, stream, words)
}

// runMock is a provider that costs next to nothing.
func runMock(ctx context.Context, _ []string) error { return listen(ctx, http.HandlerFunc(answer)) }

// listen serves h on a free port until ctx ends, and prints the address.
func listen(ctx context.Context, h http.Handler) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	fmt.Println(l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	const most = 64 << 10
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	if err != nil {
		return
	}
	kind, _, _ := bytes.Cut(bytes.TrimPrefix(body, []byte(`{"x":"`)), []byte(`"`))
	if string(kind) == wholeAnswer {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"msg_1","type":"message","model":"m","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":2000,"output_tokens":100}}`,
			bytes.Repeat([]byte("word "), 110))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{w: w, rc: http.NewResponseController(w)}
	s.send("message_start", `"message":{"id":"msg_1","model":"m","usage":{"input_tokens":2000,"output_tokens":1}}`)
	switch string(kind) {
	case heldStream:
		<-r.Context().Done()
		return
	case longStream:
		s.long()
	default:
		s.few(r.Context())
	}
	s.send("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50}`)
	s.send("message_stop", `"end":true`)
}

type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) send(kind, rest string) {
	_, _ = fmt.Fprintf(s.w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, rest)
	_ = s.rc.Flush()
}

func (s *stream) few(ctx context.Context) {
	tick := time.NewTicker(streamPause)
	defer tick.Stop()
	for range streamEvents {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.send("content_block_delta", fmt.Sprintf(`"index":0,"delta":{"type":"text_delta","text":"word"},"at":%d`, time.Now().UnixNano()))
	}
}

// long sends events of 4 KiB as fast as they are taken.
func (s *stream) long() {
	event := fmt.Appendf(nil, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n",
		bytes.Repeat([]byte("words "), 680))
	for sent := 0; sent < longBytes; sent += len(event) {
		if _, err := s.w.Write(event); err != nil {
			return
		}
	}
}
