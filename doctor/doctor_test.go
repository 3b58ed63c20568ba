package doctor_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/doctor"
	"github.com/demi-weights/demi/gguf"
	"github.com/demi-weights/demi/internal/atomicfile"
	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// A fault is a directory, what is found in it, and what is left after Fix.
type fault struct {
	name  string
	files files
	want  string // as shown, joined with spaces; "" for a directory in order
	text  string // of some finding
	left  string // after Fix, if something is fixable
	scan  bool
}

func good() files { return indexed(goodIndex()) }

// faults has each fault as a small directory.
func faults() []fault {
	all := []fault{
		{name: "in order", files: good().with("config.json", `{"torch_dtype": "float32"}`)},
		{name: "nothing", files: files{"readme.md": "x"}},
	}
	return append(append(append(all, fileFaults()...), tensorFaults()...), setFaults()...)
}

func fileFaults() []fault {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n"
	header := pt + described("a", "F32", "2", 0, 8)
	return []fault{
		// U27 (exllamav2#394, safetensors#414, sd-scripts#990)
		{name: "LFS pointer", files: files{"model.safetensors": pointer}, want: "error/lfs-pointer", text: "(of 4976698672 bytes)"},
		{name: "LFS pointer, tokenizer", files: files{"tokenizer.json": pointer}, want: "error/lfs-pointer"},
		{name: "LFS pointer, index", files: good().with(indexName, pointer), want: "error/lfs-pointer"},
		{name: "link text", files: files{"model.safetensors": "../../blobs/4d7a214614"}, want: "error/link-text", text: `"../../blobs/4d7a214614"`},
		{name: "web page", files: files{"model.safetensors": "<!DOCTYPE html><html>"}, want: "error/html-page"},
		{name: "web page, configuration", files: files{"generation_config.json": " <html>"}, want: "error/html-page"},
		{name: "empty", files: files{"model.gguf": ""}, want: "error/empty-file"},
		{name: "zeros", files: files{"model.gguf": strings.Repeat("\x00", 100)}, want: "error/empty-file"},
		{name: "NumPy", files: files{"model.safetensors": "\x93NUMPY\x01\x00v"}, want: "error/not-weights", text: "a NumPy array"},
		{name: "other files in .bin", files: files{"training_args.bin": "anything", "x.pt": "\x93NUMPY\x01\x00v"}},
		{name: "link to nothing", files: files{"model.safetensors": "-> nowhere"}, want: "error/broken-link", text: `"nowhere"`},
		{name: "link to itself", files: files{"model.safetensors": "-> model.safetensors"}, want: "error/broken-link"},
		{name: "directory", files: files{"model.safetensors/x": ""}, want: "error/not-a-file", text: "a directory"},
		{name: "GGUF named safetensors", files: files{"model.safetensors": tinyGGUF("a", 0)}, want: "warning/wrong-extension", text: ".gguf"},
		// U28 (aprender#275, Qwen#462, ComfyUI#6744)
		{name: "cut", files: files{"model.safetensors": one("a", "F32", f32)[:130]}, want: "error/truncated", text: "truncated by 6"},
		{name: "cut in the header", files: files{"model.safetensors": one("a", "F32", f32)[:50]}, want: "error/truncated", text: "truncated by 78"},
		{name: "cut GGUF", files: files{"model.gguf": tinyGGUF("a", 0)[:68]}, want: "error/truncated"},
		{name: "zeros behind", files: files{"model.safetensors": one("a", "F32", f32) + "\x00\x00\x00"}, want: "error/trailing-bytes!", text: "3 bytes after the last tensor, all of them zero"},
		{name: "bytes behind", files: files{"model.safetensors": one("a", "F32", f32) + "\x00x"}, want: "error/trailing-bytes", text: "2 bytes after the last tensor"},
		{name: "bytes behind, and no format", files: files{"model.safetensors": aligned(described("a", "F32", "2", 0, 8), f32) + "x"}, want: "error/trailing-bytes note/no-format"},
		// U36 (ollama#8456, #10239)
		{name: "GGUF without padding", files: files{"model.gguf": strings.TrimRight(tinyGGUF("a", 8), "\x00")}, want: "note/missing-padding"},
		{name: "bytes behind GGUF", files: files{"model.gguf": tinyGGUF("a", 0) + strings.Repeat("x", 64)}, want: "note/trailing-bytes"},
		{name: "NUL padding", files: files{"model.safetensors": made("{"+header+"}\x00\x00", f32)}, want: "warning/header-padding! warning/unaligned!"},
		{name: "a hole", files: files{"model.safetensors": aligned(pt+described("a", "F32", "1", 4, 8), f32)}, want: "error/invalid-file", text: "hole of 4 bytes"},
		{name: "a name twice", files: files{"model.safetensors": aligned(header+","+described("a", "F32", "2", 0, 8), f32)}, want: "error/invalid-file", text: "duplicate tensor name"},
		{name: "unknown type", files: files{"model.safetensors": one("a", "F6_E9M9", f32)}, want: "warning/unsupported", text: `"F6_E9M9"`},
		// U20 (mlx#743, safetensors#549)
		{name: "no format", files: files{"model.safetensors": aligned(`"__metadata__":{"k":"v"},`+described("a", "F32", "2", 0, 8), f32), "config.json": "{}"}, want: "warning/no-format!"},
		{name: "no metadata, no configuration", files: files{"model.safetensors": aligned(described("a", "F32", "2", 0, 8), f32)}, want: "note/no-format!"},
		{name: "surplus field", files: files{"model.safetensors": aligned(`"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}`, f32)}, want: "note/no-format"},
		// U23 (safetensors#231, #607, #695; vmlx-swift#377; mobius#248)
		{name: "odd header", files: files{"model.safetensors": made("{"+header+"} ", f32)}, want: "warning/unaligned!", text: `1 of 1 tensors`},
		{name: "odd order", files: files{"model.safetensors": aligned(pt+described("b", "U8", "3", 0, 3)+","+described("a", "F32", "2", 3, 11), "xyz"+f32)}, want: "warning/unaligned!"},
		{name: "PyTorch, evil", files: files{"pytorch_model.bin": sample("evil.pt")}, want: "error/pickle-code", text: "posix.system"},
		{name: "a pickle of protocol 0", files: files{"model.ckpt": "cos\nsystem\n(S'true'\ntR."}, want: "error/pickle-code", text: "os.system"},
		{name: "PyTorch, a module", files: files{"pytorch_model.bin": sample("module.pt")}, want: "warning/pickle-class", text: "torch.nn.modules.linear.Linear"},
		{name: "PyTorch before 1.6", files: files{"pytorch_model.bin": sample("legacy.pt")}, want: "warning/unsupported"},
		{name: "PyTorch, cut", files: files{"pytorch_model.bin": sample("tensor.pt")[:500]}, want: "error/truncated"},
		{name: "PyTorch", files: files{"pytorch_model.bin": sample("tensor.pt")}, scan: true},
		{name: "PyTorch, a changed byte", files: files{"pytorch_model.bin": flipped(sample("tensor.pt"))}, want: "error/checksum", scan: true},
		{name: "staging of a shard", files: good().with(".m-00003-of-00009.safetensors.partial", "x"), want: "warning/staging-left!"},
		{name: "staging of a directory", files: files{".out.partial/x": "x", ".out.journal": "note\n"}, want: "warning/staging-left!"},
		{name: "staging of somebody else", files: files{".out.partial/x": "x", ".other.partial": "x"}, want: "warning/staging-left warning/staging-left", left: "warning/staging-left warning/staging-left"},
	}
}

