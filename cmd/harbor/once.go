package main

import "errors"

// once is the text of a flag that can be given once: a second one would silently take
// the place of the first.
type once struct {
	to      *string
	instead string // what to do
	given   bool
}

// Set implements pflag.Value.
func (o *once) Set(text string) error {
	if o.given {
		return errors.New("it is given twice: " + o.instead)
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
