#!/usr/bin/env python3
"""Times whole conversions of one large file against cp and against other people's tools, interleaved.

usage: file_times.py DEMI DIR [GIB]     (DEMI: the program; DIR: an empty directory on the disk to be measured; GIB: 4)

Each command runs five times, in turn with the others; the least time counts. Processor time (user and system, the least of the
runs) hardly depends on what else the machine does. "cp" leaves the copy in the page cache,
"cp, durable" waits until it is on the disk, as demi always does. Cold runs need root: the page cache is emptied before each.
NumPy is needed; PyTorch (python3-torch, or from the Python index) is measured if it is there, and so is llama.cpp's
llama_model_quantize if LLAMA_SO names a directory with its shared objects, such as bins/linux-x64 of the npm package
@node-llama-cpp/linux-x64; it is said if they are not. The Python jobs are measured without the start of Python.
"""
import ctypes
import glob
import json
import os
import resource
import struct
import subprocess
import sys
import time

import numpy as np

try:
    import torch
except ImportError:
    torch = None

DEMI, DIR = os.path.abspath(sys.argv[1]), sys.argv[2]
GIB = float(sys.argv[3]) if len(sys.argv) > 3 else 4
ROUNDS = 5
PARTS = 64


def make(path):
    """A safetensors file of normally distributed F32 matrices."""
    each = int(GIB * 2**30) // PARTS // 16384 * 16384
    header, at = {}, 0
    for i in range(PARTS):
        header[f"layers.{i:02d}.weight"] = {"dtype": "F32", "shape": [4096, each // 16384], "data_offsets": [at, at + each]}
        at += each
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    base = np.random.default_rng(1).standard_normal(each // 4, dtype=np.float32) * np.float32(0.02)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i in range(PARTS):
            f.write(np.roll(base, 977 * i).tobytes())
        os.fsync(f.fileno())


def make_gguf(src, dst):
    """The same tensors as a GGUF file that llama.cpp takes for a model."""
    infos = [(name, x.shape) for name, x in tensors(src)]
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    u32 = lambda key, value: text(key) + struct.pack("<II", 4, value)
    keys = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
            text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5)]
    for key, value in {"llama.block_count": 1, "llama.context_length": 512, "llama.embedding_length": 128,
                       "llama.feed_forward_length": 512, "llama.attention.head_count": 4, "llama.vocab_size": 8}.items():
        keys.append(u32(key, value))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys)
    at = 0
    for name, (rows, columns) in infos:
        head += text(name) + struct.pack("<IQQIQ", 2, columns, rows, 0, at)
        at += 4 * rows * columns
    with open(dst, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, x in tensors(src):
            x.tofile(f)
        f.flush()
        os.fsync(f.fileno())


def tensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start = f.tell()
    for name, t in header.items():
        lo, hi = t["data_offsets"]
        yield name, np.fromfile(path, "<f4", (hi - lo) // 4, offset=start + lo).reshape(t["shape"])


def with_numpy(src, dst):
    with open(dst, "wb") as f:
        for _, x in tensors(src):
            x.astype("<f2").tofile(f)
        os.fsync(f.fileno())


def with_torch(src, dst):
    model = {name: torch.from_numpy(x).to(torch.bfloat16) for name, x in tensors(src)}
    torch.save(model, dst)
    with open(dst, "rb") as f:
        os.fsync(f.fileno())


class QuantizeParams(ctypes.Structure):
    """The beginning of llama_model_quantize_params, and room for the rest."""

    _fields_ = [("threads", ctypes.c_int32), ("file_type", ctypes.c_int), ("rest", ctypes.c_char * 512)]


def load_llama():
    """Returns llama_model_quantize as a function of source, destination and file type; None if it is not here."""
    where = os.environ.get("LLAMA_SO", "")
    if not glob.glob(where + "/libllama*.so*"):
        return None
    so = lambda name: ctypes.CDLL(sorted(glob.glob(f"{where}/{name}.*so*"))[0], mode=ctypes.RTLD_GLOBAL)
    ctypes.CDLL(where + "/libggml-base.so", mode=ctypes.RTLD_GLOBAL)
    so("libggml").ggml_backend_load_all_from_path(where.encode())
    llama = so("libllama")
    llama.llama_model_quantize_default_params.restype = QuantizeParams
    llama.llama_backend_init()

    def quantize(src, dst, file_type):
        params = llama.llama_model_quantize_default_params()
        params.threads, params.file_type = os.cpu_count(), file_type
        if llama.llama_model_quantize(src.encode(), dst.encode(), ctypes.byref(params)) != 0:
            raise SystemExit("llama_model_quantize has failed")
        with open(dst, "rb") as f:
            os.fsync(f.fileno())

    return quantize


def processor_time():
    """Seconds of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def drop_caches():
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w") as f:
        f.write("3")


def run(argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    src = os.path.join(DIR, "src.safetensors")
    out = lambda name: os.path.join(DIR, name)
    demi = lambda dst, *flags, src=src: lambda: run([DEMI, src, out(dst), "-q", "-f", *flags])
    if not os.path.exists(src):
        make(src)
    exact = out("exact-src.safetensors")  # BF16 values in F32, which exact may narrow
    run([DEMI, src, out("half.safetensors"), "--dtype", "bf16", "-q", "-f"])
    run([DEMI, out("half.safetensors"), exact, "--dtype", "f32", "-q", "-f"])
    run([DEMI, src, out("store.demi"), "--dtype", "bf16", "-q", "-f"])
    jobs = {
        "cp": (lambda: run(["cp", src, out("out")]), "out"),
        "cp, durable": (lambda: run(["sh", "-c", f"cp {src} {out('out')} && sync {out('out')}"]), "out"),
        "bf16": (demi("out.safetensors", "--dtype", "bf16"), "out.safetensors"),
        "f16": (demi("out.safetensors", "--dtype", "f16"), "out.safetensors"),
        "exact": (demi("out.safetensors", src=exact), "out.safetensors"),
        "bf16 to .demi": (demi("out.demi", "--dtype", "bf16"), "out.demi"),
        ".demi to safetensors": (demi("out.safetensors", src=out("store.demi")), "out.safetensors"),
        "NumPy, f16": (lambda: with_numpy(src, out("out")), "out"),
    }
    if torch:
        jobs["PyTorch, bf16"] = (lambda: with_torch(src, out("out")), "out")
    else:
        print("PyTorch is not here")
    quantize = load_llama()
    if quantize:
        gguf = out("src.gguf")
        make_gguf(src, gguf)
        jobs["GGUF, bf16"] = (demi("out.gguf", "--dtype", "bf16", src=gguf), "out.gguf")
        jobs["llama.cpp, bf16"] = (lambda: quantize(gguf, out("out"), 32), "out")
        jobs["GGUF, f16"] = (demi("out.gguf", "--dtype", "f16", src=gguf), "out.gguf")
        jobs["llama.cpp, f16"] = (lambda: quantize(gguf, out("out"), 1), "out")
    else:
        print("llama.cpp is not here")
    for cold in (False, True):
        if cold and os.geteuid() != 0:
            break
        times, processor = {name: [] for name in jobs}, {name: [] for name in jobs}
        for _ in range(ROUNDS if not cold else 3):
            for name, (job, dst) in jobs.items():
                if cold and name.startswith(("NumPy", "PyTorch", "llama.cpp", "GGUF")):
                    continue
                if os.path.exists(out(dst)):
                    os.remove(out(dst))
                if cold:
                    drop_caches()
                else:
                    subprocess.run(["sync"], check=True)
                start, used = time.perf_counter(), processor_time()
                job()
                times[name].append(time.perf_counter() - start)
                processor[name].append(processor_time() - used)
        cp, durable = min(times["cp"]), min(times["cp, durable"])
        print(f"{'cold' if cold else 'warm'}, load average {os.getloadavg()[0]:.1f}")
        for name, list_ in times.items():
            if list_:
                print(f"  {name:22} {min(list_):6.2f} s  {min(list_) / cp:5.2f} of cp  {min(list_) / durable:5.2f} of a durable cp  {min(processor[name]):6.2f} s of processor  ({', '.join(f'{x:.2f}' for x in list_)})", flush=True)


main()
