package main

import (
	"fmt"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/configs"
	"harborgate/internal/app"
	"harborgate/tasks"
)

// newSchemaCommand prints a JSON Schema of files that people write.
func newSchemaCommand(e *env, of string, schema func() map[string]any) *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of " + of, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return printJSON(e, schema()) },
	}
}

func newJobSchemaCommand(e *env) *cobra.Command {
	return newSchemaCommand(e, "job configurations, which -c takes", configs.JobSchema)
}

func newTrialSchemaCommand(e *env) *cobra.Command {
	return newSchemaCommand(e, "trial configurations, which -c takes", configs.TrialSchema)
}

func newTaskSchemaCommand(e *env) *cobra.Command {
	return newSchemaCommand(e, "task.toml", tasks.Schema)
}

func newEnvSchemaCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use: "schema NAME", Short: "Show the options that a provider takes: types, units, defaults", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return withApp(e, func(e *env, a *app.App) error { return showProviderOptions(e, a, args[0]) })
		},
	})
}

func showProviderOptions(e *env, a *app.App, name string) error {
	options, err := a.ProviderOptions(name)
	if err != nil {
		return codedError{exitNothing, err}
	}
	if e.json {
		return printJSON(e, optionSchema(name, options))
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHERE\tOPTION\tTYPE\tUNIT\tDEFAULT\tWHAT")
	for _, o := range options {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.Where, o.Name, o.Type, o.Unit, o.Default, o.Doc)
	}
	return w.Flush()
}

// optionSchema describes what --ek takes, as Harbor does, and under $defs what stands in
// config.yaml.
func optionSchema(name string, options []app.Option) map[string]any {
	object := func() map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	}
	root, defs := object(), map[string]any{}
	root["$schema"], root["title"] = configs.SchemaDialect, name
	for _, o := range options {
		at := root
		if o.Where != "--ek" {
			if defs[o.Where] == nil {
				defs[o.Where] = object()
			}
			at = defs[o.Where].(map[string]any)
		}
		p := map[string]any{"type": o.Type, "description": o.Doc}
		if o.Unit != "" {
			p["description"] = o.Doc + " (" + o.Unit + ")"
		}
		if o.Default != "" {
			p["default"] = defaultValue(o)
		}
		at["properties"].(map[string]any)[o.Name] = p
	}
	root["$defs"] = defs
	return root
}

// defaultValue is a default as JSON has it.
func defaultValue(o app.Option) any {
	switch o.Type {
	case "boolean":
		return o.Default == "true"
	case "number", "integer":
		if f, err := strconv.ParseFloat(o.Default, 64); err == nil {
			return f
		}
	}
	return o.Default
}
