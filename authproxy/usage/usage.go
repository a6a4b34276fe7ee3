// Package usage adds up what audit logs say was used. It only reads, while the logs are
// being written or not.
package usage

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harborgate/authproxy"
)

// By says what is added up together.
type By string

// The groups.
const (
	ByJob      By = "job"
	ByTrial    By = "trial"
	ByModel    By = "model"
	ByUpstream By = "upstream"
	ByDay      By = "day" // UTC
)

// Groups are all of them.
func Groups() []By { return []By{ByJob, ByTrial, ByModel, ByUpstream, ByDay} }

// keys say which group a record is in.
func keys() map[By]func(authproxy.Record) string {
	return map[By]func(authproxy.Record) string{
		ByJob:      func(r authproxy.Record) string { return r.Job },
		ByTrial:    func(r authproxy.Record) string { return strings.Trim(r.Job+"/"+r.Trial, "/") },
		ByModel:    func(r authproxy.Record) string { return cmp.Or(r.Answered, r.Model) },
		ByUpstream: func(r authproxy.Record) string { return r.Upstream },
		ByDay:      func(r authproxy.Record) string { return r.Time.UTC().Format(time.DateOnly) },
	}
}

// NoToken is the key of requests without a valid token, which belong to nobody.
const NoToken = "(no token)"

// Filter chooses records. Zero fields choose all.
type Filter struct {
	Since time.Time
	Job   string // itself, or what its name begins with up to its id
}

func (f Filter) has(r authproxy.Record) bool {
	if r.Time.Before(f.Since) {
		return false
	}
	return f.Job == "" || r.Job == f.Job || strings.HasPrefix(r.Job, f.Job+"-")
}

// Row is what one group comes to.
type Row struct {
	Key      string             `json:"key"`
	Requests int64              `json:"requests"`
	Refused  int64              `json:"refused"` // by the proxy
	Failed   int64              `json:"failed"`  // by the upstream
	Usage    authproxy.Usage    `json:"usage"`
	Cost     *authproxy.NanoUSD `json:"cost_usd"` // of what has a price; null when nothing has that was used
	Unpriced int64              `json:"unpriced"` // requests that used something without one
	Guessed  int64              `json:"guessed"`  // requests whose usage is an estimate
}

func (r *Row) add(rec authproxy.Record) {
	r.Requests++
	if rec.Refused != "" {
		r.Refused++
		return
	}
	if rec.UpstreamFailed() {
		r.Failed++
	}
	if rec.Guessed {
		r.Guessed++
	}
	r.Usage = plus(r.Usage, rec.Usage)
	switch {
	case rec.Cost != nil:
		r.Cost = addCost(r.Cost, rec.Cost)
	case rec.Status < 400 && rec.Usage.Tokens() > 0: // failures are billed as nothing
		r.Unpriced++
	}
}

// Report is what logs come to.
type Report struct {
	By    By    `json:"by"`
	Rows  []Row `json:"rows"`
	Total Row   `json:"total"`
	// Damaged lines are left out: as a rule the last one of a process that was killed.
	Damaged int `json:"damaged_lines,omitempty"`
	// Unrecorded is what the ledgers beside the logs have and no record has: requests
	// that a kill cut off, and those that are open. It is not known of a part of time.
	Unrecorded authproxy.NanoUSD `json:"unrecorded_usd,omitempty"`
}

// Plus adds another report of the same groups.
func (r Report) Plus(o Report) Report {
	rows := map[string]Row{}
	for _, row := range slices.Concat(r.Rows, o.Rows) {
		rows[row.Key] = sum(rows[row.Key], row)
	}
	out := Report{By: r.By, Rows: []Row{}, Total: sum(r.Total, o.Total), Damaged: r.Damaged + o.Damaged, Unrecorded: r.Unrecorded + o.Unrecorded}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		out.Rows = append(out.Rows, rows[k])
	}
	return out
}

