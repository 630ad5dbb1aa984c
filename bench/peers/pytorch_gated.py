"""Encoders with rotary positions and gated feed-forwards in PyTorch, for pytorch_encoder.py, and their first layers in
training, for pytorch_layer.py: ModernBERT's, NomicBERT's and Qwen3-Embedding's shapes, random weights.

Attention is scaled_dot_product_attention, which picks its fastest kernel: layers that see a window have a mask of it
there. With `flex` those layers, and causal ones, have flex_attention with a mask by blocks, which passes over blocks
that no query sees; it wants torch.compile.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


@dataclass
class Shape:
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int
    base: float  # of rotary positions
    activation: str  # of the half that gates
    first: bool = False  # which half that is
    key_heads: int = 0  # 0: heads
    channels: int = 0  # of a head; 0: hidden / heads
    segments: int = 0
    pre: bool = False  # norms stand before the blocks
    rms: bool = False  # and divide by the root of the mean square
    head_norms: bool = False  # of q and k
    causal: bool = False  # and the last token is the text's vector
    window: int = 0  # to each side; 0: all
    every: int = 1  # of layers with a window each so manyth, from the first on, sees all
    local_base: float = 0


MODELS = {
    "modernbert-base": Shape(22, 768, 12, 1152, 50368, 160000.0, "gelu", True, pre=True, window=64, every=3,
                             local_base=10000.0),
    "nomic-bert-base": Shape(12, 768, 12, 3072, 30528, 1000.0, "silu", segments=2),
    "qwen3-embedding-0.6b": Shape(28, 1024, 16, 3072, 151669, 1000000.0, "silu", key_heads=8, channels=128, pre=True, rms=True,
                        head_norms=True, causal=True),
}


def norm(width, shape):
    if shape.rms:
        return nn.RMSNorm(width, 1e-6)
    return nn.LayerNorm(width, 1e-5, bias=not shape.pre)


def angles(seq, channels, base, device, dtype):
    frequencies = base ** (-torch.arange(0, channels, 2, device=device, dtype=torch.float32) / channels)
    turn = torch.arange(seq, device=device, dtype=torch.float32)[:, None] * frequencies
    return torch.cat((turn, turn), -1).cos().to(dtype), torch.cat((turn, turn), -1).sin().to(dtype)


def rotate(x, cosine, sine):  # [batch, heads, seq, channels]
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Layer(nn.Module):
    """dropout: of training, at the four places where Wherry's layers have it."""

    def __init__(self, shape, number, dropout=0.0):
        super().__init__()
        self.shape, self.dropout = shape, dropout
        self.channels = shape.channels or shape.hidden // shape.heads
        self.key_heads = shape.key_heads or shape.heads
        self.local = shape.window > 0 and number % shape.every > 0
        width = self.channels * shape.heads
        self.qkv = nn.Linear(shape.hidden, width + 2 * self.channels * self.key_heads, bias=False)
        self.out = nn.Linear(width, shape.hidden, bias=False)
        self.norm1 = nn.Identity() if shape.pre and not shape.rms and not number else norm(shape.hidden, shape)
        self.norm2 = norm(shape.hidden, shape)
        self.q_norm = norm(self.channels, shape) if shape.head_norms else nn.Identity()
        self.k_norm = norm(self.channels, shape) if shape.head_norms else nn.Identity()
        self.lin1 = nn.Linear(shape.hidden, 2 * shape.feed_forward, bias=False)
        self.lin2 = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def attend(self, x, turns, mask, flex):
        batch, seq, _ = x.shape
        heads = self.qkv(x).view(batch, seq, -1, self.channels).transpose(1, 2)
        q, k, v = heads.split((self.shape.heads, self.key_heads, self.key_heads), 1)
        q, k = rotate(self.q_norm(q), *turns), rotate(self.k_norm(k), *turns)
        grouped = self.key_heads != self.shape.heads
        if flex and mask is not None:
            x = flex_attention(q, k, v, block_mask=mask, enable_gqa=grouped)
        else:
            dropout = self.dropout if self.training else 0.0
            x = F.scaled_dot_product_attention(q, k, v, mask, dropout, self.shape.causal, enable_gqa=grouped)
        return self.drop(self.out(x.transpose(1, 2).reshape(batch, seq, -1)))

    def feed(self, x):
        halves = self.lin1(x).chunk(2, -1)
        gate, other = halves if self.shape.first else reversed(halves)
        active = (F.gelu(gate) if self.shape.activation == "gelu" else F.silu(gate)) * other
        return self.drop(self.lin2(self.drop(active)))

    def forward(self, x, turns, mask, flex):
        if self.shape.pre:
            x = x + self.attend(self.norm1(x), turns, mask, flex)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x, turns, mask, flex))
        return self.norm2(x + self.feed(x))


class First(nn.Module):
    """An encoder's first layer alone, in training. It sees all that comes before or after, so it needs no mask."""

    def __init__(self, shape, seq, dropout):
        super().__init__()
        self.layer = Layer(shape, 0, dropout)
        turns = angles(seq, self.layer.channels, shape.base, "cpu", torch.float32)
        for name, table in zip(("cosine", "sine"), turns):  # of the weights' type and device, wherever those go
            self.register_buffer(name, table, persistent=False)

    def forward(self, x):  # [batch, seq, hidden]
        return self.layer(x, (self.cosine, self.sine), None, False)


class Gated(nn.Module):
    """flex: attention of layers that do not see all; of no matter for the weights."""

    def __init__(self, shape, seq, flex=False):
        super().__init__()
        self.shape, self.seq, self.flex, self.made = shape, seq, flex, {}
        self.word = nn.Embedding(shape.vocabulary, shape.hidden)
        self.segment = nn.Embedding(shape.segments, shape.hidden) if shape.segments else None
        self.norm = nn.Identity() if shape.rms else norm(shape.hidden, shape)
        self.layers = nn.ModuleList(Layer(shape, n) for n in range(shape.layers))
        self.last = norm(shape.hidden, shape) if shape.pre else nn.Identity()

    def prepare(self):
        """What is the same in every pass, for the type and the device that the weights have now."""
        shape, weight = self.shape, self.word.weight
        channels = shape.channels or shape.hidden // shape.heads
        self.made = {local: angles(self.seq, channels, shape.local_base if local else shape.base, weight.device,
                                   weight.dtype)
                     for local in ((False, True) if shape.window else (False,))}
        place = torch.arange(self.seq, device=weight.device)
        self.masks = {False: None, True: None}
        if shape.window and not self.flex:
            self.masks[True] = (place[:, None] - place[None]).abs() <= shape.window
        elif self.flex:
            def near(b, h, i, j):
                return (i - j).abs() <= shape.window

            def before(b, h, i, j):
                return j <= i

            for local, sees in ((True, near if shape.window else None), (False, before if shape.causal else None)):
                if sees:
                    self.masks[local] = create_block_mask(sees, None, None, self.seq, self.seq, weight.device)
        return self

    def forward(self, ids):  # [batch, seq] -> float [batch, hidden]
        x = self.word(ids)
        if self.segment:
            x = x + self.segment.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, self.made[layer.local], self.masks[layer.local], self.flex)
        x = self.last(x)
        return x[:, -1].float() if self.shape.causal else x.mean(dim=1, dtype=torch.float32)
