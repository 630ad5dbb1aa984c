#!/usr/bin/env python3
"""Times BERT-shaped encoders in PyTorch on this machine's CUDA device: the same work as `wherry bench`.

Usage: pytorch_encoder.py [--out FILE] [--shapes MODEL:BATCHxSEQ,...] [--repeats N] [--no-compile]

Work: embedding gather and layernorm, post-LN layers with erf GELU, mean over each sequence's tokens. Inference, f16, random
weights and ids, no padding (all sequences of a batch have the same length), so no mask.

Three ways: eager; the same kernels replayed as one CUDA graph; torch.compile, replayed as one CUDA graph. Of each, two times:
  ms_*       device time between two events around one pass, ids already on the device
  wall_ms_*  host time of one pass with ids copied in and embeddings copied out: what a caller of wherry_encode waits for
Medians (5th and 95th percentile beside them) of at least 30 passes after at least half a second of the same work;
tokens_per_s and wall_tokens_per_s are those of the fastest way.

Prints one line per shape; FILE gets JSON: {"run": {...}, "rows": [{"model", "batch", "seq", "ms_eager", ...}]}.
"""
import argparse
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import timing

#         layers, hidden, heads, feed-forward
MODELS = {"minilm-l6": (6, 384, 12, 1536), "bert-base": (12, 768, 12, 3072), "bert-large": (24, 1024, 16, 4096)}
SHAPES = "minilm-l6:1x32,minilm-l6:64x128,minilm-l6:256x256,bert-base:64x128,bert-base:32x512"
VOCABULARY, POSITIONS, TOKEN_TYPES, EPSILON = 30522, 512, 2, 1e-12
WAYS = ("eager", "graph", "compile")


class Layer(nn.Module):
    def __init__(self, hidden, heads, feed_forward):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, EPSILON)
        self.lin1 = nn.Linear(hidden, feed_forward)
        self.lin2 = nn.Linear(feed_forward, hidden)
        self.norm2 = nn.LayerNorm(hidden, EPSILON)

    def forward(self, x):  # [batch, seq, hidden]
        batch, seq, hidden = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, seq, hidden)
        x = self.norm1(x + self.out(context))
        return self.norm2(x + self.lin2(F.gelu(self.lin1(x))))


class Encoder(nn.Module):
    def __init__(self, layers, hidden, heads, feed_forward):
        super().__init__()
        self.word = nn.Embedding(VOCABULARY, hidden)
        self.position = nn.Embedding(POSITIONS, hidden)
        self.token_type = nn.Embedding(TOKEN_TYPES, hidden)
        self.norm = nn.LayerNorm(hidden, EPSILON)
        self.layers = nn.ModuleList(Layer(hidden, heads, feed_forward) for _ in range(layers))

    def forward(self, ids):  # [batch, seq] -> float [batch, hidden]
        x = self.word(ids) + self.position.weight[: ids.shape[1]] + self.token_type.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return x.mean(dim=1, dtype=torch.float32)


def capture(function):
    """A CUDA graph of one call, and the tensor that each replay fills."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function()
    return graph, out


def wall_times(function, ids, host_ids, host_out, repeats):
    def once():
        ids.copy_(host_ids, non_blocking=True)
        host_out.copy_(function(), non_blocking=True)
        torch.cuda.synchronize()

    timing.warm(once)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        once()
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def check(name, out, expected):
    cosine = F.cosine_similarity(out.double(), expected.double(), dim=1).min().item()
    if not cosine > 0.999:
        sys.exit(f"{name}: differs from eager in f32: smallest cosine {cosine}")


def measure(name, batch, seq, repeats, with_compile):
    torch.manual_seed(0)
    model = Encoder(*MODELS[name]).cuda().eval()
    host_ids = torch.randint(0, VOCABULARY, (batch, seq)).pin_memory()
    ids = host_ids.cuda()
    few = min(batch, 8)
    with torch.inference_mode():
        expected = model(ids[:few])  # in f32
    model = model.half()
    host_out = torch.empty(batch, MODELS[name][1]).pin_memory()
    row = {"model": name, "batch": batch, "seq": seq, "repeats": repeats}

    def way(suffix, function):
        check(f"{name} {suffix}", function()[:few], expected)
        timing.record(row, "ms_" + suffix, *timing.device_times([function], repeats))
        timing.record(row, "wall_ms_" + suffix, wall_times(function, ids, host_ids, host_out, repeats))

    def replay(module):
        graph, out = capture(lambda: module(ids))

        def function():
            graph.replay()
            return out

        return function

    with torch.inference_mode():
        way("eager", lambda: model(ids))
        way("graph", replay(model))
        if with_compile:
            torch._dynamo.reset()
            way("compile", replay(torch.compile(model, dynamic=False)))
    tokens = batch * seq
    row["tokens_per_s"] = tokens / min(row[f"ms_{way}"] for way in WAYS if f"ms_{way}" in row) * 1e3
    row["wall_tokens_per_s"] = tokens / min(row[f"wall_ms_{way}"] for way in WAYS if f"wall_ms_{way}" in row) * 1e3
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if args.repeats < 30:
        parser.error("--repeats: at least 30")
    shapes = timing.parse_shapes(parser, args.shapes, MODELS, "model")
    run = timing.run_facts()
    rows = []
    for name, batch, seq in shapes:
        row = measure(name, batch, seq, args.repeats, not args.no_compile)
        rows.append(row)
        times = "  ".join(
            f"{w} {row['ms_' + w]:8.3f} ms (wall {row['wall_ms_' + w]:.3f})" for w in WAYS if "ms_" + w in row
        )
        print(f"{name:10} {batch:4} x {seq:<4} {times}  {row['tokens_per_s']:.4g} tokens/s", flush=True)
        run["driver_and_clocks"] = timing.driver()  # those under load
        timing.write_json(args.out, {"run": run, "rows": rows})  # what is measured stays when a later shape fails


main()
