package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// trained and added are the rows of both tables.
var (
	trained = sync.OnceValue(runs)
	added   = sync.OnceValue(drift)
)

// TestReport: the precision guide shows what the program prints, to the byte,
// on every machine.
func TestReport(t *testing.T) {
	var out strings.Builder
	report(&out, trained(), added())
	guide, err := os.ReadFile("../../docs/precision.md")
	require.NoError(t, err)
	var block strings.Builder
	for line := range strings.Lines(out.String()) {
		block.WriteString(strings.TrimSuffix("    "+line, "    \n"))
		if line == "\n" {
			block.WriteString("\n")
		}
	}
	require.Contains(t, string(guide), block.String())
}

// TestWhatItTakes: which recipes train, and why the others do not.
func TestWhatItTakes(t *testing.T) {
	r := trained()
	full := r[0].error
	require.Less(t, full, 0.05)
	for _, i := range []int{2, 3, 5} {
		require.InDelta(t, full, r[i].error, 0.1*full, r[i].name)
	}
	require.Greater(t, r[1].error, 1.0, "FP16 without scaling learns nothing")
	require.Equal(t, 1.0, r[1].vanished)
	require.Less(t, r[2].vanished, 0.001)
	require.Positive(t, r[2].skipped, "the first scale was too large")
	require.Less(t, r[2].skipped, steps/50)
	require.Greater(t, r[4].error, 1.0, "nearest-even without master weights stalls")
	require.Greater(t, r[4].lost, 0.9)
}

// TestDrift: nearest-even never moves, up moves much too far, stochastic
// rounding is right in the mean; storing alone changes nothing.
func TestDrift(t *testing.T) {
	for _, d := range added() {
		require.Equal(t, 1.0, d.idle, d.name)
		switch {
		case strings.HasSuffix(d.name, "nearest-even"):
			require.Equal(t, 1.0, d.mean, d.name)
		case strings.HasSuffix(d.name, "up"):
			require.GreaterOrEqual(t, d.least, 16.0, d.name)
		default:
			require.InDelta(t, 2, d.mean, 0.01, d.name)
		}
	}
}

// TestScaler: a scale halves at an overflow and doubles after some good steps.
func TestScaler(t *testing.T) {
	s := scaler{scale: 8}
	inf := float32(1)
	for range 200 {
		inf *= 2
	}
	require.False(t, s.finite([]float32{1, inf}))
	require.False(t, s.finite([]float32{inf - inf}))
	require.Equal(t, float32(2), s.scale)
	for range raise - 1 {
		require.True(t, s.finite([]float32{1, -65504}))
	}
	require.Equal(t, float32(2), s.scale)
	require.True(t, s.finite(nil))
	require.Equal(t, float32(4), s.scale)
}
