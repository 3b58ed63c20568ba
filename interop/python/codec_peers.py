#!/usr/bin/env python3
"""Size and speed of other compressors on the BF16 tensors of safetensors files.

usage: codec_peers.py FILE...     (BF16 files, such as `demi x.safetensors x-bf16.safetensors --dtype bf16` writes)

One thread. zstd gets pieces of 128 KiB, the size of Demi's tiles; ZipNN the whole, which it cuts itself. GB/s are bytes of
BF16, 10^9 a second, best of five. Compare with `go test -run xxx -bench Sets ./codec` in the same hour.
"""
import json
import struct
import sys
import time

import zstandard
import zipnn

PIECE = 128 << 10


def tensors(path):
    """The bytes of all BF16 tensors of a file, one after another."""
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(size))
        data = f.read()
    out = []
    for name, t in sorted(header.items()):
        if name != "__metadata__" and t["dtype"] == "BF16":
            out.append(data[slice(*t["data_offsets"])])
    return b"".join(out)


def best(f):
    least = None
    for _ in range(5):
        start = time.perf_counter()
        f()
        took = time.perf_counter() - start
        least = took if least is None else min(least, took)
    return least


def row(name, raw, encode, decode):
    stored = encode()
    size = sum(map(len, stored)) if isinstance(stored, list) else len(stored)
    if bytes(decode(stored)) != raw:
        sys.exit(f"{name} does not give its input back")
    gb = len(raw) / 1e9
    print(f"  {name:22} {size / len(raw):.4f} of raw, encode {gb / best(encode):6.2f} GB/s, decode {gb / best(lambda: decode(stored)):6.2f} GB/s", flush=True)


def main():
    for path in sys.argv[1:]:
        raw = tensors(path)
        print(f"{path}: {len(raw)} bytes")
        pieces = [raw[i:i + PIECE] for i in range(0, len(raw), PIECE)]
        for level in (1, 3, 9):
            c, d = zstandard.ZstdCompressor(level=level), zstandard.ZstdDecompressor()
            row(f"zstd -{level} (C)", raw, lambda: [c.compress(p) for p in pieces], lambda s: b"".join(map(d.decompress, s)))
        z = zipnn.ZipNN(input_format="byte", bytearray_dtype="bfloat16", threads=1)
        row("ZipNN", raw, lambda: z.compress(bytearray(raw)), lambda s: z.decompress(s))  # it changes its input


main()
