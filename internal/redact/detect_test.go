package redact

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

const known = "s3cr3t/value+of=mine"

func TestDetectorFindsSecrets(t *testing.T) {
	t.Parallel()
	d := NewDetector(map[string]string{known: "MY_TOKEN", "true": "", "12": ""})
	for text, found := range map[string]bool{
		known: true, "x" + known + "y": true,
		base64.StdEncoding.EncodeToString([]byte(known)):        true,
		hex.EncodeToString([]byte(known)):                       true,
		known[:len(known)-1]:                                    false,
		"true 12 sk- sk-proj- sk-ant-api03-short":               false,
		"key=sk-ant-api03-" + strings.Repeat("aB3_", 20) + "\n": true,
		"key=sk-ant-api03-" + strings.Repeat("aB3.", 20):        false,
		"npm_" + strings.Repeat("x", 36):                        true,
		"":                                                      false,
		"s":                                                     false,
	} {
		for cut := 0; cut <= len(text); cut++ {
			p := d.Probe()
			for _, part := range []string{text[:cut], text[cut:]} {
				if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			if (p.Found != "") != found {
				t.Errorf("%q cut at %d: found %q, want %v", text, cut, p.Found, found)
			}
			if strings.Contains(p.Found, known) {
				t.Errorf("it says the value: %q", p.Found)
			}
		}
	}
}

func TestDetectorNamesTheVariable(t *testing.T) {
	t.Parallel()
	d := NewDetector(map[string]string{known: "MY_TOKEN", "another-secret": ""})
	for text, want := range map[string]string{
		known: "a known secret (the value of MY_TOKEN)", hex.EncodeToString([]byte(known)): "a known secret (the value of MY_TOKEN)",
		"another-secret": "a known secret",
	} {
		p := d.Probe()
		_, _ = p.Write([]byte(text))
		if p.Found != want {
			t.Errorf("%q, want %q", p.Found, want)
		}
	}
}

func FuzzDetector(f *testing.F) {
	f.Add([]byte("before"), []byte("after"), uint16(3))
	f.Add([]byte("s3cr3t/val"), []byte{}, uint16(12))
	f.Fuzz(func(t *testing.T, before, after []byte, cut uint16) {
		text := append(append(append([]byte{}, before...), known...), after...)
		at := int(cut) % (len(text) + 1)
		p := NewDetector(map[string]string{known: ""}).Probe()
		_, _ = p.Write(text[:at])
		_, _ = p.Write(text[at:])
		if p.Found == "" {
			t.Errorf("not found in %q cut at %d", text, at)
		}
	})
}

func BenchmarkDetector(b *testing.B) {
	text := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = byte(r.UintN(256))
	}
	values := map[string]string{}
	for i := range 30 {
		values["value-"+strings.Repeat(string(rune('a'+i)), 40)] = ""
	}
	d := NewDetector(values)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		p := d.Probe()
		_, _ = p.Write(text)
	}
}