func tensorFaults() []fault {
	fp8 := aligned(pt+described("l.weight", "F8_E4M3", "2", 0, 2)+","+described("k.weight", "F8_E4M3", "2", 2, 4)+","+described("k.weight_scale", "F32", "1", 4, 8), "\x01\x02\x03\x04\x00\x00\x80\x3f")
	config := func(text string) files { return good().with("config.json", text) }
	return []fault{
		// A1111#6728
		{name: "position ids", files: files{"model.safetensors": one("text_model.embeddings.position_ids", "F32", f32)}, want: "warning/float-position-ids", text: "F32"},
		{name: "position ids in order", files: files{"model.safetensors": one("text_model.embeddings.position_ids", "I64", f32+f32)}},
		// U15 (sd.cpp#1898, LTX-2#172)
		{name: "FP8 without its scale", files: files{"model.safetensors": fp8}, want: "warning/fp8-no-scale", text: `1 FP8 tensors have no scale: "l.weight"`},
		{name: "FP8 without scales", files: files{"model.safetensors": one("w", "F8_E4M3", "\x01\x02")}, want: "note/fp8-no-scale"},
		{name: "FP8, the scale in another shard", files: good().with(shard(1, 2), one("k.weight", "F8_E4M3", "\x01\x02"), shard(2, 2), one("k.weight_scale_inv", "F32", f32),
			indexName, index(10, "k.weight", shard(1, 2), "k.weight_scale_inv", shard(2, 2)))},
		// U18 (vLLM#53537, compressed-tensors#832, aprender#2187)
		{name: "NaN and Inf", files: files{"model.safetensors": one("a", "F32", "\x00\x00\xc0\x7f\x00\x00\x80\xff")}, want: "error/nan warning/inf", text: "1 of 2 values are NaN, the first at [0]", scan: true},
		{name: "NaN and Inf, not read", files: files{"model.safetensors": one("a", "F32", "\x00\x00\xc0\x7f\x00\x00\x80\xff")}},
		{name: "NaN of 16 bits", files: files{"model.safetensors": one("a", "BF16", "\x80\x7f\x81\x7f"), "other.safetensors": one("a", "F16", "\x00\xfc\x01\xfc")}, want: "error/nan error/nan note/two-sets warning/inf warning/inf", scan: true},
		// U13 (llama.cpp#18214)
		{name: "configuration", files: config(`{"a": 1, "torch_dtype" : "bfloat16"}`), want: "warning/config-dtype!", text: `torch_dtype is "bfloat16", the weights are F32`},
		{name: "nested configuration", files: config(`{"text_config": {"dtype": "float16"}, "dtype": "float32"}`), want: "warning/config-dtype!", text: "text_config.dtype"},
		{name: "quantised", files: config(`{"torch_dtype": "bfloat16", "quantization_config": {}}`)},
		{name: "no configuration of types", files: config(`{}`)},
		{name: "broken configuration", files: config(`{"torch_dtype": `), want: "error/bad-config"},
		{name: "empty configuration", files: config(``), want: "error/bad-config"},
	}
}

