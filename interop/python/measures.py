"""Computes the figures of `demi verify --detail` again with NumPy in float64 and compares them.

    python measures.py --demi PATH_TO_DEMI --data testdata/charlm [--weights DIR_WITH_MORE_SAFETENSORS]

Every file is converted to both 16-bit types with several roundings; each tensor's counts have to be the same, its sums close.
Prints one line per check; the exit status is 1 if any of them failed.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import safetensors

TYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16)}
# Stored bits of the significand, smallest and largest exponent of normal numbers.
PARAMS = {"F16": (10, -14, 15), "BF16": (7, -126, 127), "F32": (23, -126, 127)}
ROUNDINGS = ["nearest-even", "zero", "up", "stochastic"]


def read(path):
    """Values of the floating-point tensors of a file as they are, by name, with their types."""
    out = {}
    for name, t in safetensors.deserialize(path.read_bytes()):
        if t["dtype"] in TYPES:
            out[name] = t["dtype"], tuple(t["shape"]), np.frombuffer(bytes(t["data"]), TYPES[t["dtype"]])
    return out


def exponents(x):
    """floor(log2 |x|), for x that are not zero."""
    return np.frexp(np.abs(x))[1] - 1


def basic(a, b, x, y, both, ulps):
    """Figures that need no flag."""
    e = y[both] - x[both]
    sign = np.where(np.signbit(x[both]), -1, 1)
    n = max(int(both.sum()), 1)
    return {
        "stats.count": x.size, "stats.finite": int(both.sum()), "stats.flushed": int(((x != 0) & ~np.isnan(x) & (y == 0)).sum()),
        "stats.nan_in": int(np.isnan(x).sum()), "stats.nan_lost": int((np.isnan(x) & ~np.isnan(y)).sum()),
        "stats.changed": int((y.astype(a.dtype).view(f"u{a.itemsize}") != a.view(f"u{a.itemsize}")).sum()),
        "stats.max_abs": np.abs(e).max(initial=0), "figures.rmse": math.sqrt((e * e).sum() / n),
        "figures.bias_up_ulp": ulps.sum() / n, "figures.bias_away_ulp": (ulps * sign).sum() / n,
    }


def largest(x):
    """Indices of the 8 largest values, of equal ones the first."""
    return set(np.argsort(-x, kind="stable")[:8].tolist())


def detail(x, y, both, ulps, params, shape):
    """Figures of --detail."""
    _, low, high = params
    e, n = np.abs(y[both] - x[both]), int(both.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        rel = np.where(e > 0, e / np.abs(x[both]), 0)
    buckets = np.where(ulps == 0, -1, np.maximum(np.ceil(np.log2(np.maximum(np.abs(ulps), 1e-300))), -1))
    normal = y[np.isfinite(y) & (y != 0)]
    step = 1 if x.size <= 65536 else 1 << ((x.size - 1).bit_length() - 15)
    used = exponents(x[np.isfinite(x) & (x != 0)])
    out = {
        "detail.max_rel": rel.max(initial=0),
        "detail.ulps": sorted((0 if k < 0 and not u else 2.0**k, int(c)) for (k, u), c in count(zip(buckets, ulps != 0)).items()),
        "detail.distinct_ref": np.unique(x[::step].view("u8")).size, "detail.distinct_got": np.unique(y[::step].view("u8")).size,
        "detail.distinct_of": x[::step].size,
        "detail.binades": len({k for k in exponents(normal).tolist() if low <= k <= high}),
        "detail.exponents": sorted(count(np.clip(used, -127, 128).tolist()).items()),
    }
    if n > 1:
        out["detail.bias_up_stderr"] = math.sqrt(ulps.var() / (n - 1))
    if len(shape) == 1 and 16 <= x.size <= 65536:
        out["detail.top"] = len(largest(x) & largest(y))
    return out


def count(items):
    """How often each item comes."""
    found = {}
    for i in items:
        found[i] = found.get(i, 0) + 1
    return found


def figures(ref, got):
    """All figures of one tensor, by path in the document."""
    (_, shape, a), (kind, _, b) = ref, got
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        both = np.isfinite(x) & np.isfinite(y)
        mant, low, _ = PARAMS[kind]
        at = np.maximum(np.where(x[both] == 0, low, exponents(x[both])), low)
        ulps = np.ldexp(y[both] - x[both], mant - at)
        return basic(a, b, x, y, both, ulps) | detail(x, y, both, ulps, PARAMS[kind], shape)


def lookup(tensor, path):
    """One figure of the document, as figures has it."""
    part, name = path.split(".")
    v = tensor[part].get(name, 0)
    if name == "ulps":
        return sorted((u["up_to"], u["count"]) for u in v)
    if name == "exponents":
        return sorted((e["exponent"], e["count"]) for e in v)
    return v


def close(got, want):
    if isinstance(want, float):
        return math.isclose(got, want, rel_tol=1e-6, abs_tol=2e-5 if abs(want) < 10 else 0)
    return got == want


def check(demi, src, target, rounding, tmp):
    """Converts, measures and compares; returns what differs and how many figures were compared."""
    dst = tmp / "out.safetensors"
    subprocess.run([demi, src, dst, "--dtype", target, "--round", rounding, "--pure", "-q", "-f"], check=True)
    text = subprocess.run([demi, "verify", src, dst, "--detail", "--json", "--round", rounding], check=True, capture_output=True).stdout
    ref, got = read(src), read(dst)
    differ, compared = [], 0
    for t in json.loads(text)["tensors"]:
        if t["name"] not in got:
            continue
        for path, want in figures(ref[t["name"]], got[t["name"]]).items():
            compared += 1
            if not close(lookup(t, path), want if not isinstance(want, np.floating) else float(want)):
                differ.append(f"{t['name']}: {path}: {lookup(t, path)}, NumPy has {want}")
    return differ, compared


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--weights", type=pathlib.Path)
    args = parser.parse_args()
    files = [args.data / "model.safetensors"] + (sorted(args.weights.glob("*.safetensors")) if args.weights else [])
    failed = 0
    for src in files:
        for target in ("bf16", "f16"):
            for rounding in ROUNDINGS:
                with tempfile.TemporaryDirectory() as tmp:
                    differ, compared = check(args.demi, src, target, rounding, pathlib.Path(tmp))
                print("FAIL " if differ else "ok   ", f"{src.name} {target} {rounding}: {compared} figures", *differ[:3], flush=True)
                failed += bool(differ) or not compared
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
