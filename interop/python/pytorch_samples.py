"""Writes the checkpoints of testdata/pytorch with PyTorch's own torch.save, and what is in them by NumPy alone.

    python pytorch_samples.py ../../testdata/pytorch/torch-1.13

Each directory is named after the release of PyTorch that wrote it. Every value begins as a NumPy array; expect.json has the name,
type, shape and row-major bytes (hexadecimal, little-endian) of each tensor as NumPy slices and copies them, so that a fault in how
PyTorch stores a view and one in how it is read cannot hide each other. Tensors of types that NumPy lacks are made of integers of the
same width. The same release writes the same bytes again, but for the numbers of objects in some files that are refused.
"""
import argparse
import collections
import json
import os
import pathlib
import types
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")

NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
         "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64"}
NARROW = {"BF16": torch.bfloat16}
for ours, theirs in (("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2"), ("F8_E4M3FNUZ", "float8_e4m3fnuz"), ("F8_E5M2FNUZ", "float8_e5m2fnuz")):
    if hasattr(torch, theirs):
        NARROW[ours] = getattr(torch, theirs)
MODERN = hasattr(torch, "uint16")


class Writer:
    def __init__(self, directory):
        self.dir = pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.files = []

    def save(self, name, value, tensors, meta=None, aliases=None, **options):
        """tensors has for each name an array, or an array of integers with the name of the type that it stands for."""
        torch.save(value, self.dir / name, **options)
        entries = []
        for key, array in tensors.items():
            array, dtype = array if isinstance(array, tuple) else (array, None)
            entries.append({"name": key, "dtype": dtype or NAMES[str(array.dtype)], "shape": list(array.shape), "hex": array.tobytes("C").hex()})
        self.files.append({"file": name, "tensors": entries, "meta": meta or [], "aliases": aliases or {}})

    def refuse(self, name, value, says, **options):
        torch.save(value, self.dir / name, **options)
        self.files.append({"file": name, "refused": says})

    def finish(self):
        with open(self.dir / "expect.json", "w") as f:
            f.write('{"torch": "%s", "files": [\n' % torch.__version__.split("+")[0])
            f.write(",\n".join(json.dumps(x) for x in self.files))
            f.write("\n]}\n")


def tensor(array):
    return torch.from_numpy(np.array(array))  # a copy: a storage of its own


def narrow(array, dtype):
    return torch.from_numpy(np.array(array)).view(NARROW[dtype])


def floats(*shape, dtype=np.float32, seed=1):
    return np.random.RandomState(seed).standard_normal(shape).astype(dtype)


def integers(*shape, dtype, seed=2):
    info = np.iinfo(dtype)
    return np.random.RandomState(seed).randint(info.min, info.max, shape, dtype=dtype)


def plain(w):
    """A state dictionary as a module makes it, with an element type each."""
    arrays = {"linear.weight": floats(5, 7), "linear.bias": floats(5, seed=3)}
    linear = torch.nn.Sequential(collections.OrderedDict(linear=torch.nn.Linear(7, 5)))
    linear.load_state_dict({k: tensor(v) for k, v in arrays.items()})
    state = linear.state_dict()
    more = {
        "f64": floats(3, dtype=np.float64), "f16": floats(3, 3, dtype=np.float16), "i64": integers(4, dtype=np.int64), "i32": integers(4, dtype=np.int32),
        "i16": integers(5, dtype=np.int16), "i8": integers(6, dtype=np.int8), "u8": integers(7, dtype=np.uint8), "bool": integers(9, dtype=np.uint8) > 99,
        "c64": (floats(2, 2) + 1j * floats(2, 2, seed=4)).astype(np.complex64), "scalar": np.array(2.5, np.float32),
        "empty": np.zeros((0, 3), np.float32), "special": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32),
    }
    state.update({k: tensor(v) for k, v in more.items()})
    bits = (floats(4, 4).view(np.uint32) >> 16).astype(np.uint16).view(np.int16)
    state["bf16"] = narrow(bits, "BF16")
    expected = {**arrays, **more, "bf16": (bits, "BF16")}
    for protocol in (2, 3, 4, 5):
        w.save(f"plain{protocol}.bin", state, expected, pickle_protocol=protocol)


