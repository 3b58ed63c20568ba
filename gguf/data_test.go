package gguf_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/tensor"
)

// Files made by other tools are beside the repository on some machines; the
// tests that need them are skipped elsewhere.
const foreignDir = "../../shared/data"

func needDir(t *testing.T, dir string) string {
	t.Helper()
	dir = filepath.Join(foreignDir, dir)
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no files of other tools here")
	}
	return dir
}

// TestExpected compares the verdicts with those that are expected, a line each:
// file, gguf.cpp, gguf-py, advice.
func TestExpected(t *testing.T) {
	dir := needDir(t, "gguf-probe")
	list, err := os.Open(filepath.Join(dir, "EXPECT.tsv"))
	require.NoError(t, err)
	defer list.Close()
	scan, seen := bufio.NewScanner(list), 0
	for scan.Scan() {
		fields := strings.Split(scan.Text(), "\t")
		if fields[0] == "file" {
			continue
		}
		p, err := os.ReadFile(filepath.Join(dir, fields[0]))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		err = requireSound(t, p, nil)
		refuse := strings.HasPrefix(strings.ToLower(fields[3]), "reject")
		require.Equal(t, refuse, err != nil, "%s: %v", fields[0], err)
		if err != nil {
			require.Regexp(t, reasonOf(t, fields[0]), err.Error(), fields[0])
		}
		seen++
	}
	require.NoError(t, scan.Err())
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	require.NoError(t, err)
	require.Len(t, files, seen, "a verdict for every file")
}

// reasons has what the error says, by the beginnings of the files' names.
var reasons = [][2]string{
	{"align_2e31", "ends beyond the file"}, {"align_int32", "of type i32, want u32"}, {"align_u64", "of type u64, want u32"}, {"align_array", "of type array, want u32"},
	{"align_", "want a power of two"}, {"arr_len", "array .* is said to have"}, {"arr_nested", "array of arrays"}, {"arr_str", "array .* is said to have"},
	{"arr_type", "element type"}, {"d_", "ends beyond the file"}, {"empty_file", "at least 24"}, {"key_dup", "comes twice"}, {"key_empty", "is empty"},
	{"key_len", "are left in the file"}, {"legacy", "a legacy GGML file"}, {"n_kv", "header counts .* keys"}, {"n_tensors", "header counts .* tensors"},
	{"t_data", "takes 1099511627776 bytes"}, {"t_dim", "does not fit 63 bits"}, {"t_memsize", "does not fit 63 bits"}, {"t_nbytes", "does not fit 63 bits|takes"},
	{"t_pad", "does not fit 63 bits"}, {"t_sum", "does not fit 63 bits"}, {"t_name_6", "want fewer than 64"}, {"t_name_", "name comes twice"},
	{"t_ndims", "dimensions, want at most 4"}, {"t_off", "data is said to be at offset"}, {"t_q", "not whole blocks"}, {"t_type_4_", "was removed from ggml"},
	{"t_type", "not a ggml type"}, {"trunc", "are left in the file"}, {"val_type", "want 0 to 12"}, {"version_1", "version 1 is too old"}, {"version", "want 2 or 3"},
}

func reasonOf(t *testing.T, file string) string {
	for _, r := range reasons {
		if strings.HasPrefix(file, r[0]) {
			return r[1]
		}
	}
	t.Errorf("no reason for %s", file)
	return ""
}

