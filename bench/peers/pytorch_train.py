#!/usr/bin/env python3
"""Times training steps of whole BERT models in PyTorch: the same work as `wherry bench train --task mlm`.

Usage: pytorch_train.py [--out FILE] [--shapes MODEL:BATCHxSEQ,...] [--ways WAY,...] [--repeats N] [--seconds S]
                        [--max-norm X] [--device cuda|cpu] [--dropout P]
       pytorch_train.py --ddp N [--ddp-way eager|compile] [the same]     data parallel, with P2P and without it

Work: masked language modelling, 15 % of the tokens predicted, random ids, no padding; weights and moments in float32,
products under bfloat16 autocast, dropout, fused AdamW with decay 0.01. A step is forward, loss, backward, the change of
the weights and setting the gradients to None; nothing is copied to the device, and the loss is not read. Gradients are
not clipped unless --max-norm says so (`wherry bench train` always has their norm).

Ways:
  eager    transformers' BertForMaskedLM as it comes, with an attention mask of ones and scores of all tokens
  compile  the same, torch.compile
  reduce   the best model: scaled-dot-product attention without a mask, one product for queries, keys and values, the
           masked rows gathered before the head; torch.compile in the mode "reduce-overhead" (replayed as CUDA graphs)
  graph    the same model, compiled, and the whole step, optimizer included, replayed as one CUDA graph
Once --seconds are over, further ways are left out and named so. A way that fails has error_* instead.

Of each way: ms_* is the host's time of a step in a row of steps that are waited for at the end of each (median, 5th and
95th percentile), tokens_per_s_*, max_allocated_* and max_reserved_* (torch.cuda, bytes), loss_* of the last step.

--ddp N: torch's DistributedDataParallel over N processes (NCCL; on the CPU gloo), the batch for each; beside the same
way with one process, in the same run. Twice: P2P as NCCL has it, and with NCCL_P2P_DISABLE=1. efficiency is the time of
one over that of N.

FILE gets JSON: {"run": {...}, "rows": [{"model", "batch", "seq", "ms_eager", ...}], "ddp": [...]}.
"""
import argparse
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import timing

# layers, hidden, heads, feed-forward, vocabulary, positions
MODELS = {
    "bert-large": (24, 1024, 16, 4096, 30522, 512),
    "bert-base": (12, 768, 12, 3072, 30522, 512),
    "minilm-l6": (6, 384, 12, 1536, 30522, 512),
    "tiny": (2, 32, 4, 64, 100, 64),
}
SHAPES = "bert-large:32x512,bert-large:8x512"
WAYS = ("eager", "compile", "reduce", "graph")
MASKED, IGNORED, DECAY, RATE = 0.15, -100, 0.01, 1e-6
EPSILON = 1e-12


# ---- the models ----


class Best(nn.Module):
    """BERT for masked tokens as fast as plain PyTorch has it."""

    class Layer(nn.Module):
        def __init__(self, hidden, heads, feed_forward, dropout):
            super().__init__()
            self.heads, self.dropout = heads, dropout
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.lin1, self.lin2 = nn.Linear(hidden, feed_forward), nn.Linear(feed_forward, hidden)
            self.norm1, self.norm2 = nn.LayerNorm(hidden, EPSILON), nn.LayerNorm(hidden, EPSILON)

        def forward(self, x):
            batch, seq, hidden = x.shape
            qkv = self.qkv(x).view(batch, seq, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(*qkv.unbind(0), dropout_p=self.dropout if self.training else 0.0)
            y = self.out(y.transpose(1, 2).reshape(batch, seq, hidden))
            x = self.norm1(x + F.dropout(y, self.dropout, self.training))
            y = self.lin2(F.gelu(self.lin1(x)))
            return self.norm2(x + F.dropout(y, self.dropout, self.training))

    def __init__(self, name, dropout):
        super().__init__()
        layers, hidden, heads, feed_forward, vocabulary, positions = MODELS[name]
        self.dropout = dropout
        self.words, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(positions, hidden)
        self.types = nn.Parameter(torch.zeros(hidden))
        self.norm = nn.LayerNorm(hidden, EPSILON)
        self.layers = nn.ModuleList(self.Layer(hidden, heads, feed_forward, dropout) for _ in range(layers))
        self.dense, self.head_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, places, wanted):
        x = self.words(ids) + self.positions.weight[: ids.shape[1]] + self.types
        x = F.dropout(self.norm(x), self.dropout, self.training)
        for layer in self.layers:
            x = layer(x)
        x = self.head_norm(F.gelu(self.dense(x.flatten(0, 1)[places])))
        return F.cross_entropy(F.linear(x, self.words.weight, self.bias).float(), wanted)