def views(w):
    """Tensors whose memory is not row-major, all of one storage but for some."""
    a = np.arange(120, dtype=np.float32).reshape(4, 5, 6) + 0.5
    t = tensor(a)
    strided = np.lib.stride_tricks.as_strided(a, (10, 7), (8, 4))
    b = integers(9, 11, dtype=np.int16)
    h = tensor(b)
    c8, h8 = integers(13, 3, dtype=np.int8), None
    h8 = tensor(c8)
    z = (floats(3, 4) + 1j * floats(3, 4, seed=4)).astype(np.complex64)
    zt = tensor(z)
    value = collections.OrderedDict([
        ("base", t), ("transposed", t.transpose(0, 2)), ("permuted", t.permute(1, 2, 0)), ("swapped", t.transpose(1, 2)), ("step", t[:, ::2, 1::3]),
        ("row", t[2]), ("tail", t[1:, 3:]), ("element", t[3, 2, 1]), ("column", t[:, 4, 5]), ("wide", t[1, 1, 1].expand(3, 2)),
        ("repeated", t[0, :, :1].expand(5, 4)), ("overlapping", t.as_strided((10, 7), (2, 1))), ("diagonal", t[0].diagonal()), ("none", t[4:]),
        ("one", t[:1].transpose(0, 1)), ("bf16", h.view(torch.bfloat16).t()), ("i8", h8[::3].t()), ("c64", zt.t()), ("bool", (h8 > 0)[:, 1:]),
    ])
    w.save("views.pt", value, {
        "base": a, "transposed": a.transpose(2, 1, 0), "permuted": a.transpose(1, 2, 0), "swapped": a.transpose(0, 2, 1), "step": a[:, ::2, 1::3],
        "row": a[2], "tail": a[1:, 3:], "element": a[3, 2, 1], "column": a[:, 4, 5], "wide": np.full((3, 2), a[1, 1, 1]),
        "repeated": np.broadcast_to(a[0, :, :1], (5, 4)), "overlapping": strided, "diagonal": np.diagonal(a[0]), "none": a[4:],
        "one": a[:1].transpose(1, 0, 2), "bf16": (b.T, "BF16"), "i8": c8[::3].T, "c64": z.T, "bool": (c8 > 0)[:, 1:],
    })


def tied(w):
    a, b = floats(6, 4), floats(4)
    t = tensor(a)
    p = torch.nn.Parameter(tensor(b))
    p.note = "an attribute"
    value = {"embed.weight": t, "norm": p, "lm_head.weight": t, "again": t.view(6, 4), "flat": t.view(24), "upper": t[:3], "norm2": p}
    w.save("tied.bin", value, {"embed.weight": a, "norm": b, "lm_head.weight": a, "again": a, "flat": a.reshape(24), "upper": a[:3], "norm2": b},
           aliases={"lm_head.weight": "embed.weight", "again": "embed.weight", "norm2": "norm"})


def nested(w):
    a, b, c = floats(2, 3), floats(3, seed=5), integers(2, dtype=np.int64)
    value = {
        "model": {"layers": [{"w": tensor(a)}, {"w": tensor(b), 7: tensor(c)}], "pair": (tensor(c), None)},
        "epoch": 3, "lr": 1e-4, "done": True, "name": "d\u00e9j\u00e0 vu", "none": None, "huge": 2**70, "negative": -2**63, "small": -5,
        "list": [1, 2.5, "x", None, False], "empty": [], "size": torch.Size([2, 3]), "dtype": torch.float16, "device": torch.device("cpu"),
        "numpy": [np.float64(0.25), np.int64(-7), np.bool_(True), np.float32(1.5)], "bytes": b"\x00\xff", "set": {4},
        "default": collections.defaultdict(list, x=1), "args": argparse.Namespace(depth=12, arch="vit"), "simple": types.SimpleNamespace(k=2),
        "ordered": collections.OrderedDict([("z", 1), ("a", 2)]), "many": list(range(1100)), "inf": float("inf"),
    }
    meta = [["epoch", "3"], ["lr", "0.0001"], ["done", "true"], ["name", "d\u00e9j\u00e0 vu"], ["huge", str(2**70)], ["negative", str(-2**63)], ["small", "-5"],
            ["list", '[1,2.5,"x",null,false]'], ["empty", "[]"], ["size", "[2,3]"], ["dtype", "torch.float16"], ["device", "cpu"],
            ["numpy", "[0.25,-7,true,1.5]"], ["set", "[4]"], ["default.x", "1"], ["args.depth", "12"], ["args.arch", "vit"], ["simple.k", "2"],
            ["ordered.z", "1"], ["ordered.a", "2"], ["inf", "+Inf"]]
    tensors = {"model.layers.0.w": a, "model.layers.1.w": b, "model.layers.1.7": c, "model.pair.0": c}
    w.save("nested.pt", value, tensors, meta)
    w.save("nested4.pt", value, tensors, meta, pickle_protocol=4)


