// Package demi makes model weights half their size and says what it cost. It
// reads checkpoints (safetensors and GGUF, single files and sets), converts
// their floating-point tensors to FP16, BF16, FP32 or FP64 with a chosen
// rounding, writes them again, and reports the error of every tensor against
// the original.
//
// The work has two phases. NewPlan fixes what becomes of each tensor and why,
// before anything is written; a plan can be looked at, printed, or changed by
// rules. Convert then carries it out, tile by tile: a byte is read once, meets
// all the work while it is in cache, and is written once. Output and figures
// depend neither on the number of workers nor on the processor.
//
//	c, err := demi.Open("model.safetensors", nil)
//	...
//	defer c.Close()
//	plan, err := demi.NewPlan(c, demi.Options{Target: demi.To(tensor.BF16)})
//	...
//	sink, err := demi.Create("model-bf16.safetensors", plan, c, nil)
//	...
//	records, err := demi.Convert(ctx, c, sink, plan, nil)
//
// Loaders use Open, Checkpoint and Tensor alone.
package demi
