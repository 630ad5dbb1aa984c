#!/usr/bin/env python3
"""How well the same measurement repeats in several processes.

Usage: repeat.py RECORD...

RECORDs are of one device and one workload, each written by a process of its own (`wherry bench layer --json`). For each
operator, and for the step as the host sees it, the medians of all processes are compared: the spread is the largest over
the smallest, less one. Prints a Markdown table; exits with 1 when a spread is above 3 % and above two ticks of 1 us.
"""
import json
import sys

BAR, LEAST_SECONDS = 0.03, 2e-6


def medians(record):
    """{(what, cache): seconds}"""
    out = {}
    for plan in record["plans"]:
        out[plan["plan"], "step, host"] = plan["step"]["host"]["median"]
        out[plan["plan"], "step, kernels"] = plan["step"]["kernels"]["median"]
    for op in record["ops"]:
        for cache in ("warm", "cold"):
            if op[cache]:
                out[f"{op['plan']} {op['id']}", cache] = op[cache]["median"]
    for ceiling in record["ceilings"]:
        if ceiling["best"]:
            out[ceiling["id"], "ceiling"] = ceiling["time"]["median"] if ceiling["unit"] == "s" else 1 / ceiling["value"]
    return out


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    records = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as file:
            records.append(json.load(file))
    if len({(r["devices"][0]["id"], json.dumps(r["workload"], sort_keys=True)) for r in records}) > 1:
        sys.exit("repeat.py: the records are of different devices or workloads")
    runs = [medians(record) for record in records]
    rows, over = [], []
    for key in runs[0]:
        times = [run[key] for run in runs if key in run]
        spread = max(times) / min(times) - 1
        rows.append((key[1], spread))
        if spread > BAR:
            over.append((*key, min(times), max(times), spread))
    device = records[0]["devices"][0]
    print(f"{device['name']}, {device['id']}: {len(runs)} processes\n")
    print("| medians of | number | within 1 % | within 3 % | largest spread |\n|---|---:|---:|---:|---:|")
    for kind in dict.fromkeys(kind for kind, _ in rows):
        spreads = [s for k, s in rows if k == kind]
        within = [sum(s <= bar for s in spreads) for bar in (0.01, BAR)]
        print(f"| {kind} | {len(spreads)} | {within[0]} | {within[1]} | {100 * max(spreads):.1f} % |")
    for what, kind, low, high, spread in over:
        print(f"\n{what}, {kind}: {1e6 * low:.2f} to {1e6 * high:.2f} us, {100 * spread:.1f} %")
    return int(any(high - low > LEAST_SECONDS and kind != "ceiling" for _, kind, low, high, _ in over))


sys.exit(main())
