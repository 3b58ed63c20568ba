package demi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/demi-weights/demi"

// mayImport says which packages of this module each package may import. Data
// flows one way: what knows files is at the two ends, what knows numbers is in
// the middle and takes plain slices. Change this together with the design.
var mayImport = map[string][]string{
	"tensor":                      {},
	"kernels":                     {"tensor", "internal/cpu"},
	"kernels/internal/copykernel": {"internal/cpu"},
	"kernels/internal/bars":       {"kernels", "kernels/internal/copykernel", "internal/cpu"},
	"verify":                      {"tensor", "kernels", "internal/cast", "internal/crc", "internal/tile", "internal/ordered"},
	"codec":                       {"kernels", "internal/cpu", "internal/tile", "internal/zstdframe"},
	"format": {"tensor", "kernels", "codec", "internal/atomicfile", "internal/ordered", "internal/regular",
		"internal/shardset", "internal/sniff", "internal/tile", "internal/valuehash", "internal/zstdframe"},
	"safetensors": {"tensor", "internal/rawsink", "internal/regular", "internal/shardset", "internal/sniff"},
	"pytorch":     {"tensor", "internal/regular", "internal/shardset", "internal/sniff"},
	"gguf":        {"tensor", "internal/rawsink", "internal/regular", "internal/shardset", "internal/sniff"},
	"": {"tensor", "kernels", "verify", "codec", "format", "safetensors", "gguf", "pytorch",
		"internal/atomicfile", "internal/cast", "internal/crc", "internal/dequant", "internal/hfconfig", "internal/httpfile", "internal/ordered", "internal/regular", "internal/sniff", "internal/tile", "internal/valuehash"},
	"doctor": {"tensor", "format", "gguf", "pytorch", "safetensors",
		"internal/atomicfile", "internal/hfconfig", "internal/ordered", "internal/regular", "internal/shardset", "internal/sniff"},
	"batch": {"", "tensor", "codec", "internal/atomicfile"},
	"cmd/convert": {"", "batch", "tensor", "kernels", "codec", "verify", "format", "doctor", "internal/atomicfile", "internal/cpu", "internal/httpfile", "internal/ordered",
		"internal/shardset", "internal/sniff"},

	"release": {},

	"examples/mixedprecision": {"kernels"},
	"examples/casestudies":    {"", "tensor", "kernels", "codec", "verify", "safetensors"},

	"internal/atomicfile": {"internal/fault"},
	"internal/cast":       {"tensor", "kernels", "internal/tile"},
	"internal/charlm":     {},
	"internal/cpu":        {},
	"internal/crc":        {"tensor"},
	"internal/fault":      {},
	"internal/dequant":    {"tensor", "kernels", "gguf"},
	"internal/guard":      {},
	"internal/hfconfig":   {"tensor"},
	"internal/httpfile":   {"tensor"},
	"internal/ordered":    {},
	"internal/rawsink":    {"tensor", "internal/atomicfile"},
	"internal/regular":    {"tensor", "internal/fault"},
	"internal/shardset":   {"tensor", "internal/atomicfile", "internal/regular"},
	"internal/sniff":      {},
	"internal/tile":       {},
	"internal/valuehash":  {},
	"internal/zstdframe":  {},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,GoFiles", "./...").Output()
	require.NoError(t, err)
	seen := map[string]bool{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			GoFiles    []string
		}
		err := dec.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if len(p.GoFiles) == 0 {
			continue // tests only
		}
		name := short(p.ImportPath)
		seen[name] = true
		allowed, ok := mayImport[name]
		if !ok {
			t.Errorf("package %q is not in the table", name)
			continue
		}
		for _, imp := range p.Imports {
			if ours(imp) && !slices.Contains(allowed, short(imp)) {
				t.Errorf("package %q imports %q", name, short(imp))
			}
		}
	}
	for name := range maps.Keys(mayImport) {
		require.True(t, seen[name], "package %q of the table does not exist", name)
	}
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func short(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }
