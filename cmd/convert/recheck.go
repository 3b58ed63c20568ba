package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// recheckMemory is what reading and comparing needs, with one worker.
const recheckMemory = 2 << 20

// errFault is an output that is not what was written.
var errFault = errors.New("the output is not what was written")

// recheck reads an output again and returns an error that names the tensors in
// which it is not what the records say.
func recheck(ctx context.Context, c, out *demi.Checkpoint, p *demi.Plan, records []tensor.Record, run demi.RunOptions) error {
	for _, s := range out.Sections() {
		dropCache(s.File)
	}
	problems, err := demi.Recheck(ctx, c, out, p.Options.Rounding, records, &run)
	if err != nil {
		return fmt.Errorf("read the output again: %w", err)
	}
	return fault(problems)
}

func fault(problems []verify.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	p := problems[0]
	return hinted(fmt.Errorf("%w: %d problems, the first: tensor %q: %s", errFault, len(problems), p.Tensor, p.Text),
		"this is a fault of the disk, of the memory, or of demi: do not use the output")
}
