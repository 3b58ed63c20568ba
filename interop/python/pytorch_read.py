"""Compares what demi makes of files that PyTorch wrote, bit for bit, with what NumPy put into them (pytorch_samples.py), read by
the real safetensors package; and that what it must refuse ends with exit 3 and without output.

    python pytorch_read.py --demi PATH_TO_DEMI DIR_OF_SAMPLES...

Prints one line per directory; the exit status is 1 if any file failed, 2 if there was nothing to check.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import safetensors


def convert(demi, src, dst):
    return subprocess.run([demi, src, dst, "--dtype", "keep", "--verify", "-q"], capture_output=True, text=True)


def check(demi, folder, sample):
    """Returns what is wrong with one file, or None."""
    with tempfile.TemporaryDirectory() as tmp:
        dst = pathlib.Path(tmp) / "out.safetensors"
        done = convert(demi, folder / sample["file"], dst)
        if sample.get("refused"):
            return None if done.returncode == 3 and not dst.exists() else f"exit {done.returncode}, should be refused"
        if done.returncode:
            return f"exit {done.returncode}: {done.stderr.strip()}"
        got = {name: t for name, t in safetensors.deserialize(dst.read_bytes())}
    for want in sample["tensors"]:
        t = got.get(want["name"])
        if t is None or (t["dtype"], list(t["shape"]), bytes(t["data"]).hex()) != (want["dtype"], want["shape"], want["hex"]):
            return f"tensor {want['name']} is missing or differs"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True, help="the demi program")
    parser.add_argument("dirs", nargs="+", type=pathlib.Path, help="what pytorch_samples.py wrote")
    args = parser.parse_args()
    count = failed = 0
    for folder in args.dirs:
        expected = json.loads((folder / "expect.json").read_text())
        for sample in expected["files"]:
            count += 1
            problem = check(args.demi, folder, sample)
            if problem:
                failed += 1
                print(f"FAIL  {folder / sample['file']}: {problem}")
        print(f"done  {folder}: {len(expected['files'])} files of PyTorch {expected['torch']}")
    return 2 if not count else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
