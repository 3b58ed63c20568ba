"""Compares what demi writes, bit for bit, with what NumPy, ml_dtypes and (if it is installed) PyTorch make of the same
checkpoint, read by the real safetensors and gguf packages.

    python check.py --demi PATH_TO_DEMI --data testdata/charlm [--weights DIR_WITH_MORE_SAFETENSORS]

Prints one line per check; the exit status is 1 if any of them failed, 2 if there was nothing to check.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import traceback

import gguf
import ml_dtypes
import numpy as np
import safetensors

try:
    import torch
    import safetensors.torch
except ImportError:
    torch = None

BF16 = np.dtype(ml_dtypes.bfloat16)
SIXTEEN = {"F16": np.dtype("<f2"), "BF16": BF16}
# Every conversion that is checked: the flags for demi, the target type, the rounding.
CASTS = [(["--dtype", "bf16"], "BF16", "nearest"), (["--dtype", "f16"], "F16", "nearest"),
         (["--dtype", "bf16", "--round", "zero"], "BF16", "zero"), (["--dtype", "f16", "--round", "zero"], "F16", "zero")]
# Under this many elements, an F32 tensor of a source that also holds 16-bit floats may stay as it is.
MIXED_KEPT = 1 << 20


class Difference(Exception):
    """What a check found wrong."""


class Tensor:
    """One stored tensor: the type's name, the shape, and the bytes as they lie in the file."""

    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, tuple(shape), bytes(data)

    def f32(self):
        """The values of an F32 or 16-bit tensor, widened, which is exact."""
        return np.frombuffer(self.data, SIXTEEN.get(self.dtype, "<f4")).astype("<f4")


def read(path):
    """All tensors of a safetensors file by name, through the package's own parser, whatever their types."""
    return {name: Tensor(t["dtype"], t["shape"], t["data"]) for name, t in safetensors.deserialize(pathlib.Path(path).read_bytes())}


def cast(values, target, rounding):
    """Float32 values as an array of the target type, made by NumPy or ml_dtypes."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if rounding == "nearest":
            return values.astype(SIXTEEN[target])
        return bf16_toward_zero(values) if target == "BF16" else f16_toward_zero(values)


def bf16_toward_zero(values):
    """The upper halves of the bits; a NaN is cast by ml_dtypes (NaNs are compared as NaNs, see differing)."""
    cut = (values.view("<u4") >> 16).astype("<u2").view(BF16)
    return np.where(np.isnan(values), values.astype(BF16), cut)


def f16_toward_zero(values):
    """Nearest, then one step towards zero where that went outwards; a finite value never becomes infinite."""
    near = values.astype("<f2")
    outwards = np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64))
    return np.where(outwards, np.nextafter(near, np.float16(0)), near).astype("<f2")


def differing(got, want, peer):
    """Indices where two 16-bit arrays differ in any bit; NaNs need only have one sign (with torch, which drops it, not even that)."""
    a, b = got.view("<u2"), want.view("<u2")
    with np.errstate(invalid="ignore"):
        nans = np.isnan(got) & np.isnan(want) & ((a >> 15 == b >> 15) | (peer == "torch"))
    return np.flatnonzero((a != b) & ~nans)


def compare_values(name, source, got, want, peer):
    """Fails, naming the first element, if got (a Tensor) differs from want (an array of its type)."""
    have = np.frombuffer(got.data, want.dtype)
    if have.size != want.size:
        raise Difference(f"{name}: {have.size} elements, {peer} has {want.size}")
    bad = differing(have, want, peer)
    if bad.size:
        i = bad[0]
        raise Difference(f"{name}: {bad.size} of {have.size} elements differ from {peer}; the first is {i}: source {source[i]}, "
                         f"got {have.view('<u2')[i]:#06x} ({have[i]}), {peer} {want.view('<u2')[i]:#06x} ({want[i]})")


def compare_tensor(name, src, got, target, rounding, may_keep):
    """Fails if got is neither src cast to target nor, where src needn't be cast, src itself. Returns what it found: "cast", "unchanged" or "unchecked"."""
    if got.shape != src.shape:
        raise Difference(f"{name}: shape {got.shape}, source {src.shape}")
    if got.dtype == src.dtype and (src.dtype not in ("F32", "F64") or may_keep):
        if got.data != src.data:
            raise Difference(f"{name}: {got.dtype} bytes changed")
        return "unchanged"
    if got.dtype != target or src.dtype not in ("F32", "F64", *SIXTEEN):
        raise Difference(f"{name}: {got.dtype}, expected {target} from {src.dtype}")
    if src.dtype == "F64":
        return "unchecked"  # no peer here rounds F64 to both types in one step
    values = src.f32()
    compare_values(name, values, got, cast(values, target, rounding), "numpy" if target == "F16" else "ml_dtypes")
    if torch and rounding == "nearest":
        compare_values(name, values, got, torch_cast(values, target), "torch")
    return "cast"


def torch_cast(values, target):
    """Float32 values cast by PyTorch, as an array."""
    kind = torch.float16 if target == "F16" else torch.bfloat16
    return torch.from_numpy(values).to(kind).view(torch.int16).numpy().view("<u2").view(SIXTEEN[target])


