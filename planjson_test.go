package demi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
)

// planSources writes the same tensors in each kind of source. They hold values
// of every sort: exact in one 16-bit type, in the other, in F32, in none.
func planSources(t *testing.T) map[string]string {
	m := &mem{meta: tensor.Metadata{{Key: "format", Value: "pt"}}}
	m.f32("a.weight", 1+0x1p-10, 2).f32("b.weight", 0x1p100, 1).f32("c.weight", 0.1, 70000).f32("d.norm.weight", 1, 2, 3)
	m.f64("e.weight", 1.00000011920928955078125, 2).f32("f.weight", weights(70_000, 3)...).zeros("g.bias", tensor.F32, 4)
	dir := t.TempDir()
	write := func(name string, c *demi.Checkpoint, f demi.Format, create *demi.CreateOptions) string {
		dst := filepath.Join(dir, name)
		p, err := demi.NewPlan(c, demi.Options{Target: demi.Keep, Format: f, ContainerOnly: true})
		require.NoError(t, err)
		sink, err := demi.Create(dst, p, c, create)
		require.NoError(t, err)
		_, err = demi.Convert(context.Background(), c, sink, p, nil)
		require.NoError(t, err)
		return dst
	}
	shards := &demi.CreateOptions{MaxShard: 280_000}
	list := map[string]string{
		"safetensors":        write("one.safetensors", m.checkpoint(), demi.Safetensors, nil),
		"set of safetensors": write("set", m.checkpoint(), demi.Safetensors, shards),
		"gguf":               write("one.gguf", m.checkpoint(), demi.GGUF, nil),
		"set of gguf":        write("ggufs", m.checkpoint(), demi.GGUF, shards),
	}
	list["store"] = write("one.demi", open(t, list["safetensors"]), demi.Demi, nil)
	list["set of stores"] = write("stores", open(t, list["set of safetensors"]), demi.Demi, shards)
	list["store of gguf"] = write("gguf.demi", open(t, list["gguf"]), demi.Demi, nil)
	pipeline := filepath.Join(dir, "pipeline")
	for _, part := range []string{"unet", "vae"} {
		require.NoError(t, os.CopyFS(filepath.Join(pipeline, part), os.DirFS(list["set of safetensors"])))
	}
	require.NoError(t, os.WriteFile(filepath.Join(pipeline, "model_index.json"), []byte(`{"unet": ["d", "U"], "vae": ["d", "V"]}`), 0o666))
	list["pipeline"] = pipeline
	return list
}

// planOptions are options of which each leads to other documents.
func planOptions(t *testing.T) []demi.Options {
	return []demi.Options{
		{},
		{Mixed: true},
		{Target: demi.Keep},
		{Target: demi.To(tensor.BF16), Pure: true},
		{Target: demi.To(tensor.F16), Overflow: demi.OverflowKeep},
		{Target: demi.To(tensor.F16), Overflow: demi.OverflowKeep, Pure: true, OnNaN: demi.NaNError},
		{Target: demi.To(tensor.BF16), Overflow: demi.OverflowError, OnNaN: demi.NaNError},
		{Target: demi.To(tensor.F16), Overflow: demi.OverflowSaturate, Rounding: kernels.Stochastic, Seed: 1<<63 + 7, Flush: true},
		{Target: demi.To(tensor.BF16), Preset: "llm", Rules: rules(t, `^c\.=keep`, `a=b|=f16`, `(unet/|^)e=f32`)},
		{Target: demi.To(tensor.F64), Canonical: true, NoFormat: true, Lenient: true},
		{Format: demi.Demi},
		{Target: demi.To(tensor.BF16), Format: demi.Demi, KeepSplit: true},
	}
}

// document returns the text of a plan.
func document(t *testing.T, p *demi.Plan, c *demi.Checkpoint) []byte {
	t.Helper()
	d, err := p.Document(c)
	require.NoError(t, err)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	return text
}

// output returns what a decided plan writes.
func output(t *testing.T, p *demi.Plan, c *demi.Checkpoint) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := demi.Convert(context.Background(), c, demi.NewWriter(&b, p, c, nil), p, nil)
	require.NoError(t, err)
	return b.Bytes()
}

