package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// notBuilt are commands that users of Harbor know and that this program does not
// have, by group. They are refused by name, with what to do instead.
var notBuilt = map[string][]struct{ name, instead string }{
	"": {
		{"check", "`harbor task check PATH` and `harbor lint DIR` report what is wrong with tasks"},
		{"init", "`harbor task init NAME` makes a task"},
		{"analyze", "the results are JSON files in the job's directory"},
		{"cache", "`harbor cleanup --images` removes images"},
		{"dataset", "give a directory of tasks with -p"},
		{"download", "give a directory of tasks with -p"},
		{"adapter", "adapters of data sets belong to Harbor"},
		{"exec", "write a task, `harbor task init` makes one"},
		{"serve", "there is no server yet"},
		{"plugins", "plugins are Python classes and cannot be loaded"},
		{"upload", "there is no hosted service behind this program"},
		{"publish", "there is no hosted service behind this program"},
		{"hub", "there is no hosted service behind this program"},
	},
	"job": {
		{"summarize", "`harbor job show DIR` prints the numbers"},
		{"download", "there is no hosted service behind this program"},
		{"share", "there is no hosted service behind this program"},
	},
	"trial": {
		{"handoff", "sessions of agents are not kept"},
		{"summarize", "`harbor trial show DIR` prints what happened"},
		{"download", "there is no hosted service behind this program"},
	},
}

// addNotBuilt gives a group its refused commands, out of its help.
func addNotBuilt(c *cobra.Command, group string) *cobra.Command {
	for _, n := range notBuilt[group] {
		c.AddCommand(&cobra.Command{
			Use: n.name, Hidden: true, DisableFlagParsing: true,
			RunE: func(c *cobra.Command, _ []string) error {
				return usageError{fmt.Errorf("%s is not built: %s", c.CommandPath(), n.instead)}
			},
		})
	}
	return c
}
