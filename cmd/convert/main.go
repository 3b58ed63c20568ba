// Command demi makes model weights half their size and says what it cost.
//
// Build it with
//
//	go build -o demi ./cmd/convert
//
// and see "demi --help". Exit codes: 0 ok, 1 a stated limit was violated,
// 2 wrong usage, 3 bad input, 4 I/O error, 5 the destination exists, 70
// internal error, 129, 130 and 143 stopped by a signal.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as nohup has it, and a shell for what it runs in the background
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE) // an error instead, so that what was begun is removed
	go interrupt(ctx, signals, cancel)

	a := &app{stdout: stdout, stderr: stderr, text: stdout}
	cmd := newRoot(a)
	a.json = slices.Contains(args, "--json") // also if a flag before it is wrong
	cmd.SetArgs(args)
	return a.execute(ctx, cmd)
}

// execute runs a command and reports its failure, also that of a panic.
func (a *app) execute(ctx context.Context, cmd *cobra.Command) (code int) {
	defer func() {
		if v := recover(); v != nil {
			code = a.fail(newPanic(v))
		}
	}()
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return a.fail(err)
}

// interrupt ends the work at the first signal, and the program at the second.
func interrupt(ctx context.Context, signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	select {
	case s := <-signals:
		cancel(signalError{s})
	case <-ctx.Done():
		return
	}
	s := <-signals
	os.Exit(signalError{s}.code())
}
