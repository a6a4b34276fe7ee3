package wire

import (
	"bytes"
	"slices"
)

const (
	// lightest is the shortest body in which images are looked for.
	lightest = 32 << 10
	// imageWeight is as how much text an image counts, however large it is: providers
	// scale images down, and few count one as more than 5000 tokens.
	imageWeight = 15_000
)

// Weight is as how many bytes of text a body counts: its own, with images for what
// they may come to. Images are what lies where a format has them; the same text
// elsewhere, in the arguments of a tool for one, is text.
func Weight(body []byte) int {
	if len(body) < lightest {
		return len(body)
	}
	saved := 0
	_ = Members(body, func(m Member) error { // what is no object is refused elsewhere
		if slices.Contains([]string{"messages", "input", "contents"}, m.Key) {
			saved += imagesIn(m.Value, m.Key, 0)
		}
		return nil
	})
	return len(body) - saved
}

// imagesIn is by how much the images in the value of a key outweigh what they count as.
func imagesIn(v []byte, key string, depth int) int {
	const deepest = 8 // an image within the result of a tool
	if depth > deepest {
		return 0
	}
	switch v[0] {
	case '[':
		return imagesInList(v, key, depth)
	case '{':
		if slices.Contains([]string{"source", "inlineData", "inline_data"}, key) {
			return imageObject(v, key == "source")
		}
		saved := 0
		_ = Members(v, func(m Member) error {
			if slices.Contains([]string{"content", "source", "image_url", "url", "output", "parts", "inlineData", "inline_data"}, m.Key) {
				saved += imagesIn(m.Value, m.Key, depth+1)
			}
			return nil
		})
		return saved
	case '"':
		if (key == "url" || key == "image_url") && bytes.HasPrefix(v, []byte(`"data:image/`)) {
			return max(0, len(v)-imageWeight)
		}
	}
	return 0
}

func imagesInList(v []byte, key string, depth int) int {
	saved := 0
	for i := space(v, 1); i < len(v) && v[i] != ']'; {
		end, err := value(v, i)
		if err != nil {
			return 0
		}
		saved += imagesIn(v[i:end], key, depth)
		i = space(v, end)
		if i < len(v) && v[i] == ',' {
			i = space(v, i+1)
		}
	}
	return saved
}

// imageObject weighs an object that has the type of its data beside it. One that says
// something twice is read in two ways, and is text.
func imageObject(v []byte, typed bool) int {
	said := map[string][]byte{}
	twice := false
	err := Members(v, func(m Member) error {
		twice = twice || said[m.Key] != nil
		said[m.Key] = m.Value
		return nil
	})
	media := slices.Concat(said["media_type"], said["mimeType"], said["mime_type"])
	if err != nil || twice || !bytes.HasPrefix(media, []byte(`"image/`)) || typed && string(said["type"]) != `"base64"` {
		return 0
	}
	return max(0, len(said["data"])-imageWeight)
}
