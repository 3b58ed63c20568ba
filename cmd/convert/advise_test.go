package main

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// TestAdviceFits80Columns: long names are cut, reasons go on the next line.
func TestAdviceFits80Columns(t *testing.T) {
	c, err := demi.Open("../../testdata/charlm/model.safetensors", nil)
	require.NoError(t, err)
	defer c.Close()
	v, err := demi.Advise(context.Background(), c, demi.Options{Preset: "llm"}, nil)
	require.NoError(t, err)
	v.Tensors[0].Reason = "auto: F16: 98765 of 1234567 distinct; BF16: coarser than F16"
	v.Tensors[0].To = tensor.BF16
	text := fitTo(adviceTable(v.Tensors), 80)
	require.Contains(t, text, "BF16: coarser")
	for line := range strings.Lines(text + wrap(strings.Repeat("word ", 50))) {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 81, line)
	}
}
