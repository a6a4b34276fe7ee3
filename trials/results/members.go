package results

import (
	"errors"

	"github.com/tidwall/gjson"
)

// errNotWhole is a document that ends too early, or is no object.
var errNotWhole = errors.New("it is no whole JSON object")

// members calls f with the members of a JSON document that is an object, in order.
// Most of a result need not be understood to be listed, and finding its parts is a
// fraction of parsing it. What f keeps of a value must be a copy: a value is a piece of
// the whole document.
func members(b []byte, f func(key string, value gjson.Result) error) error {
	text := string(b)
	doc := gjson.Parse(text)
	if !gjson.Valid(text) || !doc.IsObject() {
		return errNotWhole
	}
	return each(doc, f)
}

// each is members of a value; null has none.
func each(object gjson.Result, f func(key string, value gjson.Result) error) error {
	if object.Type == gjson.Null {
		return nil
	}
	if !object.IsObject() {
		return errNotWhole
	}
	var err error
	object.ForEach(func(key, value gjson.Result) bool {
		err = f(key.Str, value)
		return err == nil
	})
	return err
}
