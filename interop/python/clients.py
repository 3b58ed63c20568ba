"""Lets the programs that people run models with read what demi wrote.

llama.cpp, through its shared objects: the GGUF that demi makes of one in F32, against the one that llama_model_quantize makes of it: the same
names, types and bytes of every tensor, and the same tokens when both are decoded, always the likeliest. llama_model_quantize keeps in F32
what has one dimension or is a norm, and so does demi.

transformers and PyTorch: directories that save_pretrained wrote and demi converted, loaded with dtype="auto": the type is the new one and
every value is that of torch's own cast, in the shards as safetensors reads them, in the model, and in what the model computes.

    python clients.py --demi PATH_TO_DEMI --charlm testdata/charlm [--llama DIR_WITH_LIBLLAMA_SO]

The shared objects of llama.cpp are in the npm package @node-llama-cpp/linux-x64 (../node/package.json), under bins/linux-x64; torch and
transformers are pinned in requirements-torch.txt: 2 minutes and 6 GB, so .ci/run does without them where they cannot be installed. Prints one
line per check, and names what is missing; the exit status is 1 if any check failed, 2 if there was nothing to check.
"""
import argparse
import ctypes
import json
import pathlib
import subprocess
import sys
import tempfile
import traceback

import gguf

try:
    import safetensors.torch
    import torch
    import transformers
except ImportError as e:
    torch, missing = None, e
else:
    transformers.utils.logging.disable_progress_bar()


class Difference(Exception):
    """What a check found wrong."""


def expect(want, got, what):
    if want != got:
        raise Difference(f"{what}: want {want}, got {got}")


def run(demi, *args):
    done = subprocess.run([demi, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise Difference(f"demi exited with {done.returncode}: {(done.stderr or done.stdout).strip()}")


class Params(ctypes.Structure):
    """Any of llama.cpp's structs of parameters: they are passed in memory, where more room than they have does no harm. Eight bytes a word."""
    _fields_ = [("words", ctypes.c_int64 * 128)]

    def int32(self, at):
        return ctypes.cast(ctypes.addressof(self) + at, ctypes.POINTER(ctypes.c_int32))


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.c_void_p), ("embd", ctypes.c_void_p), ("pos", ctypes.c_void_p),
                ("n_seq_id", ctypes.c_void_p), ("seq_id", ctypes.c_void_p), ("logits", ctypes.c_void_p)]


class Llama:
    """llama.cpp, as far as it is needed here."""
    FTYPES = {"f16": 1, "bf16": 32}  # llama_ftype

    def __init__(self, folder):
        def load(name):
            return ctypes.CDLL(str(next(pathlib.Path(folder).glob(name))), mode=ctypes.RTLD_GLOBAL)
        load("libggml-base*.so*")
        ggml, self.lib = load("libggml.*so*"), load("libllama.*so*")
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.lib.llama_log_set(self.quiet, None)
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        P, pointer = ctypes.POINTER, ctypes.c_void_p
        for name, result, arguments in (
                ("llama_model_quantize_default_params", Params, []), ("llama_model_quantize", ctypes.c_uint32, [ctypes.c_char_p, ctypes.c_char_p, P(Params)]),
                ("llama_model_default_params", Params, []), ("llama_model_load_from_file", pointer, [ctypes.c_char_p, Params]),
                ("llama_context_default_params", Params, []), ("llama_init_from_model", pointer, [pointer, Params]),
                ("llama_model_get_vocab", pointer, [pointer]), ("llama_vocab_n_tokens", ctypes.c_int32, [pointer]),
                ("llama_batch_get_one", Batch, [P(ctypes.c_int32), ctypes.c_int32]), ("llama_decode", ctypes.c_int32, [pointer, Batch]),
                ("llama_get_logits_ith", P(ctypes.c_float), [pointer, ctypes.c_int32]),
                ("llama_set_n_threads", None, [pointer, ctypes.c_int32, ctypes.c_int32]), ("llama_free", None, [pointer]), ("llama_model_free", None, [pointer])):
            f = getattr(self.lib, name)
            f.restype, f.argtypes = result, arguments
        self.lib.llama_backend_init()

    def quantize(self, src, dst, kind):
        params = self.lib.llama_model_quantize_default_params()
        params.int32(0)[0], params.int32(4)[0] = 1, self.FTYPES[kind]  # nthread, ftype
        expect(0, self.lib.llama_model_quantize(str(src).encode(), str(dst).encode(), ctypes.byref(params)), "llama_model_quantize")

    def greedy(self, path, prompt, count):
        """The likeliest tokens after a prompt."""
        model = self.lib.llama_model_load_from_file(str(path).encode(), self.lib.llama_model_default_params())
        if not model:
            raise Difference(f"llama.cpp does not load {path.name}")
        params = self.lib.llama_context_default_params()
        params.int32(0)[0] = 128  # n_ctx
        context = self.lib.llama_init_from_model(model, params)
        self.lib.llama_set_n_threads(context, 1, 1)  # more of them wait for each other busily
        size = self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(model))
        out, todo = [], list(prompt)
        while len(out) < count:
            tokens = (ctypes.c_int32 * len(todo))(*todo)
            expect(0, self.lib.llama_decode(context, self.lib.llama_batch_get_one(tokens, len(todo))), "llama_decode")
            logits = self.lib.llama_get_logits_ith(context, -1)[:size]
            out.append(logits.index(max(logits)))
            todo = out[-1:]
        self.lib.llama_free(context)
        self.lib.llama_model_free(model)
        return out


