#!/usr/bin/env python3
"""Times BERT-shaped encoders in PyTorch on this machine's CUDA device: the same work as `wherry bench`.

Usage: pytorch_encoder.py [--out FILE] [--shapes MODEL:BATCHxSEQ,...] [--pairs MODEL:N:SHORTESTxLONGEST]
                          [--repeats N] [--no-compile]

Work: embedding gather and layernorm, post-LN layers with erf GELU, mean over each sequence's tokens. Inference, f16,
random weights and ids, no padding (all sequences of a batch have the same length), so no mask. The relative bias of
mpnet-base is made once a pass and added to every layer's scores.

--pairs: N sequences of lengths from SHORTEST to LONGEST, evenly spread, padded as transformers does: sorted by length,
in 1, 4 and 10 batches, each as long as its longest, with a mask where it is needed. What is told is the best.

Models with rotary positions and gates (pytorch_gated.py): the same, with their masks of windows and of causality.

Three ways: eager; the same kernels replayed as one CUDA graph; torch.compile, replayed as one CUDA graph; of models whose
layers do not all see all a fourth, torch.compile with flex_attention. Of each, two times:
  ms_*       device time between two events around one pass, ids already on the device
  wall_ms_*  host time of one pass with ids copied in and embeddings copied out: what a caller of wherry_encode waits for
Medians (5th and 95th percentile beside them) of at least 30 passes after at least half a second of the same work;
tokens_per_s and wall_tokens_per_s are those of the fastest way.

Prints one line per shape; FILE gets JSON: {"run": {...}, "rows": [{"model", "batch", "seq", "ms_eager", ...}]}.
"""
import argparse
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import pytorch_gated
import timing

# layers, hidden, heads, feed-forward, vocabulary, positions, segments, first position, buckets of a relative bias
MODELS = {
    "minilm-l6": (6, 384, 12, 1536, 30522, 512, 2, 0, 0),
    "bert-base": (12, 768, 12, 3072, 30522, 512, 2, 0, 0),
    "bert-large": (24, 1024, 16, 4096, 30522, 512, 2, 0, 0),
    "xlmr-large": (24, 1024, 16, 4096, 250002, 8194, 1, 2, 0),
    "mpnet-base": (12, 768, 12, 3072, 30527, 514, 0, 2, 32),
}
SHAPES = "minilm-l6:1x32,minilm-l6:64x128,minilm-l6:256x256,bert-base:64x128,bert-base:32x512"
EPSILON = 1e-12
WAYS = ("eager", "graph", "compile", "flex")


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

    def forward(self, x, mask):  # [batch, seq, hidden]; mask: of the scores, or None
        batch, seq, hidden = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).reshape(batch, seq, hidden)
        x = self.norm1(x + self.out(context))
        return self.norm2(x + self.lin2(F.gelu(self.lin1(x))))


def buckets(seq, count, farthest=128):
    """The row of the bias' table for each query and key: half of them for either side, half of these exact."""
    distance = torch.arange(seq)[:, None] - torch.arange(seq)[None, :]
    side = count // 2
    exact = side // 2
    far = distance.abs().clamp(min=1)
    steps = exact + (torch.log(far / exact) / math.log(farthest / exact) * (side - exact)).long()
    return (distance < 0) * side + torch.where(distance.abs() < exact, distance.abs(), steps.clamp(max=side - 1))


class Encoder(nn.Module):
    def __init__(self, layers, hidden, heads, feed_forward, vocabulary, positions, segments, first, relative):
        super().__init__()
        self.first, self.relative = first, relative
        self.word = nn.Embedding(vocabulary, hidden)
        self.position = nn.Embedding(positions, hidden)
        self.segment = nn.Embedding(segments, hidden) if segments else None
        self.bias = nn.Embedding(relative, heads) if relative else None
        self.norm = nn.LayerNorm(hidden, EPSILON)
        self.layers = nn.ModuleList(Layer(hidden, heads, feed_forward) for _ in range(layers))

    def forward(self, ids, lengths=None, bucket=None):  # [batch, seq], [batch, 1], [seq, seq] -> float [batch, hidden]
        seq = ids.shape[1]
        x = self.word(ids) + self.position.weight[self.first : self.first + seq]
        if self.segment:
            x = x + self.segment.weight[0]
        x = self.norm(x)
        mask, real = None, None
        if lengths is not None:
            real = torch.arange(seq, device=ids.device)[None, :] < lengths
            mask = real[:, None, None, :]
        if self.bias:
            mask = self.bias(bucket).permute(2, 0, 1)[None].expand(ids.shape[0], -1, -1, -1)
        for layer in self.layers:
            x = layer(x, mask)
        if real is None:
            return x.mean(dim=1, dtype=torch.float32)
        return (x * real[:, :, None]).sum(dim=1, dtype=torch.float32) / lengths


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


def times_rate(row, tokens):
    row["tokens_per_s"] = tokens / min(row[f"ms_{way}"] for way in WAYS if f"ms_{way}" in row) * 1e3
    row["wall_tokens_per_s"] = tokens / min(row[f"wall_ms_{way}"] for way in WAYS if f"wall_ms_{way}" in row) * 1e3
    return row


