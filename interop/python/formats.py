"""Reads, with the packages safetensors, gguf and (if it is installed) PyTorch, the files that interop/go/writefiles wrote, and
compares names, types, shapes and every byte with its list, and the bytes of the checkpoint with those that the reference wrote.

    cd interop/go && go run ./writefiles DIR
    python ../python/formats.py --files DIR --charlm ../../testdata/charlm

Prints one line per check; the exit status is 1 if any of them failed.
"""
import argparse
import hashlib
import json
import pathlib
import sys
import traceback

import gguf
import numpy as np
import safetensors

try:
    import torch
    import safetensors.torch
except ImportError:
    torch = None


class Difference(Exception):
    """What a check found wrong."""


def digest(data):
    return hashlib.sha256(data).hexdigest()


def expect(want, got, what):
    if want != got:
        raise Difference(f"{what}: want {want}, got {got}")


def compare(entry, got):
    """Compares what a reader found (name: dtype, shape, bytes) with the list's entry."""
    want = {t["name"]: (t["dtype"], t["shape"], t["bytes"], t["sha256"]) for t in entry["tensors"]}
    found = {name: (dtype, list(shape), len(data), digest(data)) for name, (dtype, shape, data) in got.items()}
    expect(sorted(want), sorted(found), "names")
    for name, tensor in want.items():
        expect(tensor, found[name], name)


def parts(path, suffix):
    """The files of a set, or the one file."""
    if path.is_dir():
        return sorted(path.glob("*" + suffix))
    if "-of-" in path.name:
        return sorted(path.parent.glob("*" + suffix))
    return [path]


def check_safetensors(entry, path):
    """The package's own parser, on whole files."""
    got = {}
    for part in parts(path, ".safetensors"):
        raw = part.read_bytes()
        expect(0, (8 + int.from_bytes(raw[:8], "little")) % entry["align"], f"start of the data of {part.name}")
        for name, t in safetensors.deserialize(raw):
            got[name] = (t["dtype"], t["shape"], bytes(t["data"]))
    compare(entry, got)


def check_reference_bytes(_, path):
    """A canonical file is what the package itself writes for the same tensors."""
    raw = path.read_bytes()
    specs, alive = {}, []
    for name, t in safetensors.deserialize(raw):
        data = np.frombuffer(bytes(t["data"]), np.uint8)
        alive.append(data)
        shape = list(t["shape"])
        if t["dtype"] == "F4":  # the package doubles the last dimension of this type by itself
            shape[-1] //= 2
        specs[name] = safetensors.TensorSpec(dtype=SPELLING[t["dtype"]], shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
    expect(digest(safetensors.serialize(specs, {"format": "pt"})), digest(raw), "bytes")


# The types that the package writes; it reads F6_E2M3 and F6_E3M2 as well.
SPELLING = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32", "U64": "uint64",
            "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
            "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
            "F8_E5M2FNUZ": "float8_e5m2fnuz", "F4": "float4_e2m1fn_x2"}


def check_index(_, path):
    """The index names every tensor of every shard, and the bytes of all."""
    index = json.loads((path / "model.safetensors.index.json").read_text())
    total, names = 0, {}
    for part in parts(path, ".safetensors"):
        with safetensors.safe_open(part, framework="numpy") as f:
            expect("pt", f.metadata()["format"], "format")
            for name in f.keys():
                names[name] = part.name
                total += f.get_tensor(name).nbytes
    expect(names, index["weight_map"], "weight_map")
    expect(total, index["metadata"]["total_size"], "total_size")


def check_torch(entry, path):
    """PyTorch's tensors have the bits of the list; types that this torch lacks are left out."""
    want = {t["name"]: t for t in entry["tensors"]}
    seen = 0
    for part in parts(path, ".safetensors"):
        with safetensors.safe_open(part, framework="pt") as f:
            for name in f.keys():
                if want[name]["dtype"] not in TORCH:
                    continue
                tensor = f.get_tensor(name)
                seen += 1
                expect(want[name]["shape"], list(tensor.shape), name)
                expect(TORCH[want[name]["dtype"]], tensor.dtype, name)
                expect(want[name]["sha256"], digest(torch_bytes(tensor)), name)
    return f"{seen} of {len(want)} tensors"


def torch_bytes(tensor):
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.int16)
    return tensor.contiguous().numpy().tobytes()


TORCH = {} if torch is None else {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
                                  "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


def check_gguf(entry, path):
    """gguf-py's reader, shard by shard."""
    got = {}
    for part in parts(path, ".gguf"):
        reader = gguf.GGUFReader(part)
        expect(entry["align"], reader.alignment, "alignment")
        for t in reader.tensors:
            expect(0, t.data_offset % entry["align"], f"offset of {t.name}")
            data = part.read_bytes()[t.data_offset:t.data_offset + int(t.n_bytes)]
            got[t.name] = (t.tensor_type.name, [int(n) for n in reversed(t.shape)], data)
            expect(digest(data), digest(np.ascontiguousarray(t.data).tobytes()), t.name)
    compare(entry, got)


def check_keys(_, path, charlm):
    """Keys and values are those of the file that gguf-py wrote, but for what says how this file is laid out."""
    layout = {"general.alignment", "split.no", "split.count", "split.tensors.count"}

    def keys(name):
        fields = gguf.GGUFReader(name).fields
        return [(k, [t.name for t in f.types], repr(f.contents())) for k, f in fields.items() if k not in layout and not k.startswith("GGUF.")]

    expect(keys(charlm / "model.gguf"), keys(path), "keys")


def check_origin(entry, charlm):
    """The list itself: the checkpoint's bytes as the reference reads them from the file that it wrote."""
    read = dict(safetensors.deserialize((charlm / "model.safetensors").read_bytes()))
    compare(entry, {name: (t["dtype"], t["shape"], bytes(t["data"])) for name, t in read.items()})


def checks(entry, path, charlm):
    """The names and functions of all checks of one file."""
    if entry["format"] == "gguf":
        yield "gguf", lambda: check_gguf(entry, path)
        if not path.name.startswith(("types", "from")):
            yield "keys", lambda: check_keys(entry, path, charlm)
        return
    yield "safetensors", lambda: check_safetensors(entry, path)
    if "canonical" in path.name:
        yield "bytes of the reference", lambda: check_reference_bytes(entry, path)
    if path.is_dir():
        yield "index", lambda: check_index(entry, path)
    if not path.name.startswith("types"):
        yield "origin", lambda: check_origin(entry, charlm)
    if torch is not None:
        yield "torch", lambda: check_torch(entry, path)


def run(name, check):
    """Runs one check; returns whether it passed."""
    try:
        note = check()
    except Exception as err:  # a reader may raise anything for a file that it does not take
        print(f"FAIL {name}: {err}")
        if not isinstance(err, Difference):
            traceback.print_exc()
        return False
    print(f"ok   {name}" + (f" ({note})" if note else ""))
    return True


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--files", type=pathlib.Path, required=True)
    args.add_argument("--charlm", type=pathlib.Path, required=True)
    args = args.parse_args()
    print(f"safetensors {safetensors.__version__}, gguf, numpy {np.__version__}, torch {torch.__version__ if torch else 'is not installed: its checks are left out'}")
    passed = [run(f"{entry['path']}: {name}", check)
              for entry in json.loads((args.files / "manifest.json").read_text())
              for name, check in checks(entry, args.files / entry["path"], args.charlm)]
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    sys.exit(0 if passed and all(passed) else 1)


if __name__ == "__main__":
    main()