def read_gguf(path):
    """Type, shape and bytes of every tensor, by name, and the type that the file says it has."""
    reader = gguf.GGUFReader(path)
    tensors = {t.name: (t.tensor_type.name, tuple(int(n) for n in t.shape), t.data.tobytes()) for t in reader.tensors}
    return tensors, int(reader.fields["general.file_type"].contents())


def check_llama(args, llama, kind, flags, tmp):
    src, ours, theirs = args.charlm / "model.gguf", tmp / "ours.gguf", tmp / "theirs.gguf"
    run(args.demi, src, ours, "--dtype", kind, *flags)
    llama.quantize(src, theirs, kind)
    (want, want_type), (got, got_type) = read_gguf(theirs), read_gguf(first(ours))
    if ours.exists():
        expect(want_type, got_type, "general.file_type")
        expect(sorted(want), sorted(got), "names")
        for name, tensor in want.items():
            expect(tensor[:2], got[name][:2], name)
            expect(True, tensor[2] == got[name][2], f"{name}: the same bytes")
    task = json.loads((args.charlm / "model.json").read_text())["greedy"]
    mine, others = (llama.greedy(path, task["prompt_tokens"], len(task["tokens"])) for path in (first(ours), theirs))
    expect(others, mine, "tokens")
    kept = sum(t[0] == "F32" for t in want.values())
    same = "those of the F32 model" if mine == task["tokens"] else "not those of the F32 model"
    return f"{len(want)} tensors, {kept} of them F32; {len(mine)} tokens, {same}"


def first(path):
    """The file, or the first one of the set that took its name."""
    return path if path.exists() else next(path.parent.glob(path.stem + "-00001-of-*.gguf"))


def tiny_llama(folder, tied):
    """Saves a small model with random weights, in several shards."""
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=tied)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder, max_shard_size="200KB")
    return model


