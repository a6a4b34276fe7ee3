package usage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy"
)

// day is half an hour before the end of one.
func day() time.Time { return time.Date(2026, 3, 1, 23, 30, 0, 0, time.UTC) }

func record(job, trial, model string, at time.Time, change func(*authproxy.Record)) authproxy.Record {
	cost := authproxy.NanoUSD(2_000_000)
	r := authproxy.Record{
		Time: at, ID: "hgr_1", Job: job, Trial: trial, Upstream: "anthropic", Model: model, Status: 200, End: authproxy.Complete,
		Usage: authproxy.Usage{Input: 700, CacheRead: 300, Output: 42}, Cost: &cost,
	}
	if change != nil {
		change(&r)
	}
	return r
}

// write makes a log with an older one beside it, through the log itself.
func write(t *testing.T, records ...authproxy.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const small = 900
	l, err := authproxy.OpenAuditLog(path, small, 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := l.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func logs(t *testing.T) string {
	t.Helper()
	return write(t,
		record("a-1", "t1", "m", day(), nil),
		record("a-1", "t2", "m", day().Add(time.Hour), nil),
		record("a-1", "t2", "n", day().Add(time.Hour), func(r *authproxy.Record) { r.Cost, r.Guessed = nil, true }),
		record("b-2", "t1", "m", day().Add(2*time.Hour), func(r *authproxy.Record) { r.Answered = "m-2026" }),
		record("b-2", "t1", "m", day(), func(r *authproxy.Record) {
			r.Refused, r.Status, r.Usage, r.Cost = authproxy.KeyRefused, 401, authproxy.Usage{}, nil
		}),
		record("b-2", "t1", "m", day(), func(r *authproxy.Record) { r.Status, r.Usage, r.Cost = 500, authproxy.Usage{}, nil }),
	)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	path := logs(t)
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Fatalf("nothing was set aside: %v", err)
	}
	for by, want := range map[By]string{
		ByJob: "a-1=3 b-2=3", ByTrial: "a-1/t1=1 a-1/t2=2 b-2/t1=3", ByModel: "m=4 m-2026=1 n=1", ByUpstream: "anthropic=6", ByDay: "2026-03-01=3 2026-03-02=3",
	} {
		r, err := Read([]string{path}, by, Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range r.Rows {
			b, err := json.Marshal(row.Requests)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.Key+"="+string(b))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", by, got, want)
		}
		total := Row{
			Key: "total", Requests: 6, Refused: 1, Failed: 1, Usage: authproxy.Usage{Input: 2800, CacheRead: 1200, Output: 168},
			Unpriced: 1, Guessed: 1,
		}
		if r.Total.Cost == nil || *r.Total.Cost != 6_000_000 {
			t.Errorf("%s: cost %v", by, r.Total.Cost)
		}
		r.Total.Cost = nil
		if r.Total != total {
			t.Errorf("%s: %+v", by, r.Total)
		}
	}
	if _, err := Read(nil, "mood", Filter{}); err == nil || !strings.Contains(err.Error(), "upstream") {
		t.Errorf("%v", err)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	path := logs(t)
	for want, f := range map[int64]Filter{
		3: {Job: "a"}, 6: {Since: day()}, 1: {Since: day().Add(time.Hour), Job: "b-2"}, 0: {Job: "a-"},
	} {
		if r, err := Read([]string{path}, ByJob, f); err != nil || r.Total.Requests != want {
			t.Errorf("%+v: %+v %v", f, r.Total, err)
		}
	}
}

func TestReportsAddUp(t *testing.T) {
	t.Parallel()
	path := logs(t)
	one, err := Read([]string{path}, ByJob, Filter{Job: "a"})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Read([]string{path}, ByJob, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	both := one.Plus(two)
	if len(both.Rows) != 2 || both.Rows[0].Requests != 6 || both.Rows[1].Requests != 3 || both.Total.Requests != 9 || both.Total.Usage.Output != 168+126 || both.Total.Key != "total" {
		t.Errorf("%+v", both)
	}
}

func TestDamagedLinesAreLeftOut(t *testing.T) {
	t.Parallel()
	path := write(t, record("a-1", "t1", "m", day(), nil))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(append(b, "{}\nnonsense\n"...), b[:len(b)/2]...), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read([]string{path, filepath.Join(t.TempDir(), "none")}, ByJob, Filter{})
	if err != nil || r.Total.Requests != 1 || r.Damaged != 3 {
		t.Errorf("%+v %v", r, err)
	}
}

func FuzzRead(f *testing.F) {
	b, err := json.Marshal(record("a", "t", "m", day(), nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{\"time\":\"2026-01-01T00:00:00Z\"}\n\n{"))
	path := filepath.Join(f.TempDir(), "audit.jsonl")
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read([]string{path}, ByDay, Filter{})
		lines := strings.Count(string(text)+"\n", "\n")
		if err != nil || r.Total.Requests+int64(r.Damaged) > int64(lines) {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func TestWhatHasNoPriceCostsNullAndNotNothing(t *testing.T) {
	t.Parallel()
	path := write(t,
		record("a-1", "t", "m", day(), func(r *authproxy.Record) { r.Cost = nil }),
		record("b-1", "t", "m", day(), nil),
		record("b-1", "t", "m", day(), func(r *authproxy.Record) { r.Cost = nil }),
		record("c-1", "t", "m", day(), func(r *authproxy.Record) { r.Status, r.Cost = 500, nil }),
	)
	r, err := Read([]string{path}, ByJob, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	r = r.Plus(Report{By: ByJob})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Rows []struct {
			Cost     *float64 `json:"cost_usd"`
			Unpriced int      `json:"unpriced"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if x := got.Rows[0]; x.Cost != nil || x.Unpriced != 1 {
		t.Errorf("only without a price: %v %d", x.Cost, x.Unpriced)
	}
	if x := got.Rows[1]; x.Cost == nil || *x.Cost != 0.002 || x.Unpriced != 1 {
		t.Errorf("one with a price and one without: %v %d", x.Cost, x.Unpriced)
	}
	if x := got.Rows[2]; x.Unpriced != 0 {
		t.Errorf("a failure of the upstream counts as unpriced: %d", x.Unpriced)
	}
}

func TestRequestsWithoutATokenAreARow(t *testing.T) {
	t.Parallel()
	path := write(t, record("", "", "", day(), func(r *authproxy.Record) { r.Upstream, r.Refused, r.Cost = "", "grant", nil }))
	for _, by := range []By{ByJob, ByTrial, ByUpstream} {
		if r, err := Read([]string{path}, by, Filter{}); err != nil || len(r.Rows) != 1 || r.Rows[0].Key != "(no token)" {
			t.Errorf("%s: %+v %v", by, r.Rows, err)
		}
	}
}

// A kill leaves in the ledger what it took from the log.
func TestUsageSaysWhatAKillCutOff(t *testing.T) {
	t.Parallel()
	path := logs(t)
	ledger := `{"a":"job/b-2","n":{"usd":"0.005"},"t":1}` + "\n" + `{"a":"job/a-1","n":{"usd":"0.001"},"t":1}` + "\n" +
		`{"r":1,"as":["job/b-2","trial/b-2/t1"],"n":{"usd":"0.002"}}` + "\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "ledger.jsonl"), []byte(ledger), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f    Filter
		want authproxy.NanoUSD
	}{{Filter{}, 5_000_000}, {Filter{Job: "b"}, 5_000_000}, {Filter{Job: "a"}, 0}, {Filter{Since: day()}, 0}} {
		r, err := Read([]string{path}, ByJob, c.f)
		if err != nil || r.Unrecorded != c.want || r.Plus(r).Unrecorded != 2*c.want {
			t.Errorf("%+v: %s, %v", c.f, r.Unrecorded, err)
		}
	}
}

func TestUsageOfRequestsThatWereOnlyRefusedCostNothing(t *testing.T) {
	t.Parallel()
	path := write(t, record("a", "t", "m", day(), func(r *authproxy.Record) {
		r.Refused, r.Status, r.Usage, r.Cost = authproxy.KeyRefused, 401, authproxy.Usage{}, nil
	}))
	r, err := Read([]string{path}, ByJob, Filter{})
	if err != nil || r.Rows[0].Cost == nil || *r.Rows[0].Cost != 0 || r.Total.Cost == nil {
		t.Errorf("%+v %v", r, err)
	}
}
