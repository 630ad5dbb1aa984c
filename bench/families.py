#!/usr/bin/env python3
"""Prints the tables of bench/families.sh: Wherry's times beside PyTorch's fastest way.

Usage: families.py FOLDER

Reads FOLDER/pytorch.json, FOLDER/pytorch_layer.json and the records beside them; × is PyTorch's time over ours.
Encodes: ms are a caller's, of one with its copies (medians); PyTorch's are its wall times, of pairs the device's alone,
which favours it. Weights in 8 bits have a table of their own, beside the same build's f16. A layer in training: ours is
what the host waits for, PyTorch's the device's time; its fastest way is that of both passes together, and where that one
replays graphs its backward pass is the difference.
"""
import json
import sys
from pathlib import Path

WAYS = ("eager", "graph", "compile", "flex")
PASSES = ("forward", "backward", "both")


# ---- what was measured ----


def best(row, prefixes=("wall_ms_", "ms_")):
    """ms and the way of PyTorch's fastest."""
    for prefix in prefixes:
        times = {way: row[prefix + way] for way in WAYS if prefix + way in row}
        if times:
            way = min(times, key=times.get)
            return times[way], way
    return None, ""


def passes_of(row):
    """ms of each pass, and the way."""
    both, way = best(row, ("ms_both_",))
    if not way:
        return {}, ""
    forward = row.get("ms_forward_" + way)
    backward = row.get("ms_backward_" + way, both - forward if forward else None)
    return dict(zip(PASSES, (forward, backward, both))), way


def key_of(row):
    if "seq" in row:
        return row.get("model") or row["layer"], f"{row['batch']}×{row['seq']}"
    return row["model"], f"{row['sequences']} of {row['shortest']} to {row['longest']}"


def key_of_record(record):
    workload = record["workload"]
    lengths = workload["lengths"]
    if len(set(lengths)) == 1:
        return workload["model"]["source"], f"{len(lengths)}×{lengths[0]}"
    return workload["model"]["source"], f"{len(lengths)} of {min(lengths)} to {max(lengths)}"


class Results:
    """Of each kind: {key: {device: a record's plan}}; of PyTorch {key: row}."""

    def __init__(self, folder):
        self.peers = {"pytorch.json": {}, "pytorch_layer.json": {}}
        self.encodes, self.int8, self.layers, self.facts, devices = {}, {}, {}, set(), set()
        for path in sorted(folder.glob("*.json")):
            value = json.loads(path.read_text(encoding="utf-8"))
            if path.name in self.peers:
                self.peers[path.name] = {key_of(row): row for row in value["rows"]}
                self.facts.add(f"PyTorch {value['run']['torch']}, {value['run']['device']}, {value['run']['date'][:10]}")
                continue
            for record in value if isinstance(value, list) else [value]:
                if record.get("schema") == "rl-1" and record["plans"]:
                    devices.add(self.add(record))
        if not devices:
            sys.exit(f"families: {folder}: no records")
        self.devices = sorted(devices)

    def add(self, record):
        device, plan = record["devices"][0], record["plans"][0]
        kinds = {"layer": self.layers, "encode": self.int8 if "weights" in plan else self.encodes}
        kind = kinds.get(record["workload"]["kind"])
        if kind is not None:
            kind.setdefault(key_of_record(record), {})[device["id"]] = plan
        commit, day = record["run"]["tool"]["git"], record["run"]["utc"][:10]
        self.facts.add(f"{device['name']}, {device['driver']}, commit `{commit}`, {day}")
        return device["id"]


# ---- tables ----


def table(left, right, rows):
    if not rows:
        return
    print("\n| " + " | ".join([*left, *right]) + " |")
    print("|" + "---|" * len(left) + "---:|" * len(right))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def beside(results, ms, way, ours):
    """Cells: PyTorch's time, and of each device ours and the ratio. ours: {device: ms}."""
    cells = [f"{ms:.3g} ({way})" if ms else ""]
    for device in results.devices:
        mine = ours.get(device)
        cells += [f"{mine:.3g}" if mine else "", f"{ms / mine:.2f}" if ms and mine else ""]
    return cells


def encode_rows(results):
    peers = results.peers["pytorch.json"]
    for key, plans in results.encodes.items():
        row = peers.get(key, {})
        ms, way = best(row)
        if way and "batches_" + way in row:
            way += f", {row['batches_' + way]} padded batches"
        ours = {device: plan["step"]["host"]["median"] * 1e3 for device, plan in plans.items()}
        yield [*key, *beside(results, ms, way, ours)]


def layer_rows(results):
    peers = results.peers["pytorch_layer.json"]
    for key, plans in results.layers.items():
        times, way = passes_of(peers.get(key, {}))
        for name in PASSES:
            seconds = {device: plan["phases"].get(name, {}).get("host_seconds") for device, plan in plans.items()}
            ours = {device: s * 1e3 for device, s in seconds.items() if s}
            yield [*key, name, *beside(results, times.get(name), way, ours)]


def int8_rows(results):
    """Host and kernels, and the bytes of the weights."""
    for key, plans in results.int8.items():
        for device, small in sorted(plans.items()):
            full = results.encodes.get(key, {}).get(device)
            cells = []
            for kind in ("host", "kernels"):
                times = [p["step"][kind]["median"] * 1e3 if p and p["step"][kind] else None for p in (full, small)]
                cells += [f"{t:.3g}" if t else "" for t in times]
                cells.append(f"{times[0] / times[1]:.2f}" if all(times) else "")
            cells += [f"{p['weight_bytes'] / 1e6:.0f}" if p else "" for p in (full, small)]
            yield [*key, f"{device}, {small['dtype']}", *cells]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    results = Results(Path(sys.argv[1]))
    for fact in sorted(results.facts):
        print(f"{fact}.")
    right = ["PyTorch, ms (its fastest way)"]
    for device in results.devices:
        right += [f"{device}, ms", "×"]
    table(["model", "batch"], right, list(encode_rows(results)))
    table(["layer in training", "batch", "pass"], right, list(layer_rows(results)))
    int8 = ["as stored, ms", "int8, ms", "×", "kernels as stored, ms", "int8, ms", "×", "weights as stored, MB", "int8, MB"]
    table(["model", "batch", "device, stored"], int8, list(int8_rows(results)))


main()
