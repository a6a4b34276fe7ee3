package configs

import (
	"strings"
	"testing"
)

func TestServiceFilesSayWhatHoldsOnAHost(t *testing.T) {
	t.Parallel()
	for s, want := range map[Supervisor]struct{ files, programs, addresses int }{
		SystemdSystem: {4, 2, 2}, SystemdUser: {3, 2, 2}, PM2: {1, 1, 0},
	} {
		files, err := ServiceFiles(s, "/opt/hg/bin/harbor", []string{"10.0.0.1:99", "unix:/run/p.sock"})
		if err != nil || len(files) != want.files {
			t.Errorf("%s: %d files, %v", s, len(files), err)
		}
		all := ""
		for _, f := range files {
			all += f.Text
		}
		if n := strings.Count(all, "/opt/hg/bin/harbor"); n != want.programs || strings.Contains(all, serviceProgram) {
			t.Errorf("%s: the program is there %d times:\n%s", s, n, all)
		}
		n := strings.Count(all, "\nListenStream=10.0.0.1:99\n") + strings.Count(all, "\nListenStream=/run/p.sock\n")
		if n != want.addresses || strings.Contains(all, AuthListen) {
			t.Errorf("%s: the addresses are there %d times:\n%s", s, n, all)
		}
	}
}

func TestServiceFilesRefuse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		s       Supervisor
		program string
		listen  []string
		want    string
	}{
		"spaces":      {SystemdSystem, "/opt/my programs/harbor", nil, "plain path"},
		"specifiers":  {SystemdUser, "/opt/%h/harbor", nil, "plain path"},
		"any port":    {SystemdUser, "/opt/harbor", []string{"127.0.0.1:0"}, "fixed port"},
		"a stranger":  {"upstart", "/opt/harbor", nil, "upstart"},
		"quotes, pm2": {PM2, `/opt/"/harbor`, nil, "plain path"},
	} {
		if _, err := ServiceFiles(c.s, c.program, c.listen); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ServiceFiles(PM2, "/opt/harbor", []string{"127.0.0.1:0"}); err != nil {
		t.Error(err)
	}
}
