package regular

import (
	"io/fs"
	"sync"
)

// A lease counts the users of what goes when it has ended and the last of them
// has left.
type lease struct {
	free  func() error // called once
	mu    sync.Mutex
	users int
	over  bool
}

// enter adds a user, or fails after the end.
func (l *lease) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return fs.ErrClosed
	}
	l.users++
	return nil
}

func (l *lease) leave() {
	l.mu.Lock()
	l.users--
	last := l.over && l.users == 0
	l.mu.Unlock()
	if last {
		l.free() // nobody is left to be told of an error
	}
}

// end lets nobody in any more. It does not wait.
func (l *lease) end() error {
	l.mu.Lock()
	was, last := l.over, l.users == 0
	l.over = true
	l.mu.Unlock()
	switch {
	case was:
		return fs.ErrClosed
	case last:
		return l.free()
	}
	return nil
}