def loaded(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    expect(dtype, model.dtype, "the type of the model")
    return model


def same_model(want, src, got):
    """Every parameter is that of want, a model that torch has cast, and the model computes what the one in src does when transformers casts it."""
    a, b = want.state_dict(), got.state_dict()
    expect(sorted(a), sorted(b), "names of parameters")
    for name, x in a.items():
        expect((x.dtype, True), (b[name].dtype, torch.equal(x, b[name])), f"{name}: the type, and values equal to those of torch's cast")
    reference = transformers.AutoModelForCausalLM.from_pretrained(src, dtype=want.dtype)
    tokens = torch.arange(3, 35).unsqueeze(0)
    with torch.no_grad():
        expect(True, torch.equal(reference(tokens).logits, got(tokens).logits), "the logits are the same")
    return len(a)


def shard_values(folder, model):
    """What safetensors.torch reads from the shards is what the model has."""
    state, count = model.state_dict(), 0
    for path in sorted(folder.glob("*.safetensors")):
        for name, x in safetensors.torch.load_file(path).items():
            expect(True, x.dtype == state[name].dtype and torch.equal(x, state[name]), f"{path.name}: {name}")
            count += 1
    return count


def check_cast(args, dtype, tied, flags, tmp):
    kind = {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    model = tiny_llama(tmp / "src", tied)
    run(args.demi, tmp / "src", tmp / "dst", "--dtype", kind, *flags)
    got = loaded(tmp / "dst", dtype)
    count = same_model(model.to(dtype), tmp / 'src', got)
    return f"{count} parameters, {shard_values(tmp / 'dst', got)} tensors in {len(list((tmp / 'dst').glob('*.safetensors')))} files"


def check_exact(args, dtype, tmp):
    """A model of 16-bit values that was saved in F32 becomes what it was."""
    model = tiny_llama(tmp / "first", False).to(dtype)
    model.float().save_pretrained(tmp / "src")
    run(args.demi, tmp / "src", tmp / "dst")
    return f"{same_model(model.to(dtype), tmp / 'src', loaded(tmp / 'dst', dtype))} parameters"


def check_store(args, tmp):
    """There and back through a store."""
    model = tiny_llama(tmp / "src", False)
    run(args.demi, tmp / "src", tmp / "store", "--to", "demi", "--dtype", "bf16")
    run(args.demi, tmp / "store", tmp / "dst", "--to", "safetensors")
    return f"{same_model(model.to(torch.bfloat16), tmp / 'src', loaded(tmp / 'dst', torch.bfloat16))} parameters"


def check_charlm(args, tmp):
    """The checkpoint of this repository, which was trained."""
    want = transformers.AutoModelForCausalLM.from_pretrained(args.charlm / "sharded", dtype=torch.float32)
    run(args.demi, args.charlm / "sharded", tmp / "dst", "--dtype", "f16", "--keep-split")
    return f"{same_model(want.to(torch.float16), args.charlm / 'sharded', loaded(tmp / 'dst', torch.float16))} parameters"


def checks(args):
    """Yields (title, function of a temporary folder)."""
    if args.llama:
        llama = Llama(args.llama)
        for kind in Llama.FTYPES:
            yield f"llama.cpp, {kind}", lambda tmp, k=kind: check_llama(args, llama, k, [], tmp)
            yield f"llama.cpp, {kind}, a set", lambda tmp, k=kind: check_llama(args, llama, k, ["--max-shard-size", "300KB"], tmp)
    else:
        print("skip  no --llama: llama.cpp's shared objects are in the npm package @node-llama-cpp/linux-x64")
    if torch is None:
        print(f"skip  {missing}: nothing is loaded with transformers; see requirements-torch.txt")
        return
    for dtype in (torch.bfloat16, torch.float16):
        for tied in (False, True):
            yield f"transformers, {dtype}{', tied' if tied else ''}", lambda tmp, d=dtype, t=tied: check_cast(args, d, t, [], tmp)
        yield f"transformers, {dtype}, shards", lambda tmp, d=dtype: check_cast(args, d, False, ["--max-shard-size", "100KB"], tmp)
        yield f"transformers, exact, {dtype}", lambda tmp, d=dtype: check_exact(args, d, tmp)
    yield "transformers, through a store", lambda tmp: check_store(args, tmp)
    yield "transformers, charlm", lambda tmp: check_charlm(args, tmp)


def report(title, check):
    with tempfile.TemporaryDirectory() as tmp:
        try:
            print(f"ok    {title}: {check(pathlib.Path(tmp))}", flush=True)
            return True
        except Difference as e:
            print(f"FAIL  {title}: {e}", flush=True)
        except Exception as e:  # a client that refuses the file, say
            print(f"FAIL  {title}: {type(e).__name__}: {e}", flush=True)
            traceback.print_exc()
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--demi", required=True, help="the demi program")
    parser.add_argument("--charlm", type=pathlib.Path, required=True, help="the folder testdata/charlm")
    parser.add_argument("--llama", type=pathlib.Path, help="the folder with libllama")
    args = parser.parse_args()
    results = [report(title, check) for title, check in checks(args)]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 2 if not results else 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
