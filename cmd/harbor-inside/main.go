// Command harbor-inside is harbor's companion inside a sandbox: it runs commands,
// moves files and carries connections to the host, without a shell, a tar or a
// network of the sandbox's image. See internal/insideproto for its language.
//
//	harbor-inside init [--user U] [--dir D] -- [ENTRYPOINT…]   as PID 1 of a container
//	harbor-inside connect [--socket NAME] [--lease TIME]       a session on standard input and output
//	harbor-inside keepalive                                    sleeps until SIGTERM
//	harbor-inside version
//
// Three more are for itself: "serve" is the daemon where PID 1 is somebody else's,
// "supervise" stands between the daemon and one command, "watch" is what it
// becomes when the command runs long.
package main

import (
	"fmt"
	"os"

	"harborgate/internal/insideproto"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code.
func run(args []string) int {
	if len(args) == 0 {
		return usage()
	}
	commands := map[string]func([]string) (int, error){
		"init":      runInit,
		"connect":   runConnect,
		"serve":     runServe,
		"supervise": runSupervise,
		"watch":     runWatch,
		"keepalive": runKeepalive,
		"version":   runVersion,
	}
	command, ok := commands[args[0]]
	if !ok {
		return usage()
	}
	code, err := command(args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "harbor-inside:", err)
		return max(code, 1)
	}
	return code
}

func usage() int {
	fmt.Fprintln(os.Stderr, "usage: harbor-inside init|connect|keepalive|version")
	return 2
}

func runVersion([]string) (int, error) {
	fmt.Println("harbor-inside protocol", insideproto.Version)
	return 0, nil
}
