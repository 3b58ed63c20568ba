package safetensors_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// Files by other tools, used where they are there.
const sharedDir = "../../shared/data"

func shared(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(sharedDir, pattern))
	require.NoError(t, err)
	if len(names) == 0 {
		t.Skipf("no %s here", pattern)
	}
	return names
}

// stricter has the files that the reference accepts and this package refuses.
var stricter = map[string]string{
	"dtype_as_map":           "format",
	"dup_escaped_name":       "format",
	"dup_first_zero_size":    "format",
	"dup_last_wins_valid":    "format",
	"ok_zero_then_huge_dims": "unsupported", // a dimension of 2^63 has no place in an Info
}

// classOf is our class for an error of the reference.
func classOf(file, refError string) string {
	switch refError {
	case "HeaderTooSmall", "InvalidHeaderLength":
		return "truncated"
	case "MetadataIncompleteBuffer":
		if file == "bad_offsets_past_eof" {
			return "truncated"
		}
	}
	if file == "bad_dtype_unknown" {
		return "unsupported"
	}
	return "format"
}

// TestOracle: the verdicts of the reference on its probe files.
func TestOracle(t *testing.T) {
	oracle, err := os.ReadFile(shared(t, "st-probe/ORACLE.tsv")[0])
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(oracle)), "\n")
	for _, line := range lines {
		col := strings.Split(line, "\t")
		name := strings.TrimSuffix(col[1], ".safetensors")
		f, err := safetensors.Open(filepath.Join(sharedDir, "st-probe", col[1]), nil)
		switch want, strict := stricter[name]; {
		case strict:
			require.Equal(t, want, class(err), "%s: %v", name, err)
		case col[0] == "ERR":
			require.Equal(t, classOf(name, col[2]), class(err), "%s: %v", name, err)
			require.Regexp(t, reasonOf(col[2], col[3]), err.Error(), name)
		default:
			require.NoError(t, err)
			require.Equal(t, rustShown(col[3:]), byName(shown(f)), name)
			content(t, f)
			require.NoError(t, f.Close())
		}
	}
	require.Len(t, shared(t, "st-probe/*.safetensors"), len(lines), "a verdict for every file")
	t.Logf("%d verdicts, %d stricter by intent", len(lines), len(stricter))
}

// reasons has what the errors of this package say where the reference says
// something: its kind of error, or a part of its text.
var reasons = [][2]string{
	{"HeaderTooSmall", "takes 8|file is empty"}, {"HeaderTooLarge", "header length .* the limit is"}, {"InvalidHeaderLength", "truncated by"},
	{"InvalidOffset", "hole of|overlap|duplicate tensor name"}, {"ValidationOverflow", "does not fit 63 bits"},
	{"MisalignedSlice", "fill whole bytes"}, {"TensorInvalidInfo", "takes|end beyond 2"}, {"MetadataIncompleteBuffer", "truncated by|after the last tensor"},
	{"UTF-8", "not UTF-8 at byte"}, {"recursion limit", "nested deeper than 127"}, {"unknown variant", "unknown dtype"},
	{"missing field", "field .* is missing"}, {"duplicate field", "comes twice"}, {"trailing characters", "after the JSON object"},
	{"invalid length", "data_offsets has"}, {"invalid type", "want an? |want integers|does not fit 64 bits"}, {"EOF while parsing", "header is empty"}, {"", "not valid JSON"},
}

func reasonOf(kind, text string) string {
	for _, r := range reasons {
		if strings.Contains(kind+": "+text, r[0]) {
			return r[1]
		}
	}
	return ""
}

// TestSharedBad: what real writers got wrong.
func TestSharedBad(t *testing.T) {
	for name, want := range map[string]string{"las7_tiny_trailing_nuls": "5 bytes after the last tensor", "syoyo_abuse_attempt_1": "truncated by 920"} {
		_, err := safetensors.Open(shared(t, "st-bad/"+name+".safetensors")[0], nil)
		require.ErrorContains(t, err, want)
	}
	f, err := safetensors.Open(shared(t, "st-bad/las7*")[0], &safetensors.Options{Lenient: true})
	require.NoError(t, err)
	require.EqualValues(t, 5, f.Header().Trailing)
	require.NoError(t, f.Close())
}