// sum adds two rows; it has the key of the second.
func sum(a, b Row) Row {
	return Row{
		Key: b.Key, Requests: a.Requests + b.Requests, Refused: a.Refused + b.Refused, Failed: a.Failed + b.Failed,
		Usage: plus(a.Usage, b.Usage), Cost: addCost(a.Cost, b.Cost), Unpriced: a.Unpriced + b.Unpriced, Guessed: a.Guessed + b.Guessed,
	}
}

// addCost adds costs of which nil is none that can be stated.
func addCost(a, b *authproxy.NanoUSD) *authproxy.NanoUSD {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return new(*a + *b)
}

func plus(a, b authproxy.Usage) authproxy.Usage {
	return authproxy.Usage{
		Input: a.Input + b.Input, CacheRead: a.CacheRead + b.CacheRead,
		CacheWrite: a.CacheWrite + b.CacheWrite, CacheWriteLong: a.CacheWriteLong + b.CacheWriteLong,
		Output: a.Output + b.Output, Reasoning: a.Reasoning + b.Reasoning, Searches: a.Searches + b.Searches,
	}
}

// Read adds up the logs at paths, each with those that were set aside, and holds them
// against the ledgers beside them. Paths that do not exist hold nothing.
func Read(paths []string, by By, f Filter) (Report, error) {
	key := keys()[by]
	if key == nil {
		return Report{}, fmt.Errorf("usage by %q is not kept: there are %v", by, Groups())
	}
	rows := map[string]*Row{}
	out := Report{By: by, Rows: []Row{}, Total: Row{Key: "total"}}
	for _, path := range paths {
		jobs := map[string]authproxy.NanoUSD{}
		damaged, err := each(path, func(r authproxy.Record) {
			if !f.has(r) {
				return
			}
			k := key(r)
			if k == "" && r.Grant == "" {
				k = NoToken
			}
			if rows[k] == nil {
				rows[k] = &Row{Key: k}
			}
			rows[k].add(r)
			out.Total.add(r)
			if r.Cost != nil {
				jobs[r.Job] += *r.Cost
			}
		})
		if err != nil {
			return Report{}, err
		}
		out.Damaged += damaged
		more, err := unrecorded(filepath.Dir(path), jobs, f)
		if err != nil {
			return Report{}, err
		}
		out.Unrecorded += more
	}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		out.Rows = append(out.Rows, rows[k].closed())
	}
	out.Total = out.Total.closed()
	return out, nil
}

// closed is the row when all is added: what used nothing without a price cost nothing.
func (r Row) closed() Row {
	if r.Cost == nil && r.Unpriced == 0 {
		r.Cost = new(authproxy.NanoUSD(0))
	}
	return r
}

// unrecorded is what a ledger has of jobs beyond what was recorded of them. It forgets
// jobs earlier than logs do.
func unrecorded(stateDir string, recorded map[string]authproxy.NanoUSD, f Filter) (more authproxy.NanoUSD, err error) {
	if !f.Since.IsZero() {
		return 0, nil
	}
	spent, err := authproxy.SpentByJobs(stateDir)
	for job, usd := range spent {
		if f.has(authproxy.Record{Job: job}) {
			more += max(0, usd-recorded[job])
		}
	}
	return more, err
}

// each calls f for every record of a log, the oldest first.
func each(path string, f func(authproxy.Record)) (damaged int, err error) {
	for _, p := range slices.Backward(aside(path)) {
		n, err := scan(p, f)
		if err != nil {
			return damaged, fmt.Errorf("read audit log: %w", err)
		}
		damaged += n
	}
	return damaged, nil
}

// aside are a log and those that were set aside, the newest first.
func aside(path string) []string {
	out := []string{path}
	for i := 1; ; i++ {
		older := fmt.Sprintf("%s.%d", path, i)
		if _, err := os.Stat(older); err != nil {
			return out
		}
		out = append(out, older)
	}
}

// readBuffer is how much of a log is read at once.
const readBuffer = 64 << 10

func scan(path string, f func(authproxy.Record)) (damaged int, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, readBuffer)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return damaged, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return damaged, err
		}
		var rec authproxy.Record
		if json.Unmarshal(line, &rec) != nil || rec.Time.IsZero() {
			damaged++
			continue
		}
		f(rec)
	}
}
