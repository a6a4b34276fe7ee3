// Command harbor runs agent evaluations.
package main

import (
	"context"
	"os"
	"runtime/debug"
)

// gcPercent makes the heap grow less than Go's default between collections: a job
// keeps little and passes much.
const gcPercent = 20

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
