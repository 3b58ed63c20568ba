package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/demi-weights/demi"
)

// A meter shows how far the work has come: on one line of a terminal that it
// writes again, or as plain lines now and then. It belongs to one goroutine.
type meter struct {
	app   *app
	every time.Duration
	begin string // of a line
	end   string
	start time.Time
	last  time.Time
	shown bool
	phase string
}

// newMeter makes o report to a meter, if progress is wanted.
func (a *app) newMeter(o *demi.RunOptions) *meter {
	m := &meter{app: a, start: time.Now(), last: time.Now()}
	switch {
	case a.quiet || a.progress == "none" || a.progress == "auto" && !a.terminal():
		return m
	case a.progress == "auto":
		m.every, m.begin = 100*time.Millisecond, "\r\x1b[K"
	default:
		m.every, m.end = time.Second, "\n"
	}
	o.Progress = m.show
	return m
}

// terminal tells whether stderr is one that can go back on a line.
func (a *app) terminal() bool { return isTerminal(a.stderr) && os.Getenv("TERM") != "dumb" }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (m *meter) show(p demi.Progress) {
	now := time.Now()
	if p.Phase != m.phase {
		m.phase, m.start = p.Phase, now
	}
	if now.Sub(m.last) < m.every {
		return
	}
	m.last, m.shown = now, true
	spent := now.Sub(m.start).Seconds()
	rate := float64(p.Done) / max(spent, 1e-3)
	left := time.Duration(float64(p.Total-p.Done) / max(rate, 1) * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(m.app.stderr, "%s%s %d %% of %s, %s/s, %v left: %.60s%s", m.begin, p.Phase,
		100*p.Done/max(p.Total, 1), formatBytes(p.Total), formatBytes(int64(rate)), left, printable(p.Tensor), m.end)
}

// stop clears the line.
func (m *meter) stop() {
	if m.shown && m.begin != "" {
		fmt.Fprint(m.app.stderr, m.begin)
	}
	m.shown = false
}