// TestManifest: every GGUF file in the list of shared files has the version,
// keys, tensors and alignment that other tools found in it.
func TestManifest(t *testing.T) {
	list, err := os.ReadFile(needDir(t, "README.md"))
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (gguf-(?:real|fixtures)/\S+) .* (GGUF v\d, \d+ kv, \d+ tensors) .*(align \d+)`)
	rows := row.FindAllStringSubmatch(string(list), -1)
	require.NotEmpty(t, rows)
	for _, m := range rows {
		f, err := gguf.Open(filepath.Join(foreignDir, m[1]), nil)
		require.NoError(t, err)
		require.Equal(t, m[2], fmt.Sprintf("GGUF v%d, %d kv, %d tensors", f.Header().Version, len(f.Meta()), len(f.Tensors())), m[1])
		require.Equal(t, m[3], fmt.Sprintf("align %d", f.Header().Alignment), m[1])
		require.NoError(t, f.Close())
	}
	t.Logf("%d files are as listed", len(rows))
}

// TestVocabularies: the words of llama.cpp's vocabularies.
func TestVocabularies(t *testing.T) {
	dir := needDir(t, "gguf-real")
	for name, want := range map[string]struct {
		words int
		some  map[int]string
	}{
		"bert-bge":  {30522, map[int]string{0: "[PAD]", 101: "[CLS]", 2054: "\u2581what"}},
		"gpt-2":     {50257, map[int]string{0: "!", 262: "\u0120the", 50256: "<|endoftext|>"}},
		"llama-spm": {32000, map[int]string{0: "<unk>", 3: "<0x00>", 278: "\u2581the"}},
	} {
		f, err := gguf.Open(filepath.Join(dir, "ggml-vocab-"+name+".gguf"), nil)
		require.NoError(t, err)
		v, ok := f.Meta().Get("tokenizer.ggml.tokens")
		require.True(t, ok)
		words := v.(tensor.Array).Strings()
		require.Len(t, words, want.words, name)
		for i, word := range want.some {
			require.Equal(t, word, words[i], name)
		}
		require.NoError(t, f.Close())
	}
}

func TestForeignFiles(t *testing.T) {
	for _, dir := range []string{"gguf-real", "gguf-fixtures", "gguf-made"} {
		files, err := filepath.Glob(filepath.Join(needDir(t, dir), "*.gguf"))
		require.NoError(t, err)
		for _, file := range files {
			p, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, requireSound(t, p, nil), file)
		}
	}
	for _, dir := range []string{"gguf-bad", "ggml-legacy"} {
		files, err := filepath.Glob(filepath.Join(needDir(t, dir), "*"))
		require.NoError(t, err)
		for _, file := range files {
			p, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Error(t, requireSound(t, p, nil), file)
		}
	}
}

// TestRewrite writes what other tools have written: the same bytes, for
// little-endian files of version 3.
func TestRewrite(t *testing.T) {
	for _, dir := range []string{"gguf-real", "gguf-made", "gguf-fixtures", "gguf-made/split"} {
		files, err := filepath.Glob(filepath.Join(needDir(t, dir), "*.gguf"))
		require.NoError(t, err)
		for _, file := range files {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			src, err := open(want, nil)
			require.NoError(t, err)
			if src.Header().BigEndian {
				continue
			}
			header, err := io.ReadAll(src.HeaderSection())
			require.NoError(t, err)
			require.Equal(t, want[:min(src.Header().DataStart, int64(len(want)))], header)
			m := &model{meta: src.Meta()}
			for i, in := range src.Tensors() {
				m.add(in, dataOf(t, src, i))
			}
			var got bytes.Buffer
			require.NoError(t, m.write(gguf.NewWriter(&got, &gguf.WriteOptions{Align: src.Header().Alignment}), 1<<20))
			if len(m.infos) == 0 { // some writers do not pad then
				require.True(t, bytes.HasPrefix(got.Bytes(), want), file)
				continue
			}
			require.True(t, bytes.Equal(got.Bytes(), want), file)
		}
	}
}

// safetensorsOf reads a safetensors file in the simplest way.
func safetensorsOf(t *testing.T, name string) map[string][]byte {
	t.Helper()
	p, err := os.ReadFile(name)
	require.NoError(t, err)
	n := binary.LittleEndian.Uint64(p)
	var header map[string]struct {
		Offsets []int64 `json:"data_offsets"`
	}
	require.NoError(t, json.Unmarshal(p[8:8+n], &header))
	out := make(map[string][]byte)
	for key, v := range header {
		if key != "__metadata__" {
			out[key] = p[8+int64(n)+v.Offsets[0] : 8+int64(n)+v.Offsets[1]]
		}
	}
	return out
}

// TestRealValues compares the GGUF files made of a real model with that model,
// F32 in every container; F16 and BF16 are within half a unit of the last
// place.
func TestRealValues(t *testing.T) {
	made := needDir(t, "gguf-made")
	want := safetensorsOf(t, filepath.Join(foreignDir, "st-real", "silero_vad_16k.safetensors"))
	for _, name := range []string{"silero_vad_16k.f32.gguf", "silero_vad_16k.f32.be.gguf", "silero_vad_16k.f32.align64.gguf", "split",
		"silero_vad_16k.llama-quantize.F16.gguf", "silero_vad_16k.llama-quantize.BF16.gguf"} {
		s, err := gguf.OpenSet(filepath.Join(made, name), nil)
		require.NoError(t, err, name)
		defer s.Close()
		require.Empty(t, s.Warnings())
		matched := 0
		for i, in := range s.Tensors() {
			source, ok := want[in.Name]
			if !ok {
				continue
			}
			matched++
			requireClose(t, in, floats(source), dataOf(t, s, i))
		}
		require.Equal(t, len(want), matched, name)
	}
}

// requireClose compares stored values with those that they come from.
func requireClose(t *testing.T, in tensor.Info, want []float32, p []byte) {
	t.Helper()
	if in.DType == tensor.F32 {
		requireSameBits(t, want, floats(p))
		return
	}
	require.Equal(t, 2*len(want), len(p))
	for i, w := range want {
		bits := binary.LittleEndian.Uint16(p[2*i:])
		got, eps := math.Float32frombits(uint32(bits)<<16), 1.0/256
		if in.DType == tensor.F16 {
			got, eps = halfValue(bits), 1.0/2048
		}
		require.LessOrEqual(t, math.Abs(float64(got-w)), math.Abs(float64(w))*eps+1.0/(1<<25), "%s[%d]", in.Name, i)
	}
}

// halfValue reads a binary16 by arithmetic.
func halfValue(h uint16) float32 {
	exp, frac := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1024+frac, exp-25)
	if exp == 0 {
		v = math.Ldexp(frac, -24)
	}
	if h>>15 == 1 {
		v = -v
	}
	return float32(v)
}

// TestDequantizeReal decodes a real tensor in every encoding: the error against
// the F32 values is what the encoding costs, and no more.
func TestDequantizeReal(t *testing.T) {
	made := needDir(t, "gguf-made")
	read := func(kind string) (tensor.Info, []byte) {
		f, err := gguf.Open(filepath.Join(made, "silero_stft."+kind+".gguf"), nil)
		require.NoError(t, err)
		defer f.Close()
		i := 0
		if f.Tensors()[1].Elements() > f.Tensors()[0].Elements() {
			i = 1
		}
		return f.Tensors()[i], dataOf(t, f, i)
	}
	_, source := read("F32")
	want := floats(source)
	for kind, most := range map[string]float64{"Q8_0": 0.006, "Q6_K": 0.02, "Q5_K_M": 0.04, "Q5_1": 0.04, "Q5_0": 0.05, "Q4_K_M": 0.08,
		"Q4_1": 0.08, "Q4_0": 0.1, "IQ4_NL": 0.09, "IQ4_XS": 0.09, "MXFP4": 0.15, "Q3_K_M": 0.18, "Q2_K": 0.35} {
		in, p := read(kind)
		got := make([]float32, len(want))
		require.NoError(t, gguf.Dequantize(in.Foreign, got, p), kind)
		var sum, ref float64
		for i, w := range want {
			sum += float64(got[i]-w) * float64(got[i]-w)
			ref += float64(w) * float64(w)
		}
		rel := math.Sqrt(sum / ref)
		t.Logf("%s (%s): relative error %.4f", kind, in.Foreign.Name, rel)
		require.Less(t, rel, most, kind)
	}
}
