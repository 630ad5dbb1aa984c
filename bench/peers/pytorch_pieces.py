#!/usr/bin/env python3
"""Times matrix products, attention and layernorms in PyTorch on this machine's CUDA device: the same work as
`wherry bench gemm`, `wherry bench attention` and `wherry bench norm`.

Usage: pytorch_pieces.py [--out FILE] [--gemm MxNxK,...] [--attention BxHxLxD,...] [--norm RxN,...] [--repeats N]

gemm       forward    x[M,K] w[N,K]^T       by cuBLAS and by cuBLASLt
           dx         dy[M,N] w[N,K]
           dw         dy[M,N]^T x[M,K]
attention  forward    scaled_dot_product_attention without dropout, by each of its backends
           backward   of the same with dropout 0.1
norm       forward    layer_norm, eager and compiled
           backward   with the gradients of gamma and beta, likewise
           bdrln      layer_norm(dropout(x + bias) + residual), which also returns the sum, as training keeps it

f16; uniform random values of the deviation that ours have. A call is captured many times, one after the other over the
same buffers, in a CUDA graph, which is replayed: a replay's time over its calls is a sample. Two times of each way:
  ms         median of at least 20 samples (5th and 95th percentile beside it), with what lies between kernels
  kernel_ms  the kernels' own time in a replay by the profiler (CUPTI), without; null where it can't be had
What is captured before the calls (the forward pass before backward) is timed in a graph of its own and subtracted.

Prints one line per way; FILE gets JSON: {"run": {...}, "rows": [{"piece", "shape", "form", "way", "ms", ...}]}.
"""
import argparse
import math
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import timing

GEMM = (
    "8192x8192x8192,4096x4096x4096,4096x1024x1024,4096x3072x1024,4096x4096x1024,4096x1024x4096,"
    "16384x768x768,16384x3072x768,16384x768x3072"
)
ATTENTION, NORM = "32x16x512x64", "65536x1024"
DROPOUT, EPSILON = 0.1, 1e-12
LEAST_REPEATS = 20
WARM_SECONDS = 0.15  # work follows work, so that clocks are warm; power's limit acts on large products in this time
FLASH, CUDNN, EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
# "default": the one that PyTorch takes of all
BACKENDS = {"flash": [FLASH], "cudnn": [CUDNN], "efficient": [EFFICIENT], "default": [FLASH, CUDNN, EFFICIENT]}


def uniform(*shape, deviation=1.0, grad=False):
    x = torch.empty(shape, device="cuda", dtype=torch.half).uniform_(-1, 1).mul_(math.sqrt(3) * deviation)
    return x.requires_grad_(grad)


# ---- time ----


def capture(before, function, calls):
    """A graph of `before`, whose result each of the calls gets."""

    def body():
        state = before() if before else ()
        for _ in range(calls):
            out = function(*state)
        return out if calls else state

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            body()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = body()
    return graph, out


