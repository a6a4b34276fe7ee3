package authproxy

import (
	"errors"
	"net/http"
	"time"
)

// ConnectProtocol is what a connection of the admin socket is upgraded to that
// carries requests of one grant.
const ConnectProtocol = "harborgate-grant"

// adminConnect makes the connection one of the data plane that comes from the source
// of a grant: what carries connections of sandboxes says for which it does. A grant
// that is none, or is none any more, has a source that no other grant has: its
// requests are refused by word and on the record.
func (p *Proxy) adminConnect(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != ConnectProtocol {
		reply(w, http.StatusUpgradeRequired, map[string]string{"error": "this path is for connections: upgrade to " + ConnectProtocol})
		return
	}
	id := r.PathValue("id")
	source := "grant " + id
	if g, ok := p.Grant(id); ok && g.Spec.Source != "" {
		source = g.Spec.Source
	}
	conn, ahead, err := http.NewResponseController(w).Hijack()
	if err != nil {
		replyTo(w, err)
		return
	}
	if ahead.Reader.Buffered() > 0 { // the client did not wait for the answer
		err = errors.New("data came before the upgrade")
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil {
		_, err = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + ConnectProtocol + "\r\n\r\n"))
	}
	if err != nil {
		p.opts.Log.Warn("a connection for a grant failed", "grant", id, "error", err.Error())
		_ = conn.Close()
		return
	}
	p.Handle(source)(conn)
}
