package providertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"strings"

	"harborgate/providers"
)

func uploadCases() []Case {
	return []Case{
		{"upload/modes-and-empty", nil, inSandbox(uploadModes)},
		{"upload/links-stay-links", nil, inSandbox(uploadLinks)},
		{"upload/odd-names", nil, inSandbox(uploadOddNames)},
		{"upload/deep-tree", nil, inSandbox(uploadDeep)},
		{"upload/big-file", nil, inSandbox(uploadBig)},
		{"upload/many-files", nil, inSandbox(uploadMany)},
		{"upload/owned-by-root", nil, inSandbox(uploadOwner)},
		{"upload/into-missing", nil, inSandbox(uploadMissing)},
		{"upload/into-existing", nil, inSandbox(uploadExisting)},
		{"upload/into-linked", nil, inSandbox(uploadLinked)},
		{"upload/into-a-file", nil, inSandbox(uploadOntoFile)},
		{"upload/replaces", nil, inSandbox(uploadReplaces)},
		{"upload/plain-variants", nil, inSandbox(uploadVariants)},
		{"upload/cut-off", nil, inSandbox(uploadCutOff)},
	}
}

func uploadModes(ctx context.Context, e *Env, sb providers.Sandbox) {
	entries := []entry{
		{name: "plain", mode: 0o644, body: "plain\n"}, {name: "run", mode: 0o755, body: "#!/bin/sh\n"},
		{name: "private", mode: 0o600, body: "p"}, {name: "none", mode: 0, body: "n"},
		{name: "empty", mode: 0o644}, {name: "hollow", mode: 0o750, kind: tar.TypeDir},
	}
	e.upload(ctx, sb, "/up", entries...)
	e.wantEntries(e.download(ctx, sb, "/up"), entries...)
	e.Want(ctx, sb, "stat -c '%n %a' /up/*",
		"/up/empty 644\n/up/hollow 750\n/up/none 0\n/up/plain 644\n/up/private 600\n/up/run 755\n")
}

func uploadLinks(ctx context.Context, e *Env, sb providers.Sandbox) {
	entries := []entry{
		file("target", "t"), symlink("relative", "target"), symlink("absolute", "/etc/passwd"),
		symlink("dangling", "nowhere/at/all"), symlink("up", "../../x"),
	}
	e.upload(ctx, sb, "/up", entries...)
	e.wantEntries(e.download(ctx, sb, "/up"), entries...)
	e.Want(ctx, sb, "readlink /up/absolute /up/dangling", "/etc/passwd\nnowhere/at/all\n")
}

func uploadOddNames(ctx context.Context, e *Env, sb providers.Sandbox) {
	names := []string{
		"with space", " lead", "trail ", "new\nline", "naïve-雪", "-dash", "--help", "quote'\"", "back\\slash", "star*",
		"$dollar", "semi;colon", strings.Repeat("l", 200),
	}
	var entries []entry
	for _, n := range names {
		entries = append(entries, file(n, "in "+n))
	}
	e.upload(ctx, sb, "/up", entries...)
	e.wantEntries(e.download(ctx, sb, "/up"), entries...)
	e.Want(ctx, sb, "cat '/up/with space'; cat /up/-dash", "in with spacein -dash")
}

func uploadDeep(ctx context.Context, e *Env, sb providers.Sandbox) {
	var entries []entry
	path := ""
	for i := range 40 {
		path += fmt.Sprintf("level-%02d/", i)
		entries = append(entries, dir(strings.TrimSuffix(path, "/")))
	}
	entries = append(entries, file(path+"leaf", "deep"))
	e.upload(ctx, sb, "/up", entries...)
	e.wantEntries(e.download(ctx, sb, "/up"), entries...)
}

func uploadBig(ctx context.Context, e *Env, sb providers.Sandbox) {
	size := 50 << 20
	if e.Harness.Slow {
		size = 5 << 20
	}
	pattern := make([]byte, 1<<16)
	for i := range pattern {
		pattern[i] = byte(i * 31 >> 3)
	}
	big := file("big", string(bytes.Repeat(pattern, size/len(pattern))))
	e.upload(ctx, sb, "/up", big)
	e.wantEntries(e.download(ctx, sb, "/up"), big)
	e.Want(ctx, sb, "sha256sum < /up/big | cut -c 1-64", sumOf(big.body)+"\n")
}

