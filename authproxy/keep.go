package authproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"harborgate/authproxy/internal/ledger"
	"harborgate/internal/atomicfile"
)

// ledgerFile is the journal within the state directory.
const ledgerFile = "ledger.jsonl"

func (p *Proxy) grantsFile() string { return filepath.Join(p.opts.StateDir, "grants.json") }

// restore goes on from what the state directory holds.
func (p *Proxy) restore() error {
	l, err := ledger.Open(filepath.Join(p.opts.StateDir, ledgerFile))
	if err != nil {
		return fmt.Errorf("auth proxy: %w", err)
	}
	p.ledger = l
	text, err := os.ReadFile(p.grantsFile())
	if err == nil {
		err = p.grants.decode(text, time.Now(), func(account string) Sum { return l.Balance(account).Spent })
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("auth proxy: %w", err), l.Close())
	}
	return nil
}

// SpentByJobs returns what jobs have spent by a proxy with that state directory, by
// their names, open requests in full. It may be of another process.
func SpentByJobs(stateDir string) (map[string]NanoUSD, error) {
	all, err := ledger.AllSpent(filepath.Join(stateDir, ledgerFile))
	if err != nil {
		return nil, err
	}
	out := map[string]NanoUSD{}
	for account, sum := range all {
		if job, ok := strings.CutPrefix(account, "job/"); ok {
			out[job] = sum.Money
		}
	}
	return out, nil
}

// saveGrants writes the grants in force. After Close, the file is another process's.
func (p *Proxy) saveGrants() error {
	if p.opts.StateDir == "" {
		return nil
	}
	p.saving.Lock()
	defer p.saving.Unlock()
	if p.closed.Load() {
		return nil
	}
	text, err := p.grants.encode(p.drained())
	if err == nil {
		err = atomicfile.Write(p.grantsFile(), text, auditMode)
	}
	if err != nil {
		return fmt.Errorf("keep grants: %w", err)
	}
	return nil
}

// stored is a grant on the disk.
type stored struct {
	ID     string    `json:"id"`
	Hash   string    `json:"sha256"`
	Spec   GrantSpec `json:"spec"`
	Totals Totals    `json:"totals"`
	Final  bool      `json:"final,omitempty"` // the totals: the proxy had answered all that it would
}

func (s *grants) encode(final bool) ([]byte, error) {
	var out []stored
	for _, g := range s.all() {
		out = append(out, stored{g.id, hex.EncodeToString(g.hash[:]), g.spec, g.status().Totals, final})
	}
	return json.Marshal(out)
}

// decode adds the grants of text that have not expired. spent is what the ledger
// knows of an account.
func (s *grants) decode(text []byte, now time.Time, spent func(account string) Sum) error {
	var in []stored
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("read grants: %w", err)
	}
	for _, st := range in {
		hash, err := hex.DecodeString(st.Hash)
		if err != nil || len(hash) != sha256.Size {
			return fmt.Errorf("read grants: grant %s has no hash", st.ID)
		}
		if !st.Spec.Expires.After(now) {
			continue
		}
		g := restored(st.ID, [sha256.Size]byte(hash), st.Spec)
		g.totals = st.Totals
		if !st.Final {
			g.totals.killed(spent(g.accounts.own))
		}
		s.put(g)
	}
	return nil
}

// killed makes the best of totals that were written some time before a kill.
func (t *Totals) killed(known Sum) {
	if known.Requests == 0 {
		return
	}
	t.Partial = true
	t.Cost, t.Requests = max(t.Cost, known.Money), max(t.Requests, known.Requests)
}
