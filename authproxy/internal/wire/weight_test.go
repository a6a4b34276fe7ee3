package wire

import (
	"strings"
	"testing"
)

// Images count for what they may come to, and only where a format has them.
func TestImagesAreNotCountedAsText(t *testing.T) {
	t.Parallel()
	image := "iVBORw0KGgo" + strings.Repeat("QUJD", 250_000)
	url := `"data:image/png;base64,` + image + `"`
	object := `{"type":"base64","media_type":"image/png","data":"` + image + `"}`
	for name, c := range map[string]struct {
		body  string
		image bool
	}{
		"messages":       {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image","source":` + object + `}]}]}`, true},
		"of a tool":      {`{"messages":[{"content":[{"type":"tool_result","content":[{"type":"image","source":` + object + `}]}]}]}`, true},
		"chat":           {`{"messages": [ {"content": [ {"type":"image_url","image_url":{"url":` + url + `}} ] } ]}`, true},
		"responses":      {`{"input":[{"content":[{"type":"input_image","image_url":` + url + `}]}]}`, true},
		"gemini":         {`{"contents":[{"parts":[{"inlineData":{"mimeType":"image/jpeg","data":"` + image + `"}}]}]}`, true},
		"text":           {`{"messages":[{"content":[{"type":"text","text":` + url + `}]}]}`, false},
		"plain content":  {`{"messages":[{"content":` + url + `}]}`, false},
		"tool arguments": {`{"messages":[{"content":[{"type":"tool_use","input":{"source":` + object + `}}]}]}`, false},
		"tools":          {`{"tools":[{"input_schema":{"content":{"source":` + object + `}}}],"messages":[]}`, false},
		"text document":  {`{"messages":[{"content":[{"source":{"type":"text","media_type":"image/png","data":"` + image + `"}}]}]}`, false},
		"PDF":            {`{"messages":[{"content":[{"source":{"type":"base64","media_type":"application/pdf","data":"` + image + `"}}]}]}`, false},
		"said twice":     {`{"messages":[{"content":[{"source":{"type":"text","type":"base64","media_type":"image/png","data":"` + image + `"}}]}]}`, false},
		"broken":         {`{"messages":[{"content":[{"source":` + object + `]}}]}`, false},
	} {
		want := len(c.body)
		if c.image {
			want -= len(image) - imageWeight
		}
		if got := Weight([]byte(c.body)); got < want-100 || got > want+100 {
			t.Errorf("%s: %d, want about %d", name, got, want)
		}
	}
	if got := Weight([]byte(`{"messages":[{"image_url":"data:image/png;base64,AAAA"}]}`)); got > 100 {
		t.Errorf("%d", got)
	}
}

func FuzzWeight(f *testing.F) {
	pad := strings.Repeat(" ", lightest)
	f.Add(`{"messages":[{"content":[{"source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`)
	f.Add(`{"input":[[1,{"url":"data:image/"},"",],]}`)
	f.Fuzz(func(t *testing.T, body string) {
		padded := []byte(pad + body)
		if n := Weight(padded); n < 0 || n > len(padded) {
			t.Errorf("%d of %d", n, len(padded))
		}
	})
}