// TestPlansLoadBack: a document makes the same document and the same output, for
// every kind of source, decided and undecided, and through a file system too.
func TestPlansLoadBack(t *testing.T) {
	undecided := 0
	for kind, src := range planSources(t) {
		for i, o := range planOptions(t) {
			what := fmt.Sprintf("%s, options %d", kind, i)
			c := open(t, src)
			p, err := demi.NewPlan(c, o)
			require.NoError(t, err, what)
			fsys, err := demi.OpenFS(os.DirFS(filepath.Dir(src)), filepath.Base(src), nil)
			require.NoError(t, err)
			if p.Undecided() > 0 {
				undecided++
				text := document(t, p, c)
				again, err := demi.LoadPlan(c, bytes.NewReader(text))
				require.NoError(t, err, what)
				require.Equal(t, p.Undecided(), again.Undecided(), what)
				require.JSONEq(t, string(text), string(document(t, again, fsys)), what)
			}
			require.NoError(t, p.Decide(context.Background(), c, nil), what)
			text := document(t, p, c)
			again, err := demi.LoadPlan(fsys, bytes.NewReader(text))
			require.NoError(t, err, what)
			require.Zero(t, again.Undecided())
			require.JSONEq(t, string(text), string(document(t, again, c)), what)
			require.True(t, bytes.Equal(output(t, p, c), output(t, again, c)), what)
			require.NoError(t, fsys.Close())
		}
	}
	require.Greater(t, undecided, 20)
}

// edited returns a document in which something has been changed.
func edited(t *testing.T, text []byte, edit func(d map[string]any)) []byte {
	t.Helper()
	var d map[string]any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&d))
	edit(d)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	return text
}

