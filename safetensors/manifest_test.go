package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// figures are what the list of shared files says of one.
type figures struct {
	floats, zeros int
	most, least   float64 // of the absolute values that are not zero
}

// TestManifest: every file in the list of shared files has the tensors, types
// and values that other tools found in it.
func TestManifest(t *testing.T) {
	list, err := os.ReadFile(shared(t, "README.md")[0])
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (st-(?:real|fixtures)/\S+\.safetensors) .* ([0-9a-f]{64}) \|.*?(\d+) tensors \{(.*?)\}, header (\d+)(?:.*?; (\d+ floats.*?zeros \d+))?`)
	rows := row.FindAllStringSubmatch(strings.ReplaceAll(string(list), `\|`, "|"), -1)
	require.NotEmpty(t, rows)
	measured := 0
	for _, m := range rows {
		raw, err := os.ReadFile(filepath.Join(sharedDir, m[1]))
		require.NoError(t, err)
		require.Equal(t, m[2], sha(raw), m[1])
		f := mustOpen(t, raw)
		require.Equal(t, m[3], fmt.Sprint(len(f.Tensors())), m[1])
		require.Equal(t, m[4], typesOf(f), m[1])
		require.Equal(t, m[5], fmt.Sprint(f.Header().Size), m[1])
		if m[6] != "" {
			measured++
			g := figuresOf(t, f)
			require.Equal(t, m[6], fmt.Sprintf("%d floats, |max| %.4g, |min nonzero| %.3g, zeros %d", g.floats, g.most, g.least, g.zeros), m[1])
		}
	}
	t.Logf("%d files are as listed, %d of them with values", len(rows), measured)
	require.Positive(t, measured)
}

// typesOf counts types as the list does: 'F32': 8, in an order of its own.
func typesOf(f *safetensors.File) string {
	count := make(map[tensor.DType]int)
	for _, in := range f.Tensors() {
		count[in.DType]++
	}
	order := "I64 U64 F64 F32 U32 I32 BF16 F16 U16 I16 F8_E4M3 F8_E5M2 I8 U8 BOOL"
	types := slices.SortedFunc(maps.Keys(count), func(a, b tensor.DType) int {
		return strings.Index(order, a.String()) - strings.Index(order, b.String())
	})
	parts := make([]string, len(types))
	for i, d := range types {
		parts[i] = fmt.Sprintf("'%v': %d", d, count[d])
	}
	return strings.Join(parts, ", ")
}

// figuresOf reads all values of F32, F16 and BF16.
func figuresOf(t *testing.T, f *safetensors.File) figures {
	g := figures{least: math.Inf(1)}
	all := content(t, f)
	for _, in := range f.Tensors() {
		for _, v := range values(in.DType, []byte(all[in.Name])) {
			g.floats++
			if v == 0 {
				g.zeros++
				continue
			}
			g.most, g.least = max(g.most, math.Abs(v)), min(g.least, math.Abs(v))
		}
	}
	return g
}

func values(d tensor.DType, p []byte) (list []float64) {
	switch d {
	case tensor.F32:
		for ; len(p) > 0; p = p[4:] {
			list = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(p))))
		}
	case tensor.BF16:
		for ; len(p) > 0; p = p[2:] {
			list = append(list, float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(p))<<16)))
		}
	case tensor.F16:
		for ; len(p) > 0; p = p[2:] {
			list = append(list, half(binary.LittleEndian.Uint16(p)))
		}
	}
	return list
}

// half reads a binary16, by arithmetic.
func half(h uint16) float64 {
	exp, frac := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1024+frac, exp-25)
	if exp == 0 {
		v = math.Ldexp(frac, -24)
	}
	return math.Copysign(v, 1-2*float64(h>>15))
}