func uploadMany(ctx context.Context, e *Env, sb providers.Sandbox) {
	n := 5000
	if e.Harness.Slow {
		n = 500
	}
	var entries []entry
	for i := range n {
		if i%100 == 0 {
			entries = append(entries, dir(fmt.Sprintf("d%03d", i/100)))
		}
		entries = append(entries, file(fmt.Sprintf("d%03d/f%04d", i/100, i), fmt.Sprint(i)))
	}
	e.upload(ctx, sb, "/up", entries...)
	e.wantEntries(e.download(ctx, sb, "/up"), entries...)
}

func uploadOwner(ctx context.Context, e *Env, sb providers.Sandbox) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Name: "foreign", Mode: 0o644, Typeflag: tar.TypeReg, Uid: 4711, Gid: 4711, Uname: "somebody"}
	if err := w.WriteHeader(h); err != nil {
		e.Fatalf("make tar: %v", err)
	}
	if err := w.Close(); err != nil {
		e.Fatalf("make tar: %v", err)
	}
	if err := sb.Upload(ctx, &b, "/up"); err != nil {
		e.Fatalf("upload: %v", err)
	}
	e.Want(ctx, sb, "stat -c '%u %g' /up/foreign", "0 0\n")
}

func uploadMissing(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.upload(ctx, sb, "/a/b/c", file("f", "1"), file("sub/g", "2"))
	e.Want(ctx, sb, "cat /a/b/c/f /a/b/c/sub/g", "12")
}

func uploadExisting(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir -p /up/sub; echo -n old > /up/old; echo -n kept > /up/sub/kept")
	e.upload(ctx, sb, "/up", dir("sub"), file("sub/new", "n"))
	e.upload(ctx, sb, "/up/", file("slash", "s"))
	e.Want(ctx, sb, "cd /up; echo *; echo sub/*", "old slash sub\nsub/kept sub/new\n")
}

func uploadLinked(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir -p /real; ln -s /real /link")
	e.upload(ctx, sb, "/link", file("f", "1"))
	e.Want(ctx, sb, "cat /real/f; readlink /link", "1/real\n")
}

func uploadOntoFile(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "echo content > /up")
	e.WantKind("upload into a file", sb.Upload(ctx, archive(e, file("f", "1")), "/up"), providers.KindInvalid)
	e.Want(ctx, sb, "cat /up", "content\n")
}

func uploadReplaces(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /up; echo old and long > /up/f; chmod 600 /up/f; echo target > /target; ln -s /target /up/l")
	e.upload(ctx, sb, "/up", entry{name: "f", mode: 0o755, body: "new"}, file("l", "file now"))
	e.Want(ctx, sb, "cat /up/f; stat -c %a /up/f; cat /target; cat /up/l", "new755\ntarget\nfile now")
}

func uploadVariants(ctx context.Context, e *Env, sb providers.Sandbox) {
	long := strings.Repeat("long-component/", 12) + strings.Repeat("n", 120)
	e.upload(ctx, sb, "/up",
		dir("./"), file("./dotted", "1"), file("no/dir/entry", "2"), dir("late/"), file("late/f", "3"),
		entry{name: "hard", kind: tar.TypeLink, link: "dotted"}, entry{name: "hard2", kind: tar.TypeLink, link: "./late/f"},
		file(long, "4"))
	e.Want(ctx, sb, "cd /up; cat dotted no/dir/entry late/f hard hard2 "+long, "123134")
}

func uploadCutOff(ctx context.Context, e *Env, sb providers.Sandbox) {
	whole := archive(e, file("first", "1"), file("second", strings.Repeat("x", 100_000))).Bytes()
	e.Within("an upload that is cut off", func() {
		if err := sb.Upload(ctx, bytes.NewReader(whole[:len(whole)-50_000]), "/up"); err == nil {
			e.Errorf("a tar stream that is cut off was accepted")
		}
	})
}

func hostileCases() []Case {
	return []Case{
		{"upload/refuses-absolute-names", nil, hostile(file("/tmp/evil", "evil"))},
		{"upload/refuses-dot-dot", nil, hostile(file("a/../../tmp/evil", "evil"))},
		{"upload/refuses-writing-through-links", nil, hostile(symlink("way", "/tmp"), file("way/evil", "evil"))},
		{"upload/refuses-links-that-were-there", nil, inSandbox(hostileThere)},
		{"upload/refuses-hard-links-out", nil, hostile(entry{name: "hard", kind: tar.TypeLink, link: "../etc/passwd"})},
		{"upload/refuses-devices", nil, hostile(entry{name: "dev", mode: 0o666, kind: tar.TypeChar})},
	}
}

