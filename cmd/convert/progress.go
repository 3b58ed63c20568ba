package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/term"

	"github.com/demi-weights/demi"
)

// A meter shows how far the work has come: on one line of a terminal that it
// writes again, as plain lines now and then, or as JSON. It belongs to one
// goroutine.
type meter struct {
	app   *app
	every time.Duration
	begin string // of a line
	end   string
	width int // of a line; 0 is no limit
	json  bool

	start time.Time // of the phase
	last  time.Time // that something was shown
	now   demi.Progress
	shown bool // something has been shown that stop clears
	told  bool // now has been shown
}

// progressModes are the values of --progress.
var progressModes = []string{"auto", "plain", "json", "none"}

// newMeter makes o report to a meter, if progress is wanted.
func (a *app) newMeter(o *demi.RunOptions) *meter {
	m := &meter{app: a, start: time.Now(), last: time.Now(), told: true}
	switch a.progress {
	case "auto":
		if a.quiet || !a.terminal() {
			return m
		}
		m.every, m.begin, m.width = 100*time.Millisecond, "\r\x1b[K", 80
		if w, _, err := term.GetSize(int(a.stderr.(*os.File).Fd())); err == nil && w > 0 {
			m.width = w
		}
	case "plain":
		m.every, m.end = time.Second, "\n"
	case "json":
		m.every, m.json = 250*time.Millisecond, true
	default:
		return m
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
	if p.Phase != m.now.Phase {
		m.finishPhase()
		m.start = now
	}
	m.now, m.told = p, false
	if now.Sub(m.last) < m.every {
		return
	}
	m.last, m.told = now, true
	if m.json {
		m.showJSON()
		return
	}
	m.shown = true
	line := []rune(progressLine(p, now.Sub(m.start)))
	if m.width > 0 && len(line) >= m.width {
		line = line[:m.width-1] // a full line would begin another
	}
	fmt.Fprintf(m.app.stderr, "%s%s%s", m.begin, string(line), m.end)
}

// progressLine says how much is done, how fast, and how long it will take.
func progressLine(p demi.Progress, spent time.Duration) string {
	rate := float64(p.Done) / max(spent.Seconds(), 1e-3)
	left := time.Duration(float64(p.Total-p.Done) / max(rate, 1) * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s %d %% of %s, %s/s, %v left: %.60s",
		p.Phase, 100*p.Done/max(p.Total, 1), formatBytes(p.Total), formatBytes(int64(rate)), left, printable(p.Tensor))
}

// A progressDocument is a line of --progress json.
type progressDocument struct {
	Phase   string  `json:"phase"`
	Done    int64   `json:"done"` // bytes
	Total   int64   `json:"total"`
	Tensor  string  `json:"tensor"`
	Seconds float64 `json:"seconds"` // since the phase began
}

func (m *meter) showJSON() {
	p := m.now
	line, err := json.Marshal(progressDocument{p.Phase, p.Done, p.Total, p.Tensor, time.Since(m.start).Seconds()}, jsonText())
	if err == nil {
		fmt.Fprintf(m.app.stderr, "%s\n", line)
	}
}

// finishPhase writes the last line of JSON.
func (m *meter) finishPhase() {
	if m.json && !m.told {
		m.showJSON()
	}
	m.told = true
}

// stop clears the line.
func (m *meter) stop() {
	m.finishPhase()
	if m.shown && m.begin != "" {
		fmt.Fprint(m.app.stderr, m.begin)
	}
	m.shown = false
}
