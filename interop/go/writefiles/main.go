// Command writefiles writes the files of package files into a new directory:
//
//	go run ./writefiles -charlm ../../testdata/charlm DIR
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/demi-weights/demi/interop/go/files"
)

func main() {
	charlm := flag.String("charlm", "../../testdata/charlm", "directory of the checkpoint")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: writefiles [-charlm DIR] DIR")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *charlm); err != nil {
		fmt.Fprintln(os.Stderr, "writefiles:", err)
		os.Exit(1)
	}
}

func run(dir, charlm string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	list, err := files.Write(dir, charlm)
	for _, f := range list {
		fmt.Printf("%s: %d tensors\n", f.Path, len(f.Tensors))
	}
	return err
}
