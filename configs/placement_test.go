package configs

import (
	"fmt"
	"strings"
	"testing"
)

func TestChoices(t *testing.T) {
	t.Parallel()
	h := Host{Pools: map[string][]Choice{"fleet": {{Provider: "big", Weight: 3}, {Provider: "small", Weight: 1}, {Provider: "cloud"}}}}
	for text, want := range map[string]string{
		"docker":            "docker/0/0",
		"a, b":              "a/0/0 b/1/0",
		"a=2,b=1,c":         "a/0/2 b/0/1 c/1/0",
		"a,b=2,c=1":         "a/0/0 b/1/2 c/1/1",
		"fleet":             "big/0/3 small/0/1 cloud/1/0",
		"near,fleet":        "near/0/0 big/1/3 small/1/1 cloud/2/0",
		"a,,b":              `environment "a,,b": a name is missing between the commas`,
		"a=0,b":             `environment "a=0,b": weight "0" of a must be a whole number from 1`,
		"a=x":               `environment "a=x": weight "x" of a must be a whole number from 1`,
		"a,b,a":             "provider a is named twice: name it once, with the weight that it is to have",
		"fleet,big":         `environment "fleet,big": provider big is named twice: name it once, with the weight that it is to have`,
		"fleet=2,elsewhere": `environment "fleet=2,elsewhere": fleet is a pool, whose weights are in config.yaml: leave out =2`,
	} {
		all, err := h.Choices(text)
		got := make([]string, len(all))
		for i, c := range all {
			got[i] = fmt.Sprintf("%s/%d/%d", c.Provider, c.Rank, c.Weight)
		}
		if s := strings.Join(got, " "); err != nil && err.Error() != want || err == nil && s != want {
			t.Errorf("%q: %s %v, want %s", text, s, err, want)
		}
	}
}

// What is wrong with a type or a pool is said with its place, and what was meant.
func TestTypesAndPoolsAreHeldAgainstWhatThereIs(t *testing.T) {
	t.Parallel()
	types := Types{Built: []string{"docker", "fake"}, Known: []string{"daytona"}}
	for text, want := range map[string]string{
		"providers: {a: {type: fak}}":                                      "config.yaml:2:17: \"fak\" is no type of provider (did you mean fake?)",
		"providers: {a: {type: qqqqqqq}}":                                  "config.yaml:2:17: \"qqqqqqq\" is no type of provider (write one of docker, fake)",
		"providers: {dokcer: {}}":                                          "config.yaml:2:13: provider \"dokcer\" has no type, and its name is none (did you mean docker?)",
		"providers: {a: {type: daytona}}":                                  "",
		"pools: {p: [{weight: 2}]}":                                        "config.yaml:2:13: pools.p[0] names no provider (write provider: with one of docker, fake)",
		"pools: {p: [{provider: fake}, {provider: fakke}]}":                "config.yaml:2:32: pools.p[1].provider: \"fakke\" is no provider (did you mean fake?)",
		"pools: {p: [{provider: nosuch}]}\nproviders: {big: {type: fake}}": "config.yaml:2:14: pools.p[0].provider: \"nosuch\" is no provider (add it under providers:, or write one of big, docker, fake)",
		"pools: {p: [{provider: big}, {provider: docker}, {provider: daytona}]}\nproviders: {big: {type: fake}}": "",
	} {
		_, problems := parseHost("config.yaml", []byte("version: 1\n"+text+"\n"), "/home/u", types)
		got := ""
		if err := problems.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
}

func TestPoolsAreChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pools: {fleet: [{provider: a, weight: 2}, {provider: b}]}": "",
		"pools: {fleet: []}":                                          `pool "fleet" is empty`,
		"pools: {Fleet: [{provider: a}]}":                             `"Fleet" cannot be the name of a pool`,
		"pools: {a: [{provider: b}]}\nproviders: {a: {type: docker}}": `"a" is a provider's name`,
		"pools: {f: [{provider: a}, {provider: a}]}":                  "provider a is named twice",
		"pools: {f: [{provider: g}], g: [{provider: a}]}":             "g is a pool itself",
		"pools: {f: [{provider: a, weight: -1}]}":                     "a weight is -1",
		"pools: {f: [{provider: a, weigth: 1}]}":                      "weigth",
	} {
		_, problems := parseHost("config.yaml", []byte("version: 1\n"+text+"\n"), "/home/u", Types{})
		if err := problems.Err(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
