package verify_test

import (
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

func reported() []tensor.Record {
	s := tensor.Stats{Count: 10, Changed: 4, Finite: 10, SumErr2: 1, SumRef2: 100, MaxAbs: 0.5, MaxIndex: 3, MaxRef: math.Inf(1)}
	return []tensor.Record{
		{Name: "a|b,\"c\"\n*", From: "F32", To: "BF16", Reason: "target type", Shape: []int64{2, 5}, SizeIn: 40, SizeOut: 20, Stats: &s},
		{Name: "i", From: "I64", To: "I64", SizeIn: 8, SizeOut: 8},
	}
}

func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	require.NoError(t, verify.WriteCSV(&b, reported(), nil))
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	cell := func(row int, name string) string {
		for i, head := range rows[0] {
			if head == name {
				return rows[row][i]
			}
		}
		t.Fatalf("no column %s", name)
		return ""
	}
	require.Equal(t, "a|b,\"c\"\n*", cell(1, "name"))
	require.Equal(t, "2x5", cell(1, "shape"))
	require.Equal(t, "4", cell(1, "changed"))
	require.Equal(t, "20", cell(1, "snr_db"))
	require.Equal(t, "0.31622776601683794", cell(1, "rmse"))
	require.Equal(t, "3", cell(1, "max_index"))
	require.Empty(t, cell(1, "max_ref"), "no finite number")
	require.Equal(t, "0", cell(1, "bias_away_ulp"))
	require.Empty(t, cell(2, "count"), "not measured")
	b.Reset()
	require.NoError(t, verify.WriteCSV(&b, reported(), strings.ToUpper))
	require.Contains(t, b.String(), "A|B")
}

func TestWriteMarkdown(t *testing.T) {
	var b strings.Builder
	require.NoError(t, verify.WriteMarkdown(&b, reported(), []verify.Problem{{Tensor: "z_z", Text: "missing"}}))
	require.Contains(t, b.String(), "2 tensors, 48 bytes became 28 (58.33 %).\n")
	require.Contains(t, b.String(), "| F32 | BF16 | 1 | 40 | 20 |\n")
	require.Contains(t, b.String(), "4 of 10 values changed (40.00 %)")
	require.Contains(t, b.String(), "Problem: z\\_z: missing\n")
	require.Contains(t, b.String(), "| a\\|b,\\\\\"c\\\\\"\\\\n\\* | F32 -> BF16 | 10 |", "one line, one cell")
	require.Contains(t, b.String(), "| i | I64 |")
}
