// Package authproxy keeps model credentials on the host. An agent in a sandbox is
// given a base URL and a token that is worth nothing elsewhere; the proxy swaps in
// the real key, streams the answer byte for byte, meters it, and holds budgets and
// limits.
//
//	sandbox                        proxy                          provider
//	POST /anthropic/v1/messages    authenticate → match → read    POST /v1/messages
//	x-api-key: hgt_…           ──▶ → policy → reserve → queue  ──▶ x-api-key: sk-…
//	                               → strip → rewrite → forward
//	   ◀── the same bytes ──────── relay, metered on the side ◀──────────
//	                               settle → audit
//
// The peer is hostile: it may hold a valid token, knows this source, and speaks raw
// TCP. What holds against it is written down in docs/auth-proxy.md as invariants
// I1 to I10, each with a test of its name.
//
// The package imports nothing of ours but plumbing: it knows no trials, providers
// or jobs, only names that grants carry.
package authproxy