func setFaults() []fault {
	ix := func(total int, pairs ...string) files { return indexed(index(total, pairs...)) }
	return []fault{
		// U30 (sglang#32279, nativ#370, mlx-vlm#1827, CoSER#3)
		{name: "missing shard", files: ix(16, "a", shard(1, 2), "b", shard(2, 2), "c", shard(3, 3)), want: "error/missing-shard", text: "names 3 files, of which 1 are not there: " + shard(3, 3)},
		{name: "index of another save", files: ix(99, "a", shard(1, 9), "b", shard(9, 9)), want: "error/missing-shard!", text: "2 are not there"},
		{name: "missing shard, no index", files: files{shard(1, 3): one("a", "F32", f32)}, want: "error/missing-shard", text: "2 of 3 files of the set are missing: " + shard(2, 3)},
		{name: "a huge set", files: files{shard(1, 99999): one("a", "F32", f32)}, want: "error/missing-shard", text: "99998 of 99999"},
		{name: "missing tensor", files: ix(16, "a", shard(1, 2), "b", shard(2, 2), "c", shard(2, 2)), want: "error/index-missing-tensor", text: `"c" (in ` + shard(2, 2) + `)`},
		{name: "wrong shard", files: ix(16, "a", shard(2, 2), "b", shard(1, 2)), want: "error/index-wrong-shard!", text: `2 tensors are in another file`},
		{name: "partial index", files: ix(16, "a", shard(1, 2), "b", shard(2, 2)).with(shard(2, 2), aligned(pt+described("b", "F32", "1", 0, 4)+","+described("c", "F32", "1", 4, 8), f32)), want: "error/index-partial!", text: `"c" (in `},
		{name: "total size", files: ix(7, "a", shard(1, 2), "b", shard(2, 2)), want: "warning/index-total-size!", text: "total_size is 7, the tensors have 16 bytes"},
		{name: "broken index", files: indexed(`{"weight_map": {"a": `), want: "error/bad-index!"},
		{name: "index that leaves", files: ix(16, "a", "../x.safetensors"), want: "error/bad-index!", text: "leaves the directory"},
		{name: "broken index and shard", files: indexed(`{`).with(shard(1, 2), "x"), want: "error/bad-index error/truncated"},
		{name: "no index", files: files{shard(1, 2): one("a", "F32", f32), shard(2, 2): one("b", "F32", f32)}, want: "warning/no-index!"},
		// The same faults in sets of other formats.
		{name: "PyTorch set", files: torchSet()},
		{name: "PyTorch, total size", files: torchSet("960", "961"), want: "warning/index-total-size!", text: "total_size is 961, the tensors have 960 bytes"},
		{name: "PyTorch, partial index", files: torchSet(`"layers.0.w": "pytorch_model-00001-of-00002.bin",`, ""), want: "error/index-partial!"},
		{name: "PyTorch, wrong shard", files: torchSet(`"layers.0.w": "pytorch_model-00001`, `"layers.0.w": "pytorch_model-00002`), want: "error/index-wrong-shard!"},
		{name: "PyTorch, a tensor that is gone", files: torchSet("layers.0.w", "layer.0.w"), want: "error/index-missing-tensor error/index-partial"},
		{name: "PyTorch, broken index", files: torchSet("metadata", `x", `), want: "error/bad-index!"},
		{name: "PyTorch, no index", files: torchSet().without("pytorch_model.bin.index.json"), want: "warning/no-index!"},
		{name: "stores", files: storeSet(f32)},
		{name: "stores without an index", files: storeSet(f32).without(storeIndex)},
		{name: "stores, broken index", files: storeSet(f32).with(storeIndex, "{"), want: "error/bad-index!"},
		{name: "stores, partial index", files: storeSet(f32).with(storeIndex, index(16, "a", store(1))), want: "error/index-partial!"},
		{name: "stores, total size", files: storeSet(f32).with(storeIndex, index(7, "a", store(1), "b", store(2))), want: "warning/index-total-size!"},
		{name: "stores, another index", files: storeSet(f32).with(storeIndex, storeSet(f32[4:] + f32[4:])[storeIndex]), want: "error/index-digest!", text: "2 files have another digest than the index says: " + store(1) + ", " + store(2)},
		{name: "stores of two models", files: storeSet(f32).with(store(2), storeSet(f32[4:] + f32[4:])[store(2)]), want: "error/index-digest"},
		// U29 (llama.cpp#7486, #17286, #10756; sglang#35107; mlx-vlm#1464)
		{name: "two counts", files: files{shard(1, 1): one("a", "F32", f32), shard(1, 2): one("a", "F32", f32), shard(2, 2): one("b", "F32", f32)}, want: "error/two-sets", text: "m-*-of-00001.safetensors (1 files), m-*-of-00002.safetensors (2 files)"},
		{name: "one file and shards", files: good().with("m.safetensors", one("a", "F32", f32)), want: "warning/two-sets"},
		{name: "consolidated", files: good().with("consolidated.safetensors", one("a", "F32", f32)), want: "note/other-weights"},
		{name: "consolidated, no index", files: files{shard(1, 2): one("a", "F32", f32), shard(2, 2): one("b", "F32", f32), "consolidated.safetensors": one("a", "F32", f32)}, want: "warning/no-index! warning/two-sets", left: "note/other-weights"},
		{name: "two indexes", files: good().with("n.safetensors.index.json", index(8, "a", "n-00001-of-00001.safetensors"), "n-00001-of-00001.safetensors", one("a", "F32", f32)), want: "warning/two-sets"},
		// U31 (unsloth-zoo#808, mflux#603)
		{name: "leftover shards", files: good().with(shard(3, 3), one("a", "F32", f32)), want: "warning/leftover-shard", text: shard(3, 3)},
		{name: "a tensor twice", files: files{shard(1, 2): one("a", "F32", f32), shard(2, 2): one("a", "F32", f32)}, want: "error/duplicate-tensor", text: `"a"`},
		{name: "a tensor twice, index", files: good().with(shard(2, 2), aligned(pt+described("b", "F32", "1", 0, 4)+","+described("a", "F32", "1", 4, 8), f32)), want: "error/duplicate-tensor"},
		{name: "a tensor twice, and a wrong index", files: ix(7, "a", shard(1, 2), "b", shard(2, 2)).with(shard(2, 2), aligned(pt+described("b", "F32", "1", 0, 4)+","+described("a", "F32", "1", 4, 8), f32)),
			want: "error/duplicate-tensor warning/index-total-size"},
		{name: "an index behind a link", files: ix(16).with(indexName, "-> index.txt", "index.txt", index(7, "a", shard(1, 2), "b", shard(2, 2))), want: "warning/index-total-size"},
		// U33 (FreeToken#154, vllm-gguf-plugin#54, fak#13110)
		{name: "GGUF split count", files: files{"m-00001-of-00002.gguf": splitGGUF("a", 0, 2, 2), "m-00002-of-00002.gguf": splitGGUF("b", 1, 3, 2)}, want: "error/gguf-split", text: "split.count is 3, the name says 2"},
		{name: "GGUF split total", files: files{"m-00001-of-00002.gguf": splitGGUF("a", 0, 2, 3), "m-00002-of-00002.gguf": splitGGUF("b", 1, 2, 3)}, want: "error/gguf-split"},
		{name: "GGUF split number", files: files{"m-00001-of-00002.gguf": splitGGUF("a", 1, 2, 2), "m-00002-of-00002.gguf": splitGGUF("b", 2, 2, 2)}, want: "error/gguf-split", text: "counted from 0"},
		{name: "GGUF set", files: files{"m-00001-of-00002.gguf": splitGGUF("a", 0, 2, 2), "m-00002-of-00002.gguf": splitGGUF("b", 1, 2, 2)}},
		{name: "several GGUF", files: files{"m-q4.gguf": tinyGGUF("a", 0), "m-q8.gguf": tinyGGUF("a", 0)}},
		// Index and file at once: the file first, then the index.
		{name: "everything", files: ix(7, "a", shard(2, 2)).with(shard(1, 2), made("{"+described("a", "F32", "2", 0, 8)+"} ", f32), "config.json", `{"torch_dtype": "torch.float16"}`),
			want: "error/index-partial! error/index-wrong-shard! warning/config-dtype! warning/index-total-size! warning/no-format! warning/unaligned!"},
	}
}

