package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/verify"
)

// verifyFlags are the flags of a comparison, and after check what they mean.
type verifyFlags struct {
	round, rule, report, limitFile string
	detail                         bool
	maps, allowMissing, allowExtra []string
	title                          string // of a report
	table                          tableFlags
	limits                         verify.LimitSet

	rounding       kernels.Rounding
	mapAuto        bool
	renamings      []verify.Renaming
	missing, extra []*regexp.Regexp
}

func (f *verifyFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.round, "round", "nearest-even", "how GOT was rounded, which decides what counts as overflow; a store says so itself")
	fs.StringVar(&f.rule, "rule", "", "auto: say which rounding gives GOT to the bit, or where the closest first differs")
	fs.BoolVar(&f.detail, "detail", false, "measure also what costs more: relative errors, errors by ULP, distinct values, exponents, the largest elements")
	fs.StringArrayVar(&f.maps, "map", nil, "'regex=replacement' gives a tensor of REF the name that it has in GOT; auto: names and layouts of GGUF and Hugging Face; repeatable")
	fs.StringArrayVar(&f.allowMissing, "allow-missing", nil, "names (a regular expression) that may be missing in GOT; repeatable")
	fs.StringArrayVar(&f.allowExtra, "allow-extra", nil, "names that GOT may have beside those of REF; repeatable")
	l := &f.limits.Default
	fs.Var(&limitValue{&l.MaxAbs}, "max-abs", "limit of the error of a value")
	fs.Var(&limitValue{&l.MaxRel}, "max-rel", "limit of the relative error of a value; measures with --detail")
	fs.Var(&limitValue{&l.MinSNR}, "min-snr", "limit of the signal-to-noise ratio of a tensor in dB")
	fs.Var(&limitValue{&l.MaxBiasULP}, "max-bias-ulp", "limit of the mean error of a tensor in ULP, beyond what chance gives")
	fs.BoolVar(&l.NoOverflow, "no-overflow", false, "no value beyond the range of its new type")
	fs.BoolVar(&l.NoUnderflow, "no-underflow", false, "no value that becomes zero")
	fs.BoolVar(&l.Exact, "exact", false, "no value that changes")
	fs.StringVar(&f.limitFile, "limits", "", "JSON file of limits by name; they come before those of the flags")
}

// check reads what the flags say.
func (f *verifyFlags) check() (err error) {
	if f.rounding, err = kernels.ParseRounding(f.round); err != nil {
		return usageError{err}
	}
	if f.rule != "" && f.rule != "auto" {
		return usagef("unknown --rule %q (auto)", f.rule)
	}
	if err := f.limits.Default.Check(); err != nil {
		return usageError{err}
	}
	if err := f.readMaps(); err != nil {
		return err
	}
	if f.missing, err = compileAll("--allow-missing", f.allowMissing); err != nil {
		return err
	}
	if f.extra, err = compileAll("--allow-extra", f.allowExtra); err != nil {
		return err
	}
	if err := f.readLimits(); err != nil {
		return err
	}
	return f.table.check()
}

func (f *verifyFlags) readMaps() error {
	for _, text := range f.maps {
		if text == "auto" {
			f.mapAuto = true
			continue
		}
		r, err := verify.ParseRenaming(text)
		if err != nil {
			return usagef("--map: %w", err)
		}
		f.renamings = append(f.renamings, r)
	}
	return nil
}

func (f *verifyFlags) readLimits() error {
	if f.limitFile == "" {
		return nil
	}
	file, err := os.Open(f.limitFile)
	if err != nil {
		return usageError{err}
	}
	defer file.Close()
	if f.limits.Rules, err = verify.ReadLimits(file); err != nil {
		return usageError{fmt.Errorf("%s: %w", f.limitFile, err)}
	}
	return nil
}

func compileAll(flag string, texts []string) (list []*regexp.Regexp, err error) {
	for _, t := range texts {
		re, err := regexp.Compile(t)
		if err != nil {
			return nil, usagef("%s: %w", flag, err)
		}
		list = append(list, re)
	}
	return list, nil
}

// matcher tells whether one of the expressions matches; nil without any.
func matcher(list []*regexp.Regexp) func(string) bool {
	if len(list) == 0 {
		return nil
	}
	return func(name string) bool {
		for _, re := range list {
			if re.MatchString(name) {
				return true
			}
		}
		return false
	}
}

// A limitValue is a flag with a number, which is no limit until it is given.
type limitValue struct{ to **float64 }

func (v *limitValue) Type() string { return "number" }

func (v *limitValue) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fmt.Errorf("%q is no number", s)
	}
	*v.to = &f
	return nil
}

func (v *limitValue) String() string {
	if v.to == nil || *v.to == nil {
		return ""
	}
	return verify.Short(**v.to)
}
