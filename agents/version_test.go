package agents

import (
	"strings"
	"testing"

	"harborgate/trials"
)

// A version is a number: no way out of the cache, no other package, no option of
// npm's, no tag that means something else tomorrow.
func TestVersionThatIsAPathOrAnotherPackageIsRefused(t *testing.T) {
	t.Parallel()
	model := "anthropic/m"
	made := func(agent, version string) error {
		_, err := New(Input{Config: trials.AgentConfig{Name: &agent, ModelName: &model, Kwargs: trials.Object[any]{"version": version}}})
		return err
	}
	for _, k := range Kinds() {
		if len(k.Dialects) == 0 {
			continue
		}
		for _, bad := range []string{
			"", "../../../../secretdir", "1/../../x", "..", "npm:lodash@4.17.21", "file:/etc", "--registry=http://x", "latest", "1 2", "1\n2", "1'2", "^1", "1@2",
			"1" + strings.Repeat("0", 64),
		} {
			if err := made(k.Name, bad); err == nil || !strings.Contains(err.Error(), "write its number") {
				t.Errorf("%s: version %q gave %v", k.Name, bad, err)
			}
		}
		for _, good := range []string{"1", "2.1.300", "1.0.0-beta.2", "0.86.2.dev1+g12ab"} {
			if err := made(k.Name, good); err != nil {
				t.Errorf("%s: version %q gave %v", k.Name, good, err)
			}
		}
	}
}