def library_model(name, dropout):
    from transformers import BertConfig, BertForMaskedLM

    layers, hidden, heads, feed_forward, vocabulary, positions = MODELS[name]
    return BertForMaskedLM(
        BertConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=feed_forward,
            max_position_embeddings=positions,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    )


# ---- steps ----


class Work:
    """A model with its batch and optimizer; step() makes one step and gives the loss on the device."""

    def __init__(self, args, way, name, batch, seq, wrap=None):
        torch.manual_seed(0)
        self.args, self.device = args, torch.device(args.device)
        self.best = way in ("reduce", "graph")
        model = (Best(name, args.dropout) if self.best else library_model(name, args.dropout)).to(self.device)
        self.parameters = list(model.parameters())
        graph = way == "graph" and self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=RATE, weight_decay=DECAY, fused=True, **({"capturable": True} if graph else {})
        )
        if wrap:
            model = wrap(model)
        if way in ("compile", "graph"):
            model = torch.compile(model, dynamic=False)
        elif way == "reduce":
            model = torch.compile(model, dynamic=False, mode="reduce-overhead")
        self.model = model.train()
        self.make_batch(MODELS[name][4], batch, seq)
        self.step = self.captured() if graph else self.plain

    def make_batch(self, vocabulary, batch, seq):
        self.ids = torch.randint(vocabulary, (batch, seq), device=self.device)
        count = round(MASKED * batch * seq)
        self.places = torch.randperm(batch * seq, device=self.device)[:count].sort().values
        self.wanted = self.ids.flatten()[self.places]
        self.labels = torch.full_like(self.ids, IGNORED)
        self.labels.view(-1)[self.places] = self.wanted
        self.mask = torch.ones_like(self.ids)

    def loss(self):
        with torch.autocast(self.device.type, torch.bfloat16):
            if self.best:
                return self.model(self.ids, self.places, self.wanted)
            return self.model(input_ids=self.ids, attention_mask=self.mask, labels=self.labels).loss

    def passes(self):
        loss = self.loss()
        loss.backward()
        if self.args.max_norm:
            nn.utils.clip_grad_norm_(self.parameters, self.args.max_norm)
        self.optimizer.step()
        return loss.detach()

    def plain(self):
        if self.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.passes()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def captured(self):
        """The whole step as one graph; what it needs is made by steps before, on a stream of their own."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.passes()
                self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.passes()

        def replay():
            self.graph.replay()
            return self.result

        return replay


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def times_of(work, repeats):
    """ms of each step, and the last loss."""
    work.step()  # compiles
    wait(work.device)
    end = time.perf_counter() + timing.WARM_SECONDS
    while time.perf_counter() < end:
        work.step()
        wait(work.device)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        loss = work.step()
        wait(work.device)
        times.append(1e3 * (time.perf_counter() - start))
    return times, loss.item()


def measure_way(args, row, way):
    cuda = args.device == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    torch._dynamo.reset()
    start = time.perf_counter()
    work = Work(args, way, row["model"], row["batch"], row["seq"])
    times, loss = times_of(work, args.repeats)
    if not loss == loss:
        raise ArithmeticError("the loss is NaN")
    timing.record(row, f"ms_{way}", times)
    row[f"tokens_per_s_{way}"] = 1e3 * row["batch"] * row["seq"] / row[f"ms_{way}"]
    row[f"loss_{way}"] = loss
    row[f"seconds_{way}"] = time.perf_counter() - start
    if cuda:
        row[f"max_allocated_{way}"] = torch.cuda.max_memory_allocated()
        row[f"max_reserved_{way}"] = torch.cuda.max_memory_reserved()


def measure(args, name, batch, seq, begin):
    row = {"model": name, "batch": batch, "seq": seq, "repeats": args.repeats, "dropout": args.dropout}
    for way in args.ways:
        if args.seconds and time.perf_counter() - begin > args.seconds:
            row["error_" + way] = f"left out: {args.seconds:g} seconds are over"
            continue
        try:
            measure_way(args, row, way)
            print(f"{name} {batch}x{seq} {way:8} {row['ms_' + way]:8.2f} ms {row['tokens_per_s_' + way]:10.0f} tokens/s "
                  f"{row.get('max_allocated_' + way, 0) / 1e9:6.1f} GB (made in {row['seconds_' + way]:.0f} s)", flush=True)
        except Exception as error:  # whatever it is: the other ways are still worth having
            row["error_" + way] = timing.short(error)
            print(f"{name} {batch}x{seq} {way:8} {row['error_' + way][:300]}", flush=True)
    return row


# ---- data parallel ----


def ddp_process(rank, world, args, name, batch, seq, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    cuda = args.device == "cuda"
    if cuda:
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world)

    def wrap(model):
        return nn.parallel.DistributedDataParallel(
            model, device_ids=[rank] if cuda else None, gradient_as_bucket_view=True, static_graph=True
        )

    work = Work(args, args.ddp_way, name, batch, seq, wrap if world > 1 else None)
    times, _ = times_of(work, args.repeats) if world == 1 else times_together(work, args)
    if rank == 0:
        results.put(times)
    torch.distributed.destroy_process_group()


def times_together(work, args):
    """As times_of, with the same number of steps on all ranks, whose clocks differ."""
    for _ in range(args.ddp_warm):
        work.step()
    wait(work.device)
    times = []
    for _ in range(args.repeats):
        start = time.perf_counter()
        loss = work.step()
        wait(work.device)
        times.append(1e3 * (time.perf_counter() - start))
    return times, loss.item()


def ddp_times(args, world, name, batch, seq, port):
    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [
        context.Process(target=ddp_process, args=(rank, world, args, name, batch, seq, port, results)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(args.ddp_limit)
    alive = [process for process in processes if process.is_alive()]
    for process in alive:
        process.kill()
    if alive or any(process.exitcode for process in processes):
        raise RuntimeError(f"{world} processes: exit codes {[process.exitcode for process in processes]}")
    return results.get()


def measure_ddp(args, name, batch, seq):
    row = {"model": name, "batch": batch, "seq": seq, "processes": args.ddp, "way": args.ddp_way, "repeats": args.repeats}
    port = 29500 + os.getpid() % 1000
    runs = [("one", 1, None), ("p2p", args.ddp, None), ("no_p2p", args.ddp, "1")]
    for number, (key, world, disable) in enumerate(runs):
        os.environ.pop("NCCL_P2P_DISABLE", None)
        if disable:
            os.environ["NCCL_P2P_DISABLE"] = disable
        try:
            timing.record(row, "ms_" + key, ddp_times(args, world, name, batch, seq, port + number))
            if key != "one" and "ms_one" in row:
                row["efficiency_" + key] = row["ms_one"] / row["ms_" + key]
        except Exception as error:
            row["error_" + key] = timing.short(error)
    os.environ.pop("NCCL_P2P_DISABLE", None)
    print(f"{name} {batch}x{seq} DDP {args.ddp} x {args.ddp_way}: " + ", ".join(
        f"{key} {row[key]:.3f}" if isinstance(row[key], float) else f"{key} {row[key][:200]}"
        for key in row if key.startswith(("error_", "efficiency_")) or key in ("ms_one", "ms_p2p", "ms_no_p2p")), flush=True)
    return row


# ---- all ----


def run_facts(args):
    facts = dict(task="mlm", dropout=args.dropout, dtype="bfloat16 autocast", optimizer="AdamW, fused",
                 max_norm=args.max_norm)
    if args.device == "cuda":
        return timing.run_facts(**facts)
    return {"device": "cpu", "torch": torch.__version__, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **facts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--max-norm", type=float, default=0)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ddp", type=int, default=0)
    parser.add_argument("--ddp-way", choices=("eager", "compile"), default="eager")
    parser.add_argument("--ddp-warm", type=int, default=5)
    parser.add_argument("--ddp-limit", type=float, default=300)
    args = parser.parse_args()
    begin = time.perf_counter()
    args.ways = args.ways.split(",")
    unknown = [way for way in args.ways if way not in WAYS]
    if unknown:
        parser.error(f"--ways: there is no {unknown[0]}; there are {', '.join(WAYS)}")
    shapes = timing.parse_shapes(parser, args.shapes, MODELS, "model")
    result = {"run": run_facts(args), "rows": [], "ddp": []}
    if args.device == "cuda":
        torch.set_float32_matmul_precision("high")
        if args.ddp > torch.cuda.device_count():
            sys.exit(f"--ddp {args.ddp}: there are {torch.cuda.device_count()} CUDA devices")
    for shape in shapes:
        if args.ddp:
            result["ddp"].append(measure_ddp(args, *shape))
        else:
            result["rows"].append(measure(args, *shape, begin))
        if args.device == "cuda":
            result["run"]["driver_and_clocks"] = timing.driver()  # those under load
        timing.write_json(args.out, result)  # after every row: what is measured stays when a later shape fails


if __name__ == "__main__":
    main()
