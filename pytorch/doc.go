// Package pytorch reads the checkpoints that torch.save writes: the zip
// archives of PyTorch 1.6 and later (pytorch_model.bin, .pt, .pth, .ckpt), and
// sharded sets of them with an index.
//
// Nothing in a file is executed. The pickle in it is run by a small machine of
// this package that knows the opcodes of protocols 2 to 5 which picklers write,
// and a fixed list of names: functions that rebuild tensors, storages, dtypes,
// the containers of Python's library, numbers of NumPy. Every other name is an
// error, which tells the name and where it is; it is not looked up, imported or
// called. What a pickle takes, in memory and in work, is bounded by its length.
//
// Tensors are named by the keys and indexes on the way to them, joined with
// dots: "state_dict.model.weight", "optimizer_states.0.state.3.exp_avg". See
// ClassOf for what they are for. A checkpoint that is a tensor and nothing else
// has the name "tensor". Plain values on the way are the metadata.
//
// Storages are read by ranges, where they are. Tensors that share one, or that
// are views with other strides, are given as the row-major tensors that they
// stand for; Aliases tells which ones are the same.
//
// Refused are: the layouts of before PyTorch 1.6, TorchScript archives,
// big-endian files, sparse, quantized, nested and meta tensors, compressed
// entries, and all that lets two readers see two different files: entries that
// overlap, come twice or have two sizes, keys that come twice, views beyond
// their storage.
package pytorch