// TestFaults: each fault is found, with nothing beside it; Fix leads to a
// directory without what is fixable, and a second Fix changes nothing.
func TestFaults(t *testing.T) {
	for _, c := range faults() {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			c.files.write(t, dir)
			o := &doctor.Options{Scan: c.scan, Workers: 2}
			before := snapshot(t, dir)
			r := examine(t, dir, o)
			require.Equal(t, c.want, strings.Join(shown(r), " "), "%+v", r.Findings)
			var texts []string
			for _, f := range r.Findings {
				texts = append(texts, f.Text)
			}
			require.Contains(t, strings.Join(texts, "\n"), c.text)
			require.Equal(t, before, snapshot(t, dir), "Examine changes nothing")
			fixed, err := doctor.Fix(context.Background(), dir, o)
			require.NoError(t, err)
			check(t, fixed)
			requireFixed(t, &c, r, fixed)
			after := snapshot(t, dir)
			if len(fixed.Repairs) == 0 {
				require.Equal(t, before, after)
			}
			again, err := doctor.Fix(context.Background(), dir, o)
			require.NoError(t, err)
			require.Empty(t, again.Repairs, "the second time")
			require.Equal(t, after, snapshot(t, dir), "the second time")
		})
	}
}

// requireFixed: what was fixable is gone, and what was not is still there.
func requireFixed(t *testing.T, c *fault, before, after *doctor.Report) {
	if c.left != "" {
		require.Equal(t, c.left, strings.Join(shown(after), " "))
		return
	}
	var left []string
	for _, s := range shown(before) {
		if !strings.HasSuffix(s, "!") {
			left = append(left, s)
		}
	}
	require.Equal(t, left, shown(after))
	require.Equal(t, strings.Contains(c.want, "!"), len(after.Repairs) > 0)
	for _, r := range after.Repairs {
		require.NotEmpty(t, r.Text, r.File)
	}
}

