package fake_test

import (
	"context"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
)

// spec is a usable spec with a name of its own.
func spec(t *testing.T, parts ...string) providers.Spec {
	t.Helper()
	return providers.Spec{
		Name:   providers.Name(append([]string{t.Name()}, parts...)...),
		Source: providers.Source{Image: "fake:debian"},
		Labels: providers.Labels{Owner: "me", Host: "here", Job: "job", Trial: t.Name()},
	}
}

func create(t *testing.T, p *fake.Provider, s providers.Spec) providers.Sandbox {
	t.Helper()
	sb, err := p.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// TestShellSpeaksWhatScriptsUse runs one script each and compares what it prints.
func TestShellSpeaksWhatScriptsUse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script, want string }{
		{"quotes", `a='x  y'; echo "$a" $a "\$a" '$a'`, "x  y x y $a $a\n"},
		{"default value", `echo ${X:-none} ${#HOME} ${HOME%t}`, "none 5 /roo\n"},
		{"arithmetic", `i=3; echo $((i * 2 + 1)); (( i > 2 )) && echo yes`, "7\nyes\n"},
		{"if and test", `if [ 1 -lt 2 ] && [ ! -e /nope ]; then echo ok; else echo bad; fi`, "ok\n"},
		{"double brackets", `x=abc; [[ $x == a* && -d /tmp ]] && echo m; [[ $x =~ ^a.c$ ]] && echo r`, "m\nr\n"},
		{"loops", `for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done; i=0; while [ $i -lt 2 ]; do i=$((i+1)); done; echo $i`, "1\n3\n2\n"},
		{"nested break", `for i in 1 2; do for j in 1 2; do break 2; done; done; echo $i$j`, "11\n"},
		{"case", `case foo.txt in *.c) echo c;; *.txt|*.md) echo text;; esac`, "text\n"},
		{"functions", `f() { local v=$1; echo "$v $#"; return 3; }; v=out; f a b; echo $? $v`, "a 2\n3 out\n"},
		{"pipes", `printf 'b\na\nb\n' | sort | uniq -c | tr -s ' '`, " 1 a\n 2 b\n"},
		{"pipefail", `set -o pipefail; false | true; echo $?`, "1\n"},
		{"substitution", "echo $(echo a; echo b) `echo c`", "a b c\n"},
		{"process substitution", `cat <(echo one) <(echo two)`, "one\ntwo\n"},
		{"here document", "x=1; cat <<EOF\nv=$x\nEOF\ncat <<'EOF'\nv=$x\nEOF", "v=1\nv=$x\n"},
		{"here string", `cat <<< "hello"`, "hello\n"},
		{"redirections", `echo out >/tmp/f; echo more >>/tmp/f; { echo e >&2; } 2>/tmp/g; cat /tmp/f /tmp/g; wc -l < /tmp/f`, "out\nmore\ne\n2\n"},
		{"descriptors", `exec 3>/tmp/h; echo three >&3; exec 3>&-; cat /tmp/h`, "three\n"},
		{"subshell", `x=1; (x=2; cd /tmp; exit 4); echo $x $? $PWD`, "1 4 /\n"},
		{"errexit", `set -e; false || echo caught; if false; then :; fi; (false); echo not reached`, "caught\n"},
		{"exit trap", `trap 'echo bye' EXIT; echo hi; exit 0`, "hi\nbye\n"},
		{"signal trap", `trap 'echo got' TERM; kill -TERM $$; echo after`, "got\nafter\n"},
		{"background", `sleep 0 & wait $!; echo $?; sh -c 'exit 5' & wait $!; echo $?`, "0\n5\n"},
		{"kill", `sleep 100 & kill $!; wait $!; echo $?`, "143\n"},
		{"globs", `cd /tmp; touch b.x a.x; echo *.x; echo *.none; set -f; echo *.x`, "a.x b.x\n*.none\n*.x\n"},
		{"read", `printf 'a b c\nd\n' | while read -r x y; do echo "$x-$y"; done`, "a-b c\nd-\n"},
		{"arrays", `a=(x "y z"); a+=(w); echo ${#a[@]} "${a[1]}"; for e in "${a[@]}"; do echo "<$e>"; done`, "3 y z\n<x>\n<y z>\n<w>\n"},
		{"eval and source", `echo 'v=$1' > /tmp/s; . /tmp/s arg; eval 'echo $v'`, "arg\n"},
		{"shebang", `printf '#!/bin/sh\necho "$0 $1"\n' > /tmp/run; chmod +x /tmp/run; /tmp/run a`, "/tmp/run a\n"},
		{"exit codes", `nosuch 2>/dev/null; echo $?; touch /tmp/n; /tmp/n 2>/dev/null; echo $?`, "127\n126\n"},
		{"files", `mkdir -p /a/b; echo x > /a/b/f; cp -r /a /c; ln -s b/f /c/l; cat /c/l; mv /c/b /c/d; ls /c; rm -rf /a; [ -e /a ] || echo gone`, "x\nd\nl\ngone\n"},
		{"modes", `touch /tmp/m; chmod 640 /tmp/m; chmod u+x,g-r /tmp/m; stat -c %a /tmp/m`, "700\n"},
		{"find", `mkdir -p /q/r; touch /q/r/a.py /q/b.txt; find /q -name '*.py' -type f`, "/q/r/a.py\n"},
		{"grep", `printf 'one\ntwo\n' > /tmp/t; grep -c o /tmp/t; grep -q three /tmp/t || echo none; grep -n tw /tmp/t; grep -E 'on|x' /tmp/t`, "2\nnone\n2:two\none\n"},
		{"cut head tail", `printf 'a:b:c\nd:e:f\n' | cut -d: -f2; seq 5 | head -n 2; seq 5 | tail -n 1; seq 9 | tail -n +8`, "b\ne\n1\n2\n5\n8\n9\n"},
		{"env", `A=1 env | grep ^A=; env -i B=2 env; A=3 sh -c 'echo $A'; echo ${A-unset}`, "A=1\nB=2\n3\nunset\n"},
		{"tee and dd", `echo x | tee /tmp/te; dd if=/dev/zero bs=10 count=3 2>/dev/null | wc -c`, "x\n30\n"},
		{"home of a user", `echo ~root ~nosuchuser`, "/root ~nosuchuser\n"},
		{"timeout", `timeout 0.01 sleep 10; echo $?`, "124\n"},
		{"printf bytes", `printf '\303\251\n'; printf '%03d|%s\n' 7 a 8 b`, "é\n007|a\n008|b\n"},
		{"fifo", `mkfifo /tmp/p; echo through > /tmp/p & cat /tmp/p`, "through\n"},
	}
	p := fake.New(fake.Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sb := create(t, p, spec(t))
			var out strings.Builder
			_, err := sb.Exec(t.Context(), providers.Command{Args: []string{"bash", "-c", test.script}, Stdout: &out, Stderr: &out})
			if err != nil || out.String() != test.want {
				t.Errorf("printed %q, error %v, want %q", out.String(), err, test.want)
			}
		})
	}
}
