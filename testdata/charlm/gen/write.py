"""Writes trained weights with the independent writers (safetensors, gguf) and the oracle of their 16-bit casts."""
import hashlib
import importlib.metadata
import json
import platform

import gguf
import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
import torch

import model

SHARDS = 3
GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
              "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
              "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def versions():
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__,
            "safetensors": safetensors.__version__, "gguf": importlib.metadata.version("gguf")}


def read_weights(path):
    return {k: torch.from_numpy(v) for k, v in safetensors.numpy.load_file(path).items()}


def save_json(path, value, indent=1):
    path.write_text(json.dumps(value, indent=indent) + "\n")


def everything(out, state, known):
    """Writes model.safetensors, sharded/, model.gguf, model.json and oracle.json into out."""
    arrays = {k: v.detach().numpy().astype("<f4") for k, v in state.items()}
    safetensors.numpy.save_file(arrays, out / "model.safetensors", metadata={"format": "pt"})
    write_sharded(out / "sharded", arrays, known)
    renamed = gguf_tensors(arrays)
    write_gguf(out / "model.gguf", renamed, known)
    save_json(out / "model.json", known)
    for path in out.rglob("*.safetensors"):
        path.chmod(0o644)
    save_json(out / "oracle.json", {"model.safetensors": {k: oracle(arrays[k]) for k in sorted(arrays)},
                                    "model.gguf": {k: oracle(v) for k, v in renamed.items()}})


def write_sharded(folder, arrays, known):
    """A Hugging Face directory: tensors in model order, split greedily into SHARDS files."""
    folder.mkdir(exist_ok=True)
    total = sum(a.nbytes for a in arrays.values())
    parts, size = [{}], 0
    for name, a in arrays.items():
        if size + a.nbytes > total / SHARDS + a.nbytes / 2 and len(parts) < SHARDS:
            parts.append({})
            size = 0
        parts[-1][name] = a
        size += a.nbytes
    where = {}
    for i, part in enumerate(parts, 1):
        file = f"model-{i:05d}-of-{len(parts):05d}.safetensors"
        safetensors.numpy.save_file(part, folder / file, metadata={"format": "pt"})
        where |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(where.items()))}
    save_json(folder / "model.safetensors.index.json", index, 2)
    save_json(folder / "config.json", hf_config(known), 2)
    save_json(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2}, 2)


def hf_config(known):
    return {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
            "head_dim": model.HEAD_DIM, "hidden_act": "silu", "hidden_size": model.HIDDEN, "initializer_range": 0.02,
            "intermediate_size": model.FFN, "max_position_embeddings": model.CONTEXT, "mlp_bias": False, "model_type": "llama",
            "num_attention_heads": model.HEADS, "num_hidden_layers": model.LAYERS, "num_key_value_heads": model.HEADS,
            "pretraining_tp": 1, "rms_norm_eps": model.NORM_EPS, "rope_scaling": None, "rope_theta": model.ROPE_THETA,
            "tie_word_embeddings": False, "torch_dtype": "float32", "use_cache": True, "vocab_size": len(known["vocab"])}


def permute(w):
    """Rows of a Q or K projection from Hugging Face's half-split rotary order to llama.cpp's interleaved one."""
    return np.ascontiguousarray(w.reshape(model.HEADS, 2, model.HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(w.shape))


def gguf_tensors(arrays):
    """The tensors under llama.cpp's names, in its converter's order."""
    out = {}
    for name, a in arrays.items():
        part = name.removesuffix(".weight").split(".", 3)
        if part[:2] == ["model", "layers"]:
            if part[3] in ("self_attn.q_proj", "self_attn.k_proj"):
                a = permute(a)
            out[f"blk.{part[2]}.{GGUF_NAMES[part[3]]}.weight"] = a
        else:
            out[{"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
                 "lm_head.weight": "output.weight"}[name]] = a
    return out


def write_gguf(path, tensors, known):
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("charlm")
    w.add_block_count(model.LAYERS)
    w.add_context_length(model.CONTEXT)
    w.add_embedding_length(model.HIDDEN)
    w.add_feed_forward_length(model.FFN)
    w.add_head_count(model.HEADS)
    w.add_head_count_kv(model.HEADS)
    w.add_layer_norm_rms_eps(model.NORM_EPS)
    w.add_rope_dimension_count(model.HEAD_DIM)
    w.add_rope_freq_base(model.ROPE_THETA)
    w.add_vocab_size(len(known["vocab"]))
    w.add_file_type(gguf.LlamaFileType.ALL_F32)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_tokenizer(w, known["vocab"])
    for name, a in tensors.items():
        w.add_tensor(name, a)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add_tokenizer(w, vocab):
    """A SentencePiece vocabulary of single characters: the space as U+2581, the line feed as a byte token."""
    kind = gguf.TokenType
    special = {"<unk>": kind.UNKNOWN, "<s>": kind.CONTROL, "</s>": kind.CONTROL, "\n": kind.BYTE}
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([{" ": "\u2581", "\n": "<0x0A>"}.get(t, t) for t in vocab])
    w.add_token_scores([-float(i) for i in range(len(vocab))])
    w.add_token_types([int(special.get(t, kind.NORMAL)) for t in vocab])
    w.add_unk_token_id(0)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)
    w.add_add_space_prefix(False)


def sha(a):
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()


def oracle(a):
    """SHA-256 of the little-endian bytes of a and of its casts, each made in two independent ways."""
    f16, bf16 = a.astype("<f2"), a.astype(ml_dtypes.bfloat16).view("<u2")
    same(f16, torch.from_numpy(a).to(torch.float16).numpy().astype("<f2"))
    same(bf16, torch.from_numpy(a).to(torch.bfloat16).view(torch.int16).numpy().view("<u2"))
    return {"elements": a.size, "f32": sha(a), "f16": sha(f16), "bf16": sha(bf16), "f16_zero": sha(f16_toward_zero(a)), "bf16_zero": sha(bf16_toward_zero(a))}


def same(a, b):
    assert a.tobytes() == b.tobytes(), "two casts of the same values differ"


def f16_toward_zero(a):
    """Nearest, then one step back where that went outwards; checked against truncation to the unit in the last place in float64."""
    assert np.isfinite(a).all() and np.abs(a).max(initial=0) < 65504
    near, wide = a.astype("<f2"), a.astype(np.float64)
    out = np.where(np.abs(near.astype(np.float64)) > np.abs(wide), np.nextafter(near, np.float16(0)), near).astype("<f2")
    ulp = np.ldexp(1.0, np.maximum(np.frexp(wide)[1] - 11, -24))
    same(out, (np.trunc(wide / ulp) * ulp).astype("<f2"))
    return out


def bf16_toward_zero(a):
    """The upper half of the bits; checked against truncation to the unit in the last place in float64."""
    assert np.isfinite(a).all()
    out, wide = (a.view("<u4") >> 16).astype("<u2"), a.astype(np.float64)
    ulp = np.ldexp(1.0, np.maximum(np.frexp(wide)[1] - 8, -133))
    same(out, (np.trunc(wide / ulp) * ulp).astype(ml_dtypes.bfloat16).view("<u2"))
    return out
