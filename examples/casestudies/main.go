// Command casestudies prints what 16 bits make of BERT-base, ResNet-50 and
// GPT-3: sizes, errors, and the type that auto takes. The architectures are
// those of the published checkpoints, tensor by tensor; the values are
// synthetic, made when they are read, so that neither a download nor a disk is
// needed. The tables are the same on every machine.
//
//	go run ./examples/casestudies
//	go run ./examples/casestudies -sparse gpt3.safetensors
//
// The second writes GPT-3 as a file of 700 GB that is a header and a hole, to
// make plans of.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

func main() {
	name := flag.String("sparse", "", "write the header of GPT-3, and no values, to this `file`")
	flag.Parse()
	list := studies()
	err := error(nil)
	if *name != "" {
		err = sparse(*name, list[2].all)
	} else {
		err = report(os.Stdout, list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "casestudies:", err)
		os.Exit(1)
	}
}

// report prints the tables of all studies.
func report(w io.Writer, list []study) error {
	for i := range list {
		for _, part := range []func(*study) (string, error){sizeTable, errorTables, storeTable} {
			text, err := part(&list[i])
			if err != nil {
				return fmt.Errorf("%s: %w", list[i].name, err)
			}
			fmt.Fprintln(w, text)
		}
	}
	return nil
}

// sparse writes a file of safetensors that has a header, and behind it nothing
// that takes room on a disk that knows holes.
func sparse(name string, weights []weight) error {
	src := newSource(weights)
	layout, err := safetensors.Plan(src.Tensors(), tensor.Metadata{{Key: "format", Value: "pt"}}, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, layout.Header, 0o666); err != nil {
		return err
	}
	return os.Truncate(name, layout.Size)
}
