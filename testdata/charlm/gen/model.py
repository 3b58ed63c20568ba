"""A Llama-architecture character model in plain PyTorch; parameter names are Hugging Face's."""
import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, LAYERS, HEADS, FFN, CONTEXT = 128, 3, 4, 256, 128
HEAD_DIM = HIDDEN // HEADS
ROPE_THETA, NORM_EPS = 10000.0, 1e-5


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS))


def rope_table(length, dtype):
    """cos and sin of shape [length, HEAD_DIM], the angles repeated in both halves."""
    freq = 1.0 / ROPE_THETA ** (torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM)
    angle = torch.outer(torch.arange(length, dtype=torch.float64), freq).repeat(1, 2)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin):
    """Rotary embedding over pairs (i, i + HEAD_DIM/2)."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        for p in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, p, nn.Linear(HIDDEN, HIDDEN, bias=False))

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, HEADS, HEAD_DIM).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        score = rotate(q, cos, sin) @ rotate(k, cos, sin).transpose(-1, -2) * HEAD_DIM**-0.5
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        y = score.masked_fill(future, float("-inf")).softmax(-1) @ v
        return self.o_proj(y.transpose(1, 2).reshape(b, t, HIDDEN))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, FFN, bias=False)
        self.up_proj = nn.Linear(HIDDEN, FFN, bias=False)
        self.down_proj = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(), Attention()
        self.post_attention_layernorm, self.mlp = RMSNorm(), MLP()

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Inner(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()


class CharLM(nn.Module):
    """Token ids [batch, time] to logits [batch, time, vocab]."""

    def __init__(self, vocab):
        super().__init__()
        self.model = Inner(vocab)
        self.lm_head = nn.Linear(HIDDEN, vocab, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02 if "o_proj" not in name and "down_proj" not in name else 0.02 / (2 * LAYERS) ** 0.5)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        cos, sin = rope_table(ids.shape[1], x.dtype)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.model.norm(x))


def losses(net, windows):
    """Sum of nats and number of predictions over windows [n, CONTEXT]: in each, characters 1.. are predicted from those before."""
    total, count = 0.0, 0
    with torch.no_grad():
        for part in windows.split(32):
            logits = net(part)[:, :-1].reshape(-1, net.lm_head.weight.shape[0])
            total += F.cross_entropy(logits, part[:, 1:].reshape(-1), reduction="none").double().sum().item()
            count += part.shape[0] * (part.shape[1] - 1)
    return total, count


def greedy(net, ids, n):
    """The n most likely tokens after ids, one at a time, and the smallest lead of the best logit over the second."""
    out, lead = list(ids), float("inf")
    with torch.no_grad():
        for _ in range(n):
            best = net(torch.tensor([out]))[0, -1].topk(2)
            lead = min(lead, (best.values[0] - best.values[1]).item())
            out.append(int(best.indices[0]))
    return out[len(ids):], lead
