#!/usr/bin/env python3
"""table.py FILE...

Prints what bench/counters/run.sh counted (lines of JSON) as a Markdown table: bytes from memory per run of a group,
counted and modelled. The exit status is 1 where a count of a group of 200 MB and more is over 5 % off the model.
"""
import json
import sys

LARGE, TOLERANCE = 200e6, 0.05


def read(names):
    """(device, group, cache) -> what the child said, with metric -> bytes a run, and the samples lost."""
    found = {}
    for name in names:
        for line in open(name, encoding="utf-8"):
            if not line.startswith("{"):
                continue
            record = json.loads(line)
            child = record["child"]
            entry = found.setdefault((child["device"], child["group"], child["cache"]), {"child": child, "lost": 0})
            for metric, value in record["metrics"].items():
                entry[metric] = (value["sum"] - value["idle"]) / max(child["runs"], 1)
            entry["lost"] += record["lost"] + record["overflow"]
    return found


def mega(value):
    return "" if value is None else f"{value / 1e6:.1f}"


def main():
    found = read(sys.argv[1:])
    if not found:
        sys.exit("table.py: no measurement in " + " ".join(sys.argv[1:]))
    print("MB a run. Counted: the GPU's counters of its memory; off: counted over modelled, less one.\n")
    print("| device | group | kernel | cache | Q | modelled r + w | counted r + w | off | asked for | L2 counted |")
    print("|---|---|---|---|---:|---:|---:|---:|---:|---:|")
    wrong = 0
    for (device, group, cache), entry in sorted(found.items()):
        child = entry["child"]
        q, model, asked = ((child[k]["r"], child[k]["w"]) for k in ("q", "model", "requested"))
        counted = (entry.get("dram__bytes_read.sum"), entry.get("dram__bytes_write.sum"))
        off = sum(counted) / sum(model) - 1 if None not in counted else None
        large = sum(model) >= LARGE
        bad = off is None or abs(off) > TOLERANCE
        wrong += large and bad
        note = "" if off is None else f"{100 * off:+.1f} %" + (" !" if large and bad else "")
        if entry["lost"]:
            note += f" ({entry['lost']} samples lost)"
        print(f"| {device} | {group} | {child['kernel']} {child['variant']} | {cache} | {mega(sum(q))} "
              f"| {mega(model[0])} + {mega(model[1])} | {mega(counted[0])} + {mega(counted[1])} | {note} "
              f"| {mega(sum(asked))} | {mega(entry.get('lts__t_bytes.sum'))} |")
    print(f"\n{wrong} of the groups of {LARGE / 1e6:.0f} MB and more are over {TOLERANCE:.0%} off.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
