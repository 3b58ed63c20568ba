package demi_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// writeFP8 writes a safetensors file of tensors with one byte an element, and
// F32 tensors of one value each.
func writeFP8(t testing.TB, path string, bytes map[string][]byte, scales map[string]float32) {
	m := &mem{}
	for name, x := range bytes {
		m.add(memTensor{name: name, dtype: tensor.F8E4M3, shape: []int64{int64(len(x))}, data: x})
	}
	for name, x := range scales {
		m.f32(name, x)
	}
	convertKeep(t, m.checkpoint(), path)
}

func openDequantized(path string, how demi.Dequantize) (*demi.Checkpoint, error) {
	return demi.Open(path, &demi.OpenOptions{Dequantize: how})
}

// The weights of FP8 files came out hundreds of times too large where the scale
// was not multiplied in (stable-diffusion.cpp#1898, LTX-2#172).
func TestDequantizeScale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fp8.safetensors")
	writeFP8(t, path, map[string][]byte{"w": {0x7e, 0xfe, 0x00, 0x80}}, map[string]float32{"w_scale": 0.0013, "input_scale": 0.0157})
	c, err := openDequantized(path, demi.DequantizeScaled)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, []string{`1 scale is multiplied in and no longer a tensor: "w_scale"`}, c.Warnings())
	require.Equal(t, 2, c.Len())
	out := filepath.Join(t.TempDir(), "bf16.safetensors")
	convertTo(t, c, out, nil)
	got := values(t, open(t, out).Source())
	want := math.Float32bits(0.58203125) >> 16
	require.Equal(t, []byte{byte(want), byte(want >> 8), byte(want), byte(want>>8) | 0x80, 0, 0, 0, 0x80}, got["w"])
	require.Len(t, got["input_scale"], 4, "no scale is cast")
}

func TestDequantizeRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plain.safetensors")
	writeFP8(t, path, map[string][]byte{"a.weight": {0x38}, "b.weight": {0x40}}, nil)
	_, err := openDequantized(path, demi.DequantizeScaled)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, `plain.safetensors: tensor "a.weight"`)
	require.ErrorContains(t, err, "F8_E4M3 without a scale (tried a.weight_scale, a.weight_scale_inv, a.scale_weight, a.weight.scale)")
	require.ErrorContains(t, err, `tensor "b.weight"`)

	c, err := openDequantized(path, demi.DequantizeAll)
	require.NoError(t, err)
	defer c.Close()
	x := make([]float32, 1)
	w, ok := c.Tensor("a.weight")
	require.True(t, ok)
	require.NoError(t, w.Float32s(x, 0))
	require.Equal(t, float32(1), x[0])

	m := new(mem).f32("w_scale", 1, 2, 3)
	m.add(memTensor{name: "w", dtype: tensor.F8E4M3, shape: []int64{2, 2}, data: make([]byte, 4)})
	path = filepath.Join(dir, "shape.safetensors")
	convertKeep(t, m.checkpoint(), path)
	_, err = openDequantized(path, demi.DequantizeAll)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, `its scale "w_scale" of shape [3] fits no known layout of a tensor of shape [2 2]`)

	_, err = openDequantized(path, "some")
	require.ErrorContains(t, err, `unknown way to dequantize "some"`)
}

// What is decoded says what it was, in the plan and the records; a plan loads
// back; nothing pretends to be a copy.
func TestDequantizePlan(t *testing.T) {
	src, err := openDequantized("testdata/dequant/quantised.gguf", demi.DequantizeScaled)
	require.NoError(t, err)
	defer src.Close()
	p, err := demi.NewPlan(src, demi.Options{Target: demi.To(tensor.F16), Pure: true})
	require.NoError(t, err)
	for _, x := range p.Tensors {
		require.Equal(t, tensor.F32, x.In.DType)
		require.Equal(t, "was "+x.In.Name+"; target type", x.Reason)
	}
	d, err := p.Document(src)
	require.NoError(t, err)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	_, err = demi.LoadPlan(src, strings.NewReader(string(text)))
	require.NoError(t, err)
	require.Equal(t, "scaled", d.Options.Dequantize)
	_, err = demi.LoadPlan(open(t, "testdata/dequant/quantised.gguf"), strings.NewReader(string(text)))
	require.ErrorIs(t, err, tensor.ErrUnsupported)
	require.ErrorContains(t, err, "it was made with --dequantize=scaled, the checkpoint is open with none")
	_, err = demi.LoadPlan(src, strings.NewReader(strings.Replace(string(text), `"dequantize":"scaled"`, `"dequantize":"all"`, 1)))
	require.ErrorContains(t, err, "it was made with --dequantize=all, the checkpoint is open with scaled")
	_, err = demi.LoadPlan(src, strings.NewReader(strings.Replace(string(text), `,"dequantize":"scaled"`, "", 1)))
	require.ErrorContains(t, err, "it was made with --dequantize=none, the checkpoint is open with scaled")
	_, err = demi.LoadPlan(src, strings.NewReader(strings.Replace(string(text), `"dequantize":"scaled"`, `"dequantize":"some"`, 1)))
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.ErrorContains(t, err, `unknown way to dequantize "some"`)

	p, err = demi.NewPlan(src, demi.Options{Target: demi.Keep, Format: demi.Demi})
	require.NoError(t, err)
	store := filepath.Join(t.TempDir(), "s.demi")
	sink, err := demi.Create(store, p, src, nil)
	require.NoError(t, err)
	_, err = demi.Convert(t.Context(), src, sink, p, nil)
	require.NoError(t, err)
	_, err = demi.Restore(t.Context(), open(t, store), filepath.Join(t.TempDir(), "back.gguf"), nil)
	require.Error(t, err, "the file that it was made from is not in it")
}