def lightning(w):
    a, b, m, v = floats(4, 3), floats(4, seed=6), floats(4, 3, seed=7), floats(4, 3, seed=8)
    step = np.array(10, np.float32)
    rng = integers(16, dtype=np.uint8)
    value = {
        "epoch": 1, "global_step": 10, "pytorch-lightning_version": "1.9.5",
        "state_dict": collections.OrderedDict([("model.x", tensor(a)), ("model.y", tensor(b)), ("model_ema.x", tensor(a))]),
        "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 2}}}},
        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": tensor(step), "best_model_path": "x.ckpt"}},
        "optimizer_states": [{"state": {0: {"step": tensor(step), "exp_avg": tensor(m), "exp_avg_sq": tensor(v)}}, "param_groups": [{"lr": 0.01, "params": [0, 1]}]}],
        "lr_schedulers": [], "hyper_parameters": {"width": 3}, "rng_state": tensor(rng),
    }
    w.save("lightning.ckpt", value, {
        "state_dict.model.x": a, "state_dict.model.y": b, "state_dict.model_ema.x": a, "callbacks.ModelCheckpoint{'monitor': None}.best_model_score": step,
        "optimizer_states.0.state.0.step": step, "optimizer_states.0.state.0.exp_avg": m, "optimizer_states.0.state.0.exp_avg_sq": v, "rng_state": rng,
    }, [["epoch", "1"], ["global_step", "10"], ["pytorch-lightning_version", "1.9.5"], ["loops.fit_loop.epoch_progress.total.ready", "2"],
        ["callbacks.ModelCheckpoint{'monitor': None}.best_model_path", "x.ckpt"], ["optimizer_states.0.param_groups.0.lr", "0.01"],
        ["optimizer_states.0.param_groups.0.params", "[0,1]"], ["lr_schedulers", "[]"], ["hyper_parameters.width", "3"]])


def sharded(w):
    arrays = {f"layers.{i}.w": floats(3, 2, seed=i) for i in range(40)}
    names = list(arrays)
    weight_map = {}
    for no, part in enumerate((names[:25], names[25:]), 1):
        file = f"set/pytorch_model-{no:05d}-of-00002.bin"
        (w.dir / "set").mkdir(exist_ok=True)
        w.save(file, {k: tensor(arrays[k]) for k in part}, {k: arrays[k] for k in part})
        weight_map.update({k: pathlib.Path(file).name for k in part})
    index = {"metadata": {"total_size": sum(a.nbytes for a in arrays.values())}, "weight_map": weight_map}
    (w.dir / "set" / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2) + "\n")


def lone(w):
    a = floats(2, 2)
    w.save("tensor.pt", tensor(a), {"tensor": a})
    w.save("list.pt", [tensor(a), 5], {"0": a}, [["1", "5"]])


def modern(w):
    """Types without a class of storages: storages are untyped, and the tensor has a dtype."""
    bits = integers(3, 5, dtype=np.uint8)
    value, expected = {}, {}
    for ours in sorted(NARROW):
        if ours != "BF16":
            value[ours], expected[ours] = narrow(bits, ours), (bits, ours)
            value[ours + ".t"], expected[ours + ".t"] = value[ours].t(), (bits.T, ours)
    for dtype in (np.uint16, np.uint32, np.uint64):
        a = integers(4, 3, dtype=dtype)
        name = NAMES[np.dtype(dtype).name]
        t = tensor(a)
        value[name], expected[name] = t[1:], a[1:]
    w.save("modern.pt", value, expected)


class Evil:
    def __reduce__(self):
        return os.system, ("echo this was run",)


def refused(w):
    a = tensor(floats(2, 2))
    w.refuse("legacy.pt", {"w": a}, "before PyTorch 1.6", _use_new_zipfile_serialization=False)
    w.refuse("sparse.pt", {"w": a, "s": a.to_sparse()}, 'tensor "s": byte .*: a sparse tensor')
    if "qnnpack" in torch.backends.quantized.supported_engines or "fbgemm" in torch.backends.quantized.supported_engines:
        w.refuse("quantized.pt", {"q": torch.quantize_per_tensor(a, 0.1, 0, torch.qint8)}, 'tensor "q": byte .*: a quantized tensor')
    w.refuse("meta.pt", {"m": torch.empty(3, device="meta")}, 'tensor "m": byte .*: a tensor of the meta device')
    w.refuse("c128.pt", {"c": torch.zeros(2, dtype=torch.complex128)}, 'tensor "c": byte .*: element type torch.complex128')
    w.refuse("conj.pt", {"c": torch.zeros(2, dtype=torch.complex64).conj()}, 'tensor "c": byte .*conj') if MODERN else None
    w.refuse("storage.pt", {"w": a, "s": a.storage()}, "a storage without a tensor")
    w.refuse("module.pt", torch.nn.Linear(2, 2), r'global "torch.nn.modules.linear.Linear" is not among')
    w.refuse("evil.pt", {"w": a, "x": Evil()}, r'global "posix.system" is not among .*nothing was imported or called')
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), str(w.dir / "script.pt"))
    w.files.append({"file": "script.pt", "refused": "a TorchScript archive"})


def main():
    directory = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    directory.add_argument("dir")
    w = Writer(directory.parse_args().dir)
    for write in (plain, views, tied, nested, lightning, sharded, lone, refused):
        write(w)
    if MODERN:
        modern(w)
    w.finish()


if __name__ == "__main__":
    main()
