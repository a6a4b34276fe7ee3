package shares

// Waiting says how many trials of this process wait for room, beside those in Await: for
// users of the host to see. Each call is a change of the account.
func (p *Pool) Waiting(trials int) error {
	p.mu.Lock()
	p.queued = trials
	p.mu.Unlock()
	return p.countWaiting()
}

// countWaiting writes down how many wait.
func (p *Pool) countWaiting() error {
	label, limits := p.purpose()
	return p.change(func(a *account, _ int64) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.waiting(p.o.ID, label, p.queued+len(p.urgent), limits)
		return true
	})
}

// waiting notes how many of an owner's trials wait, and for room within what limits.
func (a *account) waiting(id, label string, trials int, limits Need) {
	if trials == 0 && a.Owners[id] == nil {
		return
	}
	p := a.owner(id, label)
	p.Waiting, p.Limits = trials, limits
	a.tidy(id)
}
