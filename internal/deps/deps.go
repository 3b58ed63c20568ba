// Package deps pins modules during development.
package deps

import (
	_ "github.com/dustin/go-humanize"
	_ "github.com/edsrzf/mmap-go"
	_ "github.com/go-json-experiment/json"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/jedib0t/go-pretty/v6/progress"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/pflag"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/require"
	_ "github.com/x448/float16"
	_ "github.com/zeebo/blake3"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/cpu"
	_ "golang.org/x/sys/unix"
	_ "pgregory.net/rapid"
)