// rustShown brings the oracle's list of tensors into our form.
func rustShown(cols []string) []string {
	line := strings.ReplaceAll(strings.Join(cols, " "), ", ", ",")
	line = regexp.MustCompile(`\\u\{([0-9a-f]{4})\}`).ReplaceAllString(line, `\u$1`)
	return byName(line)
}

func byName(list string) []string { return slices.Sorted(strings.FieldsSeq(list)) }

// otherOrder has the files whose writers have an order or a padding of their
// own.
var otherOrder = []string{"silero_vad_16k.safetensors", "runai_test.safetensors", "tensorhawk_leaky.safetensors",
	"esrgan_thick_x2.safetensors", "human_mobilefacenet.safetensors", "human_movenet-thunder.safetensors"}

// TestSharedFiles: what other tools wrote is read, and read whole.
func TestSharedFiles(t *testing.T) {
	canonical, named := 0, []string(nil)
	names := slices.Concat(shared(t, "st-real/*.safetensors"), shared(t, "st-fixtures/*.safetensors"),
		shared(t, "st-fixtures/flux_sharded/*.safetensors"), shared(t, "weights/*.safetensors"))
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		f := mustOpen(t, raw)
		require.Empty(t, f.Warnings(), name)
		whole := raw[:f.Header().DataStart:f.Header().DataStart]
		all := content(t, f)
		for i, in := range f.Tensors() {
			_, off := f.Place(i)
			require.Equal(t, int64(len(whole)), off, "tensors in the order of their data")
			whole = append(whole, all[in.Name]...)
		}
		require.Equal(t, sha(raw), sha(whole), "header and tensors are the file")
		if out := written(t, f, &safetensors.WriteOptions{Canonical: true, NoFormat: true}); bytes.Equal(out, raw) {
			canonical++
		} else {
			named = append(named, filepath.Base(name))
		}
	}
	t.Logf("canonical writes are byte-identical for %d of %d; not: %v", canonical, len(names), named)
	require.Subset(t, otherOrder, named)
}

// TestCharlm: the reference wrote testdata/charlm; a canonical write of what
// is read is the same file, for shards and index too.
func TestCharlm(t *testing.T) {
	names, err := filepath.Glob("../testdata/charlm/*.safetensors")
	require.NoError(t, err)
	shards, err := filepath.Glob("../testdata/charlm/sharded/*.safetensors")
	require.NoError(t, err)
	if names = append(names, shards...); len(names) == 0 {
		t.Fatal("no testdata/charlm here")
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		out := written(t, mustOpen(t, raw), &safetensors.WriteOptions{Canonical: true})
		require.Equal(t, sha(raw), sha(out), name)
	}
}

func sha(p []byte) string {
	sum := sha256.Sum256(p)
	return hex.EncodeToString(sum[:])
}

// TestFluxValues: all twelve element types of SafeTensors.jl's files, and the
// same tensors in one file and in six.
func TestFluxValues(t *testing.T) {
	single, err := safetensors.Open(shared(t, "st-fixtures/flux_model.safetensors")[0], nil)
	require.NoError(t, err)
	defer single.Close()
	set, err := safetensors.OpenSet(filepath.Join(sharedDir, "st-fixtures/flux_sharded"), nil)
	require.NoError(t, err)
	defer set.Close()
	require.Empty(t, set.Warnings())
	require.Len(t, set.Files(), 6)
	require.Equal(t, content(t, single), content(t, set))
	kinds := make(map[tensor.DType]bool)
	for _, in := range set.Tensors() {
		kinds[in.DType] = true
	}
	require.Len(t, kinds, 12)
}

// TestSharedWrongFormats: every file that is something else is called what it
// is.
func TestSharedWrongFormats(t *testing.T) {
	for pattern, want := range map[string]string{
		"gguf-real/*.gguf":  "it is a GGUF file",
		"ggml-legacy/*.bin": "it is a legacy GGML file",
	} {
		for _, name := range shared(t, pattern) {
			_, err := safetensors.Open(name, nil)
			require.ErrorIs(t, err, tensor.ErrFormat)
			require.ErrorContains(t, err, want)
		}
	}
}
