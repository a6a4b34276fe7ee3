package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"gopkg.in/yaml.v3"

	"harborgate/internal/mockllm"
)

// line is one entry of a script: how that many requests are answered, one after
// the other. Requests behind the last entry are answered as without a script.
//
//	# a script
//	- {command: "echo hello > /app/hello.txt", usage: {input: 700, output: 42}}
//	- {status: 529, times: 3}
//	- {text: "Done.", words: 100, pause: 20ms, cut_after: 5}
//	- {echo: true, forever: true}
type line struct {
	Text       string            `yaml:"text"`
	Command    string            `yaml:"command"`
	Echo       bool              `yaml:"echo"`
	Status     int               `yaml:"status"`
	Header     map[string]string `yaml:"header"`
	Body       string            `yaml:"body"`
	Reset      bool              `yaml:"reset"`
	CutAfter   int               `yaml:"cut_after"`   // events
	ErrorAfter int               `yaml:"error_after"` // events
	Pause      time.Duration     `yaml:"pause"`       // before each event
	Encoding   string            `yaml:"encoding"`
	NoUsage    bool              `yaml:"no_usage"`
	Words      int               `yaml:"words"`
	Model      string            `yaml:"model"`
	ID         string            `yaml:"id"`
	Usage      *usage            `yaml:"usage"`
	Times      int               `yaml:"times"`   // 1 unless given
	Forever    bool              `yaml:"forever"` // the last entry only
}

// usage is that of mockllm as it is written down, in scripts and in logs.
type usage struct {
	Input      int `yaml:"input"       json:"input"`
	CacheRead  int `yaml:"cache_read"  json:"cache_read"`
	CacheWrite int `yaml:"cache_write" json:"cache_write"`
	Output     int `yaml:"output"      json:"output"`
	Reasoning  int `yaml:"reasoning"   json:"reasoning"`
}

// longestScript is how many requests a script may be about.
const longestScript = 100_000

// readScript reads a script: the steps, and the one for all requests behind them,
// which may be nil.
func readScript(text []byte) (steps []mockllm.Step, forever *mockllm.Step, err error) {
	var lines []line
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&lines); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("read script: %w", err)
	}
	for i, l := range lines {
		step := l.step()
		if l.Forever {
			if i < len(lines)-1 || l.Times != 0 {
				return nil, nil, fmt.Errorf("read script: entry %d: forever is for the last entry, and without times", i+1)
			}
			return steps, &step, nil
		}
		times := max(1, l.Times)
		if l.Times < 0 || len(steps)+times > longestScript {
			return nil, nil, fmt.Errorf("read script: entry %d: times must be from 1 to %d in all", i+1, longestScript)
		}
		for range times {
			steps = append(steps, step)
		}
	}
	return steps, nil, nil
}

func (l line) step() mockllm.Step {
	s := mockllm.Step{
		Text: l.Text, Command: l.Command, Echo: l.Echo, Status: l.Status, Reset: l.Reset,
		CutAfter: l.CutAfter, ErrorAfter: l.ErrorAfter, Pause: l.Pause, Encoding: l.Encoding,
		NoUsage: l.NoUsage, Words: l.Words, Model: l.Model, ID: l.ID,
	}
	if l.Body != "" {
		s.Body = []byte(l.Body)
	}
	if l.Usage != nil {
		u := mockllm.Usage(*l.Usage)
		s.Usage = &u
	}
	for name, value := range l.Header {
		if s.Header == nil {
			s.Header = http.Header{}
		}
		s.Header.Set(name, value)
	}
	return s
}
