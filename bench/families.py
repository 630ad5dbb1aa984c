#!/usr/bin/env python3
"""Prints the table of bench/families.sh: Wherry's times beside PyTorch's fastest way.

Usage: families.py FOLDER

Reads FOLDER/pytorch.json and the records beside it. ms are a caller's, of one encode with its copies (medians); PyTorch's
are its wall times, of pairs the device's alone, which favours it.
"""
import json
import sys
from pathlib import Path

WAYS = ("eager", "graph", "compile")


def best(row):
    """ms and the way of PyTorch's fastest."""
    for prefix in ("wall_ms_", "ms_"):
        times = {way: row[prefix + way] for way in WAYS if prefix + way in row}
        if times:
            way = min(times, key=times.get)
            return times[way], way
    return None, ""


def key_of(row):
    if "seq" in row:
        return row["model"], f"{row['batch']}×{row['seq']}"
    return row["model"], f"{row['sequences']} of {row['shortest']} to {row['longest']}"


def key_of_record(record):
    workload = record["workload"]
    lengths = workload["lengths"]
    if len(set(lengths)) == 1:
        return workload["model"]["source"], f"{len(lengths)}×{lengths[0]}"
    return workload["model"]["source"], f"{len(lengths)} of {min(lengths)} to {max(lengths)}"


def main():
    folder = Path(sys.argv[1])
    peer, ours, devices, facts = {}, {}, [], set()
    for path in sorted(folder.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "pytorch.json":
            peer = {key_of(row): row for row in value["rows"]}
        elif value.get("schema") == "rl-1":
            device, plan = value["devices"][0], value["plans"][0]
            ours.setdefault(key_of_record(value), {})[device["id"]] = plan["step"]["host"]["median"] * 1e3
            devices.append(device["id"])
            commit, day = value["run"]["tool"]["git"], value["run"]["utc"][:10]
            facts.add(f"{device['name']}, {device['driver']}, commit `{commit}`, {day}")
    if not ours:
        sys.exit(f"{folder}: no records")
    devices = sorted(set(devices))
    for fact in sorted(facts):
        print(f"{fact}.")
    print("\n| model | batch | PyTorch, ms (its fastest way) |" + "".join(f" {d}, ms | × |" for d in devices))
    print("|---|---|---:|" + "---:|---:|" * len(devices))
    for key, times in ours.items():
        ms, way = best(peer.get(key, {}))
        if way and "batches_" + way in peer[key]:
            way += f", {peer[key]['batches_' + way]} padded batches"
        cells = [f"{ms:.3g} ({way})" if ms else ""]
        for device in devices:
            mine = times.get(device)
            cells += [f"{mine:.3g}" if mine else "", f"{ms / mine:.2f}" if ms and mine else ""]
        print(f"| {key[0]} | {key[1]} | " + " | ".join(cells) + " |")


main()
