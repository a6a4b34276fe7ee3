package authproxy

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
)

// BenchmarkRequest is a whole request of 8 KiB, direct and through the proxy, by
// as many clients as there are processors.
func BenchmarkRequest(b *testing.B) {
	body := `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("some words ", 740) + `"}]}`
	reply := []byte(`{"id":"x","model":"m","content":[{"type":"text","text":"` + strings.Repeat("word ", 100) + `"}],"usage":{"input_tokens":2000,"output_tokens":100}}`)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	}))
	defer up.Close()
	p, err := New(Options{
		Log: slog.New(slog.DiscardHandler), StateDir: b.TempDir(),
		Sources: Sources{LookupEnv: func(string) (string, bool) { return canary, true }},
		Load: func() (Config, error) {
			return Config{Upstreams: map[string]Upstream{"a": {
				Dialect: wire.Anthropic, BaseURL: up.URL, Local: true, Keys: []KeyRef{"env:K"}, Prices: map[string]Price{"m": price("1", "10")},
			}}}, nil
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	if err := p.Reload(b.Context()); err != nil {
		b.Fatal(err)
	}
	token, _, err := p.Mint(GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"a"}, Expires: time.Now().Add(time.Hour), Jobs: Sum{Money: 1e18}})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = p.Serve(l) }()
	for name, url := range map[string]string{"direct": up.URL + "/v1/messages", "proxy": "http://" + l.Addr().String() + "/a/v1/messages"} {
		b.Run(name, func(b *testing.B) {
			tr := &http.Transport{MaxIdleConnsPerHost: 64}
			defer tr.CloseIdleConnections()
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
					req.Header.Set("X-Api-Key", token)
					resp, err := tr.RoundTrip(req)
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
						b.Error(resp.StatusCode, err)
					}
					resp.Body.Close()
				}
			})
		})
	}
}
