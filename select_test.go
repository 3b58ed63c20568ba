package demi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// diffusion is a checkpoint of latent diffusion in small: the averages have the
// names of the weights without dots.
func diffusion() *mem {
	return new(mem).f32("model.diffusion_model.a.b", 1, 2).f32("model.diffusion_model.c", 3).f32("first_stage_model.x", 4).
		f32("model_ema.diffusion_modelab", 5, 6).f32("model_ema.diffusion_modelc", 7).f32("model_ema.decay", 0.5).
		add(memTensor{"optimizer_states.0.state.0.exp_avg", tensor.F32, []int64{2}, f32Bytes([]float32{8, 9})})
}

func drop(list ...string) (o demi.Options) {
	o.Target = demi.Keep
	for _, s := range list {
		o.Drop = append(o.Drop, regexp.MustCompile(s))
	}
	return o
}

// TestEMA: diffusers#1818, where the flag had no effect: under "use" the values
// are really those of the averages.
func TestEMA(t *testing.T) {
	for policy, want := range map[demi.EMAPolicy]map[string][]float32{
		demi.EMAUse:  {"model.diffusion_model.a.b": {5, 6}, "model.diffusion_model.c": {7}, "first_stage_model.x": {4}},
		demi.EMADrop: {"model.diffusion_model.a.b": {1, 2}, "model.diffusion_model.c": {3}, "first_stage_model.x": {4}},
		demi.EMAKeep: {"model.diffusion_model.a.b": {1, 2}, "model.diffusion_model.c": {3}, "first_stage_model.x": {4},
			"model_ema.diffusion_modelab": {5, 6}, "model_ema.diffusion_modelc": {7}, "model_ema.decay": {0.5}},
	} {
		o := drop(`^optimizer_states\.`)
		o.EMA = policy
		out, records := mustConvert(t, diffusion().checkpoint(), o)
		got := values(t, parse(t, out))
		require.Len(t, got, len(want), policy)
		for name, x := range want {
			require.Equal(t, f32Bytes(x), got[name], "%s: %s", policy, name)
		}
		for _, r := range records {
			require.Equal(t, policy == demi.EMAUse && r.Name != "first_stage_model.x", r.Source != "", r.Name)
		}
		problems, err := demi.Recheck(context.Background(), diffusion().checkpoint(), demi.FromSource(parse(t, out), demi.Safetensors), o.Rounding, records, nil)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
}

// TestDropped: SD-prune#5: what is left out is told, by name and class.
func TestDropped(t *testing.T) {
	o := drop(`^optimizer_states\.`, `^nothing$`)
	o.EMA = demi.EMAUse
	p, err := demi.NewPlan(diffusion().checkpoint(), o)
	require.NoError(t, err)
	got := map[string][2]string{}
	for _, d := range p.Dropped {
		got[d.Name] = [2]string{d.Class, d.Reason}
		require.Positive(t, d.Size)
	}
	require.Equal(t, map[string][2]string{
		"model.diffusion_model.a.b":          {"weights", "its average is used: model_ema.diffusion_modelab"},
		"model.diffusion_model.c":            {"weights", "its average is used: model_ema.diffusion_modelc"},
		"model_ema.decay":                    {"ema", "state of the averages"},
		"optimizer_states.0.state.0.exp_avg": {"optimizer", `rule ^optimizer_states\.`},
	}, got)
	require.Equal(t, "^nothing$", p.UnusedDrops()[0].String())
	require.Len(t, p.UnusedDrops(), 1)
	require.Equal(t, []demi.ClassSum{
		{Class: "weights", Tensors: 3, Bytes: 16}, {Class: "ema", Tensors: 3, Bytes: 16, Drop: `^(model_ema)(\.|$)`},
		{Class: "optimizer", Tensors: 1, Bytes: 8, Drop: `^(optimizer_states)(\.|$)`},
	}, diffusion().checkpoint().Classes())
}

// TestSelectionRefused: what would lose or invent something.
func TestSelectionRefused(t *testing.T) {
	use := demi.Options{EMA: demi.EMAUse}
	for text, c := range map[string]struct {
		m *mem
		o demi.Options
	}{
		"no averages":                        {new(mem).f32("a", 1), use},
		"average of no tensor":               {new(mem).f32("model.a", 1).f32("model_ema.b", 1, 2), use},
		"has shape [1]":                      {new(mem).f32("model.a", 1).f32("model_ema.a", 1, 2), use},
		`of "model.a.bc" or of "model.ab.c"`: {new(mem).f32("model.a.bc", 1).f32("model.ab.c", 1).f32("model_ema.abc", 1), use},
		`and so is "ema.a"`:                  {new(mem).f32("model.a", 1).f32("ema.a", 1).f32("model_ema.a", 1), use},
		"every tensor would be dropped":      {new(mem).f32("a", 1), drop(".")},
		`"tied" is an alias of it`:           {aliased(), drop("^a$")},
	} {
		_, err := demi.NewPlan(c.m.checkpoint(), c.o)
		require.ErrorIs(t, err, tensor.ErrUnsupported, text)
		require.ErrorContains(t, err, text)
	}
	_, err := demi.NewPlan(diffusion().checkpoint(), demi.Options{Tie: true, Untie: true})
	require.ErrorContains(t, err, "do not go together")
	_, err = demi.NewPlan(diffusion().checkpoint(), demi.Options{EMA: "perhaps"})
	require.ErrorContains(t, err, "perhaps")
}

// aliased has an alias in its metadata, as safetensors' save_model writes it.
func aliased() *mem {
	m := new(mem).f32("a", 1, 2).f32("b", 3)
	m.meta = tensor.Metadata{{Key: "tied", Value: "a"}, {Key: "author", Value: "nobody"}}
	return m
}

// TestAliases: keras-hub#3075: tied names that are metadata alone are kept, and
// found by a loader; they become tensors where that is wanted.
func TestAliases(t *testing.T) {
	c := aliased().checkpoint()
	require.Equal(t, map[string]string{"tied": "a"}, c.Aliases())
	x, ok := c.Tensor("tied")
	require.True(t, ok)
	require.Equal(t, "a", x.Info().Name)

	out, _ := mustConvert(t, c, demi.Options{Target: demi.Keep})
	again := demi.FromSource(parse(t, out), demi.Safetensors)
	require.Equal(t, c.Aliases(), again.Aliases())
	out, records := mustConvert(t, again, demi.Options{Target: demi.To(tensor.BF16), Untie: true})
	f := parse(t, out)
	got := values(t, f)
	require.Len(t, got, 3)
	require.Equal(t, got["a"], got["tied"])
	_, there := f.Meta().Get("tied")
	require.False(t, there, "it is a tensor now")
	require.Len(t, records, 3)

	out, _ = mustConvert(t, c, drop("^tied$"))
	require.Empty(t, demi.FromSource(parse(t, out), demi.Safetensors).Aliases())
}

// matrices has equal matrices, equal vectors, and matrices of zeros.
func matrices() *mem {
	w := f32Bytes(weights(4096, 1))
	other := bytes.Clone(w)
	other[len(other)-1] ^= 1
	m := new(mem)
	for name, data := range map[string][]byte{"lm_head.weight": w, "model.embed.weight": w, "model.other": other, "z1": make([]byte, len(w)), "z2": make([]byte, len(w))} {
		m.add(memTensor{name, tensor.F32, []int64{64, 64}, data})
	}
	return m.f32("n1", 1, 2).f32("n2", 1, 2)
}

// TestTie: transformers#30202, where lm_head vanished: by default nothing does;
// asked to, equal matrices become one and an alias that says so.
func TestTie(t *testing.T) {
	out, _ := mustConvert(t, matrices().checkpoint(), demi.Options{})
	require.Len(t, values(t, parse(t, out)), 7)

	for _, o := range []demi.Options{{Tie: true}, {Tie: true, Target: demi.To(tensor.BF16)}} {
		c := matrices().checkpoint()
		p, err := demi.NewPlan(c, o)
		require.NoError(t, err)
		_, err = demi.Convert(context.Background(), c, demi.NewWriter(new(bytes.Buffer), p, c, nil), p, nil)
		require.ErrorContains(t, err, "Decide first")
		require.NoError(t, p.Decide(context.Background(), c, nil))
		require.Len(t, p.Dropped, 1)
		require.Equal(t, "lm_head.weight", p.Dropped[0].Name)
		require.Equal(t, "model.embed.weight", p.Dropped[0].Tied)

		out, _ := mustConvert(t, c, o)
		tied := demi.FromSource(parse(t, out), demi.Safetensors)
		require.Equal(t, map[string]string{"lm_head.weight": "model.embed.weight"}, tied.Aliases())
		back, _ := mustConvert(t, tied, demi.Options{Target: demi.Keep, Untie: true})
		plain, _ := mustConvert(t, c, demi.Options{Target: o.Target})
		require.Equal(t, values(t, parse(t, plain)), values(t, parse(t, back)))

		ruled := o
		ruled.Rules = rules(t, "lm_head=f64")
		p, err = demi.NewPlan(c, ruled)
		require.NoError(t, err)
		require.NoError(t, p.Decide(context.Background(), c, nil))
		require.Empty(t, p.Dropped, "of two types they are not the same")
	}
	_, err := demi.NewPlan(matrices().checkpoint(), demi.Options{Tie: true, Format: demi.GGUF, ContainerOnly: true})
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}

// TestSelectionPlan: a plan with tensors left out, renamed and tied comes back
// from its document, and not from one that says something else.
func TestSelectionPlan(t *testing.T) {
	m := matrices()
	m.tensors = append(m.tensors, diffusion().tensors...)
	c := m.checkpoint()
	o := demi.Options{Tie: true, EMA: demi.EMAUse, Drop: drop("^optimizer", "decay").Drop}
	p, err := demi.NewPlan(c, o)
	require.NoError(t, err)
	require.NoError(t, p.Decide(context.Background(), c, nil))
	d := planText(t, p)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	q, err := demi.LoadPlan(c, bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, q.Decide(context.Background(), c, nil))
	require.Equal(t, p.Infos(), q.Infos())
	require.Equal(t, p.Meta, q.Meta)
	require.ElementsMatch(t, p.Dropped, q.Dropped)

	for _, change := range []func(d *demi.PlanDocument){
		func(d *demi.PlanDocument) { d.Dropped = d.Dropped[1:] },
		func(d *demi.PlanDocument) { d.Dropped[0].Name = "n1" },
		func(d *demi.PlanDocument) { d.Options.Drop = nil },
		func(d *demi.PlanDocument) { d.Options.Tie = false },
		func(d *demi.PlanDocument) { d.Options.EMA = "keep" },
		func(d *demi.PlanDocument) { d.Dropped[len(d.Dropped)-1].Tied = "nothing" },
	} {
		d := planText(t, p)
		change(d)
		_, err := d.Plan(c)
		require.ErrorIs(t, err, tensor.ErrFormat)
	}
	for i := range m.tensors {
		if m.tensors[i].name == "lm_head.weight" {
			m.tensors[i].data = m.tensors[i].data[:len(m.tensors[i].data):len(m.tensors[i].data)]
			m.tensors[i].data = append([]byte{1}, m.tensors[i].data[1:]...)
		}
	}
	q, err = d.Plan(m.checkpoint())
	require.NoError(t, err)
	require.ErrorIs(t, q.Decide(context.Background(), m.checkpoint(), nil), tensor.ErrChanged)
}

func planText(t *testing.T, p *demi.Plan) *demi.PlanDocument {
	t.Helper()
	d, err := p.Document(new(mem).checkpoint())
	require.NoError(t, err)
	return d
}

// TestDroppedArchive: a store that lacks tensors does not promise the files.
func TestDroppedArchive(t *testing.T) {
	dir := t.TempDir()
	src, out := dir+"/a.safetensors", dir+"/a.demi"
	_, err := convertFile(t, charlmDir+"/model.safetensors", src, demi.Options{Target: demi.Keep}, nil)
	require.NoError(t, err)
	o := drop("lm_head")
	o.Format = demi.Demi
	_, err = convertFile(t, src, out, o, nil)
	require.NoError(t, err)
	_, err = demi.Restore(context.Background(), open(t, out), dir+"/b.safetensors", nil)
	require.ErrorIs(t, err, tensor.ErrUnsupported)
}
