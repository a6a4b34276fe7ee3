package main

import (
	"errors"

	"harborgate/internal/app"
)

// budget is a flag of money. Nothing at all is no budget, and is not taken for "no
// limit".
type budget struct{ to *app.USD }

// Set implements pflag.Value.
func (b budget) Set(text string) error {
	var n app.USD
	if err := n.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("for 0 dollars no model answers: leave the flag out where there is no limit")
	}
	*b.to = n
	return nil
}

// Type implements pflag.Value.
func (budget) Type() string { return "dollars" }

func (b budget) String() string {
	if b.to == nil || *b.to == 0 {
		return ""
	}
	return b.to.String()
}
