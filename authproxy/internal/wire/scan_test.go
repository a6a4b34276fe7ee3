package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestScanReadsWhatMatters(t *testing.T) {
	t.Parallel()
	a, err := Scan([]byte(` { "model" : "m/1" , "stream":true,"messages":[{"model":"other","n":[1,{"x":"}\\\""}]}],
		"stream_options":{"include_usage":true},"max_tokens":10,"max_completion_tokens":20,"n":3,"service_tier":"priority",
		"previous_response_id":"resp_1","temperature":-1.5e3,"stop":null} `))
	if err != nil {
		t.Fatal(err)
	}
	if a.Model != "m/1" || !a.Stream || !a.IncludeUsage || a.MaxOutput != 20 || a.Choices != 3 || a.Tier != "priority" || a.Previous != "resp_1" {
		t.Errorf("%+v", a)
	}
	for _, body := range []string{
		`{"generationConfig":{"maxOutputTokens":7,"candidateCount":2}}`,
		`{"generation_config":{"max_output_tokens":7,"candidate_count":2}}`,
	} {
		a, err = Scan([]byte(body))
		if err != nil || a.MaxOutput != 7 || a.Choices != 2 {
			t.Errorf("%s: %+v %v", body, a, err)
		}
	}
}

// Attack 18 of the threat model: bodies that programs read differently.
func TestAttack18PriceConfusion(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"model":"expensive","Model":"cheap"}`,
		`{"Model":"cheap"}`,
		`{"model":"cheap","model":"expensive"}`,
		`{"model":"cheap","\u006dodel":"expensive"}`,
		`{"MODEL":"x"}`,
		`{"max_tokens":1,"Max_Tokens":9}`,
		"{\"\u212a\":1,\"previous_re\u017fponse_id\":\"x\"}",
		`{"generationConfig":{},"generation_config":{}}`,
		`{"model":"cheap"} {"model":"expensive"}`,
		`{"model":"cheap"}x`,
		`{"model":"cheap",}`,
		`{"model":"cheap"`,
		`{"model":'cheap'}`,
		`{"a":[},"model":"m"}`,
		`{"a":[/*"*/],"model":"m"}`,
		`{"a":truefalse}`,
		`{"model":5}`,
		`{"stream":"true"}`,
		`{"n":-1}`,
		`{"n":1e300}`,
		`["model"]`,
		``,
		"{\"model\":\"\xff\"}",
		"\xef\xbb\xbf{\"model\":\"m\"}",
		`{"stream_options":{"include_usage":true,"include_usage":false}}`,
		`{"stream_options":{"Include_usage":true}}`,
		`{"a":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`,
	} {
		if a, err := Scan([]byte(body)); err == nil {
			t.Errorf("%.60q passes: %+v", body, a)
		}
	}
}

func TestKeysThatAreNotServed(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"models":["a","b"]}`, `{"background":true}`, `{"conversation":"c"}`, `{"cachedContent":"x"}`, `{"cached_content":"x"}`,
	} {
		if a, err := Scan([]byte(body)); err != nil || a.Refused == "" {
			t.Errorf("%s passes (%v)", body, err)
		}
	}
	for _, body := range []string{`{"models":null}`, `{"background":false}`, `{"messages":[{"models":1}]}`} {
		if a, err := Scan([]byte(body)); err != nil || a.Refused != "" {
			t.Errorf("%s: %q %v", body, a.Refused, err)
		}
	}
}

func TestWithUsageChangesNothingElse(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		` {"model":"m","stream":true}`:                                    ` {"stream_options":{"include_usage":true},"model":"m","stream":true}`,
		`{"model":"m","stream_options":null, "x":1}`:                      `{"model":"m","stream_options":{"include_usage":true}, "x":1}`,
		`{"stream_options":{"include_usage":false,"y":[1, 2]},"model":1}`: ``,
		`{"stream_options":{"include_usage":false,"y":[1, 2]},"z":1}`:     `{"stream_options":{"include_usage":true,"y":[1,2]},"z":1}`,
	} {
		a, err := Scan([]byte(body))
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		got, err := a.WithUsage()
		if string(got) != want || err != nil {
			t.Errorf("%s\n got %s\nwant %s (%v)", body, got, want, err)
		}
	}
}

func TestHasRemoteMedia(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"messages":[{"content":[{"image_url":{"url":"http://169.254.169.254/"}}]}]}`:  true,
		`{"messages":[{"content":[{"image_url":{"\u0075rl":"\u0068ttps://x/"}}]}]}`:     true,
		`{"messages":[{"content":[{"image_url":"file:///etc/passwd"}]}]}`:               true,
		`{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AA"}}]}]}`: false,
		`{"messages":[{"content":"see the url http://example.org"}]}`:                   false,
		`{"fileData":{"fileUri":"gs://x"}}`:                                             true,
	} {
		if got := HasRemoteMedia([]byte(body)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// FuzzBodyScanner holds the scanner against the decoder: what it accepts is one
// object in which the decoder finds the same model, under one name.
func FuzzBodyScanner(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","stream":true,"stream_options":{"a":1}}`, `{"model":"\u006d"}`, `{"a":[{}],"model":"x"}`, `{}`, `{"model":"a","Model":"b"}`,
		`{"a":{"b":[1,2,{"c":"\\\""}]},"max_tokens":12}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := Scan(body)
		if err != nil || !json.Valid(body) {
			return
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatalf("accepted %q, which is no object: %v", body, err)
		}
		var model string
		_ = json.Unmarshal(doc["model"], &model)
		if model != a.Model {
			t.Errorf("model %q, the decoder reads %q", a.Model, model)
		}
		for key := range doc {
			if key != "model" && strings.EqualFold(key, "model") {
				t.Errorf("%q passes beside model", key)
			}
		}
		if len(doc) == 0 {
			return
		}
		out, err := a.WithUsage()
		if err != nil {
			t.Fatal(err)
		}
		b, err := Scan(out)
		if err != nil || !b.IncludeUsage || b.Model != a.Model {
			t.Errorf("%q became %q: %v", body, out, err)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("some words ", 700) + `"}]}`)
	big := bytes.Replace(body, []byte("some words"), bytes.Repeat([]byte("many more words "), 3000), 1)
	for name, text := range map[string][]byte{"8KiB": body, "56KiB": big} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Scan(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