// TestFixKeepsValues: tensors and metadata come through a repair, and the index
// keeps what it has of its own.
func TestFixKeepsValues(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, shard(1, 2))
	indexed(index(7, "a", shard(2, 2), "b", shard(2, 2))).with(shard(1, 2),
		made(`{"__metadata__":{"z":"1","é":"\n"},`+described("u", "U8", "3", 0, 3)+","+described("a", "F32", "2", 3, 11)+"}", "xyz"+f32)).write(t, dir)
	r, err := doctor.Fix(context.Background(), dir, nil)
	require.NoError(t, err)
	require.Empty(t, shown(r))
	s, err := safetensors.OpenSet(dir, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Empty(t, s.Warnings())
	f, err := safetensors.Open(path, nil)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, tensor.Metadata{{Key: "format", Value: "pt"}, {Key: "z", Value: "1"}, {Key: "é", Value: "\n"}}, f.Meta())
	got := map[string]string{}
	for i, in := range f.Tensors() {
		p := make([]byte, in.Size)
		require.NoError(t, tensor.ReadFull(f, i, p, 0))
		got[in.Name] = in.TypeName() + string(p)
		_, at := f.Place(i)
		require.Zero(t, at%4*int64(in.DType.Bits()/32), in.Name)
	}
	require.Equal(t, map[string]string{"u": "U8xyz", "a": "F32" + f32}, got)
	text, err := os.ReadFile(filepath.Join(dir, indexName))
	require.NoError(t, err)
	require.Contains(t, string(text), `"note": "kept"`)
	require.Contains(t, string(text), `"total_size": 19`)
}

