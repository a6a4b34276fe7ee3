package results

import (
	"errors"

	"github.com/tidwall/gjson"
)

// errNotWhole is a document that ends too early, or is no object.
var errNotWhole = errors.New("it is no whole JSON object")

// members calls f with the members of a JSON object, in order; values are as they
// are written. Most of a result need not be understood to be listed, and finding
// its parts is a fraction of parsing it.
func members(b []byte, f func(key string, value []byte) error) error {
	doc := gjson.ParseBytes(b)
	if !gjson.ValidBytes(b) || !doc.IsObject() {
		return errNotWhole
	}
	var err error
	doc.ForEach(func(key, value gjson.Result) bool {
		err = f(key.Str, []byte(value.Raw))
		return err == nil
	})
	return err
}
