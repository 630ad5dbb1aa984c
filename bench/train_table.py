#!/usr/bin/env python3
"""Prints training steps of whole models, Wherry's beside PyTorch's, as Markdown.

Usage: train_table.py FOLDER [--update FILE]

Reads FOLDER/*.json: records of `wherry bench train --json`, and what bench/peers/pytorch_train.py wrote (pytorch*.json).
Records of processes that train together (those below mpirun) have "exchange" in their plan, and are in the third table.
The first table has a line for each way to make a step: the host's time, tokens per second, memory of the device (ours:
all that is held; PyTorch: torch.cuda.max_memory_allocated), and how many times as fast as PyTorch's eager step and as
its best. The second has the kernels of ours by part, and the optimizer's rate against the copy of the same record; the
third data parallelism. --update writes them between the two marks in FILE instead.
"""
import argparse
import json
import sys
from pathlib import Path

MARKS = ("<!-- training steps: bench/train_table.py -->", "<!-- end of training steps -->")
PARTS = ("forward", "backward", "loss", "optimizer")


def number(value, format_="{:.1f}"):
    return "" if value is None else format_.format(value)


def table(head, rows):
    """`head`: names, those of numbers with ">" before them."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(name.lstrip(">") for name in head) + " |"]
    lines.append("|" + "|".join("---:" if name.startswith(">") else "---" for name in head) + "|")
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def load(folder):
    records, peers = [], []
    for path in sorted(Path(folder).glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, dict):
                continue
            if path.name.startswith("pytorch"):
                peers.append(entry)
            elif entry.get("schema") == "rl-1" and entry["workload"]["kind"] == "train":
                records.append(entry)
    if not records and not peers:
        sys.exit(f"train_table: {folder}: neither records of wherry bench train nor results of pytorch_train.py")
    return records, peers


def shape_of(work):
    return work["model"]["source"], work["sequences"], max(work["lengths"])


def ways_of(peers):
    """shape: {way: row's figures}"""
    found = {}
    for peer in peers:
        for row in peer["rows"]:
            shape = (row["model"], row["batch"], row["seq"])
            for key in row:
                if key.startswith("tokens_per_s_"):
                    way = key[len("tokens_per_s_") :]
                    found.setdefault(shape, {})[way] = {
                        "ms": row["ms_" + way],
                        "p05": row[f"ms_{way}_p05"],
                        "p95": row[f"ms_{way}_p95"],
                        "tokens": row[key],
                        "bytes": row.get("max_allocated_" + way),
                    }
    return found


def alone(record):
    return [plan for plan in record["plans"] if "exchange" not in plan]


def task_of(work):
    """With what is not as usual."""
    training = work["training"]
    unusual = [f"saved: {training['save']}"] if training["save"] != "default" else []
    if training.get("lora"):
        unusual.append(f"LoRA {training['lora']}")
    if training.get("memory_budget"):
        unusual.append(f"within {training['memory_budget'] / 1e9:.4g} GB")
    return ", ".join([training["task"], *unusual])


def ours_of(records):
    for record in records:
        work = record["workload"]
        devices = {device["dev"]: device for device in record["devices"]}
        for plan in alone(record):
            host = plan["step"]["host"]
            yield shape_of(work), {
                "who": f"Wherry {devices[plan['dev']]['id']}, {plan['plan']}, {plan['dtype']}, {task_of(work)}",
                "ms": 1e3 * host["median"],
                "p05": 1e3 * host["p05"],
                "p95": 1e3 * host["p95"],
                "tokens": work["tokens"] / host["median"],
                "bytes": plan["memory"]["total"],
            }


def steps_table(records, peers):
    ways, ours = ways_of(peers), list(ours_of(records))
    rows = []
    for shape in sorted({*ways, *(shape for shape, _ in ours)}, key=lambda s: (s[0], -s[1] * s[2])):
        there = ways.get(shape, {})
        eager, best = there.get("eager"), min(there.values(), key=lambda way: way["ms"], default=None)
        entries = [{"who": f"PyTorch {way}", **there[way]} for way in there] + [one for s, one in ours if s == shape]
        for one in entries:
            against = [number(base["ms"] / one["ms"], "{:.2f}") if base else "" for base in (eager, best)]
            memory = number(one["bytes"] / 1e9 if one["bytes"] else None)
            rows.append([f"{shape[0]} {shape[1]}×{shape[2]}", one["who"], number(one["ms"], "{:.2f}"),
                         f"{one['p05']:.2f} to {one['p95']:.2f}", number(one["tokens"], "{:,.0f}"), memory, *against])
    return table(["shape", "step", ">ms", ">5 to 95 %", ">tokens/s", ">GB", ">× eager", ">× best"], rows)


def copy_of(record, dev):
    rates = [c["value"] for c in record["ceilings"] if c["dev"] == dev and c["id"] == "dram.copy" and c["best"]]
    return max(rates, default=None)


def optimizer_rate(record, plan):
    """Bytes per second of the optimizer's kernels together."""
    ops = [op for op in record["ops"] if (op["plan"], op["dev"], op["phase"]) == (plan["plan"], plan["dev"], "optimizer")]
    if not ops or any(not op["warm"] for op in ops):
        return None
    moved = sum(op["bytes"]["q"]["r"] + op["bytes"]["q"]["w"] for op in ops)
    return moved / sum(op["warm"]["median"] for op in ops)


def head_seconds(record, plan):
    """Of the groups that make scores of the vocabulary and the loss of them, both passes."""
    heads = ("labelled", "vocabulary", "entropy")
    ops = [op for op in record["ops"] if (op["plan"], op["dev"]) == (plan["plan"], plan["dev"]) and op["id"].startswith(heads)]
    return sum(op["warm"]["median"] for op in ops) if ops and all(op["warm"] for op in ops) else None


def parts_table(records):
    rows = []
    for record in records:
        name, batch, seq = shape_of(record["workload"])
        for plan in alone(record):
            device = next(d["id"] for d in record["devices"] if d["dev"] == plan["dev"])
            phases, kernels = plan["phases"] or {}, plan["step"]["kernels"]
            seconds = [(phases.get(part) or {}).get("device_seconds") for part in PARTS]
            head = head_seconds(record, plan)
            rate, copy = optimizer_rate(record, plan), copy_of(record, plan["dev"])
            rows.append([f"{name} {batch}×{seq}", f"{device}, {plan['plan']}, {task_of(record['workload'])}",
                         *(number(None if s is None else 1e3 * s, "{:.2f}") for s in seconds),
                         number(1e3 * kernels["median"] if kernels else None, "{:.2f}"),
                         number(1e3 * head if head else None, "{:.2f}"),
                         number(rate and rate / 1e9, "{:.0f}"), number(rate / copy * 100 if rate and copy else None)])
    return table(["shape", "device", *(">" + part for part in PARTS), ">kernels, ms", ">of it the head", ">optimizer GB/s", ">% of copy"], rows)


def together_rows(records):
    """Ours: each beside the record of one process with the same batch on a device of the same API."""
    single = {}
    for record in records:
        for plan in alone(record):
            api = record["devices"][0]["id"].split(":")[0]
            single[shape_of(record["workload"]), api, plan["plan"], task_of(record["workload"])] = 1e3 * plan["step"]["host"]["median"]
    for record in records:
        name, batch, seq = shape_of(record["workload"])
        api = record["devices"][0]["id"].split(":")[0]
        for plan in record["plans"]:
            exchange = plan.get("exchange")
            if not exchange:
                continue
            one, ms = single.get(((name, batch, seq), api, plan["plan"], task_of(record["workload"]))), 1e3 * plan["step"]["host"]["median"]
            yield [f"{name} {batch}×{seq}", f"Wherry {api}, {plan['plan']}, MPI, {exchange['wire']}", str(exchange["processes"]),
                   number(one, "{:.2f}"), "", number(ms, "{:.2f}"), "", number(100 * one / ms if one else None),
                   number(100 * exchange["hidden"])]


def together_table(records, peers):
    rows = list(together_rows(records))
    rows += [[f"{row['model']} {row['batch']}×{row['seq']}", f"PyTorch DDP, {row['way']}", str(row["processes"]),
              *(number(row.get("ms_" + key), "{:.2f}") for key in ("one", "p2p", "no_p2p")),
              *(number(100 * row["efficiency_" + key] if f"efficiency_{key}" in row else None) for key in ("p2p", "no_p2p")), ""]
             for peer in peers for row in peer["ddp"]]
    return table(["shape for each", "", ">GPUs", ">ms, one", ">P2P", ">through the host", ">% kept, P2P", ">through the host",
                  ">% of the exchange hidden"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--update")
    args = parser.parse_args()
    records, peers = load(args.folder)
    text = "\n".join(part for part in (steps_table(records, peers), parts_table(records), together_table(records, peers)) if part)
    if not args.update:
        print(text, end="")
        return
    path = Path(args.update)
    old = path.read_text(encoding="utf-8")
    if any(mark not in old for mark in MARKS):
        sys.exit(f"train_table: {path} lacks the marks {' and '.join(MARKS)}")
    before, rest = old.split(MARKS[0], 1)
    path.write_text(before + MARKS[0] + "\n" + text + MARKS[1] + rest.split(MARKS[1], 1)[1], encoding="utf-8")


main()
