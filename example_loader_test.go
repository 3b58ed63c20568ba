package demi_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/pytorch"
	"github.com/demi-weights/demi/tensor"
)

// docs/library.md shows the code of this file; TestGuideShowsExamples compares
// them.

// load reads every tensor as float32, whatever the checkpoint is stored in.
func load(path string) (map[string][]float32, error) {
	c, err := demi.Open(path, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	weights := make(map[string][]float32, c.Len())
	for t := range c.Tensors() {
		x := make([]float32, t.Info().Elements())
		if err := t.Float32s(x, 0); err != nil {
			return nil, err
		}
		weights[t.Info().Name] = x
	}
	return weights, nil
}

// The same lines load a file of safetensors, a set of shards, a GGUF file and a
// compressed store.
func ExampleOpen_formats() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := filepath.Join(dir, "model.demi")
	if err := convertWithPlan("testdata/charlm/model.safetensors", store, demi.Options{Target: demi.Keep, Format: demi.Demi}); err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"testdata/charlm/model.safetensors", "testdata/charlm/sharded", "testdata/charlm/model.gguf", store} {
		weights, err := load(path)
		if err != nil {
			log.Fatal(err)
		}
		var largest float32
		for _, x := range weights {
			for _, v := range x {
				largest = max(largest, v)
			}
		}
		fmt.Println(filepath.Base(path), len(weights), largest)
	}
	// Output:
	// model.safetensors 30 1.4240168
	// sharded 30 1.4240168
	// model.gguf 30 1.4240168
	// model.demi 30 1.4240168
}

// Behind a URL only the headers are read, and then the ranges that are asked
// for.
func ExampleOpenURL() {
	server := httptest.NewServer(http.FileServer(http.Dir("testdata/charlm")))
	defer server.Close()

	ctx := context.Background() // when it ends, all reads fail
	c, err := demi.OpenURL(ctx, server.URL+"/model.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	norm, ok := c.Tensor("model.norm.weight")
	if !ok {
		log.Fatal("no such tensor")
	}
	first := make([]float32, 2)
	if err := norm.Float32s(first, 0); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f\n", first)
	// Output:
	// [1.3780 1.1749]
}

// A Checkpoint can be made of any tensor.Source, such as a file of PyTorch, of
// which nothing is run.
func ExampleFromSource() {
	src, err := pytorch.OpenSet("testdata/pytorch/torch-2.6/lightning.ckpt", nil)
	if err != nil {
		log.Fatal(err)
	}
	c := demi.FromSource(src, demi.Safetensors)
	defer c.Close() // closes src
	for t := range c.Tensors() {
		fmt.Println(t.Info().Name, t.Info().DType, t.Info().Shape)
	}
	// Output:
	// state_dict.model.x F32 [4 3]
	// state_dict.model.y F32 [4]
	// state_dict.model_ema.x F32 [4 3]
	// callbacks.ModelCheckpoint{'monitor': None}.best_model_score F32 []
	// optimizer_states.0.state.0.step F32 []
	// optimizer_states.0.state.0.exp_avg F32 [4 3]
	// optimizer_states.0.state.0.exp_avg_sq F32 [4 3]
	// rng_state U8 [16]
}

// Mapped, a tensor is a slice of the file. What cannot be had like that, such as
// a compressed tensor, is read.
func ExampleTensor_Bytes() {
	c, err := demi.Open("testdata/charlm/model.safetensors", &demi.OpenOptions{Map: true})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	norm, _ := c.Tensor("model.norm.weight")
	p, release, ok := norm.Bytes()
	if !ok {
		p, release = make([]byte, norm.Info().Size), func() {}
		if _, err := norm.ReadAt(p, 0); err != nil && err != io.EOF {
			log.Fatal(err)
		}
	}
	fmt.Printf("%.4f\n", math.Float32frombits(binary.LittleEndian.Uint32(p)))
	release() // p is not to be touched any more
	// Output:
	// 1.3780
}

// convertWithPlan makes dst of src. What becomes of each tensor is fixed before
// dst exists.
func convertWithPlan(src, dst string, o demi.Options) error {
	ctx := context.Background()
	c, err := demi.Open(src, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	plan, err := demi.NewPlan(c, o)
	if err != nil {
		return err
	}
	if err := plan.Decide(ctx, c, nil); err != nil {
		return err
	}
	sink, err := demi.Create(dst, plan, c, nil)
	if err != nil {
		return err
	}
	_, err = demi.Convert(ctx, c, sink, plan, nil)
	return err
}

// A plan can be looked at before anything is written.
func ExampleNewPlan() {
	c, err := demi.Open("testdata/charlm/model.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	keep, err := demi.ParseRule("norm=keep")
	if err != nil {
		log.Fatal(err)
	}
	plan, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.F16), Rules: []demi.Rule{keep}})
	if err != nil {
		log.Fatal(err)
	}
	for i := range plan.Tensors[:3] {
		t := &plan.Tensors[i]
		fmt.Println(t.In.Name, t.In.DType, t.Out.DType, t.Reason)
	}
	in, out := plan.Bytes()
	fmt.Println(in, "to", out, "bytes")
	// Output:
	// model.layers.0.input_layernorm.weight F32 F32 rule norm=keep
	// model.layers.0.post_attention_layernorm.weight F32 F32 rule norm=keep
	// model.layers.1.input_layernorm.weight F32 F32 rule norm=keep
	// 2045440 to 1024512 bytes
}

// Scan says what the values are: here, whether any is not finite, and what the
// smallest type is that holds all of a tensor.
func ExampleScan() {
	c, err := demi.Open("testdata/charlm/model.safetensors", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	rows, err := demi.Scan(context.Background(), c, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range rows {
		if v := r.Values; v != nil && r.Name == "model.norm.weight" {
			fmt.Printf("%s: %d values, %d NaN, %d Inf, %.4f to %.4f, held by %s\n", r.Name, v.Count, v.NaN, v.Inf, *v.Min, *v.Max, v.Effective)
		}
	}
	// Output:
	// model.norm.weight: 128 values, 0 NaN, 0 Inf, 1.1299 to 1.4240, held by F32
}

// Errors have a class, for errors.Is, and those about a file a place.
func ExampleOpen_errors() {
	_, err := demi.Open("testdata/safetensors/bad_overlap.safetensors", nil)
	switch {
	case errors.Is(err, tensor.ErrTruncated):
		fmt.Println("fetch it again")
	case errors.Is(err, tensor.ErrFormat):
		fmt.Println("it breaks a rule of its format")
	case errors.Is(err, tensor.ErrUnsupported), errors.Is(err, tensor.ErrLimit):
		fmt.Println("well-formed, but not for this program")
	case err != nil:
		fmt.Println("of the operating system, such as fs.ErrNotExist")
	}
	var place *tensor.FileError
	if errors.As(err, &place) {
		fmt.Println(filepath.Base(place.File), place.Tensor)
	}
	// Output:
	// it breaks a rule of its format
	// bad_overlap.safetensors b
}