// A q4K has opaque tensors of the type Q4_K.
type q4K struct{ *mem }

func (s q4K) Tensors() []tensor.Info {
	infos := s.mem.Tensors()
	for i := range infos {
		infos[i].Foreign = tensor.Foreign{Name: "Q4_K", ID: 12, BlockElems: 256, BlockBytes: 144}
	}
	return infos
}

// The key that names the type of a GGUF model does not stay that of what it was.
func TestDequantizeFileType(t *testing.T) {
	const f32, f16 = 0, 1
	dir := t.TempDir()
	path := filepath.Join(dir, "q.gguf")
	m := &mem{meta: tensor.Metadata{{Key: "general.architecture", Value: "x"}, {Key: "general.file_type", Value: uint32(15)}}}
	m.add(memTensor{name: "blk.0.attn_q.weight", dtype: tensor.Opaque, shape: []int64{2, 256}, data: make([]byte, 288)})
	c := demi.FromSource(q4K{m}, demi.GGUF)
	convertKeep(t, c, path)
	for target, want := range map[demi.Target]uint32{demi.Keep: f32, demi.Exact: f32, demi.To(tensor.F16): f16} {
		src, err := openDequantized(path, demi.DequantizeScaled)
		require.NoError(t, err)
		p, err := demi.NewPlan(src, demi.Options{Target: target})
		require.NoError(t, err)
		if target != demi.Exact { // zeros fit anything
			got, _ := p.Meta.Get("general.file_type")
			require.Equal(t, want, got, target)
		}
		require.NoError(t, src.Close())
	}
}

