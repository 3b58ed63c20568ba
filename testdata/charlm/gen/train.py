"""Trains the charlm model and writes every file of testdata/charlm. Usage: train.py OUT [--reuse]

--reuse keeps OUT/model.safetensors and writes the other files anew from it.
"""
import argparse
import hashlib
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F

import model
import text
import write

SEED, TEXT_SEED, HELDOUT_SEED = 20, 1, 2
TRAIN_CHARS, HELDOUT_WINDOWS, SUBSET_STRIDE = 400_000, 96, 3
STEPS, BATCH, PEAK_LR, WARMUP = 1100, 32, 3e-3, 100
SPECIAL = ["<unk>", "<s>", "</s>"]
PROMPT = "There was once a clockmaker called "


def schedule(step):
    """Linear warm-up, then a cosine down to a fiftieth of the peak."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def train(net, ids):
    """Runs AdamW over random windows of ids; returns the facts of the run."""
    opt = torch.optim.AdamW(net.parameters(), lr=PEAK_LR, betas=(0.9, 0.95), weight_decay=0.05)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule)
    first, recent, start = None, [], time.time()
    for step in range(STEPS):
        at = torch.randint(len(ids) - model.CONTEXT, (BATCH,))
        win = torch.stack([ids[i : i + model.CONTEXT] for i in at])
        loss = F.cross_entropy(net(win)[:, :-1].flatten(0, 1), win[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        first = first or loss.item()
        recent = (recent + [loss.item()])[-50:]
        if step % 50 == 49:
            print(f"step {step + 1}: loss {sum(recent) / len(recent):.4f}, {time.time() - start:.0f} s", flush=True)
    return {"steps": STEPS, "batch": BATCH, "optimizer": "AdamW", "peak_learning_rate": PEAK_LR, "warmup": WARMUP,
            "first_train_loss": round(first, 6), "final_train_loss": round(sum(recent) / len(recent), 6),
            "final_train_loss_is": "mean over the last 50 steps"}


def loss_facts(net, windows):
    """Held-out losses of all windows and of every SUBSET_STRIDE-th one."""
    part = windows[::SUBSET_STRIDE]
    (total, n), (sub, m) = model.losses(net, windows), model.losses(net, part)
    return {"definition": f"heldout.txt cut into windows of {model.CONTEXT} characters that do not overlap; in each window characters 1 and up are "
                          "predicted from all those before in the same window; mean over all predictions, in nats",
            "windows": len(windows), "predictions": n, "loss": total / n,
            "subset_stride": SUBSET_STRIDE, "subset_windows": len(part), "subset_predictions": m, "subset_loss": sub / m}


def facts(net, vocab, ids_of, training, train_text, windows):
    """What model.json says."""
    prompt = ids_of(PROMPT)
    tokens, lead = model.greedy(net, prompt, 64)
    return {"architecture": "llama", "vocab": vocab, "special_tokens": len(SPECIAL), "hidden_size": model.HIDDEN, "layers": model.LAYERS, "heads": model.HEADS,
            "head_dim": model.HEAD_DIM, "intermediate_size": model.FFN, "context": model.CONTEXT, "rope_theta": model.ROPE_THETA,
            "norm_eps": model.NORM_EPS, "parameters": sum(p.numel() for p in net.parameters()), "seed": SEED,
            "text": {"train_seed": TEXT_SEED, "heldout_seed": HELDOUT_SEED, "train_chars": len(train_text),
                     "train_sha256": hashlib.sha256(train_text.encode()).hexdigest()},
            "training": training, "heldout": loss_facts(net, windows),
            "greedy": {"prompt": PROMPT, "prompt_tokens": prompt, "tokens": tokens,
                       "text": "".join(vocab[t] for t in tokens), "smallest_lead": lead},
            "versions": write.versions()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--reuse", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    train_text = text.corpus(TEXT_SEED, TRAIN_CHARS)
    heldout = text.corpus(HELDOUT_SEED, HELDOUT_WINDOWS * model.CONTEXT, seen=train_text)
    vocab = SPECIAL + sorted(set(train_text))
    ids_of = lambda s: [vocab.index(c) for c in s]
    net = model.CharLM(len(vocab))
    print(f"{len(vocab)} tokens, {sum(p.numel() for p in net.parameters())} parameters", flush=True)
    if args.reuse:
        net.load_state_dict(write.read_weights(args.out / "model.safetensors"))
        training = json.loads((args.out / "model.json").read_text())["training"]
    else:
        training = train(net, torch.tensor(ids_of(train_text)))
    windows = torch.tensor(ids_of(heldout)).view(-1, model.CONTEXT)
    known = facts(net, vocab, ids_of, training, train_text, windows)
    (args.out / "heldout.txt").write_text(heldout)
    write.everything(args.out, net.state_dict(), known)
    print("held-out loss", known["heldout"]["loss"], "subset", known["heldout"]["subset_loss"], "greedy", repr(known["greedy"]["text"]))


if __name__ == "__main__":
    main()
