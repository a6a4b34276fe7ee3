package trials

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
)

// The right column is what Python 3.12 prints for float(left).
func TestFormatFloatIsPythonsRepr(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"0", "0.0"}, {"-0", "-0.0"}, {"1", "1.0"}, {"-1", "-1.0"}, {"0.1", "0.1"}, {"0.5", "0.5"}, {"100", "100.0"},
		{"0.0001", "0.0001"}, {"0.00001", "1e-05"}, {"0.00012345", "0.00012345"}, {"0.000012345", "1.2345e-05"},
		{"1e15", "1000000000000000.0"}, {"1e16", "1e+16"}, {"9999999999999998", "9999999999999998.0"},
		{"12345678901234567", "1.2345678901234568e+16"}, {"123456789012345.6", "123456789012345.6"},
		{"1e22", "1e+22"}, {"1e100", "1e+100"}, {"1.5e-7", "1.5e-07"}, {"5e-324", "5e-324"}, {"1e-10", "1e-10"},
		{"1.7976931348623157e308", "1.7976931348623157e+308"}, {"0.30000000000000004", "0.30000000000000004"},
		{"0.6666666666666666", "0.6666666666666666"}, {"1234.5", "1234.5"}, {"-2.5e-9", "-2.5e-09"},
	} {
		f, err := strconv.ParseFloat(c[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := FormatFloat(f); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

func FuzzFormatFloat(f *testing.F) {
	for _, v := range []float64{0, 1, 0.1, 1e16, 1e-5, -3.25, 5e-324} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		s := FormatFloat(v)
		back, err := strconv.ParseFloat(s, 64)
		if err != nil || back != v {
			t.Errorf("%v is printed %s and read back %v %v", v, s, back, err)
		}
		var n Number
		if err := json.Unmarshal([]byte(s), &n); err != nil || n.Int || n.Value != v {
			t.Errorf("%s as JSON is %+v %v", s, n, err)
		}
	})
}

func TestNumbersKeepTheirKind(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "1.0", "0", "0.0", "-3", "0.5", "1e-05", "1e+16", "12345678901"} {
		var n Number
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		if b, err := json.Marshal(n); err != nil || string(b) != text || n.String() != text {
			t.Errorf("%s becomes %s %v", text, b, err)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if b, err := (Number{Value: v}).MarshalJSON(); err == nil {
			t.Errorf("%v is written as %s", v, b)
		}
	}
	var n Number
	for _, bad := range []string{`"x"`, `true`, `{}`, `1e999`} {
		if err := json.Unmarshal([]byte(bad), &n); err == nil {
			t.Errorf("%s is read as %v", bad, n)
		}
	}
}

func TestRewards(t *testing.T) {
	t.Parallel()
	const doc = `{"z":1,"reward":0.25,"a":3.0}`
	var r Rewards
	if err := json.Unmarshal([]byte(doc), &r); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(r); err != nil || string(b) != doc {
		t.Errorf("%s %v, want %s", b, err, doc)
	}
	for _, c := range []struct {
		doc, main string
	}{
		{`{"reward":1,"x":2}`, "1"}, {`{"x":2}`, "2"}, {`{"x":2,"y":3}`, ""}, {`{}`, ""}, {`null`, ""},
	} {
		var r Rewards
		if err := json.Unmarshal([]byte(c.doc), &r); err != nil {
			t.Fatal(err)
		}
		main := ""
		if n, ok := r.Main(); ok {
			main = n.String()
		}
		if b, err := json.Marshal(r); main != c.main || err != nil || string(b) != c.doc {
			t.Errorf("%s: main %q, written %s %v", c.doc, main, b, err)
		}
	}
	for _, bad := range []string{`[]`, `1`, `{"a":"x"}`, `{"a":null}`} {
		if err := json.Unmarshal([]byte(bad), &r); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if _, err := json.Marshal(Rewards{{Key: "x", Value: Number{Value: math.NaN()}}}); err == nil {
		t.Error("a reward that is no number was written")
	}
}
