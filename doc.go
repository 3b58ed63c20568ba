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
// # Loading
//
// Loaders use Open or OpenFS, Checkpoint and Tensor alone, and need not know
// what a checkpoint is stored in. ReadAll fills memory of the caller's, such as
// the parameters of a model or buffers that a device can read, with parallel
// reads in large pieces:
//
//	c, err := demi.Open("model", nil) // a file, any shard, an index, a directory
//	...
//	defer c.Close()
//	err = c.ReadAll(ctx, func(in tensor.Info) []byte {
//		return params[in.Name] // of in.Size bytes; nil: it is not wanted
//	}, demi.ReadOptions{})
//
// A Tensor is read in part with ReadAt, ReadRows and, as float32, Float32s. Of
// a store each of these costs the blocks that it touches. Where the files were
// opened with OpenOptions.Map, Bytes has a tensor without a copy, if it is
// stored as it is; ok tells, and a loader that is told no reads. Block has the
// type as ggml numbers it, with the geometry of its blocks.
//
// A Checkpoint may be used by any number of goroutines, and closed while they
// read: they get an error that wraps fs.ErrClosed, or the right bytes. Slices
// of Bytes live until they are released.
package demi
