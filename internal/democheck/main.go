// Command democheck compares the outcomes of a job with those that are expected.
// It reads what `harbor job show --json` prints from standard input:
//
//	harbor job show jobs/demo --json | democheck examples/expected.json
//
// It knows the result files by their documented form alone, as any other reader
// of them would, and exits with 1 when an outcome differs.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: democheck EXPECTED.json <JOB.json")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "democheck:", err)
		os.Exit(1)
	}
}

// outcome is what a trial came to, as far as it is the same every time.
type outcome struct {
	Rewards   map[string]float64 `json:"rewards,omitempty"`   // absent is no verdict
	Exception string             `json:"exception,omitempty"` // its type
	Suspect   []string           `json:"suspect,omitempty"`   // codes, in order of report
}

func (o outcome) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func (o outcome) equal(other outcome) bool {
	return maps.Equal(o.Rewards, other.Rewards) && o.Exception == other.Exception && slices.Equal(o.Suspect, other.Suspect)
}

func run(path string, job io.Reader, report io.Writer) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var want map[string]outcome
	if err := json.Unmarshal(b, &want); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	got, err := outcomes(job)
	if err != nil {
		return err
	}
	if err := compare(got, want); err != nil {
		return err
	}
	_, err = fmt.Fprintf(report, "All %d outcomes are the expected ones.\n", len(want))
	return err
}

// outcomes reads those of a job, by task.
func outcomes(job io.Reader) (map[string]outcome, error) {
	var doc struct {
		Trials []struct {
			Task     string `json:"task_name"`
			Verifier *struct {
				Rewards map[string]float64 `json:"rewards"`
			} `json:"verifier_result"`
			Exception *struct {
				Type string `json:"exception_type"`
			} `json:"exception_info"`
			Harborgate struct {
				Suspect []struct {
					Code string `json:"code"`
				} `json:"suspect"`
			} `json:"harborgate"`
		} `json:"trials"`
	}
	if err := json.NewDecoder(job).Decode(&doc); err != nil {
		return nil, fmt.Errorf("standard input is not the JSON of a job: %w", err)
	}
	out := map[string]outcome{}
	for _, t := range doc.Trials {
		var o outcome
		if t.Verifier != nil {
			o.Rewards = t.Verifier.Rewards
		}
		if t.Exception != nil {
			o.Exception = t.Exception.Type
		}
		for _, s := range t.Harborgate.Suspect {
			o.Suspect = append(o.Suspect, s.Code)
		}
		if _, twice := out[t.Task]; twice {
			return nil, fmt.Errorf("task %s has more than one trial: run it with one attempt", t.Task)
		}
		out[t.Task] = o
	}
	return out, nil
}

// compare names every task whose outcome differs, is missing or was not expected.
func compare(got, want map[string]outcome) error {
	var errs []error
	for _, task := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[task]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("task %s has no trial", task))
		case !g.equal(want[task]):
			errs = append(errs, fmt.Errorf("task %s came to %s, want %s", task, g, want[task]))
		}
	}
	for _, task := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[task]; !ok {
			errs = append(errs, fmt.Errorf("task %s is not expected: it came to %s", task, got[task]))
		}
	}
	return errors.Join(errs...)
}
