"""Writes testdata/dequant: quantised tensors, and what other programs make of them.

    python dequant_samples.py ../../testdata/dequant

quantised.gguf has random blocks of each ggml type, quantised.safetensors their values by gguf-py, which the project of
ggml compares with its C code. float8.safetensors has 8-bit floats with scales in the layouts that are in use,
float8-values.safetensors the products by NumPy and ml_dtypes. The same bytes come out every time.
"""

import json
import struct
import sys
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np

F8 = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2, "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "F8_E8M0": ml_dtypes.float8_e8m0fnu,
}
NAMES = {np.dtype(t): n for n, t in F8.items()} | {np.dtype(np.float32): "F32", np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(np.float16): "F16"}

# Where the FP16 factors of a block are, in bytes.
FACTORS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
    "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [],
}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        raw = x.tobytes()
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def random_blocks(rng, name, rows, blocks):
    kind = gguf.GGMLQuantizationType[name]
    _, size = gguf.GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (rows * blocks, size), dtype=np.uint8)
    for at in FACTORS[name]:
        raw[:, at:at + 2] = rng.normal(0, 0.02, (rows * blocks, 1)).astype(np.float16).view(np.uint8)
        raw[0, at:at + 2] = np.array([3e-6], np.float16).view(np.uint8)  # subnormal
        raw[1, at:at + 2] = np.array([-0.0], np.float16).view(np.uint8)
    if name == "MXFP4":
        raw[:, 0] = rng.integers(110, 130, rows * blocks)
        raw[:5, 0] = [0, 1, 2, 254, 255]
    return kind, raw.reshape(rows, blocks * size)


def blocks(out, rng):
    w = gguf.GGUFWriter(out / "quantised.gguf", "test")
    values = {}
    for name in FACTORS:
        kind, raw = random_blocks(rng, name, 2, 4)
        w.add_tensor(name, raw, raw_dtype=kind)
        with np.errstate(all="ignore"):
            values[name] = np.ascontiguousarray(gguf.quants.dequantize(raw, kind), dtype=np.float32)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    write_safetensors(out / "quantised.safetensors", values)


def codes(rng, kind, shape):
    raw = rng.integers(0, 256, shape, dtype=np.uint8)
    return raw.view(F8[kind])


def spread(scale, shape, block):
    """The scale of each element."""
    for axis, n in enumerate(shape):
        if scale.shape[axis] not in (1, n):
            scale = np.repeat(scale, block, axis=axis).take(range(n), axis=axis)
    return np.broadcast_to(scale, shape)


def float8(out, rng):
    have, want = {}, {}

    def scaled(name, kind, shape, scale_name, scale, block=128):
        x = codes(rng, kind, shape)
        have[name], have[scale_name] = x, scale
        s = scale.astype(np.float32)
        s = s.reshape(s.shape + (1,) * (len(shape) - s.ndim)) if s.size > 1 else s.reshape((1,) * len(shape))
        want[name] = x.astype(np.float32) * spread(s, shape, block)

    def random(*shape):
        return rng.lognormal(-5, 1, shape).astype(np.float32)

    with np.errstate(all="ignore"):
        for kind in ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"):
            name = f"all.{kind}.weight"
            have[name] = np.arange(256, dtype=np.uint8).view(F8[kind])
            have[name + "_scale"] = np.ones((), np.float32)
            want[name] = have[name].astype(np.float32)
        scaled("tensor.weight", "F8_E4M3", (5, 7), "tensor.weight_scale", random())
        scaled("one.weight", "F8_E4M3", (5, 7), "one.weight_scale", random(1))
        scaled("comfy.weight", "F8_E4M3", (5, 7), "comfy.scale_weight", random())
        scaled("w", "F8_E5M2", (3, 4), "w_scale", random().astype(ml_dtypes.bfloat16))
        scaled("row.weight", "F8_E4M3", (9, 70), "row.weight_scale", random(9, 1))
        scaled("rows.weight", "F8_E4M3", (9, 70), "rows.weight_scale", random(9).astype(np.float16))
        scaled("block.weight", "F8_E4M3", (130, 260), "block.weight_scale_inv", random(2, 3))
        scaled("expert.weight", "F8_E4M3", (3, 129, 5), "expert.weight_scale_inv", random(3, 2, 1))
        scaled("experts.weight", "F8_E4M3", (3, 4, 5), "experts.weight_scale", random(3, 1, 1))
        scaled("micro.weight", "F8_E4M3", (4, 100), "micro.weight_scale", rng.integers(100, 140, (4, 4), dtype=np.uint8).view(F8["F8_E8M0"]), 32)
        have["tensor.input_scale"] = want["tensor.input_scale"] = random()
        have["norm.weight"] = want["norm.weight"] = random(7)
    have["scaled_fp8"] = np.zeros(2, np.uint8).view(F8["F8_E4M3"])
    write_safetensors(out / "float8.safetensors", have)
    write_safetensors(out / "float8-values.safetensors", want)


def main():
    out = Path(sys.argv[1])
    out.mkdir(exist_ok=True)
    blocks(out, np.random.default_rng(1))
    float8(out, np.random.default_rng(2))


if __name__ == "__main__":
    main()
