package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// FormatFloat prints a finite f as Harbor's files do (Python's repr): the
// shortest digits that read back, always with a point or an exponent.
func FormatFloat(f float64) string {
	e := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if exp < -4 || exp >= 16 {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

// Number is a reward value. Integers stay integers, because Harbor's statistics
// use the printed form ("1" and "1.0") as keys.
type Number struct {
	Value float64
	Int   bool
}

func (n Number) String() string {
	if n.Int {
		return strconv.FormatFloat(n.Value, 'f', -1, 64)
	}
	return FormatFloat(n.Value)
}

// MarshalJSON writes the number as Harbor prints it.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(n.Value) || math.IsInf(n.Value, 0) {
		return nil, fmt.Errorf("reward %v is not finite", n.Value)
	}
	return []byte(n.String()), nil
}

// UnmarshalJSON reads a JSON number and remembers whether it was an integer.
func (n *Number) UnmarshalJSON(b []byte) error {
	var v json.Number
	if json.Unmarshal(b, &v) != nil { // whose error names types of this program
		return fmt.Errorf("%.40s is no number", b)
	}
	f, err := v.Float64()
	if err != nil {
		return fmt.Errorf("%.40s is no number", b)
	}
	*n = Number{Value: f, Int: !strings.ContainsAny(v.String(), ".eE")}
	return nil
}

// Reward is one named value of a verdict.
type Reward struct {
	Key   string
	Value Number
}

// Rewards are the values of one verdict, in the order of the reward file.
type Rewards []Reward

// Get returns the value of a key.
func (r Rewards) Get(key string) (Number, bool) {
	for _, x := range r {
		if x.Key == key {
			return x.Value, true
		}
	}
	return Number{}, false
}

// Main returns the value that stands for the verdict: "reward", or the only
// one. It is false when there are several and none is called "reward".
func (r Rewards) Main() (Number, bool) {
	if n, ok := r.Get("reward"); ok {
		return n, true
	}
	if len(r) == 1 {
		return r[0].Value, true
	}
	return Number{}, false
}

// MarshalJSON writes an object in order; nil is null.
func (r Rewards) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		k, err := json.Marshal(x.Key)
		if err != nil {
			return nil, err
		}
		v, err := x.Value.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.Key, err)
		}
		b.Write(k)
		b.WriteByte(':')
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads an object of numbers, keeping its order.
func (r *Rewards) UnmarshalJSON(b []byte) error {
	*r = nil
	if string(bytes.TrimSpace(b)) == "null" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("rewards: want an object")
	}
	out := Rewards{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var n Number
		if err := dec.Decode(&n); err != nil {
			return fmt.Errorf("rewards: %v: %w", key, err)
		}
		out = append(out, Reward{Key: key.(string), Value: n})
	}
	*r = out
	return nil
}
