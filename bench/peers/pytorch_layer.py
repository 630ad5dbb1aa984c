#!/usr/bin/env python3
"""Times the training of one encoder layer in PyTorch on this machine's CUDA device: forward, backward, both.

Usage: pytorch_layer.py [--out FILE] [--shapes LAYER:BATCHxSEQ,...] [--repeats N] [--no-compile]

Work: the same as that of `wherry bench layer --config LAYER`: one layer with dropout 0.1 at its four places (attention's
weights, its output, what comes out of the activation or its gate, the second product), f16, random weights, inputs and
gradients, no padding (all sequences of a batch have the same length), so no mask. BERT's are post-LN with ReLU; those with
rotary positions and gates (pytorch_gated.py) are the first of their encoders: ModernBERT's without a norm before its
attention, which sees all; Qwen3's causal. Forward in training mode; backward gives the gradients of the input and of all
parameters, nothing is accumulated or updated.

Three ways: eager; the same kernels replayed as CUDA graphs; torch.compile, replayed as CUDA graphs. Of each three times,
device time between two events:
  ms_forward_*   with what backward needs kept
  ms_backward_*  after such a forward
  ms_both_*      forward and backward; one graph where graphs are replayed
Medians (5th and 95th percentile beside them) of at least 50 passes after at least half a second of the same work. A way
that fails has error_* instead, which says why. What the device's memory reaches: pytorch_roof.py.

Prints one line per shape; FILE gets JSON: {"run": {...}, "rows": [{"layer", "batch", "seq", ...}]}.
"""
import argparse
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

import pytorch_gated
import timing

#         hidden, heads, feed-forward
LAYERS = {"minilm-l6": (384, 12, 1536), "bert-base": (768, 12, 3072), "bert-large": (1024, 16, 4096)}
SHAPES = "bert-large:8x512,bert-large:96x128"
DROPOUT, EPSILON = 0.1, 1e-12
WAYS, PASSES = ("eager", "graph", "compile"), ("forward", "backward", "both")


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

    def drop(self, x):
        return F.dropout(x, DROPOUT, self.training)

    def forward(self, x):  # [batch, seq, hidden]
        batch, seq, hidden = x.shape
        qkv = self.qkv(x).view(batch, seq, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0)
        context = context.transpose(1, 2).reshape(batch, seq, hidden)
        x = self.norm1(x + self.drop(self.out(context)))
        return self.norm2(x + self.drop(self.lin2(self.drop(F.relu(self.lin1(x))))))


def make(name, seq):
    """The layer, its width and the name of its activation."""
    if name in pytorch_gated.MODELS:
        shape = pytorch_gated.MODELS[name]
        return pytorch_gated.First(shape, seq, DROPOUT), shape.hidden, shape.activation
    return Layer(*LAYERS[name]), LAYERS[name][0], "relu"


# ---- the three ways ----


class Step:
    """Forward and backward of a module, to be called in this order. The newest results are in y and gradients."""

    def __init__(self, module, parameters, x, dy):
        self.module, self.inputs, self.x, self.dy = module, (x, *parameters), x, dy
        self.y = self.gradients = None

    def forward(self):
        self.gradients = None  # as in a training step, their memory can be taken again
        self.y = self.module(self.x)

    def backward(self):
        self.gradients = torch.autograd.grad(self.y, self.inputs, self.dy)

    def both(self):
        self.forward()
        self.backward()


class Replay:
    """A step as CUDA graphs: one for both passes, one for the forward pass. A backward pass captured alone needs the
    generator's state of another graph, which PyTorch refuses: its time is the difference."""

    def __init__(self, step):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step.both()
            step.y = step.gradients = None
        torch.cuda.current_stream().wait_stream(stream)
        whole = self.capture(None, step.both)
        self.whole_results = step.y, step.gradients
        first = self.capture(None, step.forward)
        step.y = None
        self.forward, self.backward, self.both = first.replay, None, whole.replay

    @staticmethod
    def capture(pool, function):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            function()
        return graph


def norms(y, gradients):
    """Of y and of each gradient, and how far each may be off: they hang on dropout's masks little where there are many
    elements."""
    results = [t.detach() for t in (y, *gradients)]
    values = torch.stack([t.double().norm() for t in results])
    if not bool(torch.isfinite(values).all()):
        raise ArithmeticError("a result is not finite")
    return values, values.new_tensor([max(0.1, 6 / math.sqrt(2 * t.numel())) for t in results])


