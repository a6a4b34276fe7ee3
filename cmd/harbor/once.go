package main

import (
	"errors"

	"github.com/spf13/pflag"
)

// once is the text of a flag that has one value: another one would silently take the
// place of the first.
type once struct {
	to      *string
	instead func(first, second string) string // what to do
	given   bool
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.given && text != *o.to {
		return errors.New("it is given twice: " + o.instead(*o.to, text))
	}
	*o.to, o.given = text, true
	return nil
}

// String implements pflag.Value.
func (o *once) String() string {
	if o.to == nil { // of a flag that nobody made
		return ""
	}
	return *o.to
}

// Type implements pflag.Value.
func (o *once) Type() string { return "string" }

// addPlaceFlag is -e, which takes several providers as one list.
func addPlaceFlag(s *pflag.FlagSet, to *string, usage string) {
	s.VarP(&once{to: to, instead: func(first, second string) string {
		return "give -e once: -e " + first + "," + second
	}}, "env", "e", usage)
}
