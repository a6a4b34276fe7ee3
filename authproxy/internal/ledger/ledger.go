package ledger

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Sum is what is counted. A zero field of a cap is no limit.
type Sum struct {
	Money    NanoUSD `json:"usd,omitempty"`
	Tokens   int64   `json:"tokens,omitempty"`
	Requests int64   `json:"requests,omitempty"`
}

func (s Sum) plus(o Sum) Sum {
	return Sum{plus(s.Money, o.Money), s.Tokens + o.Tokens, s.Requests + o.Requests}
}

func (s Sum) minus(o Sum) Sum {
	return Sum{s.Money - o.Money, s.Tokens - o.Tokens, s.Requests - o.Requests}
}

// IsZero reports whether nothing is counted, or limited.
func (s Sum) IsZero() bool { return s == Sum{} }

// Charge is an account with the most that it may hold.
type Charge struct {
	Account string // e.g. "trial/j1/t1": kind, then whose
	Name    string // for humans, e.g. "trial"
	Cap     Sum
	// Elsewhere is money that counts against Cap and is in no account here.
	Elsewhere NanoUSD
}

// Exceeded says which budget does not hold a request.
type Exceeded struct {
	Name string
	What string // "USD", "tokens" or "requests"
	Cap  string
	Left string // of Cap, when what is open comes to nothing; empty when it is used up
	Most string // that the request may come to, as estimated
	// Open is set when there would be room if open requests came to nothing: they
	// hold more than most of them use.
	Open bool
}

func (e *Exceeded) Error() string {
	budget := fmt.Sprintf("the %s's budget of %s %s", e.Name, e.Cap, e.What)
	switch {
	case e.Open:
		return "the rest of " + budget + " is set aside for requests that are open"
	case e.Left == "":
		return budget + " is used up"
	}
	return fmt.Sprintf("a request may come to about %s %s, and %s of %s is left: lower max_tokens, or raise the budget", e.Most, e.What, e.Left, budget)
}

// Balance is what an account has come to.
type Balance struct {
	Spent    Sum `json:"spent"`
	Reserved Sum `json:"reserved"`
}

// ErrClosed is the error of a ledger that counts no more.
var ErrClosed = errors.New("the ledger is closed")

// Ledger keeps accounts. All that it says holds over a crash of the process, when
// it has a journal: a reservation is written before Reserve returns, so what was
// not settled by then counts as spent in full. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	open     map[uint64]entry // reserved and not settled
	journal  *journal         // nil keeps nothing
	next     uint64
	closed   bool
	settled  chan struct{} // closed by the next settlement
}

// account is a balance with the time of its last change.
type account struct {
	Balance
	used time.Time
}

// forgotten is how long nobody has charged an account that is dropped when the
// journal is rewritten. No grant lives as long, and no day's budget does.
const forgotten = 40 * 24 * time.Hour

// New returns a ledger that forgets everything with the process.
func New() *Ledger {
	return &Ledger{accounts: map[string]*account{}, open: map[uint64]entry{}, settled: make(chan struct{})}
}

// Reservation is what one request may come to. Settle it once.
type Reservation struct {
	ledger   *Ledger
	id       uint64
	accounts []string
	sum      Sum
	once     sync.Once
}

// Reserve sets aside sum on every account, or on none. An *Exceeded says which one
// is full; any other error means that nothing may be spent now.
func (l *Ledger) Reserve(charges []Charge, sum Sum) (*Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	r := &Reservation{ledger: l, sum: sum}
	for _, c := range charges {
		var b Balance
		if a := l.accounts[c.Account]; a != nil {
			b = a.Balance
		}
		if err := c.holds(b, sum); err != nil {
			return nil, err
		}
		r.accounts = append(r.accounts, c.Account)
	}
	l.next++
	r.id = l.next
	e := entry{Reserve: r.id, Accounts: r.accounts, Sum: sum}
	if err := l.journal.write(e); err != nil {
		return nil, fmt.Errorf("write the ledger: %w", err)
	}
	l.open[r.id] = e
	for _, a := range r.accounts {
		b := l.account(a)
		b.Reserved = b.Reserved.plus(sum)
	}
	return r, nil
}

// account returns an account that changes now.
func (l *Ledger) account(name string) *account {
	a := l.accounts[name]
	if a == nil {
		a = &account{}
		l.accounts[name] = a
	}
	a.used = time.Now()
	return a
}

// holds reports whether the charge's cap allows sum beside what the account holds.
func (c Charge) holds(b Balance, sum Sum) error {
	b.Spent.Money = plus(b.Spent.Money, c.Elsewhere)
	spent := b.Spent.plus(sum)
	total := spent.plus(b.Reserved)
	left := c.Cap.minus(b.Spent)
	switch {
	case c.Cap.Money > 0 && total.Money > c.Cap.Money:
		return exceeded(c.Name, "USD", c.Cap.Money, left.Money, sum.Money)
	case c.Cap.Tokens > 0 && total.Tokens > c.Cap.Tokens:
		return exceeded(c.Name, "tokens", c.Cap.Tokens, left.Tokens, sum.Tokens)
	case c.Cap.Requests > 0 && total.Requests > c.Cap.Requests:
		return exceeded(c.Name, "requests", c.Cap.Requests, left.Requests, sum.Requests)
	}
	return nil
}

// exceeded words what does not fit.
func exceeded[T NanoUSD | int64](name, what string, budget, left, most T) *Exceeded {
	e := &Exceeded{Name: name, What: what, Cap: fmt.Sprint(budget), Most: fmt.Sprint(most), Open: most <= left}
	if left > 0 {
		e.Left = fmt.Sprint(left)
	}
	return e
}

// Settled is closed by the next settlement: ask for it before Reserve, and wait for
// it after an *Exceeded that is Open.
func (l *Ledger) Settled() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settled
}

// Sum is what was reserved.
func (r *Reservation) Sum() Sum { return r.sum }

// Settle replaces the reservation by what was spent. Later calls do nothing. When
// the journal cannot be written, the accounts are right until the process ends;
// the next one counts the reservation.
func (r *Reservation) Settle(spent Sum) error {
	var err error
	r.once.Do(func() { err = r.ledger.settle(r, spent) })
	return err
}

func (l *Ledger) settle(r *Reservation, spent Sum) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range r.accounts {
		b := l.account(a)
		b.Reserved = b.Reserved.minus(r.sum)
		b.Spent = b.Spent.plus(spent)
	}
	delete(l.open, r.id)
	close(l.settled)
	l.settled = make(chan struct{})
	if l.closed {
		return ErrClosed
	}
	if err := l.journal.write(entry{Settle: r.id, Sum: spent}); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return l.compact()
}

// Balance returns what an account has come to.
func (l *Ledger) Balance(account string) Balance {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[account]; a != nil {
		return a.Balance
	}
	return Balance{}
}

// Balances returns all accounts, by name.
func (l *Ledger) Balances() map[string]Balance {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]Balance, len(l.accounts))
	for name, a := range l.accounts {
		out[name] = a.Balance
	}
	return out
}

// Close writes the journal out and lets go of it. Open reservations count as spent
// for whoever opens it next.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	return l.journal.close()
}