def check_norms(got, expected, what):
    (values, bounds), (wanted, _) = got, expected
    off = (values - wanted).abs() / wanted
    if not bool((off < bounds).all()):
        raise ArithmeticError(f"{what}: the norm of a result is off by {off.max().item():.3f} of itself")


def check_replay(step, expected):
    """Replayed, a graph does the whole work, and drops other elements every time."""
    seen = []
    for _ in range(2):
        step.both()
        seen.append(step.whole_results[0].detach().clone())
        check_norms(norms(*step.whole_results), expected, "replayed")
    if torch.equal(*seen):
        raise ArithmeticError("replayed, the graph drops the same elements again")


def check_layer(layer, x, dy, want):
    """Without dropout f16 is near to f32."""
    layer.eval()
    got = Step(layer, list(layer.parameters()), x, dy)
    got.both()
    layer.train()
    for a, b in zip((got.y, *got.gradients), want):
        cosine = F.cosine_similarity(a.detach().double().flatten(), b.detach().double().flatten(), dim=0).item()
        if not cosine > 0.99:
            sys.exit(f"differs from f32: a result has cosine {cosine}")


def in_f32(layer, x, dy):
    layer.eval()
    step = Step(layer, list(layer.parameters()), x.detach().float().requires_grad_(), dy.float())
    step.both()
    return step.y, *step.gradients


def measure(name, batch, seq, repeats, with_compile):
    torch.manual_seed(0)
    layer, hidden, activation = make(name, seq)
    row = {"layer": name, "batch": batch, "seq": seq, "repeats": repeats, "activation": activation}
    layer = layer.cuda()
    x = torch.randn(batch, seq, hidden, device="cuda", dtype=torch.half, requires_grad=True)
    dy = torch.randn(batch, seq, hidden, device="cuda", dtype=torch.half)
    want = in_f32(layer, x, dy)
    layer = layer.half()
    check_layer(layer, x, dy, want)
    del want
    parameters = list(layer.parameters())
    eager = Step(layer, parameters, x, dy)
    eager.both()
    expected = norms(eager.y, eager.gradients)
    eager.y = eager.gradients = None

    def replay(module):
        step = Replay(Step(module, parameters, x, dy))
        check_replay(step, expected)
        return step

    def compiled():
        torch._dynamo.reset()
        return replay(torch.compile(layer, dynamic=False))

    makers = {"eager": lambda: eager, "graph": lambda: replay(layer), "compile": compiled}
    for way in WAYS:
        if way == "compile" and not with_compile:
            continue
        try:
            step = makers[way]()
            passes = [step.forward, step.backward] if step.backward else [step.forward]
            times = dict(zip(PASSES, timing.device_times(passes, repeats)))
            (times["both"],) = timing.device_times([step.both], repeats)
            for suffix in times:
                timing.record(row, f"ms_{suffix}_{way}", times[suffix])
        except Exception as error:  # whatever it is: the other ways are still worth having
            row["error_" + way] = timing.short(error)
        step = eager.y = eager.gradients = None  # what is alive of this way's autograd graph would break a capture
        torch.cuda.empty_cache()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if args.repeats < 50:
        parser.error("--repeats: at least 50")
    shapes = timing.parse_shapes(parser, args.shapes, {**LAYERS, **pytorch_gated.MODELS}, "layer")
    result = {"run": timing.run_facts(dropout=DROPOUT), "rows": []}
    for name, batch, seq in shapes:
        row = measure(name, batch, seq, args.repeats, not args.no_compile)
        result["rows"].append(row)
        print(f"{name} {batch} x {seq}: ms forward, backward, both", flush=True)
        for way in WAYS:
            if "error_" + way in row:
                print(f"  {way:8} {row['error_' + way]}", flush=True)
            elif "ms_both_" + way in row:
                print(f"  {way:8}" + "".join(f" {row.get(f'ms_{p}_{way}', float('nan')):8.4f}" for p in PASSES), flush=True)
        result["run"]["driver_and_clocks"] = timing.driver()  # those under load
        timing.write_json(args.out, result)  # after every row: what is measured stays when a later shape fails


main()