// TestForeignPlans: what does not fit the source, or does not follow from the
// options, is refused with its class.
func TestForeignPlans(t *testing.T) {
	c := open(t, planSources(t)["set of safetensors"])
	decided := func(o demi.Options) []byte {
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		require.NoError(t, p.Decide(context.Background(), c, nil))
		return document(t, p, c)
	}
	exact, keep := decided(demi.Options{}), decided(demi.Options{Target: demi.To(tensor.F16), Overflow: demi.OverflowKeep})
	p, err := demi.NewPlan(c, demi.Options{})
	require.NoError(t, err)
	open := document(t, p, c)

	at := func(list string, i int) func(map[string]any) map[string]any {
		return func(d map[string]any) map[string]any { return d[list].([]any)[i].(map[string]any) }
	}
	tensorNamed := func(d map[string]any, name string) map[string]any {
		for _, x := range d["tensors"].([]any) {
			if x := x.(map[string]any); x["name"] == name {
				return x
			}
		}
		t.Fatal(name)
		return nil
	}
	for what, x := range map[string]struct {
		text  []byte
		edit  func(map[string]any)
		class error
		says  string
	}{
		"another header":    {exact, func(d map[string]any) { at("files", 1)(d)["header"] = "sha256:00" }, tensor.ErrChanged, "model-00002-of-00002.safetensors: source changed: its header"},
		"another size":      {exact, func(d map[string]any) { at("files", 0)(d)["bytes"] = 7 }, tensor.ErrChanged, "and 7 in the plan"},
		"another name":      {exact, func(d map[string]any) { at("files", 0)(d)["file"] = "x" }, tensor.ErrChanged, `the plan is for "x"`},
		"fewer files":       {exact, func(d map[string]any) { d["files"] = d["files"].([]any)[:1] }, tensor.ErrChanged, "the plan is for 1 file, the source has 2"},
		"more files":        {exact, func(d map[string]any) { d["files"] = append(d["files"].([]any), at("files", 0)(d)) }, tensor.ErrChanged, "there are 2"},
		"no files":          {exact, func(d map[string]any) { delete(d, "files") }, tensor.ErrChanged, "the plan is for 0 files"},
		"fewer tensors":     {exact, func(d map[string]any) { d["tensors"] = d["tensors"].([]any)[1:] }, tensor.ErrFormat, "it has 6 tensors, the checkpoint 7"},
		"more tensors":      {exact, func(d map[string]any) { d["tensors"] = append(d["tensors"].([]any), at("tensors", 0)(d)) }, tensor.ErrFormat, "more than 7 tensors"},
		"a tensor twice":    {exact, func(d map[string]any) { d["tensors"].([]any)[1] = at("tensors", 0)(d) }, tensor.ErrFormat, "or the plan has it twice"},
		"another order":     {exact, func(d map[string]any) { l := d["tensors"].([]any); l[0], l[1] = l[1], l[0] }, tensor.ErrFormat, "not in the order of the output"},
		"another shape":     {exact, func(d map[string]any) { at("tensors", 0)(d)["shape"] = []any{1} }, tensor.ErrFormat, "in the plan"},
		"another type":      {exact, func(d map[string]any) { at("tensors", 0)(d)["from"] = "I8" }, tensor.ErrFormat, "in the plan"},
		"a type by hand":    {decided(demi.Options{Target: demi.To(tensor.BF16)}), func(d map[string]any) { at("tensors", 0)(d)["to"] = "F16" }, tensor.ErrFormat, "change a plan by its options"},
		"a size by hand":    {exact, func(d map[string]any) { at("tensors", 0)(d)["bytes_out"] = 1 }, tensor.ErrFormat, "change a plan by its options"},
		"no type":           {exact, func(d map[string]any) { tensorNamed(d, "c.weight")["to"] = "Q4_0" }, tensor.ErrFormat, "Q4_0"},
		"a wider type":      {exact, func(d map[string]any) { tensorNamed(d, "c.weight")["to"] = "F64" }, tensor.ErrFormat, "F64"},
		"two 16-bit types":  {exact, func(d map[string]any) { x := tensorNamed(d, "a.weight"); x["to"], x["bytes_out"] = "F16", 4 }, tensor.ErrFormat, "which is for the option mixed"},
		"keep as a third":   {keep, func(d map[string]any) { x := tensorNamed(d, "c.weight"); x["to"], x["bytes_out"] = "BF16", 4 }, tensor.ErrFormat, "change a plan by its options"},
		"decided in part":   {open, func(d map[string]any) { delete(at("tensors", 0)(d), "undecided") }, tensor.ErrFormat, "it is decided in a plan"},
		"undecided in part": {decided(demi.Options{Target: demi.To(tensor.BF16)}), func(d map[string]any) { at("tensors", 0)(d)["undecided"] = true }, tensor.ErrFormat, "its type follows from the options"},
		"another version":   {exact, func(d map[string]any) { d["version"] = 2 }, tensor.ErrUnsupported, "version 2"},
		"another command":   {exact, func(d map[string]any) { d["command"] = "verify" }, tensor.ErrFormat, "verify"},
		"an unknown option": {exact, func(d map[string]any) { d["options"].(map[string]any)["colour"] = 1 }, tensor.ErrUnsupported, "colour"},
		"a wrong option":    {exact, func(d map[string]any) { d["options"].(map[string]any)["dtype"] = "int3" }, tensor.ErrFormat, "int3"},
		"a wrong rule":      {exact, func(d map[string]any) { d["options"].(map[string]any)["keep"] = []any{"(=keep"} }, tensor.ErrFormat, "rule"},
		"no tensors":        {exact, func(d map[string]any) { delete(d, "tensors") }, tensor.ErrFormat, "not a plan"},
		"a huge number":     {exact, func(d map[string]any) { d["bytes_in"] = json.Number("1e999") }, tensor.ErrFormat, "bytes_in"},
	} {
		_, err := demi.LoadPlan(c, bytes.NewReader(edited(t, x.text, x.edit)))
		require.ErrorIs(t, err, x.class, what)
		require.ErrorContains(t, err, x.says, what)
	}
	for text, class := range map[string]error{
		"": tensor.ErrTruncated, "[": tensor.ErrFormat, "{": tensor.ErrTruncated, string(exact[:len(exact)/2]): tensor.ErrTruncated, "nul": tensor.ErrTruncated, "none": tensor.ErrFormat, `{"version":1}`: tensor.ErrFormat,
		string(exact) + "x": tensor.ErrFormat, `{"version":1,"version":1}`: tensor.ErrFormat, "\ufeff" + string(exact): tensor.ErrFormat,
		`{"version":1,"tensors":[{"name":"` + strings.Repeat("n", 1<<20) + `"}]}`: tensor.ErrLimit,
	} {
		_, err := demi.LoadPlan(c, strings.NewReader(text))
		require.ErrorIs(t, err, class, "%.40q: %v", text, err)
	}
	_, err = demi.LoadPlan(c, bytes.NewReader(edited(t, exact, func(d map[string]any) { d["remark"] = []any{"mine"} })))
	require.NoError(t, err, "unknown fields are let pass")
}