// TestFixLeavesLinks: what is behind a symbolic link belongs to others too.
func TestFixLeavesLinks(t *testing.T) {
	dir := t.TempDir()
	files{"blobs/x": made("{"+described("a", "F32", "2", 0, 8)+"}", f32), "blobs/c": `{"dtype":"float16"}`,
		"model/model.safetensors": "-> ../blobs/x", "model/config.json": "-> ../blobs/c"}.write(t, dir)
	before := snapshot(t, dir)
	r, err := doctor.Fix(context.Background(), filepath.Join(dir, "model"), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"warning/config-dtype", "warning/no-format", "warning/unaligned"}, shown(r))
	require.Empty(t, r.Repairs)
	require.Equal(t, before, snapshot(t, dir))
}

// TestPaths: a file alone, an index, a pipeline, and what is not there.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	good().with("model_index.json", "{}", "unet/model.safetensors", "", "bad.gguf", "", ".hidden.gguf", "").write(t, dir)
	require.Equal(t, []string{"error/empty-file", "error/empty-file"}, shown(examine(t, dir, nil)))
	require.Equal(t, []string{"error/empty-file"}, shown(examine(t, filepath.Join(dir, indexName), nil)))
	require.Empty(t, shown(examine(t, filepath.Join(dir, shard(1, 2)), nil)))
	require.Equal(t, []string{"error/empty-file"}, shown(examine(t, filepath.Join(dir, "bad.gguf"), nil)))
	_, err := doctor.Examine(context.Background(), filepath.Join(dir, "nothing"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = doctor.Examine(ctx, dir, nil)
	require.ErrorIs(t, err, context.Canceled)
	_, err = gguf.OpenSet(dir, nil)
	require.Error(t, err)
}

// TestStagingBeside: the staging of a directory lies beside it.
func TestStagingBeside(t *testing.T) {
	dir := t.TempDir()
	good().write(t, filepath.Join(dir, "out"))
	files{".out.journal": "x\n", ".out.partial/x": "x", ".other.journal": "x\n"}.write(t, dir)
	out := filepath.Join(dir, "out")
	require.Equal(t, []string{"warning/staging-left!"}, shown(examine(t, out, nil)))
	r, err := doctor.Fix(context.Background(), out, nil)
	require.NoError(t, err)
	require.Empty(t, shown(r))
	require.NoFileExists(t, filepath.Join(dir, ".out.journal"))
	require.FileExists(t, filepath.Join(dir, ".other.journal"))
}

// TestStagingBusy: what is being written is left alone.
func TestStagingBusy(t *testing.T) {
	dir := t.TempDir()
	f, err := atomicfile.Create(filepath.Join(dir, "x.safetensors"))
	require.NoError(t, err)
	defer f.Abort()
	r, err := doctor.Fix(context.Background(), dir, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"note/staging-busy"}, shown(r))
	require.Empty(t, r.Repairs)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	require.FileExists(t, filepath.Join(dir, "x.safetensors"))
}

// TestFixIndexes: an index that is made again is that of the writer of its set, and
// keeps what it has of its own.
func TestFixIndexes(t *testing.T) {
	for _, broken := range []string{"{", index(7, "a", store(1))} {
		dir := t.TempDir()
		storeSet(f32).with(storeIndex, broken).write(t, dir)
		_, err := doctor.Fix(context.Background(), dir, nil)
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, storeIndex))
		require.NoError(t, err)
		require.Equal(t, storeSet(f32)[storeIndex], string(got))
	}

	dir := t.TempDir()
	torchSet(`"total_size": 960`, `"z": [1], "total_size": 961, "note": "kept"`).write(t, dir)
	_, err := doctor.Fix(context.Background(), dir, nil)
	require.NoError(t, err)
	var got, want struct {
		Metadata map[string]any    `json:"metadata"`
		Files    map[string]string `json:"weight_map"`
	}
	const name = "pytorch_model.bin.index.json"
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &got))
	require.NoError(t, json.Unmarshal([]byte(torchSet()[name]), &want))
	require.Equal(t, want.Files, got.Files)
	require.Equal(t, map[string]any{"total_size": 960., "note": "kept", "z": []any{1.}}, got.Metadata)
}
