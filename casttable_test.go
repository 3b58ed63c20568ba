package demi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A castRow is a row of the cast table: "" is any value, "a|b" one of them. The
// first row that applies decides. "=" is the type that the tensor has, "target"
// that of the target.
type castRow struct {
	target, widens, from, container, mixed, tensor, pure, rule, preset string
	to, reason                                                         string
}

const normRule = `(?i)norm(_[0-9a-z]+|[0-9]+)*\.(weight|bias|scale|gamma|beta)$`

var castRows = []castRow{
	{rule: "keep", to: "=", reason: "rule .=keep"},
	{rule: "f64", from: "I32|F8_E4M3", to: "=", reason: "rule .=f64, but it is not a float to cast"},
	{rule: "f64", to: "F64", reason: "rule .=f64"},
	{from: "I32|F8_E4M3", to: "=", reason: "not a float to cast"},
	{target: "keep", to: "=", reason: "keep"},
	{preset: "llm|diffusion", tensor: "norm", widens: "no", to: "=", reason: "preset PRESET: " + normRule},
	{pure: "yes", target: "exact", to: "=", reason: "exact"},
	{pure: "yes", target: "auto", from: "F16|BF16", to: "=", reason: "auto: it has 16 bits"},
	{pure: "yes", target: "auto", to: "=", reason: "auto"},
	{pure: "yes", to: "target", reason: "target type"},
	{tensor: "companion", to: "=", reason: "belongs to a quantised tensor"},
	{container: "gguf", tensor: "norm", widens: "no", to: "=", reason: "llama.cpp keeps it wide"},
	{container: "gguf", tensor: "norm", to: "target", reason: "target type"},
	{mixed: "yes", from: "F32", to: "=", reason: "small F32 beside 16-bit floats"},
	{target: "exact", to: "=", reason: "exact"},
	{target: "auto", from: "F16|BF16", to: "=", reason: "auto: it has 16 bits"},
	{target: "auto", to: "=", reason: "auto"},
	{to: "target", reason: "target type"},
}

// applies tells whether a row is for a case, which has a value in each column.
func (r *castRow) applies(c *castRow) bool {
	for _, x := range [][2]string{
		{r.target, c.target}, {r.widens, c.widens}, {r.from, c.from}, {r.container, c.container}, {r.mixed, c.mixed},
		{r.tensor, c.tensor}, {r.pure, c.pure}, {r.rule, c.rule}, {r.preset, c.preset},
	} {
		if x[0] != "" && !strings.Contains("|"+x[0]+"|", "|"+x[1]+"|") {
			return false
		}
	}
	return true
}

// castCases calls f with every combination.
func castCases(f func(castRow)) {
	each := func(values string, f func(string)) {
		for v := range strings.SplitSeq(values, "|") {
			f(v)
		}
	}
	var c castRow
	set := func(field *string, values string, next func()) func() {
		return func() { each(values, func(v string) { *field = v; next() }) }
	}
	run := func() {
		to, named := demi.Target(c.target).DType()
		from, err := tensor.ParseDType(c.from)
		c.widens = "no"
		if err == nil && named && to.Bits() > from.Bits() {
			c.widens = "yes"
		}
		f(c)
	}
	run = set(&c.preset, "none|llm|diffusion", run)
	run = set(&c.rule, "none|keep|f64", run)
	run = set(&c.pure, "no|yes", run)
	run = set(&c.tensor, "plain|companion|norm", run)
	run = set(&c.mixed, "no|yes", run)
	run = set(&c.container, "safetensors|gguf", run)
	run = set(&c.from, "F64|F32|F16|BF16|I32|F8_E4M3", run)
	run = set(&c.target, "exact|auto|keep|f64|f32|f16|bf16", run)
	run()
}

// planCase returns the choice for the tensor of a case.
func planCase(t *testing.T, c *castRow) demi.Choice {
	t.Helper()
	from := tensor.FromName(c.from)
	m := new(mem)
	name := "m.weight"
	switch c.tensor {
	case "plain":
		m.zeros(name, from, 4, 4)
	case "norm":
		name = "m.q_norm.weight"
		m.zeros(name, from, 4)
	default:
		name = "a.weight_scale"
		m.zeros(name, from, 4, 4).zeros("a.weight", tensor.U8, 4, 4)
	}
	if c.mixed == "yes" {
		m.zeros("x.weight", tensor.F32, 4, 4).zeros("y.weight", tensor.BF16, 4, 4)
	}
	o := demi.Options{Target: demi.Target(c.target), Format: demi.Format(c.container), ContainerOnly: true, Pure: c.pure == "yes", Preset: c.preset}
	if c.rule != "none" {
		o.Rules = rules(t, ".="+c.rule)
	}
	p, err := demi.NewPlan(m.checkpoint(), o)
	require.NoError(t, err)
	for _, x := range p.Tensors {
		if x.In.Name == name {
			return x
		}
	}
	t.Fatal("the tensor is not in the plan")
	return demi.Choice{}
}

// TestCastTable goes through every combination of what decides the type of a
// tensor, and every row must decide some of them.
func TestCastTable(t *testing.T) {
	used := make([]int, len(castRows))
	castCases(func(c castRow) {
		row := 0
		for !castRows[row].applies(&c) {
			row++
		}
		used[row]++
		want := castRows[row]
		to := want.to
		switch to {
		case "=":
			to = c.from
		case "target":
			to = strings.ToUpper(c.target)
		}
		got := planCase(t, &c)
		what := fmt.Sprintf("%+v", c)
		require.Equal(t, to, got.Out.DType.String(), what)
		require.Equal(t, strings.Replace(want.reason, "PRESET", c.preset, 1), got.Reason, what)
		require.Equal(t, (want.reason == "exact" || want.reason == "auto") && (c.from == "F32" || c.from == "F64"), got.Undecided, what)
	})
	for i, n := range used {
		require.NotZero(t, n, "row %d never decides: %+v", i, castRows[i])
	}
}