def measure_gated(name, batch, seq, repeats, with_compile):
    torch.manual_seed(0)
    shape = pytorch_gated.MODELS[name]
    model = pytorch_gated.Gated(shape, seq).cuda().eval()
    host_ids = torch.randint(0, shape.vocabulary, (batch, seq)).pin_memory()
    ids = host_ids.cuda()
    few = min(batch, 2)
    with torch.inference_mode():
        expected = model.prepare()(ids[:few])  # in f32
    model = model.half().prepare()
    host_out = torch.empty(batch, shape.hidden).pin_memory()
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
            if shape.window or shape.causal:
                torch._dynamo.reset()
                model.flex = True
                way("flex", replay(torch.compile(model.prepare(), dynamic=False)))
    return times_rate(row, batch * seq)


def measure(name, batch, seq, repeats, with_compile):
    torch.manual_seed(0)
    model = Encoder(*MODELS[name]).cuda().eval()
    host_ids = torch.randint(0, MODELS[name][4], (batch, seq)).pin_memory()
    bucket = buckets(seq, MODELS[name][8]).cuda() if MODELS[name][8] else None
    ids = host_ids.cuda()
    few = min(batch, 8)
    with torch.inference_mode():
        expected = model(ids[:few], bucket=bucket)  # in f32
    model = model.half()
    host_out = torch.empty(batch, MODELS[name][1]).pin_memory()
    row = {"model": name, "batch": batch, "seq": seq, "repeats": repeats}

    def way(suffix, function):
        check(f"{name} {suffix}", function()[:few], expected)
        timing.record(row, "ms_" + suffix, *timing.device_times([function], repeats))
        timing.record(row, "wall_ms_" + suffix, wall_times(function, ids, host_ids, host_out, repeats))

    def replay(module):
        graph, out = capture(lambda: module(ids, bucket=bucket))

        def function():
            graph.replay()
            return out

        return function

    with torch.inference_mode():
        way("eager", lambda: model(ids, bucket=bucket))
        way("graph", replay(model))
        if with_compile:
            torch._dynamo.reset()
            way("compile", replay(torch.compile(model, dynamic=False)))
    return times_rate(row, batch * seq)


PARTS = (1, 4, 10)


def measure_pairs(name, count, shortest, longest, repeats, with_compile):
    torch.manual_seed(0)
    model = Encoder(*MODELS[name]).cuda().eval()
    lengths = [shortest + (longest - shortest) * i // max(count - 1, 1) for i in range(count)]
    row = {"model": name, "sequences": count, "shortest": shortest, "longest": longest, "tokens": sum(lengths)}
    whole = {}
    for parts in PARTS:
        batches, ends = [], [count * p // parts for p in range(parts + 1)]
        for begin, end in zip(ends, ends[1:]):
            own = torch.tensor(lengths[begin:end])[:, None].cuda()
            padded = None if lengths[begin] == lengths[end - 1] else own
            batches.append((torch.randint(0, MODELS[name][4], (end - begin, lengths[end - 1])).cuda(), padded))
        with torch.inference_mode():
            expected = torch.cat([model.float()(*b) for b in batches])
            model.half()

            def way(suffix, module, graphed):
                graphs = [capture(lambda b=b: module(*b)) for b in batches] if graphed else None

                def function():
                    if not graphs:
                        return torch.cat([module(*b) for b in batches])
                    for graph, _ in graphs:
                        graph.replay()
                    return torch.cat([out for _, out in graphs])

                check(f"{name} {suffix} in {parts}", function(), expected)
                times = timing.device_times([function], repeats, 0.2)[0]
                whole.setdefault(suffix, {})[parts] = times
                median = sorted(times)[len(times) // 2]
                print(f"{name} {count} pairs, {parts} batches, {suffix}: {median:.3f} ms", flush=True)

            way("eager", model, False)
            way("graph", model, True)
            if with_compile:
                torch._dynamo.reset()
                torch._dynamo.config.recompile_limit = 64
                way("compile", torch.compile(model, dynamic=False), True)
    for suffix, times in whole.items():
        parts = min(times, key=lambda p: sorted(times[p])[len(times[p]) // 2])
        timing.record(row, "ms_" + suffix, times[parts])
        row["batches_" + suffix] = parts
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--pairs", help="MODEL:N:SHORTESTxLONGEST")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if args.repeats < 30:
        parser.error("--repeats: at least 30")
    known = {**MODELS, **pytorch_gated.MODELS}
    shapes = timing.parse_shapes(parser, args.shapes, known, "model") if args.shapes else []
    run = timing.run_facts()
    rows = []
    for name, batch, seq in shapes:
        own = measure_gated if name in pytorch_gated.MODELS else measure
        row = own(name, batch, seq, args.repeats, not args.no_compile)
        rows.append(row)
        times = "  ".join(
            f"{w} {row['ms_' + w]:8.3f} ms (wall {row['wall_ms_' + w]:.3f})" for w in WAYS if "ms_" + w in row
        )
        print(f"{name:10} {batch:4} x {seq:<4} {times}  {row['tokens_per_s']:.4g} tokens/s", flush=True)
        run["driver_and_clocks"] = timing.driver()  # those under load
        timing.write_json(args.out, {"run": run, "rows": rows})  # what is measured stays when a later shape fails
    if args.pairs:
        name, count, size = args.pairs.split(":")
        shortest, longest = (int(n) for n in size.split("x"))
        rows.append(measure_pairs(name, int(count), shortest, longest, args.repeats, not args.no_compile))
        timing.write_json(args.out, {"run": run, "rows": rows})


main()