// hostile is a case whose last entry must be refused, with nothing of it left.
func hostile(entries ...entry) func(context.Context, *Env) {
	return inSandbox(func(ctx context.Context, e *Env, sb providers.Sandbox) {
		e.wantRefused(ctx, sb, entries...)
	})
}

func (e *Env) wantRefused(ctx context.Context, sb providers.Sandbox, entries ...entry) {
	err := sb.Upload(ctx, archive(e, entries...), "/up")
	e.WantKind(fmt.Sprintf("upload of %q", entries[len(entries)-1].name), err, providers.KindInvalid)
	e.Want(ctx, sb, "[ -e /tmp/evil ] || [ -e /evil ] || [ -e /up/dev ] || [ -e /up/hard ] || [ -e /up/tmp/evil ] || echo clean", "clean\n")
}

func hostileThere(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /up; ln -s /tmp /up/way")
	e.wantRefused(ctx, sb, file("way/evil", "evil"))
}

func downloadCases() []Case {
	return []Case{
		{"download/one-file", nil, inSandbox(downloadFile)},
		{"download/missing", nil, inSandbox(downloadMissing)},
		{"download/fifo-and-device", nil, inSandbox(downloadFIFO)},
		{"download/never-follows-links", nil, inSandbox(downloadLinks)},
		{"download/closed-early", nil, inSandbox(downloadClosed)},
		{"download/whatever-the-owner", nil, inSandbox(downloadForeign)},
	}
}

func downloadFile(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /d; printf content > '/d/a file'; chmod 640 '/d/a file'")
	e.wantEntries(e.download(ctx, sb, "/d/a file"), entry{name: "a file", mode: 0o640, body: "content"})
	e.Must(ctx, sb, "mkdir /hollow")
	e.wantEntries(e.download(ctx, sb, "/hollow"))
}

func downloadMissing(ctx context.Context, e *Env, sb providers.Sandbox) {
	_, err := readAll(ctx, sb, "/no/such/path")
	e.WantKind("download of nothing", err, providers.KindNotFound)
}

func downloadFIFO(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /d; mkfifo /d/pipe; printf x > /d/zfile")
	e.Within("download of a directory with a FIFO", func() {
		got := e.download(ctx, sb, "/d")
		if p, ok := got["pipe"]; ok && p.kind != tar.TypeFifo {
			e.Errorf("a FIFO came back as %+v", p)
		}
		if got["zfile"].sum != sumOf("x") {
			e.Errorf("the file after the FIFO is missing: %+v", got)
		}
	})
	e.Within("download of a FIFO", func() {
		if got, err := readAll(ctx, sb, "/d/pipe"); err == nil && got["pipe"].kind != tar.TypeFifo && len(got) > 0 {
			e.Errorf("a FIFO came back as %+v", got)
		}
	})
}

func downloadLinks(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /secret /d; echo s > /secret/file; ln -s /secret /d/dir; ln -s /secret/file /d/file; ln -s /proc/self/environ /d/env; ln -s /secret /way")
	e.wantEntries(e.download(ctx, sb, "/d"), symlink("dir", "/secret"), symlink("file", "/secret/file"), symlink("env", "/proc/self/environ"))
	e.wantEntries(e.download(ctx, sb, "/d/file"), symlink("file", "/secret/file"))
	e.wantEntries(e.download(ctx, sb, "/way"), symlink("way", "/secret"))
}

func downloadClosed(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /d; head -c 20000000 /dev/zero > /d/big")
	e.Within("closing a download early", func() {
		stream, err := sb.Download(ctx, "/d")
		if err != nil {
			e.Fatalf("download: %v", err)
		}
		if _, err := stream.Read(make([]byte, 512)); err != nil {
			e.Errorf("read: %v", err)
		}
		if err := stream.Close(); err != nil {
			e.Errorf("close: %v", err)
		}
		e.Want(ctx, sb, "echo alive", "alive\n")
	})
}

func downloadForeign(ctx context.Context, e *Env, sb providers.Sandbox) {
	e.Must(ctx, sb, "mkdir /d; printf x > /d/f; chmod 0 /d/f; chown 12345 /d/f; chmod 700 /d; chown 12345 /d")
	e.wantEntries(e.download(ctx, sb, "/d"), entry{name: "f", body: "x"})
}
