package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/demi-weights/demi"
)

// maxListed is how many names are listed without -v.
const maxListed = 3

// printDropped says what the output does not hold: bytes for each class, and
// which names are aliases. With -v all names are listed.
func (a *app) printDropped(list []demi.Dropped) {
	type sum struct {
		n     int
		bytes int64
	}
	sums := map[string]*sum{}
	var classes, parts []string
	var total, tied int64
	shown := map[bool]int{}
	var lines []string
	for _, d := range list {
		verb := "dropped"
		if d.Tied != "" {
			verb = "alias"
			tied += d.Size
		} else {
			if sums[d.Class] == nil {
				sums[d.Class] = &sum{}
				classes = append(classes, d.Class)
			}
			sums[d.Class].n++
			sums[d.Class].bytes += d.Size
			total += d.Size
		}
		if shown[d.Tied != ""]++; a.verbose || shown[d.Tied != ""] <= maxListed {
			lines = append(lines, fmt.Sprintf("  %s: %s (%s)\n", verb, printable(d.Name), printable(d.Reason)))
		}
	}
	for _, c := range classes {
		parts = append(parts, fmt.Sprintf("%d %s %s", sums[c].n, c, formatBytes(sums[c].bytes)))
	}
	if n := shown[false]; n > 0 {
		a.print(fmt.Sprintf("dropped: %s, %s: %s\n", english.Plural(n, "tensor", ""), formatBytes(total), strings.Join(parts, ", ")))
	}
	if n := shown[true]; n > 0 {
		a.print(fmt.Sprintf("tied: %s, %s, %s in the metadata\n", english.Plural(n, "tensor", ""), formatBytes(tied), english.PluralWord(n, "is an alias", "are aliases")))
	}
	for _, l := range lines {
		a.print(l)
	}
	if more := len(list) - len(lines); more > 0 {
		a.print(fmt.Sprintf("  and %d more (-v lists all)\n", more))
	}
}

// printClasses says what tensors are for, if not all of them are weights.
func (a *app) printClasses(list []demi.ClassSum) {
	if !slices.ContainsFunc(list, func(s demi.ClassSum) bool { return s.Class != "weights" }) {
		return
	}
	for _, s := range list {
		text := fmt.Sprintf("%s: %s, %s", s.Class, english.Plural(s.Tensors, "tensor", ""), formatBytes(s.Bytes))
		if s.Drop != "" {
			text += fmt.Sprintf(" (--drop '%s' leaves them out)", s.Drop)
		}
		a.print(text + "\n")
	}
}

// printLeftovers is printClasses for a plan, of what it does not drop.
func (a *app) printLeftovers(c *demi.Checkpoint, d *demi.PlanDocument) {
	dropped := map[string]bool{}
	for _, x := range d.Dropped {
		dropped[x.Class] = true
	}
	var rest []demi.ClassSum
	for _, s := range c.Classes() {
		if !dropped[s.Class] && s.Class != "weights" && !(s.Class == "ema" && d.Options.EMA == string(demi.EMAUse)) {
			rest = append(rest, s)
		}
	}
	a.printClasses(rest)
}
