package agents

import (
	"fmt"
	"strings"

	"harborgate/agents/packages"
)

// wheels is an agent of PyPI's, with all that it needs, for this host's Python.
type wheels struct {
	name, project, pinned string // of the agent, of its project, its version
	python                packages.Interpreter
	lock                  string
}

// bundle implements facts.bundle. A version that is not the pinned one brings what its
// project asks for on the day.
func (w wheels) bundle(arch, version string) ([]Part, error) {
	from := packages.Wheels{For: w.python, Lock: w.lock}
	if version != w.pinned {
		from = packages.Wheels{For: w.python, Spec: w.project + "==" + version}
	}
	return []Part{
		{bundleDir, packages.Package{Name: w.name + "-" + arch, Version: version, From: from}},
		{runtimeDir, packages.Package{Name: "python-" + arch, Version: "host", From: w.python}},
	}, nil
}

// fullRelease is a version as PyPI's projects number theirs: 2.4 is 2.4.0 to pip.
func fullRelease(version string) string {
	plain := strings.Trim(version, "0123456789.") == ""
	for plain && strings.Count(version, ".") < 2 {
		version += ".0"
	}
	return version
}

// launcher runs a module of the bundle as a program. Python may have chosen a locale
// for itself: what the agent starts is not to have it.
const launcher = `import os, runpy, sys
with open("/proc/self/environ", "rb") as f:
    if b"LC_CTYPE=" not in f.read():
        os.environ.pop("LC_CTYPE", None)
sys.path.insert(0, "` + bundleDir + `")
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)`

// python is the command line that runs a module of the bundle.
func python(module string, args ...string) []string {
	return append([]string{runtimeDir + "/" + packages.PythonProgram, "-c", launcher, module}, args...)
}

// liteLLM is how LiteLLM names the upstream's model, and the base URL that it wants.
func liteLLM(j job) (model, base string) {
	switch base = j.Base; j.Dialect {
	case "gemini":
		base += "/v1beta"
	}
	return fmt.Sprintf("%s/%s", j.Dialect, j.Model), base
}
