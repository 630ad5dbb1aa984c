#!/usr/bin/env python3
"""Prints one table of the results that scripts/gpu.sh left in a folder: Wherry per device, PyTorch beside it.

Usage: table.py FOLDER

Reads FOLDER/bench-*.json (`wherry bench --json`) and FOLDER/pytorch.json (bench/peers/pytorch_encoder.py), if it is there.
All times are medians in ms per batch: "wall" as the host sees a whole encode with its copies, "device" by the device's
timestamps (Wherry: the sum over the groups).
"""
import json
import sys
from pathlib import Path


def wherry_rows(folder):
    for path in sorted(folder.glob("bench-*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for result in data["results"]:
            key = (data["model"]["source"], data["sequences"], data["lengths"][0])
            who = f"{data['device']['id']} {result['session']['plan']} {result['session']['dtype']}"
            device_ms = 1e3 * sum(group["seconds"] for group in result["groups"])
            yield key, who, 1e3 * result["step_seconds"], device_ms, result["tokens_per_second"]


def pytorch_rows(folder):
    path = folder / "pytorch.json"
    if not path.exists():
        return
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
        key = (row["model"], row["batch"], row["seq"])
        for way in ("eager", "graph", "compile"):
            if "ms_" + way in row:
                wall = row["wall_ms_" + way]
                yield key, f"PyTorch {way} f16", wall, row["ms_" + way], row["batch"] * row["seq"] / wall * 1e3


def main():
    folder = Path(sys.argv[1])
    rows = [*wherry_rows(folder), *pytorch_rows(folder)]
    if not rows:
        sys.exit(f"{folder}: no results")
    order = {key: n for n, key in enumerate(sorted({r[0] for r in rows}, key=lambda k: (k[0] != "minilm-l6", k)))}
    print("| model | batch | what | wall ms | device ms | tokens/s (wall) |")
    print("|---|---|---|---:|---:|---:|")
    for (model, batch, seq), who, wall, device, rate in sorted(rows, key=lambda r: order[r[0]]):
        print(f"| {model} | {batch}×{seq} | {who} | {wall:.3f} | {device:.3f} | {rate:,.0f} |")


main()
