package main

import (
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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

// Columns that are left, at least, of a name, of one beside a column of text,
// and, at most, of a type.
const (
	leastName   = 16
	leastBeside = 28
	mostType    = 16
)

func fitTo(t table.Writer, width int) string {
	return fitText(verify.Render(t), width, leastName)
}

// fitText does the same to the text of a table, and leaves at least so many
// columns of a name.
func fitText(table string, width, least int) string {
	over := longest(table) - width
	if width == 0 || over <= 0 {
		return table
	}
	first := firstColumn(table)
	most := max(first-over, least)
	if most >= first {
		return table
	}
	var b strings.Builder
	for line := range strings.Lines(table) {
		name, rest := splitAt(strings.TrimRight(line, "\n"), first)
		name = cutMiddle(strings.TrimRight(name, " "), most)
		pad := strings.Repeat(" ", most-text.StringWidthWithoutEscSequences(name))
		b.WriteString(strings.TrimRight(name+pad+rest, " ") + "\n")
	}
	return b.String()
}

// firstColumn returns the columns of the longest name.
func firstColumn(table string) (n int) {
	for line := range strings.Lines(table) {
		name, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "  ")
		n = max(n, text.StringWidthWithoutEscSequences(name))
	}
	return n
}

// snip ends the lines of a text at the width of the terminal.
func snip(lines string, width int) string {
	if width == 0 {
		return lines
	}
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString(strings.TrimRight(text.Snip(strings.TrimRight(line, "\n"), width, "…"), " ") + "\n")
	}
	return b.String()
}

func longest(lines string) (n int) {
	for line := range strings.Lines(lines) {
		n = max(n, text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")))
	}
	return n
}

// typeName returns a type as tables of that width have it: a file may call it
// what it likes.
func typeName(s string, width int) string {
	if width == 0 {
		return printable(s)
	}
	return cutMiddle(printable(s), mostType)
}

// cutMiddle returns a name in at most n columns. What is cut is before its
// end, which says more than its beginning: of a layer which one.
func cutMiddle(name string, n int) string {
	width := text.StringWidthWithoutEscSequences(name)
	if width <= n || n < 1 {
		return name
	}
	head, _ := splitAt(name, n/8)
	_, tail := splitAt(name, width-(n-1-n/8))
	if text.StringWidthWithoutEscSequences(tail) > n-1-n/8 { // in the middle of a wide letter
		_, tail = splitAt(name, width-(n-1-n/8)+1)
	}
	return head + "…" + tail
}

// splitAt divides a text before the letter that ends beyond n columns.
func splitAt(s string, n int) (head, tail string) {
	width := 0
	for i, r := range s {
		if width += text.RuneWidth(r); width > n {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
