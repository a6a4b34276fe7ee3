package view

// list is a cursor in rows of which a window is seen.
type list struct {
	n      int // rows
	height int // of the window
	cursor int
	top    int // first row that is seen
}

// resize takes new numbers and keeps the cursor among the rows, and in sight.
func (l *list) resize(n, height int) {
	l.n, l.height = n, max(height, 1)
	l.move(0)
}

func (l *list) move(by int) {
	l.cursor = max(0, min(l.cursor+by, l.n-1))
	l.top = max(0, min(l.top, l.n-l.height))
	if l.cursor < l.top {
		l.top = l.cursor
	}
	if l.cursor >= l.top+l.height {
		l.top = l.cursor - l.height + 1
	}
}

// rows are the first row that is seen and the one behind the last.
func (l *list) rows() (from, to int) { return l.top, min(l.n, l.top+l.height) }

// key moves the cursor, if the key does that.
func (l *list) key(k string) bool {
	by, ok := stepOf(k, l.n, l.height)
	if ok {
		l.move(by)
	}
	return ok
}

// stepOf is how far a key moves in so many rows, all of them at the ends.
func stepOf(k string, rows, height int) (int, bool) {
	switch k {
	case "up", "k", "ctrl+p":
		return -1, true
	case "down", "j", "ctrl+n":
		return 1, true
	case "pgup", "ctrl+b":
		return -height, true
	case "pgdown", "ctrl+f", "space":
		return height, true
	case "ctrl+u":
		return -height / 2, true
	case "ctrl+d":
		return height / 2, true
	case "home", "g":
		return -rows, true
	case "end", "G":
		return rows, true
	}
	return 0, false
}

// marked is a row with the cursor on it or not. Colours give way to the cursor's.
func marked(row string, columns int, here bool) string {
	if !here {
		return "  " + fit(row, columns-2)
	}
	return reverse.on("▸ " + fit(unpainted(row), columns-2))
}
