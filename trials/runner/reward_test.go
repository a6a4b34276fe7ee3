package runner

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"harborgate/trials"
)

func TestB097RewardTextIsOneNumber(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want string // "" is no number
	}{
		{"1", "1.0"}, {"1\n", "1.0"}, {" 0.5 ", "0.5"}, {"1.0\r\n", "1.0"}, {"-0.5", "-0.5"}, {"+2", "2.0"},
		{".5", "0.5"}, {"1.", "1.0"}, {"1e-3", "0.001"}, {"1E2", "100.0"}, {"\t\n0\n", "0.0"}, {"007", "7.0"},
		{"", ""}, {" \n\t", ""}, {"nan", ""}, {"NaN", ""}, {"inf", ""}, {"-Infinity", ""}, {"1e400", ""}, {"-1e400", ""},
		{"0,5", ""}, {"true", ""}, {"0x1", ""}, {"0x1p-2", ""}, {"1_0", ""}, {"1\n1", ""}, {"1 2", ""}, {"\ufeff1", ""},
		{"٣", ""}, {"1\x00", ""}, {".", ""}, {"e5", ""}, {"1e", ""}, {"--1", ""}, {"1%", ""}, {"1/2", ""}, {`"1"`, ""},
		{"===== 3 passed in 0.02s =====", ""},
	} {
		v, err := parseRewardText([]byte(c.text))
		if (err == nil) != (c.want != "") {
			t.Errorf("%q: error %v", c.text, err)
		}
		if n, ok := v.rewards.Get("reward"); ok != (c.want != "") || ok && n.String() != c.want {
			t.Errorf("%q: %v %s, want %q", c.text, ok, n, c.want)
		}
	}
}

func TestRewardErrorsAreShortAndPrintable(t *testing.T) {
	t.Parallel()
	for _, parse := range []func([]byte) (verdict, error){parseRewardText, parseRewardJSON} {
		_, err := parse([]byte("\x1b[31mfailed\n" + strings.Repeat("é", 1<<16)))
		if err == nil {
			t.Fatal("no error")
		}
		msg := err.Error()
		if len(msg) > 1000 || strings.ContainsFunc(msg, func(r rune) bool { return r < ' ' }) || !strings.Contains(msg, "bytes)") {
			t.Errorf("%d bytes: %.300q", len(msg), msg)
		}
	}
}

func TestB099RewardJSONWithSeveralKeys(t *testing.T) {
	t.Parallel()
	many := "{"
	for i := range 1000 {
		many += fmt.Sprintf(`"k%d":%d,`, i, i)
	}
	many = strings.TrimSuffix(many, ",") + "}"
	for _, c := range []struct {
		doc    string
		main   string // "-" when there is none, "" when the document is refused
		keys   int
		extras string
	}{
		{`{"reward":1,"tests":12}`, "1", 2, ""},
		{`{"reward":1.0}`, "1.0", 1, ""},
		{`{"accuracy":0.9,"format":1}`, "-", 2, ""},
		{`{"x":0.3}`, "0.3", 1, ""},
		{`{"reward":true}`, "1.0", 1, ""},
		{`{"reward":false,"y":2}`, "0.0", 2, ""},
		{`{"reward":1,"log":"x","more":{"a":[1]},"none":null}`, "1", 1, "log more none"},
		{`{"a":1,"a":2}`, "2", 1, ""},
		{`{"a":1,"a":"x","b":3}`, "3", 1, "a"},
		{`{"a":"x","a":1}`, "1", 1, ""},
		{"\ufeff{\"reward\":1}\n", "1", 1, ""},
		{many, "-", 1000, ""},
		{`{"x":-1.5e-3}`, "-0.0015", 1, ""},
		{doc: `{}`}, {doc: `[]`}, {doc: `1`}, {doc: `"1"`}, {doc: ``}, {doc: `null`}, {doc: ` `},
		{doc: `{"reward":"1"}`}, {doc: `{"reward":{"a":1}}`}, {doc: `{"reward":null}`}, {doc: `{"reward":null,"x":1}`},
		{doc: `{"x":"a"}`}, {doc: `{"reward":NaN}`}, {doc: `{"reward":Infinity}`}, {doc: `{"reward":1e999}`},
		{doc: `{"reward":1`}, {doc: `{"reward":1}}`}, {doc: `{"reward":1} {"reward":0}`}, {doc: `{"reward":1} trailing`},
		{doc: `{"reward":01}`}, {doc: `{'reward':1}`}, {doc: `{"reward":1,}`}, {doc: "{\"reward\":1}\x00"},
	} {
		v, err := parseRewardJSON([]byte(c.doc))
		if (err != nil) != (c.main == "") {
			t.Errorf("%.60s: error %v", c.doc, err)
			continue
		}
		if err != nil {
			continue
		}
		main := "-"
		if n, ok := v.rewards.Main(); ok {
			main = n.String()
		}
		var extras []string
		for _, k := range []string{"a", "log", "more", "none"} {
			if _, ok := v.extras[k]; ok {
				extras = append(extras, k)
			}
		}
		if got := strings.Join(extras, " "); main != c.main || len(v.rewards) != c.keys || got != c.extras {
			t.Errorf("%.60s: main %s, %d keys, extras %q; want %s, %d, %q", c.doc, main, len(v.rewards), got, c.main, c.keys, c.extras)
		}
	}
}

func TestRewardsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	v, err := parseRewardJSON([]byte(`{"z":1,"a":2.5,"m":3}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v.rewards)
	if err != nil || string(b) != `{"z":1,"a":2.5,"m":3}` {
		t.Errorf("%s %v", b, err)
	}
}

// Which file counts, and what it may look like, through a whole try.
func TestRewardFiles(t *testing.T) {
	t.Parallel()
	const write = "#!/bin/sh\ncd /logs/verifier\n"
	for name, c := range map[string]struct {
		script    string
		reward    string
		exception string
		message   string
	}{
		"json before text":       {`echo '{"reward": 0.25}' > reward.json; echo 1 > reward.txt`, "0.25", "", ""},
		"bad json is not healed": {`echo nonsense > reward.json; echo 1 > reward.txt`, "null", trials.ExcRewardInvalid, `not a JSON object: "nonsense\n"`},
		"none":                   {"exit 4", "null", trials.ExcRewardMissing, "exit code 4"},
		"empty":                  {": > reward.txt", "null", trials.ExcRewardEmpty, "reward.txt"},
		"empty json":             {": > reward.json; echo 1 > reward.txt", "null", trials.ExcRewardEmpty, "reward.json"},
		"blank":                  {"echo > reward.txt", "null", trials.ExcRewardInvalid, "not one number"},
		"a log":                  {"echo '1 passed' > reward.txt", "null", trials.ExcRewardInvalid, `"1 passed\n"`},
		"2 MB":                   {"head -c 2097152 /dev/zero > reward.txt", "null", trials.ExcRewardInvalid, "2097152 bytes"},
		"a link":                 {"echo 1 > /tmp/x; ln -s /tmp/x reward.txt", "null", trials.ExcRewardMissing, ""},
		"a directory":            {"mkdir reward.txt", "null", trials.ExcRewardInvalid, "no regular file"},
		"a pipe":                 {"mkfifo reward.txt", "null", trials.ExcRewardMissing, ""},
		"several":                {`echo '{"a": 1, "b": 2}' > reward.json`, "several", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, map[string]string{"tests/test.sh": write + c.script + "\n"})
			res := r.run(t.Context())
			want(t, res, c.reward, c.exception)
			if res.ExceptionInfo != nil && !strings.Contains(res.ExceptionInfo.Message, c.message) {
				t.Errorf("message %q, want %q in it", res.ExceptionInfo.Message, c.message)
			}
			if c.exception != "" && res.RewardValid {
				t.Error("something counts as a reward")
			}
		})
	}
}

func FuzzRewardText(f *testing.F) {
	for _, s := range []string{"1", " 0.5\n", "1e5", "nan", "0x1", "1_0", "\ufeff1", "-.5e-7", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseRewardText(b)
		if err != nil {
			if v.rewards != nil {
				t.Errorf("a reward beside an error: %v", v.rewards)
			}
			return
		}
		n, ok := v.rewards.Main()
		if !ok || math.IsNaN(n.Value) || math.IsInf(n.Value, 0) || strings.ContainsAny(string(b), "xX_nNiI,") {
			t.Errorf("%q is %v", b, n)
		}
	})
}

func FuzzRewardJSON(f *testing.F) {
	for _, s := range []string{`{"reward":1}`, `{"a":true,"b":[1],"c":0.5}`, `{"reward":"1"}`, `{"a":1}x`, `{"a":"x","a":1}`, "\ufeff{}", `{"":-0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseRewardJSON(b)
		if err != nil {
			return
		}
		// What is accepted is JSON that everybody reads the same way.
		var all map[string]json.RawMessage
		if jerr := json.Unmarshal([]byte(strings.TrimPrefix(string(b), "\ufeff")), &all); jerr != nil {
			t.Fatalf("%q was accepted: %v", b, jerr)
		}
		if len(v.rewards) == 0 || len(v.rewards)+len(v.extras) != len(all) {
			t.Errorf("%q: %d rewards and %d extras of %d keys", b, len(v.rewards), len(v.extras), len(all))
		}
		if _, err := json.Marshal(v.rewards); err != nil {
			t.Errorf("%q: %v", b, err)
		}
	})
}