def compare_sets(source, got, target, rounding):
    """Compares all tensors of two sets; returns how many were cast (and equal to the peers' casts), unchanged, or unchecked (F64)."""
    if source.keys() != got.keys():
        raise Difference(f"names differ: missing {sorted(source.keys() - got.keys())[:3]}, added {sorted(got.keys() - source.keys())[:3]}")
    mixed = any(t.dtype in SIXTEEN for t in source.values())
    may_keep = {name for name, t in source.items() if mixed and t.dtype == "F32" and len(t.data) < 4 * MIXED_KEPT}
    found = [compare_tensor(name, t, got[name], target, rounding, name in may_keep) for name, t in source.items()]
    return ", ".join(f"{found.count(kind)} {kind}" for kind in ("cast", "unchanged", "unchecked") if kind in found)


def load_with_torch(path, source):
    """Loads a file through safetensors.torch and checks names and shapes."""
    if torch is None:
        return
    loaded = safetensors.torch.load_file(path)
    shapes = {k: tuple(v.shape) for k, v in loaded.items()}
    if shapes != {k: t.shape for k, t in source.items()}:
        raise Difference("safetensors.torch sees other names or shapes")


def run(demi, src, dst, flags):
    """Runs demi SRC DST FLAGS."""
    done = subprocess.run([demi, src, dst, *flags], capture_output=True, text=True)
    if done.returncode:
        raise Difference(f"demi exited with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    if not pathlib.Path(dst).exists():
        raise Difference("demi exited with 0 and wrote nothing")


def check_safetensors(demi, src, source, flags, target, rounding, tmp):
    """Converts src, a file or a directory whose tensors are source, into one file and compares it."""
    dst = tmp / "out.safetensors"
    run(demi, src, dst, flags)
    summary = compare_sets(source, read(dst), target, rounding)
    load_with_torch(dst, source)
    return summary


def read_shards(folder):
    """All tensors of a sharded directory."""
    return {name: t for path in sorted(folder.glob("*.safetensors")) for name, t in read(path).items()}


def read_gguf(path):
    """All tensors of a GGUF file as the gguf package reads them; shapes slowest dimension first."""
    tensors = gguf.GGUFReader(path).tensors
    return {t.name: Tensor(t.tensor_type.name, [int(n) for n in reversed(t.shape)], t.data.tobytes()) for t in tensors}


def check_gguf(demi, src, target, tmp):
    """Converts a GGUF file into safetensors and compares it with the gguf package's reading."""
    dst = tmp / "out.safetensors"
    run(demi, src, dst, ["--dtype", target.lower(), "--container-only"])
    source, got = read_gguf(src), read(dst)
    for name, t in source.items():  # 1-D and norm tensors may be cast or kept: kept ones must be byte equal
        kept = got.get(name)
        if kept and kept.dtype == "F32" and (len(t.shape) < 2 or "_norm" in name):
            if kept.data != t.data:
                raise Difference(f"{name}: F32 bytes changed")
            got[name] = Tensor(target, t.shape, cast(t.f32(), target, "nearest").tobytes())
    summary = compare_sets(source, got, target, "nearest")
    load_with_torch(dst, source)
    return summary


def checks(args):
    """Yields (title, function of a temporary folder) for everything that can be checked."""
    files = [args.data / "model.safetensors"] + (sorted(args.weights.glob("*.safetensors")) if args.weights else [])
    for path in files:
        for flags, target, rounding in CASTS:
            yield f"{path.name} {' '.join(flags)}", lambda tmp, p=path, c=(flags, target, rounding): check_safetensors(args.demi, p, read(p), *c, tmp)
    shards = args.data / "sharded"
    for flags, target, rounding in CASTS[:2]:
        yield f"sharded {' '.join(flags)}", lambda tmp, c=(flags, target, rounding): check_safetensors(args.demi, shards, read_shards(shards), *c, tmp)
    for target in SIXTEEN:
        yield f"model.gguf to safetensors, {target}", lambda tmp, t=target: check_gguf(args.demi, args.data / "model.gguf", t, tmp)


def report(title, check):
    """Runs one check in a folder of its own and prints a line; True if it passed."""
    with tempfile.TemporaryDirectory() as tmp:
        try:
            print(f"ok    {title}: {check(pathlib.Path(tmp))}", flush=True)
            return True
        except Difference as e:
            print(f"FAIL  {title}: {e}", flush=True)
        except Exception as e:  # a reader that refuses the file, say
            print(f"FAIL  {title}: {type(e).__name__}: {e}", flush=True)
            traceback.print_exc()
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True, help="the demi program")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder testdata/charlm")
    parser.add_argument("--weights", type=pathlib.Path, help="a folder with more safetensors files")
    args = parser.parse_args()
    if torch is None:
        print("skip  torch is not installed: no comparison with PyTorch's cast, no loading through safetensors.torch")
    results = [report(title, check) for title, check in checks(args)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 2 if not results else 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