// TestPlanPinsTheSource: a file whose header has changed is not the plan's, and
// values that have changed are found by the promises of a loaded plan.
func TestPlanPinsTheSource(t *testing.T) {
	src := planSources(t)["safetensors"]
	c := open(t, src)
	p, err := demi.NewPlan(c, demi.Options{})
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	text := document(t, p, c)
	raw, err := os.ReadFile(src)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(src, bytes.Replace(raw, []byte("c.weight"), []byte("C.weight"), 1), 0o666))
	_, err = demi.LoadPlan(open(t, src), bytes.NewReader(text))
	require.ErrorIs(t, err, tensor.ErrChanged)
	require.ErrorContains(t, err, "one.safetensors: source changed: its header has the hash")

	x, ok := c.Tensor("b.weight") // 2^100 becomes a value that does not fit
	require.True(t, ok)
	_, at := x.Place()
	raw[at] ^= 1
	require.NoError(t, os.WriteFile(src, raw, 0o666))
	changed := open(t, src)
	again, err := demi.LoadPlan(changed, bytes.NewReader(text))
	require.NoError(t, err, "values are not pinned")
	dir := t.TempDir()
	sink, err := demi.Create(filepath.Join(dir, "out.safetensors"), again, changed, nil)
	require.NoError(t, err)
	_, err = demi.Convert(context.Background(), changed, sink, again, nil)
	require.ErrorIs(t, err, tensor.ErrChanged)
	require.ErrorContains(t, err, `tensor "b.weight"`)
	require.Empty(t, names(t, dir))
}

// FuzzReadPlan: hostile documents get an error, and cost no more than their
// bytes are worth.
func FuzzReadPlan(f *testing.F) {
	f.Add([]byte(`{"version":1,"options":{"keep":[],"drop":[]},"tensors":[],"dropped":[]}`))
	m := new(mem).f32("a", 1, 2).f32("b", 0.1)
	c := m.checkpoint()
	p, err := demi.NewPlan(c, demi.Options{Rules: []demi.Rule{must(demi.ParseRule("b=bf16"))}})
	require.NoError(f, err)
	d, err := p.Document(c)
	require.NoError(f, err)
	text, err := json.Marshal(d)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":1,"tensors":[` + strings.Repeat("{},", 1000) + `{}]}`))
	f.Add([]byte(`{"version":1,"files":[{"file":"a","bytes":-1}],"options":{"keep":["a=f16"],"seed":18446744073709551615},"tensors":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := demi.ReadPlan(bytes.NewReader(text))
		if err != nil {
			for _, class := range []error{tensor.ErrFormat, tensor.ErrTruncated, tensor.ErrUnsupported, tensor.ErrLimit} {
				if errors.Is(err, class) {
					return
				}
			}
			t.Fatalf("no class: %v", err)
		}
		again, err := json.Marshal(d)
		require.NoError(t, err)
		same, err := demi.ReadPlan(bytes.NewReader(again))
		require.NoError(t, err)
		require.Equal(t, d, same)
		if p, err := d.Plan(c); err == nil {
			_, err := p.Document(c)
			require.NoError(t, err)
		}
	})
}
