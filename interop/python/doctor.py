"""Lets the safetensors package, and a loader that does as transformers does, load what `demi doctor --fix` has mended.

    python doctor.py --demi PATH_TO_DEMI --data testdata/charlm

Each fault is put into a copy of the sharded checkpoint; the loader refuses it, or reads it wrong, before the repair and must give the
same tensors as the original after it. A second --fix may change nothing. Prints one line per fault; the exit status is 1 if any failed.
"""
import argparse
import hashlib
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import safetensors
from safetensors import safe_open

INDEX = "model.safetensors.index.json"
SHARD = "model-00002-of-00003.safetensors"


class Refused(Exception):
    """What a loader says of a checkpoint that it does not take."""


def load(folder):
    """All tensors of a sharded checkpoint, as transformers loads them: by the index, shards with "format" in their metadata, and every
    tensor in the shard that the index names."""
    index = json.loads((folder / INDEX).read_text())
    where, sizes, tensors = index["weight_map"], 0, {}
    for file in sorted(set(where.values())):
        with safe_open(folder / file, framework="np") as shard:
            if (shard.metadata() or {}).get("format") not in ("pt", "tf", "flax", "mlx"):
                raise Refused(f"{file}: metadata without a format")
            names = set(shard.keys())
            if names != {name for name, at in where.items() if at == file}:
                raise Refused(f"{file}: the index has other tensors")
            for name in names:
                tensors[name] = shard.get_tensor(name)
                sizes += tensors[name].nbytes
    if index["metadata"]["total_size"] != sizes:
        raise Refused(f"total_size is {index['metadata']['total_size']}, not {sizes}")
    kind = json.loads((folder / "config.json").read_text())["torch_dtype"]
    if any(str(t.dtype) != kind for t in tensors.values()):
        raise Refused(f"config.json says {kind}")
    return tensors


def aligned(folder):
    """Refuses shards whose data do not begin on eight bytes, which is what the reference writes."""
    for path in folder.glob("*.safetensors"):
        if (8 + struct.unpack("<Q", path.read_bytes()[:8])[0]) % 8:
            raise Refused(f"{path.name}: the data are not aligned")


def change_header(path, change):
    """Writes a file with another header over the same data; change gets the header as an object and returns its text."""
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    text = change(json.loads(raw[8:8 + n]))
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + n:])


def compact(header):
    return json.dumps(header, separators=(",", ":")).encode()


def odd(header):
    """A header after which the data begin on an odd byte."""
    text = compact(header)
    return text + b" " * (1 - len(text) % 2)


def without_format(header):
    header.pop("__metadata__", None)
    text = compact(header)
    return text + b" " * (-(len(text) + 8) % 8)


def edit_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def swap_shards(index):
    """Every tensor in a shard that does not have it."""
    index["weight_map"] = {k: v.replace("00001-of", "x").replace("00002-of", "00001-of").replace("x", "00002-of") for k, v in index["weight_map"].items()}


def append(path, data):
    with open(path, "ab") as f:
        f.write(data)


FAULTS = {
    "no format": lambda d: change_header(d / SHARD, without_format),
    "odd offsets": lambda d: change_header(d / SHARD, odd),
    "NUL padding": lambda d: change_header(d / SHARD, lambda h: compact(h) + b"\0" * 9),
    "zeros behind the data": lambda d: append(d / SHARD, b"\0" * 100),
    "no index": lambda d: (d / INDEX).unlink(),
    "broken index": lambda d: (d / INDEX).write_text('{"weight_map": '),
    "total_size": lambda d: edit_json(d / INDEX, lambda x: x["metadata"].update(total_size=1)),
    "stale index": lambda d: (d / INDEX).write_text((d / INDEX).read_text().replace("of-00003", "of-00013")),
    "partial index": lambda d: edit_json(d / INDEX, lambda x: x["weight_map"].pop("lm_head.weight")),
    "wrong shards": lambda d: edit_json(d / INDEX, swap_shards),
    "lying configuration": lambda d: edit_json(d / "config.json", lambda x: x.update(torch_dtype="float16")),
}


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def repair(demi, folder):
    done = subprocess.run([demi, "doctor", "--fix", folder, "--json"], capture_output=True, text=True)
    if done.returncode:
        raise Refused(f"demi doctor exited with {done.returncode}: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)["repairs"]


def refuses(folder):
    """What a loader has against a checkpoint, or None."""
    try:
        load(folder)
        aligned(folder)
    except (Refused, safetensors.SafetensorError, OSError, ValueError, KeyError) as e:
        return f"{type(e).__name__}: {e}"
    return None


def check(demi, data, break_it, tmp):
    """Returns what was done to a checkpoint that was broken and mended."""
    folder = tmp / "model"
    shutil.copytree(data / "sharded", folder)
    want = load(folder)
    break_it(folder)
    if refuses(folder) is None:
        raise Refused("the fault is none: it loads before the repair")
    repairs = repair(demi, folder)
    if why := refuses(folder):
        raise Refused(f"after the repair: {why}")
    got = load(folder)
    if got.keys() != want.keys() or any(not np.array_equal(got[k].view("u4"), want[k].view("u4")) for k in want):
        raise Refused("the tensors are not those of the original")
    before = digests(folder)
    if repair(demi, folder) or digests(folder) != before:
        raise Refused("the second repair changes something")
    return "; ".join(f"{pathlib.Path(r['file']).name} {r['text']}" for r in repairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True, help="the demi program")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the folder testdata/charlm")
    args = parser.parse_args()
    failed = 0
    for title, break_it in FAULTS.items():
        with tempfile.TemporaryDirectory() as tmp:
            try:
                print(f"ok    {title}: {check(args.demi, args.data, break_it, pathlib.Path(tmp))}", flush=True)
            except Exception as e:
                failed += 1
                print(f"FAIL  {title}: {type(e).__name__}: {e}", flush=True)
    print(f"{len(FAULTS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
