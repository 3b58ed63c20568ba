package main

import (
	"context"
	"math"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/codec"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A study is an architecture with what is measured of it.
type study struct {
	name   string
	about  string
	all    []weight // for sizes
	sample []weight // for errors; nil: all
	what   string   // what the sample is
}

func studies() []study {
	depth := make([]int, 96)
	for i := range depth {
		depth[i] = i
	}
	return []study{
		{name: "BERT-base", about: "bert-base-uncased, as in its model.safetensors", all: bert()},
		{name: "ResNet-50", about: "torchvision's resnet50, with the statistics of BatchNorm", all: resnet50()},
		{name: "GPT-3", about: "175B: 96 layers, 12288 wide, vocabulary 50257, context 2048; names and layouts of GPT-2", all: gpt3(depth, math.MaxInt64),
			sample: gpt3([]int{0, 95}, 64), what: "the first 64 rows of each matrix of the embeddings and of layers 0 and 95, and all their vectors"},
	}
}

// measured returns the tensors whose values are read.
func (s *study) measured() []weight {
	if s.sample != nil {
		return s.sample
	}
	return s.all
}

// checkpoint returns the tensors as the library knows them.
func checkpoint(weights []weight) (*demi.Checkpoint, *source) {
	src := newSource(weights)
	return demi.FromSource(src, demi.Safetensors), src
}

// A size is a line of the table of sizes.
type size struct {
	class                  string
	tensors                int
	parameters, fp32, half int64
}

// sizes adds up by class what a plan says, which takes no values; the last one
// is the sum. read is how many bytes of values were read for it.
func sizes(weights []weight) (list []size, read int64, err error) {
	c, src := checkpoint(weights)
	defer c.Close()
	plan, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16)})
	if err != nil {
		return nil, 0, err
	}
	class := map[string]string{}
	row := map[string]int{}
	for i := range weights {
		class[weights[i].name] = weights[i].class
		if _, ok := row[weights[i].class]; !ok {
			row[weights[i].class] = len(list)
			list = append(list, size{class: weights[i].class})
		}
	}
	all := size{class: "**all**"}
	for i := range plan.Tensors {
		t := &plan.Tensors[i]
		one := size{"", 1, t.In.Elements(), t.In.Size, t.Out.Size}
		list[row[class[t.In.Name]]].add(one)
		all.add(one)
	}
	return append(list, all), src.read.Load(), nil
}

func (s *size) add(t size) {
	s.tensors += t.tensors
	s.parameters += t.parameters
	s.fp32 += t.fp32
	s.half += t.half
}

// advise measures F16, BF16 and auto with a rounding, in one read of all values.
func advise(weights []weight, r kernels.Rounding) (*demi.Advice, error) {
	c, _ := checkpoint(weights)
	defer c.Close()
	return demi.Advise(context.Background(), c, demi.Options{Rounding: r}, nil)
}

// A classCost is what the types cost the tensors of a class.
type classCost struct {
	class     string
	f16, bf16 *verify.Summary
	to        map[tensor.DType]int // by auto
}

// byClass adds up an advice by class.
func byClass(weights []weight, a *demi.Advice) (list []classCost) {
	advice := map[string]*demi.TensorAdvice{}
	for i := range a.Tensors {
		advice[a.Tensors[i].Name] = &a.Tensors[i]
	}
	seen := map[string]bool{}
	for i := range weights {
		if class := weights[i].class; !seen[class] && class != counters {
			seen[class] = true
			list = append(list, costOf(class, weights, advice))
		}
	}
	return list
}

func costOf(class string, weights []weight, advice map[string]*demi.TensorAdvice) classCost {
	cost := classCost{class: class, to: map[tensor.DType]int{}}
	var f16, bf16 []tensor.Record
	for i := range weights {
		if weights[i].class == class {
			t := advice[weights[i].name]
			f16 = append(f16, tensor.Record{Stats: &t.Trial(tensor.F16).Stats})
			bf16 = append(bf16, tensor.Record{Stats: &t.Trial(tensor.BF16).Stats})
			cost.to[t.To]++
		}
	}
	cost.f16, cost.bf16 = verify.Summarize(f16), verify.Summarize(bf16)
	return cost
}

// A discard counts what is written to it.
type discard int64

func (d *discard) Write(p []byte) (int, error) {
	*d += discard(len(p))
	return len(p), nil
}

// stored returns the bytes of all tensors after a conversion, and those of the
// store that it makes, which goes nowhere.
func stored(weights []weight, target demi.Target, level codec.Level) (tensors, file int64, err error) {
	c, _ := checkpoint(weights)
	defer c.Close()
	ctx := context.Background()
	plan, err := demi.NewPlan(c, demi.Options{Target: target, Format: demi.Demi})
	if err != nil {
		return 0, 0, err
	}
	if err := plan.Decide(ctx, c, nil); err != nil {
		return 0, 0, err
	}
	var n discard
	_, err = demi.Convert(ctx, c, demi.NewWriter(&n, plan, c, &demi.CreateOptions{Level: level}), plan, nil)
	_, tensors = plan.Bytes()
	return tensors, int64(n), err
}