def kernel_ms(graph, replay_ms):
    """The sum over a replay's kernels: the median of many replays one after the other, the first half passed over."""
    replays = max(10, min(100, round(1e3 * WARM_SECONDS / replay_ms)))
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, acc_events=True) as profile:
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
    events = [
        event
        for event in profile.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and "Sync" not in event.name()
    ]
    kernels = len(events) // replays
    if not kernels or len(events) % replays:
        raise RuntimeError(f"the profiler saw {len(events)} kernels in {replays} replays")
    spans = [event.duration_ns() for event in sorted(events, key=lambda event: event.start_ns())]
    sums = [sum(spans[n : n + kernels]) for n in range(0, len(spans), kernels)]
    return statistics.median(sums[replays // 2 :]) * 1e-6


def check_finite(tensors):
    for tensor in tensors if isinstance(tensors, (tuple, list)) else (tensors,):
        if not bool(torch.isfinite(tensor.detach().float().sum())):
            raise ArithmeticError("a result is not finite")


def replay_times(graph, repeats):
    times = timing.device_times([graph.replay], repeats, WARM_SECONDS)[0]
    try:
        return times, kernel_ms(graph, statistics.median(times)), None
    except Exception as error:  # no right to profile, say
        return times, None, timing.short(error)


def measure(function, repeats, before=None):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    state = before() if before else ()
    function(*state)
    begin.record()
    function(*state)
    end.record()
    end.synchronize()
    del state
    calls = 16 if begin.elapsed_time(end) < 0.5 else 4
    graph, out = capture(before, function, calls)
    times, kernels, error = replay_times(graph, repeats)
    check_finite(out)
    first, first_kernels = 0.0, 0.0
    if before:
        first_graph, _ = capture(before, function, 0)
        first_times, first_kernels, _ = replay_times(first_graph, repeats)
        first = statistics.median(first_times)
    result = {"calls": calls, "repeats": repeats}
    timing.record(result, "ms", [(t - first) / calls for t in times])
    result["kernel_ms"] = (kernels - first_kernels) / calls if kernels and first_kernels is not None else None
    if error:
        result["kernel_error"] = error
    return result


# ---- the pieces: (form, way, function, before) ----


def gemm(m, n, k):
    x, w, dy = uniform(m, k), uniform(n, k, deviation=k**-0.5), uniform(m, n)
    y, dx, dw = (torch.empty(s, device="cuda", dtype=torch.half) for s in ((m, n), (m, k), (n, k)))
    for way in ("cublas", "cublaslt"):
        torch.backends.cuda.preferred_blas_library(way)
        yield "forward", way, lambda: torch.mm(x, w.t(), out=y), None
        yield "dx", way, lambda: torch.mm(dy, w, out=dx), None
        yield "dw", way, lambda: torch.mm(dy.t(), x, out=dw), None
    torch.backends.cuda.preferred_blas_library("default")


def attention(batch, heads, length, width):
    qkv = [uniform(batch, heads, length, width, grad=True) for _ in range(3)]
    d_out = uniform(batch, heads, length, width)

    def forward():
        with torch.no_grad():
            return F.scaled_dot_product_attention(*qkv)

    def with_dropout():
        return (F.scaled_dot_product_attention(*qkv, dropout_p=DROPOUT),)

    def backward(out):
        return torch.autograd.grad(out, qkv, d_out, retain_graph=True)

    for way, backends in BACKENDS.items():
        with sdpa_kernel(backends):
            yield "forward", way, forward, None
            yield "backward", way, backward, with_dropout


def norm(rows, width):
    x, residual, dy = (uniform(rows, width) for _ in range(3))
    gamma, beta, bias = (uniform(width, deviation=0.1) for _ in range(3))
    gamma += 1

    def forward():
        return F.layer_norm(x, (width,), gamma, beta, EPSILON)

    def bdrln():
        total = F.dropout(x + bias, DROPOUT, True) + residual
        return F.layer_norm(total, (width,), gamma, beta, EPSILON), total

    _, mean, rstd = torch.ops.aten.native_layer_norm(x, (width,), gamma, beta, EPSILON)

    def backward():
        return torch.ops.aten.native_layer_norm_backward(dy, x, (width,), mean, rstd, gamma, beta, [True, True, True])

    for form, function in (("forward", forward), ("backward", backward), ("bdrln", bdrln)):
        yield form, "eager", function, None
        yield form, "compile", torch.compile(function, dynamic=False), None


PIECES = {"gemm": (gemm, 3), "attention": (attention, 4), "norm": (norm, 2)}


def shapes_of(parser, piece, text):
    for word in filter(None, text.split(",")):
        sizes = word.split("x")
        if len(sizes) != PIECES[piece][1] or not all(size.isdigit() for size in sizes):
            parser.error(f"--{piece}: '{word}' is no size of this piece")
        yield word, list(map(int, sizes))


def describe(row):
    if "error" in row:
        return row["error"]
    kernels = f"{1e3 * row['kernel_ms']:10.2f}" if row["kernel_ms"] else row.get("kernel_error", "none")
    return f"{1e3 * row['ms']:10.2f} us, kernels {kernels}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--gemm", default=GEMM)
    parser.add_argument("--attention", default=ATTENTION)
    parser.add_argument("--norm", default=NORM)
    parser.add_argument("--repeats", type=int, default=LEAST_REPEATS)
    args = parser.parse_args()
    if args.repeats < LEAST_REPEATS:
        parser.error(f"--repeats: at least {LEAST_REPEATS}")
    work = [(p, *shape) for p in PIECES for shape in shapes_of(parser, p, getattr(args, p))]
    result = {"run": timing.run_facts(dropout=DROPOUT), "rows": []}
    torch.manual_seed(0)
    heat = uniform(4096, 4096)
    timing.warm(lambda: torch.mm(heat, heat))
    for piece, shape, sizes in work:
        for form, way, function, before in PIECES[piece][0](*sizes):
            row = {"piece": piece, "shape": shape, "form": form, "way": way}
            try:
                row.update(measure(function, args.repeats, before))
            except Exception as error:  # whatever it is: the other ways are still worth having
                row["error"] = timing.short(error)
            result["rows"].append(row)
            print(f"{piece} {shape} {form} {way}: {describe(row)}", flush=True)
        result["run"]["driver_and_clocks"] = timing.driver()  # those under load
        timing.write_json(args.out, result)
        torch.cuda.empty_cache()


main()
