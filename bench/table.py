#!/usr/bin/env python3
"""Prints Wherry's times beside PyTorch's, from the results that scripts/gpu.sh left in a folder.

Usage: table.py FOLDER

Reads FOLDER/*.json: records (`wherry bench --json`, `wherry bench layer --json`; others are passed over), pytorch.json
(bench/peers/pytorch_encoder.py) and pytorch_layer.json (bench/peers/pytorch_layer.py). Every group's times are in what
`wherry report --format markdown` prints. Times are medians: "host" as a caller waits, an encode with its copies, a training
step without; "device" by the device's timestamps (Wherry: the sum over the groups). PyTorch's training has no host times.
"""
import json
import sys
from pathlib import Path

PHASES = ("forward", "backward", "both")


def ms(seconds):
    return "" if seconds is None else f"{1e3 * seconds:.3f}"


def median(time):
    return time and time["median"]


def shape_of(workload):
    lengths = set(workload["lengths"])
    length = lengths.pop() if len(lengths) == 1 else "uneven"
    return workload["model"]["source"], workload["sequences"], length


def print_table(left, right, rows):
    """rows: (shape, cells); those of a shape together, shapes in order of size."""
    if not rows:
        return
    print("| " + " | ".join(left + right) + " |")
    print("|" + "---|" * len(left) + "---:|" * len(right))
    for shape in sorted({shape for shape, _ in rows}, key=str):
        for other, cells in rows:
            if other == shape:
                print(f"| {shape[0]} | {shape[1]}×{shape[2]} | " + " | ".join(cells) + " |")
    print()


def encode_rows(records, pytorch):
    for record in records:
        names = {device["dev"]: device["id"] for device in record["devices"]}
        for plan in record["plans"]:
            host = median(plan["step"]["host"])
            rate = f"{record['workload']['tokens'] / host:,.0f}"
            who = f"{names[plan['dev']]} {plan['plan']} {plan['dtype']}"
            yield shape_of(record["workload"]), (who, ms(host), ms(median(plan["step"]["kernels"])), rate)
    for row in pytorch:
        for way in ("eager", "graph", "compile"):
            if "ms_" + way in row:
                wall, shape = row["wall_ms_" + way], (row["model"], row["batch"], row["seq"])
                rate = f"{row['batch'] * row['seq'] / wall * 1e3:,.0f}"
                yield shape, (f"PyTorch {way} f16", f"{wall:.3f}", f"{row['ms_' + way]:.3f}", rate)


def layer_rows(records, pytorch):
    for record in records:
        names = {device["dev"]: device["id"] for device in record["devices"]}
        for plan in record["plans"]:
            who = f"{names[plan['dev']]} {plan['plan']} {plan['dtype']}"
            phases = [plan["phases"].get(phase, {}) for phase in PHASES]
            times = [ms(p.get(kind)) for kind in ("host_seconds", "device_seconds") for p in phases]
            more = (f"{plan['saved_bytes'] / 1e6:.1f}", str(plan["launches"]))
            yield shape_of(record["workload"]), (who, *times, *more)
    for row in pytorch:
        for way in ("eager", "graph", "compile"):
            if f"ms_both_{way}" in row:
                times = [f"{row[f'ms_{phase}_{way}']:.3f}" if f"ms_{phase}_{way}" in row else "" for phase in PHASES]
                shape = row["layer"], row["batch"], row["seq"]
                yield shape, (f"PyTorch {way} f16", "", "", "", *times, "", "")


def records_of(folder, kind):
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        for record in value if isinstance(value, list) else [value]:
            if record.get("schema") == "rl-1" and record["workload"]["kind"] == kind:
                yield record


def peer(folder, name):
    path = folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}


def main():
    folder = Path(sys.argv[1])
    encodes = list(encode_rows(records_of(folder, "encode"), peer(folder, "pytorch.json")["rows"]))
    trained = peer(folder, "pytorch_layer.json")
    layers = list(layer_rows(records_of(folder, "layer"), trained["rows"]))
    if not encodes and not layers:
        sys.exit(f"{folder}: no results")
    print_table(["model", "batch", "what"], ["host ms", "device ms", "tokens/s (host)"], encodes)
    times = [f"{phase}, {kind}" for kind in ("host", "device") for phase in PHASES]
    print_table(["layer", "batch", "what"], [*times, "saved MB", "kernels"], layers)
    if "read_and_written_bytes_per_s" in trained.get("copy", {}):
        rate = trained["copy"]["read_and_written_bytes_per_s"]
        print(f"PyTorch copies at {rate / 1e9:.0f} GB/s, bytes read and written; Wherry's ceilings are in the records.")


main()
