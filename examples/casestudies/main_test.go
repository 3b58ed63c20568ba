package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
)

// holds compares a table with the page that shows it.
func holds(t *testing.T, page string, part func(*study) (string, error), s *study) {
	t.Helper()
	text, err := part(s)
	require.NoError(t, err)
	require.Contains(t, page, text, "docs/casestudies.md is not what go run ./examples/casestudies prints")
}

// TestReport: the page shows what the program prints, to the byte, on every
// machine. The short test looks at what is cheap.
func TestReport(t *testing.T) {
	p, err := os.ReadFile("../../docs/casestudies.md")
	require.NoError(t, err)
	page := strings.ReplaceAll(string(p), "\r\n", "\n")
	for _, s := range studies() {
		holds(t, page, sizeTable, &s)
		if !testing.Short() {
			holds(t, page, errorTables, &s)
			holds(t, page, storeTable, &s)
		}
	}
}

// TestParameters: the published counts. torchvision says 25,557,032 for
// resnet50, which leaves out the running statistics; BertForPreTraining of
// transformers has 110,106,428.
func TestParameters(t *testing.T) {
	count := func(list []weight, not ...string) (n int64) {
		for i, in := range newSource(list).Tensors() {
			if !strings.Contains(strings.Join(not, " "), list[i].class) {
				n += in.Elements()
			}
		}
		return n
	}
	require.Equal(t, int64(110106428), count(bert()))
	require.Equal(t, int64(25557032), count(resnet50(), runningMean, runningVar, counters))
	require.Len(t, bert(), 206)
	require.Len(t, resnet50(), 320)
	gpt := count(studies()[2].all)
	require.InDelta(t, 175e9, gpt, 0.5e9)
	require.Equal(t, int64(96*(12*12288*12288+13*12288)+(50257+2048)*12288+2*12288), gpt)
}

// TestValues: the laws are what they are called, and single values are those
// that every machine has.
func TestValues(t *testing.T) {
	const n = 1 << 18
	floats := func(l law) (x []float64) {
		p := make([]byte, 4*n)
		newGenerator("w", l).fill(p, 0)
		for ; len(p) > 0; p = p[4:] {
			x = append(x, float64(math.Float32frombits(binary.LittleEndian.Uint32(p))))
		}
		return x
	}
	below := func(x []float64, limit float64) (share float64) {
		for _, v := range x {
			if v < limit {
				share += 1.0 / n
			}
		}
		return share
	}
	x := floats(law{normal, 3, 2, nil})
	for _, z := range []float64{-3, -2, -1, -0.5, 0, 0.1, 1, 2.5} { // against the error function
		require.InDelta(t, 0.5*math.Erfc(-z/math.Sqrt2), below(x, 3+2*z), 0.003, z)
	}
	x = floats(law{logNormal, 0.1, 1, nil})
	require.InDelta(t, 0.5, below(x, 0.1), 0.003)
	require.InDelta(t, 0.8413, below(x, 0.1*math.E), 0.003)
	x = floats(law{uniform, 0, 2, nil})
	require.InDelta(t, 0.25, below(x, -1), 0.003)
	require.Zero(t, below(x, -2))
	require.Equal(t, 1.0, below(x, 2))

	h := sha256.New()
	for _, l := range []law{{normal, 1, 0.3, nil}, {logNormal, 0.1, 1, nil}, {uniform, 0, 0.7, nil}} {
		p := make([]byte, 4*n)
		newGenerator("machine", l).fill(p, 5)
		h.Write(p)
	}
	require.Equal(t, "e379d90ddfd5213e57f05954211a8d32039de6d921ce2bd015be74bc66e4bae7", fmt.Sprintf("%x", h.Sum(nil)))
}

// TestChannels: the factors are where they belong.
func TestChannels(t *testing.T) {
	s := channels{list: []int64{1}, factor: 8, stride: 3, width: 4}
	for i := range int64(24) {
		require.Equal(t, i/3%4 == 1, s.of(i) == 8, i)
	}
}

// TestSource: a tensor is the same, however it is read.
func TestSource(t *testing.T) {
	src := newSource([]weight{
		{"a", "x", []int64{3, 7}, law{normal, 0, 1, nil}},
		{"n", "x", nil, law{constant, 450360, 0, nil}},
	})
	for i, in := range src.Tensors() {
		whole := make([]byte, in.Size)
		n, err := src.Data(i).ReadAt(whole, 0)
		require.NoError(t, err)
		require.Len(t, whole, n)
		require.NoError(t, iotest.TestReader(io.NewSectionReader(src.Data(i), 0, in.Size), whole))
		for from := range whole {
			part := make([]byte, 3)
			n, _ := src.Data(i).ReadAt(part, int64(from))
			require.Equal(t, whole[from:from+n], part[:n])
		}
	}
}

// TestSparse: the file is GPT-3 as the sizes have it.
func TestSparse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "small.safetensors")
	small := gpt3([]int{0}, 4)
	require.NoError(t, sparse(name, small))
	c, err := demi.Open(name, nil)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, len(small), c.Len())
	w, ok := c.Tensor("h.0.mlp.c_proj.weight")
	require.True(t, ok)
	require.Equal(t, []int64{4, 12288}, w.Info().Shape)
}
