package service

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"harborgate/authproxy"
)

// meters count for Prometheus. Labels are few and bounded: no grant, no trial, and
// of models only those that upstreams answered for, up to mostModels.
type meters struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	first    *prometheus.HistogramVec
	waited   *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	streams  *prometheus.GaugeVec
	reloads  *prometheus.CounterVec

	mu     sync.Mutex
	models map[string]bool
}

// mostModels bounds the label model; the rest is "other".
const mostModels = 100

func newMeters() *meters {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "harbor", Subsystem: "auth", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "harbor", Subsystem: "auth", Name: name, Help: help}, []string{"upstream"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "harbor", Subsystem: "auth", Name: name, Help: help, Buckets: []float64{.05, .25, 1, 2.5, 5, 10, 30, 60, 180, 600},
		}, []string{"upstream"})
	}
	m := &meters{
		registry: prometheus.NewRegistry(),
		requests: counter("requests_total", "Requests by class of status, and by who refused them and why.", "upstream", "model", "status", "refused", "end"),
		tokens:   counter("tokens_total", "Tokens by class.", "upstream", "model", "class"),
		cost:     counter("cost_usd_total", "Cost of what has a price, in US dollars.", "upstream", "model"),
		seconds:  histogram("request_seconds", "From the first byte of a request to the last one of its answer."),
		first:    histogram("first_byte_seconds", "From a request to the first byte of its answer."),
		waited:   counter("waited_seconds_total", "Time that requests waited for limits.", "upstream"),
		waiting:  gauge("waiting", "Requests that wait for a limit."),
		streams:  gauge("streams", "Answers under way."),
		reloads:  counter("reloads_total", "Reloads by result.", "result"),
		models:   map[string]bool{},
	}
	m.registry.MustRegister(m.requests, m.tokens, m.cost, m.seconds, m.first, m.waited, m.waiting, m.streams, m.reloads,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Served implements authproxy.Metrics.
func (m *meters) Served(r authproxy.Record) {
	model := m.model(r)
	m.requests.WithLabelValues(r.Upstream, model, strconv.Itoa(r.Status/100)+"xx", string(r.Refused), string(r.End)).Inc()
	for class, n := range map[string]int64{
		"input": r.Usage.Input, "cache_read": r.Usage.CacheRead, "cache_write": r.Usage.CacheWrite + r.Usage.CacheWriteLong,
		"output": r.Usage.Output, "reasoning": r.Usage.Reasoning,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(r.Upstream, model, class).Add(float64(n))
		}
	}
	if r.Cost != nil {
		m.cost.WithLabelValues(r.Upstream, model).Add(r.Cost.Dollars())
	}
	if r.Refused == "" {
		m.seconds.WithLabelValues(r.Upstream).Observe(seconds(r.DurMS))
		m.first.WithLabelValues(r.Upstream).Observe(seconds(r.FirstMS))
	}
	if r.WaitedMS > 0 {
		m.waited.WithLabelValues(r.Upstream).Add(seconds(r.WaitedMS))
	}
}

func seconds(ms int64) float64 { return (time.Duration(ms) * time.Millisecond).Seconds() }

// model is the label of a record: clients can name anything.
func (m *meters) model(r authproxy.Record) string {
	name := cmp.Or(r.Answered, r.Model)
	const ok = http.StatusOK
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.models[name]:
		return name
	case r.Status != ok || name == "" || len(m.models) >= mostModels:
		return "other"
	}
	m.models[name] = true
	return name
}

// Waiting implements authproxy.Metrics.
func (m *meters) Waiting(upstream string, change int) {
	m.waiting.WithLabelValues(upstream).Add(float64(change))
}

// Streams implements authproxy.Metrics.
func (m *meters) Streams(upstream string, change int) {
	m.streams.WithLabelValues(upstream).Add(float64(change))
}

func (m *meters) reloaded(err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.reloads.WithLabelValues(result).Inc()
}

func (m *meters) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// follow adds what the status says at the moment of a scrape.
func (m *meters) follow(status func() authproxy.Status) error {
	return m.registry.Register(&held{
		status:  status,
		grants:  prometheus.NewDesc("harbor_auth_grants", "Grants in force.", nil, nil),
		resting: prometheus.NewDesc("harbor_auth_keys_resting", "Keys that rest, and whether the provider refused them.", []string{"upstream", "refused"}, nil),
		ready:   prometheus.NewDesc("harbor_auth_ready", "1 while requests are taken.", nil, nil),
	})
}

// held is a collector of what is held at the moment.
type held struct {
	status                 func() authproxy.Status
	grants, resting, ready *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (h *held) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{h.grants, h.resting, h.ready} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (h *held) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := h.status()
	is := map[bool]float64{true: 1}
	gauge(h.ready, is[s.Ready])
	gauge(h.grants, float64(len(s.Grants)))
	for _, u := range s.Upstreams {
		resting := map[bool]int{}
		for _, k := range u.Keys {
			if !k.Resting.IsZero() {
				resting[k.Refused]++
			}
		}
		gauge(h.resting, float64(resting[false]), u.Name, "false")
		gauge(h.resting, float64(resting[true]), u.Name, "true")
	}
}