// A configuration that promises scales keeps loaders from the weights.
func TestDequantizeConfig(t *testing.T) {
	dir := t.TempDir()
	writeFP8(t, filepath.Join(dir, "model.safetensors"), map[string][]byte{"w": {0x38}}, map[string]float32{"w_scale": 2})
	config := `{"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}, "x": 1}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	for how, want := range map[demi.Dequantize]string{
		demi.DequantizeScaled: `{"torch_dtype": "float32", "x": 1}`,
		demi.DequantizeNone:   config,
	} {
		c, err := openDequantized(dir, how)
		require.NoError(t, err)
		out := filepath.Join(t.TempDir(), "out")
		convertKeep(t, c, out)
		require.NoError(t, c.Close())
		text, err := os.ReadFile(filepath.Join(out, "config.json"))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

// Any number of workers, and stochastic rounding, give the same bytes.
func TestDequantizeDeterministic(t *testing.T) {
	var first map[string]string
	for _, workers := range []int{1, 2, 8} {
		c, err := openDequantized("testdata/dequant/float8.safetensors", demi.DequantizeScaled)
		require.NoError(t, err)
		p, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16), Rounding: kernels.Stochastic, Seed: 7})
		require.NoError(t, err)
		dir := t.TempDir()
		sink, err := demi.Create(filepath.Join(dir, "out.safetensors"), p, c, nil)
		require.NoError(t, err)
		_, err = demi.Convert(t.Context(), c, sink, p, &demi.RunOptions{Workers: workers})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		if sums := hashes(t, dir); first == nil {
			first = sums
		} else {
			require.Equal(t, first, sums)
		}
	}
}

// small adds a tensor of elements without values that matter.
func (m *mem) small(name string, d tensor.DType, shape ...int64) *mem {
	n := int64(d.Bits())
	for _, x := range shape {
		n *= x
	}
	return m.add(memTensor{name: name, dtype: d, shape: shape, data: make([]byte, n/8)})
}

// Two scales, or one that could be of rows or of columns, are not guessed.
func TestDequantizeAmbiguous(t *testing.T) {
	for text, m := range map[string]*mem{
		`it has more than one scale: ["w_scale" "w_scale_inv"]`:          new(mem).small("w", tensor.F8E4M3, 4).f32("w_scale", 1).f32("w_scale_inv", 2),
		`it has more than one scale: ["w_scale" "scale_w"]`:              new(mem).small("w", tensor.F8E4M3, 4).f32("w_scale", 1).small("scale_w", tensor.F8E4M3, 4),
		`its scale "w_scale" is of type F8_E4M3`:                         new(mem).small("w", tensor.F8E4M3, 4).small("w_scale", tensor.F8E4M3, 4).f32("w_scale_scale", 1),
		`of shape [2] fits no known layout of a tensor of shape [256 2]`: new(mem).small("w", tensor.F8E4M3, 256, 2).f32("w_scale", 1, 2),
		`of shape [4] fits no known layout of a tensor of shape [2 4]`:   new(mem).small("w", tensor.F8E4M3, 2, 4).f32("w_scale", 1, 2, 3, 4),
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		convertKeep(t, m.checkpoint(), path)
		for _, how := range []demi.Dequantize{demi.DequantizeScaled, demi.DequantizeAll} {
			_, err := openDequantized(path, how)
			require.ErrorIs(t, err, tensor.ErrUnsupported)
			require.ErrorContains(t, err, text)
		}
	}
}

// What cannot be decoded stays with its scales, and is named: floats of 4 and 6
// bits, integers, NVFP4 with scales in E4M3. Then the configuration is needed.
func TestDequantizeStays(t *testing.T) {
	dir := t.TempDir()
	m := new(mem).small("f4", tensor.F4, 32).small("f4_scale", tensor.F8E8M0, 1).small("f6", tensor.F6E2M3, 4).
		small("i8", tensor.I8, 2, 2).f32("i8_scale", 1, 2).
		small("nvfp4.weight", tensor.U8, 2, 8).small("nvfp4.weight_scale", tensor.F8E4M3, 2, 1).f32("nvfp4.weight_scale_2", 3).
		small("ids", tensor.I64, 2)
	want := values(t, m)
	convertKeep(t, m.f32("lm_head.weight", 1, 2).checkpoint(), filepath.Join(dir, "model.safetensors"))
	config := `{"quantization_config": {"quant_method": "x"}, "x": 1}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666))
	for _, how := range []demi.Dequantize{demi.DequantizeScaled, demi.DequantizeAll} {
		c, err := openDequantized(dir, how)
		require.NoError(t, err)
		require.Len(t, c.Warnings(), 1)
		require.Contains(t, c.Warnings()[0], `4 quantised tensors stay as stored, of a type that cannot be decoded: "`)
		out := filepath.Join(t.TempDir(), "out")
		convertTo(t, c, out, nil)
		require.NoError(t, c.Close())
		got := values(t, open(t, out).Source())
		require.Len(t, got["lm_head.weight"], 4)
		delete(got, "lm_head.weight")
		require.Equal(t, want, got)
		text, err := os.ReadFile(filepath.Join(out, "config.json"))
		require.NoError(t, err)
		require.Equal(t, config, string(text))
	}
}

// In a pipeline each component has a configuration and names of its own.
func TestDequantizePipeline(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model_index.json"), []byte(`{"t": ["d", "T"], "u": ["d", "U"]}`), 0o666))
	for part, m := range map[string]*mem{
		"t": new(mem).small("w", tensor.I8, 2).f32("w_scale", 1).f32("x.weight", 1),
		"u": new(mem).small("weight", tensor.F8E4M3, 2).f32("scale_weight", 1).small("scaled_fp8", tensor.F8E4M3, 2),
	} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, part), 0o777))
		convertKeep(t, m.checkpoint(), filepath.Join(dir, part, "model.safetensors"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, part, "config.json"), []byte(`{"quantization_config": 1}`), 0o666))
	}
	c, err := openDequantized(dir, demi.DequantizeScaled)
	require.NoError(t, err)
	defer c.Close()
	out := filepath.Join(t.TempDir(), "out")
	convertTo(t, c, out, nil)
	require.Len(t, values(t, open(t, out).Source()), 4, "the scale and the marker are gone")
	for part, want := range map[string]string{"t": `{"quantization_config": 1}`, "u": `{}`} {
		text, err := os.ReadFile(filepath.Join(out, part, "config.json"))
		require.NoError(t, err)
		require.Equal(t, want, string(text), part)
	}
}
