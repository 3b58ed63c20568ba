package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// tableFlags say which lines the table of figures has.
type tableFlags struct {
	by    string
	worst int
}

func addTable(fs *pflag.FlagSet, t *tableFlags) {
	fs.StringVar(&t.by, "by", string(verify.ByTensor), "what the table of figures has a line for: "+strings.Join(verify.Bys(), ", "))
	fs.IntVar(&t.worst, "worst", 0, "of that table only the N lines that lost most, the worst first")
}

func (t *tableFlags) check() error {
	if _, err := verify.ParseBy(t.by); err != nil {
		return usagef("--by: %w", err)
	}
	if t.worst < 0 {
		return usagef("--worst %d is no number of lines", t.worst)
	}
	return nil
}

// asked reports whether the flags were set, which asks for a table where there
// is none by default.
func (t *tableFlags) asked() bool { return t.by != string(verify.ByTensor) || t.worst > 0 }

// table prints the figures of records.
func (a *app) table(records []tensor.Record, t tableFlags) {
	var b strings.Builder
	if by := verify.By(t.by); by == verify.ByTensor {
		if t.worst > 0 {
			records = verify.Worst(records, t.worst)
		}
		verify.WriteTable(&b, printableRecords(records, a.width()))
	} else {
		groups := verify.GroupBy(printableRecords(records, a.width()), by)
		if t.worst > 0 {
			groups = verify.WorstGroups(groups, t.worst)
		}
		verify.WriteGroups(&b, groups, by)
	}
	a.print(fitText(b.String(), a.width(), leastName))
}

func printableRecords(records []tensor.Record, width int) []tensor.Record {
	clean := make([]tensor.Record, len(records))
	for i, r := range records {
		r.Name, r.From, r.To = printable(r.Name), typeName(r.From, width), typeName(r.To, width)
		clean[i] = r
	}
	return clean
}
