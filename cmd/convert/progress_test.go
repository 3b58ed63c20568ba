package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// progress runs a meter over two phases of a thousand tiles.
func progress(mode string, quiet bool) string {
	var errs bytes.Buffer
	a := &app{stderr: &errs, progress: mode, quiet: quiet}
	var o demi.RunOptions
	m := a.newMeter(&o)
	for _, phase := range []string{"scan", "convert"} {
		for k := range int64(1000) {
			if o.Progress != nil {
				o.Progress(demi.Progress{Phase: phase, Done: k + 1, Total: 1000, Tensor: "w\xff"})
			}
		}
	}
	m.stop()
	return errs.String()
}

func TestProgressOfJSON(t *testing.T) {
	for _, quiet := range []bool{false, true} { // who asks for it gets it
		lines := strings.Split(strings.TrimSpace(progress("json", quiet)), "\n")
		require.Less(t, len(lines), 100, "a few a second")
		last := map[string]progressDocument{}
		for _, line := range lines {
			var d progressDocument
			require.NoError(t, json.Unmarshal([]byte(line), &d), line)
			last[d.Phase] = d
		}
		for _, phase := range []string{"scan", "convert"} {
			require.Equal(t, int64(1000), last[phase].Done, "the last line of %s", phase)
			require.Equal(t, `w\xff`, last[phase].Tensor)
		}
	}
}

func TestProgressIsSilentElsewhere(t *testing.T) {
	require.Empty(t, progress("none", false))
	require.Empty(t, progress("auto", false), "no terminal")
}

func TestProgressLine(t *testing.T) {
	line := progressLine(demi.Progress{Phase: "convert", Done: 250, Total: 1000, Tensor: "a\x1b"}, 1e9)
	require.Equal(t, `convert 25 % of 1.0 kB, 250 B/s, 3s left: a\x1b`, line)
}

// A fault of the disk is exit 1, and its tensor is named.
func TestFault(t *testing.T) {
	require.NoError(t, fault(nil))
	err := fault([]verify.Problem{{Tensor: "w", Text: "its bytes"}})
	require.ErrorContains(t, err, `tensor "w": its bytes`)
	require.Equal(t, classLimit, classify(err))
	require.Contains(t, hint(err), "do not use the output")
}

func TestReportKinds(t *testing.T) {
	d := &document{Tensors: []verify.Row{}, records: []tensor.Record{{Name: "w\xff", From: "F32", To: "F32"}}}
	for kind, want := range map[string]string{".json": `"command"`, ".csv": `w\xff,F32`, ".md": "| w"} {
		var b bytes.Buffer
		require.NoError(t, encodeReport(&b, kind, d))
		require.Contains(t, b.String(), want)
	}
}
