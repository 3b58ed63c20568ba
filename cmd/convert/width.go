package main

import (
	"os"
	"strings"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/term"

	"github.com/demi-weights/demi/verify"
)

// width returns the columns of the terminal that reports go to, 80 if it does
// not say, and 0 where they go to a file or a pipe, which have no limit.
func (a *app) width() int {
	f, ok := a.text.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}

// fit renders a table for the terminal: names in the first column are cut in
// their middle if lines would be too long.
func (a *app) fit(t table.Writer) string { return fitTo(t, a.width()) }

// leastName is the length that is left of a name at least.
const leastName = 16

func fitTo(t table.Writer, width int) string {
	return fitText(verify.Render(t), width)
}

// fitText does the same to the text of a table.
func fitText(text string, width int) string {
	over := longest(text) - width
	if width == 0 || over <= 0 {
		return text
	}
	first := 0 // the first column, with the space behind it
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, "  ")
		first = max(first, utf8.RuneCountInString(strings.TrimRight(name, "\n")))
	}
	most := max(first-over, leastName)
	var b strings.Builder
	for line := range strings.Lines(text) {
		name, rest := []rune(strings.TrimRight(line, "\n")), []rune(nil)
		if len(name) > first {
			name, rest = name[:first], name[first:]
		}
		b.WriteString(strings.TrimRight(cutMiddle(string(name), most)+string(rest), " ") + "\n")
	}
	return b.String()
}

func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(line)-1)
	}
	return n
}

// cutMiddle returns a padded name in n columns; what is cut is before its end.
func cutMiddle(padded string, n int) string {
	name := []rune(strings.TrimRight(padded, " "))
	if len(name) <= n {
		return string(name) + strings.Repeat(" ", n-len(name))
	}
	head := n / 4 // the end of a name says more than its beginning
	return string(name[:head]) + "…" + string(name[len(name)-(n-1-head):])
}
