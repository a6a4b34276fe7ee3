package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

func networkTools() map[string]tool {
	return map[string]tool{"hg-fetch": fetch, "curl": curl, "getent": getent}
}

// request is what fetch and curl send.
type request struct {
	method, url, body string
	header            http.Header
}

// fetch is hg-fetch URL [BODY]: it prints the body of the answer. An answer of
// 400 or more is exit code 22, no connection 7, as with curl.
func fetch(c *call) int {
	if len(c.args) == 0 {
		return c.usage(errors.New("usage: hg-fetch URL [BODY]"))
	}
	r := request{method: http.MethodGet, url: c.args[0], header: http.Header{}}
	if len(c.args) > 1 {
		r.method, r.body = http.MethodPost, c.args[1]
	}
	return c.request(r, true, c.out)
}

func curl(c *call) int {
	o := curlOptions{request: request{method: http.MethodGet, header: http.Header{}}}
	args := c.args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		value := ""
		if takesValue(arg) && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		o.set(arg, value)
	}
	if o.url == "" {
		return c.usage(errors.New("no URL given"))
	}
	if o.out == "" {
		return c.request(o.request, o.fail, c.out)
	}
	var body strings.Builder
	code := c.request(o.request, o.fail, &body)
	if err := c.writeTo(o.out, strings.NewReader(body.String()), 0o666, syscall.O_TRUNC); err != nil {
		return cannotWrite
	}
	return code
}

// curlOptions are those of curl's options that matter here.
type curlOptions struct {
	request
	out  string
	fail bool
}

func (o *curlOptions) set(arg, value string) {
	switch arg {
	case "-X", "--request":
		o.method = value
	case "-H", "--header":
		name, v, _ := strings.Cut(value, ":")
		o.header.Add(name, strings.TrimSpace(v))
	case "-d", "--data", "--data-raw", "--data-binary":
		o.method, o.body = http.MethodPost, value
	case "-o", "--output":
		o.out = value
	case "--fail":
		o.fail = true
	default:
		if !strings.HasPrefix(arg, "-") {
			o.url = arg
		}
		o.fail = o.fail || strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "f")
	}
}

func takesValue(arg string) bool {
	switch arg {
	case "-X", "--request", "-H", "--header", "-d", "--data", "--data-raw", "--data-binary", "-o", "--output",
		"-m", "--max-time", "--connect-timeout", "--retry", "-A", "-u":
		return true
	}
	return false
}

// Exit codes of curl.
const (
	cannotConnect = 7
	httpError     = 22
	cannotWrite   = 23
	readFailed    = 56
)

func (c *call) request(r request, fail bool, out io.Writer) int {
	u, err := url.Parse(r.url)
	if err != nil || u.Host == "" {
		return c.usage(fmt.Errorf("bad URL %q", r.url))
	}
	port := 80
	if p := u.Port(); p != "" {
		port, _ = strconv.Atoi(p)
	}
	fd, err := c.p.Dial(u.Hostname(), port)
	if err != nil {
		c.failf("%v", err)
		return cannotConnect
	}
	conn := descriptor{c.p, fd}
	defer func() { _ = conn.Close() }()
	req, err := http.NewRequest(r.method, r.url, strings.NewReader(r.body)) //nolint:noctx // bound to the process
	if err != nil {
		return c.usage(err)
	}
	req.Header = r.header
	req.Header.Set("User-Agent", "hg-fetch")
	req.Close = true
	if err := req.Write(conn); err != nil {
		c.failf("%v", err)
		return readFailed
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		c.failf("%v", err)
		return readFailed
	}
	defer func() { _ = resp.Body.Close() }()
	if fail && resp.StatusCode >= http.StatusBadRequest {
		c.failf("the answer is %s", resp.Status)
		return httpError
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		c.failf("%v", err)
		return readFailed
	}
	return 0
}

// getent knows hosts, which asks the network, and passwd.
func getent(c *call) int {
	if len(c.args) < 2 {
		return c.usage(errors.New("usage: getent hosts|passwd NAME"))
	}
	if c.args[0] == "passwd" {
		a, ok := lookupUser(c.fs(), c.args[1])
		if !ok || a.Name == "" {
			return 2
		}
		_, _ = fmt.Fprintf(c.out, "%s:x:%d:%d::%s:%s\n", a.Name, a.UID, a.GID, a.Home, a.Shell)
		return 0
	}
	fd, err := c.p.Dial(c.args[1], 0)
	if err != nil {
		return 2
	}
	c.p.Close(fd)
	_, _ = fmt.Fprintf(c.out, "192.0.2.1 %s\n", c.args[1])
	return 0
}
