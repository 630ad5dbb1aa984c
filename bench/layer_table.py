#!/usr/bin/env python3
"""Prints as Markdown what scripts/gpu.sh measured of one layer in training: whole passes, then every group.

Usage: layer_table.py FOLDER

Reads FOLDER/layer-*.json (`wherry bench layer --json`) and FOLDER/pytorch_layer.json (bench/peers/pytorch_layer.py),
if it is there. All times are medians in ms. "host": as the host waits for a pass, "device": by the device's timestamps,
of Wherry the sum over the groups, of PyTorch from before the pass to behind it. MB are what a group has to read and
write, each tensor once; "copy" is the share of the rate at which the device copied in the same run, of groups without
products.
"""
import json
import sys
from pathlib import Path

PHASES = ("forward", "backward", "both")


def shape_name(key):
    return f"{key[0]} {key[1]}×{key[2]}"


def shape_of(data):
    lengths = set(data["lengths"])
    return data["model"]["source"], data["sequences"], lengths.pop() if len(lengths) == 1 else "uneven"


def milliseconds(value):
    return "" if value is None else f"{1e3 * value:.3f}"


def print_row(cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def print_head(left, right):
    """Columns aligned to the left, then to the right."""
    print_row(left + right)
    print("|" + "---|" * len(left) + "---:|" * len(right))


# ---- whole passes ----


def wherry_rows(data):
    for result in data["results"]:
        session, phases = result["session"], result["phases"]
        who = f"{data['device']['id']} {session['plan']} {session['dtype']}"
        times = [phases.get(p, {}).get(kind) for kind in ("host_seconds", "device_seconds") for p in PHASES]
        yield shape_of(data), who, times, f"{session['saved_bytes'] / 1e6:.1f}", session["launches"]


def seconds(ms):
    return None if ms is None else ms / 1e3


def pytorch_rows(data):
    for row in data["rows"]:
        for way in ("eager", "graph", "compile"):
            if f"ms_both_{way}" in row:
                times = [None] * 3 + [seconds(row.get(f"ms_{phase}_{way}")) for phase in PHASES]
                yield (row["layer"], row["batch"], row["seq"]), f"PyTorch {way} f16", times, "", ""


def print_passes(files, pytorch):
    rows = [row for data in files for row in wherry_rows(data)] + list(pytorch_rows(pytorch))
    times = [f"{p}, {kind}" for kind in ("host", "device") for p in PHASES]
    print_head(["layer", "what"], [*times, "saved MB", "kernels"])
    for key in dict.fromkeys(row[0] for row in rows):
        for shape, who, times, saved, launches in rows:
            if shape == key:
                print_row([shape_name(key), who, *map(milliseconds, times), saved, launches])


def print_copies(files, pytorch):
    rates = {}
    for data in files:
        if data["copy"]:
            rates.setdefault(data["device"]["id"], []).append(data["copy"]["bytes_per_second"])
    parts = [f"{who} {min(r) / 1e9:.0f} to {max(r) / 1e9:.0f} GB/s" for who, r in rates.items()]
    if "read_and_written_bytes_per_s" in pytorch.get("copy", {}):
        parts.append(f"PyTorch {pytorch['copy']['read_and_written_bytes_per_s'] / 1e9:.0f} GB/s")
    if parts:
        print(f"\nCopying, bytes read and written: {', '.join(parts)}.")


# ---- every group ----


def group_cells(group):
    seconds, size = group["seconds"], group["bytes_read"] + group["bytes_written"]
    if not seconds:
        return ["", "", "", "", ""]
    share = group["copy_share"]
    spread = f"{1e3 * group['seconds_p05']:.3f} to {1e3 * group['seconds_p95']:.3f}"
    return [
        f"{1e3 * seconds:.3f}",
        spread,
        f"{size / 1e9 / seconds:.0f}",
        f"{group['flops'] / 1e12 / seconds:.2f}",
        "" if share is None else f"{100 * share:.0f} %",
    ]


def print_groups(key, plan, results):
    """results: by device, the groups of this plan."""
    devices = list(results)
    print(f"\n## {shape_name(key)}, plan {plan}\n")
    columns = [f"{device} {what}" for device in devices for what in ("ms", "p05 to p95", "GB/s", "TFLOP/s", "copy")]
    print_head(["group", "kernel"], ["MB read", "MB written", "Gflop"] + columns)
    by_name = {device: {group["name"]: group for group in groups} for device, groups in results.items()}
    names = dict.fromkeys(group["name"] for groups in results.values() for group in groups)
    for name in names:
        some = next(groups[name] for groups in by_name.values() if name in groups)
        cells = [name, some["kernel"], f"{some['bytes_read'] / 1e6:.2f}", f"{some['bytes_written'] / 1e6:.2f}"]
        cells.append(f"{some['flops'] / 1e9:.3f}")
        for device in devices:
            cells += group_cells(by_name[device].get(name, {"seconds": 0, "bytes_read": 0, "bytes_written": 0}))
        print_row(cells)


def main():
    folder = Path(sys.argv[1])
    files = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("layer-*.json"))]
    path = folder / "pytorch_layer.json"
    pytorch = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    if not files and not pytorch["rows"]:
        sys.exit(f"{folder}: no results")
    print_passes(files, pytorch)
    print_copies(files, pytorch)
    groups = {}
    for data in files:
        for result in data["results"]:
            place = groups.setdefault((shape_of(data), result["session"]["plan"]), {})
            place[data["device"]["id"]] = result["groups"]
    for (key, plan), results in groups.items():
        print_groups(key, plan, results)


main()
