package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/demi-weights/demi"
)

// autoFlags are the limits of --dtype auto, as text.
type autoFlags struct{ maxRelErr, targetSize string }

func (f *autoFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.maxRelErr, "max-rel-err", "", "auto: largest RMS error of a tensor by its RMS (default 2^-8, what BF16 keeps in its range)")
	fs.StringVar(&f.targetSize, "target-size", "", "auto: narrow no more than it takes: bytes of all tensors, or such as 60% of what they have")
}

// set reads the flags.
func (f *autoFlags) set(o *demi.Options) (err error) {
	if f.maxRelErr != "" {
		if o.MaxRelErr, err = strconv.ParseFloat(f.maxRelErr, 64); err != nil || !(o.MaxRelErr > 0) {
			return usagef("--max-rel-err %q is not a number above 0, such as 0.001", f.maxRelErr)
		}
	}
	percent, ok := strings.CutSuffix(f.targetSize, "%")
	switch {
	case f.targetSize == "":
	case ok:
		if o.TargetPercent, err = strconv.ParseFloat(percent, 64); err != nil || !(o.TargetPercent > 0) {
			return usagef("--target-size %q is not a percentage such as 60%%", f.targetSize)
		}
	default:
		o.TargetBytes, err = parseBytes("--target-size", f.targetSize)
	}
	return err
}
