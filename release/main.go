// Command release makes the files of a release of Demi: archives for each
// platform, lists of what is in them, and their checksums. It works on the
// commit that is checked out, never on files that differ from it, and the same
// commit and toolchain give the same bytes on every machine.
//
//	go run ./release                      all platforms, into dist
//	go run ./release -compare SHA256SUMS  build again, and compare
//
// docs/release.md has the whole story.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

// platforms are those that docs/compatibility.md names.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	out := fs.String("o", "dist", "`directory` to make")
	names := fs.String("targets", platforms, "`platforms`, separated by commas")
	compare := fs.String("compare", "", "make no directory: build again, without what the compiler keeps of earlier builds, and compare with this `file` of checksums")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	targets, err := parseTargets(*names)
	if err != nil {
		return err
	}
	r := &release{repo: ".", targets: targets, sbom: cyclonedx, log: stdout}
	if *compare != "" {
		return r.compare(ctx, *compare)
	}
	return r.publish(ctx, *out)
}

// A target is a platform that a binary is for.
type target struct{ goos, goarch string }

func (t target) String() string { return t.goos + "-" + t.goarch }

// program is the name of the binary: never "convert", which is ImageMagick's.
func (t target) program() string {
	if t.goos == "windows" {
		return "demi.exe"
	}
	return "demi"
}

func parseTargets(names string) (list []target, err error) {
	for name := range strings.SplitSeq(names, ",") {
		goos, goarch, ok := strings.Cut(name, "/")
		if !ok {
			return nil, fmt.Errorf("%q is no platform such as linux/amd64", name)
		}
		list = append(list, target{goos, goarch})
	}
	return list, nil
}
