package view

import (
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

const mostTyped = 200 // bytes

// prompt is a line that is being typed.
type prompt struct {
	label string
	text  string
	open  bool
}

// take handles a key or a paste. done reports that the text is complete, or was
// dropped and is empty.
func (p *prompt) take(msg tea.Msg) (done bool) {
	switch msg := msg.(type) {
	case tea.PasteMsg:
		p.add(msg.Content)
	case tea.KeyPressMsg:
		switch msg.String() {
		case "enter":
			p.open = false
			return true
		case "esc":
			p.open, p.text = false, ""
			return true
		case "backspace":
			_, n := utf8.DecodeLastRuneInString(p.text)
			p.text = p.text[:len(p.text)-n]
		case "ctrl+u":
			p.text = ""
		default:
			p.add(msg.Text)
		}
	}
	return false
}

func (p *prompt) add(s string) {
	if len(p.text)+len(s) <= mostTyped {
		p.text += clean(s)
	}
}

func (p *prompt) view(columns int) string {
	return fit(bold.on(p.label)+p.text+"▏", columns)
}
