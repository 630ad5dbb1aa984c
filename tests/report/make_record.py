"""Writes a record of schema rl-1 whose derived numbers are computed here, by docs/measuring.md and not by the command.

usage: make_record.py FILE [CHANGE...]

FILE gets one device, two plans, five operations. CHANGE is NAME=VALUE:
  slower=FACTOR     operation layer.0.lin1 of plan flash takes so many times longer, and with it the step
  name=TEXT         the device's name
  over=yes          operation layer.0.norm1 moves more than the memory's ceiling, and is flagged
  drift=SHARE       the sentinel's last run takes so much longer, and the record says so
  timer=STATUS      the timer is not to be trusted: no warm times, no bandwidth of them
  drop=ID           an operation is left out of every plan
  cold=no, roof=no  no cold times; no ceilings
  plans=N, ops=N    N plans, instead of flash and unfused; N more operations in each plan, no two of them one row
  devices=N, ceilings=N   so many entries; none but the first device was measured
"""

import json
import sys

CLASSES = ("contraction", "normalization", "elementwise")
REGIMES = ("compute", "memory", "cache", "launch", "unknown")
CACHE_BYTES = 40_000_000


def time_of(median, spread=0.01):
    return {
        "median": median,
        "p05": median * (1 - spread),
        "p95": median * (1 + 2 * spread),
        "min": median * (1 - 2 * spread),
        "mean": median * 1.001,
        "cv": spread,
        "ci95": [median * (1 - spread / 2), median * (1 + spread / 2)],
        "n": 50,
        "outliers": 1,
        "first": median * 3,
    }


def ceiling(name, unit, value, best=True, config="16 B a work-item", dtype="f32"):
    amount = 1e9 if unit != "s" else 1
    seconds = time_of(amount / value if unit != "s" else value)
    return {
        "id": name,
        "dev": 0,
        "unit": unit,
        "value": amount / seconds["median"] if unit != "s" else value,
        "best": best,
        "config": config,
        "dtype": dtype,
        "data_kind": "uniform",
        "amount": amount,
        "footprint_bytes": 2**31,
        "time": seconds,
    }


def make_ceilings():
    return [
        ceiling("dram.read", "B/s", 4.0e12),
        ceiling("dram.read", "B/s", 3.6e12, best=False, config="4 B a work-item"),
        ceiling("dram.copy", "B/s", 3.8e12),
        ceiling("cache.read", "B/s", 9.0e12),
        ceiling("compute.f32", "flop/s", 6.0e13),
        ceiling("compute.f16", "flop/s", 1.1e14, dtype="f16"),
        ceiling("compute.matrix", "flop/s", 8.0e14, dtype="f16"),
        ceiling("launch.seconds", "s", 2.5e-6, dtype=None),
        ceiling("launch.gap", "s", 1.2e-6, dtype=None),
    ]


def derive(op, seconds, cold, ceilings):
    """The definitions of docs/measuring.md; every number here is known."""
    value = {c["id"]: c["value"] for c in ceilings if c["best"]}
    memory, cache, copy = max(value["dram.read"], value["dram.copy"]), value["cache.read"], value["dram.copy"]
    flops = value["compute.matrix"] if op["class"] == "contraction" else value["compute.f32"]
    q, d, asked = (sum(op["bytes"][kind].values()) for kind in ("q", "d_model", "requested"))
    q_seconds, f_seconds, launch = q / memory, op["flops"] / flops, value["launch.seconds"]
    limits = sorted((q_seconds, f_seconds, launch))
    fits = not cold and op["footprint_bytes"] <= CACHE_BYTES
    if limits[1] > 0.9 * limits[2]:
        regime = "unknown"
    elif seconds < 2 * launch:
        regime = "launch"
    elif f_seconds == limits[2]:
        regime = "compute"
    else:
        regime = "cache" if fits else "memory"
    over = (not fits and d / memory > 1.02 * seconds) or asked / cache > 1.02 * seconds or f_seconds > 1.02 * seconds
    return {
        "bandwidth": d / seconds,
        "bandwidth_unique": q / seconds,
        "bandwidth_requested": asked / seconds,
        "flops_per_second": op["flops"] / seconds,
        "intensity": op["flops"] / q,
        "intensity_model": op["flops"] / d,
        "roof_memory": max(f_seconds, d / memory) / seconds,
        "roof_cache": max(f_seconds, asked / cache) / seconds,
        "copy_share": d / copy / seconds,
        "mue": q / (seconds * memory),
        "mue_theoretical": q / (seconds * 4.8e12),
        "q_over_d": q / d,
        "b_over_peak": d / seconds / memory,
        "limit_seconds": limits[2],
        "headroom": seconds / limits[2],
        "regime": regime,
        "over_peak": over,
    }


def make_op(name, class_, phase, kernel, flops, megabytes, seconds, layer=0, factor=1.0):
    read, written = megabytes
    return {
        "id": name,
        "plan": "",
        "dev": 0,
        "class": class_,
        "phase": phase,
        "layer": layer,
        "paper_row": None,
        "kernel": kernel,
        "variant": "128x128x16, 8x8 a work-item" if kernel == "gemm" else "",
        "launches": 1,
        "dtype": {"store": "f16", "accumulate": "f32"},
        "operators": 2,
        "flops": flops,
        "bytes": {
            "q": {"r": round(read * 1e6), "w": round(written * 1e6)},
            "requested": {"r": round(read * 2e6), "w": round(written * 1e6)},
            "d_model": {"r": round(read * factor * 1e6), "w": round(written * 1e6)},
            "d_counter": None,
        },
        "footprint_bytes": round((read + written) * 1e6),
        "warm": time_of(seconds),
        "cold": time_of(seconds * 1.1),
        "cold_sets": 4,
        "derived": {"warm": None, "cold": None},
        "share": None,
        "checks": {"exceeds_peak": False, "timer_ok": True, "remeasured": 0},
    }


def make_ops():
    return [
        make_op("layer.0.qkv", "contraction", "forward", "gemm", 2.6e10, (14.7, 25.2), 400e-6, factor=1.5),
        make_op("layer.0.norm1", "normalization", "forward", "layernorm", 4.0e7, (60.0, 40.0), 40e-6),
        make_op("layer.0.lin1", "contraction", "forward", "gemm", 3.4e10, (16.8, 33.6), 500e-6, factor=1.2),
        make_op("layer.0.lin1_dx", "contraction", "backward", "gemm", 3.4e10, (50.3, 8.4), 480e-6, factor=1.2),
        make_op("layer.0.bias_dw", "elementwise", "backward", "columns", 1.0e6, (0.9, 0.1), 4e-6),
    ]


def complete_plan(plan, ops, ceilings):
    measured = [op for op in ops if op["warm"]]
    total = sum(op["warm"]["median"] for op in measured)
    for op in ops:
        for mode in ("warm", "cold"):
            if ceilings and op[mode]:
                op["derived"][mode] = derive(op, op[mode]["median"], mode == "cold", ceilings)
                if not op["checks"]["timer_ok"]:
                    op["derived"][mode]["regime"] = "unknown"
        op["share"] = op["warm"]["median"] / total if op["warm"] else None
        op["checks"]["exceeds_peak"] = any(d and d["over_peak"] for d in op["derived"].values())
    plan["step"]["gap_seconds"] = None
    plan["by_class"] = []
    for class_ in CLASSES:
        mine = [op for op in ops if op["class"] == class_]
        seconds = sum(op["warm"]["median"] for op in mine if op["warm"])
        plan["by_class"].append(
            {
                "class": class_,
                "seconds": seconds if measured else None,
                "flops": sum(op["flops"] for op in mine),
                "bytes": sum(sum(op["bytes"]["d_model"].values()) for op in mine),
                "share": seconds / total if measured else None,
            }
        )
    if plan["step"]["kernels"]:
        plan["step"]["gap_seconds"] = plan["step"]["host"]["median"] - plan["step"]["kernels"]["median"]
    if not (ceilings and measured):
        return
    plan["by_regime"] = {name: 0.0 for name in REGIMES}
    for op in measured:
        plan["by_regime"][op["derived"]["warm"]["regime"]] += op["warm"]["median"]
    plan["by_regime"]["gap"] = plan["step"]["gap_seconds"]
    plan["limit_seconds"] = sum(op["derived"]["warm"]["limit_seconds"] for op in ops)
    plan["headroom"] = plan["step"]["host"]["median"] / plan["limit_seconds"]


def make_plan(name, changes, ceilings):
    ops = [op for op in make_ops() if op["id"] != changes.get("drop")]
    for n in range(int(changes.get("ops", 0))):
        ops.append(make_op(f"more{n}", "elementwise", "forward", "map", 1.0e6, (0.9, 0.1), 4e-6, layer=None))
    for op in ops:
        op["plan"] = name
        if op["id"] == "layer.0.lin1" and name == "flash" and "slower" in changes:
            op["warm"], op["cold"] = (time_of(op[m]["median"] * float(changes["slower"])) for m in ("warm", "cold"))
        if op["id"] == "layer.0.norm1" and "over" in changes:
            op["warm"] = time_of(15e-6)
            op["checks"]["remeasured"] = 1
        if changes.get("cold") == "no":
            op["cold"] = op["cold_sets"] = None
        if "timer" in changes:
            op["warm"] = None
            op["checks"]["timer_ok"] = False
    kernels = time_of(sum(op["warm"]["median"] for op in ops)) if "timer" not in changes else None
    host = time_of(kernels["median"] * 1.04 if kernels else 1.5e-3)
    plan = {
        "plan": name,
        "dev": 0,
        "dtype": "f16",
        "groups": len(ops),
        "launches": len(ops),
        "operators": 2 * len(ops),
        "device_bytes": 900_000_000,
        "saved_bytes": 101_000_000,
        "notes": ["a product of CLBlast | <b>"],
        "repeats": 50,
        "step": {"host": host, "kernels": kernels, "gap_seconds": None},
        "phases": {"both": {"host_seconds": host["median"], "device_seconds": kernels and kernels["median"]}},
        "by_class": [],
        "by_regime": None,
        "limit_seconds": None,
        "headroom": None,
    }
    complete_plan(plan, ops, ceilings)
    return plan, ops


def make_warnings(record, changes):
    warnings = []
    if "timer" in changes:
        warnings.append({"code": "W_TIMER", "plan": None, "op": None, "text": "the timer stands still"})
    if abs(record["run"]["sentinel"]["drift"]) > 0.03:
        warnings.append({"code": "W_DRIFT", "plan": None, "op": None, "text": "it became slower"})
        record["status"] = "drift"
    for op in record["ops"]:
        for mode in ("warm", "cold"):
            if op["derived"][mode] and op["derived"][mode]["over_peak"]:
                warnings.append({"code": "W_OVER_PEAK", "plan": op["plan"], "op": op["id"], "text": mode})
    return warnings


def make_record(changes):
    ceilings = [] if changes.get("roof") == "no" else make_ceilings()
    first, last = 0.001, 0.001 * (1 + float(changes.get("drift", 0.004)))
    timer = {"kind": "timestamp", "tick_seconds": 1e-9, "valid_bits": 64, "slope": 1.0003, "reason": None}
    timer["status"] = changes.get("timer", "ok")
    record = {
        "schema": "rl-1",
        "units": "SI",
        "status": "ok",
        "run": {
            "id": "6f1c2f0e-93f5-4b7a-9d0c-7b8f2f0e93f5",
            "utc": "2026-11-21T03:05:33Z",
            "tool": {"version": "0.1.0", "git": None},
            "command_line": ["wherry", "bench", "layer"],
            "seed": 1,
            "data_kind": "uniform",
            "cache_modes": ["warm", "cold"],
            "host": {"os": "Linux", "cpu": "a processor", "cores": 16, "ram_bytes": 2**37},
            "sentinel": {"first_seconds": first, "last_seconds": last, "drift": last / first - 1},
        },
        "devices": [
            {
                "dev": 0,
                "id": "vulkan:0",
                "name": changes.get("name", 'Card "one", 80 GB'),
                "uuid": None,
                "type": "GPU",
                "backend": "vulkan",
                "driver": "570.1",
                "api": "Vulkan 1.3.280",
                "memory_bytes": 80_000_000_000,
                "limits": None,
                "theoretical": {"bandwidth": 4.8e12, "flops": None, "source": "user"},
                "cache": {"bytes": CACHE_BYTES if ceilings else None, "source": "probed"},
                "timer": timer,
            }
        ],
        "workload": {
            "kind": "layer",
            "model": {"source": "bert-large", "layers": 1, "hidden": 1024},
            "training": {"layers": 1, "pre_layernorm": False, "activation": "relu", "dropout": 0.1, "save": "default"},
            "lengths": [512] * 8,
            "sequences": 8,
            "tokens": 4096,
            "dtype": "f16",
        },
        "ceilings": ceilings,
        "sweep": [{"dev": 0, "bytes": 2**n, "time": time_of(2e-6 + 2**n / 4e12)} for n in (16, 22, 30)],
        "launch": [{"dev": 0, "bytes": 2**n, "time": time_of(2.5e-6 + 2**n / 4e12)} for n in (10, 16)],
        "plans": [],
        "ops": [],
        "warnings": [],
    }
    for n in range(1, int(changes.get("devices", 1))):
        record["devices"].append({**record["devices"][0], "dev": n, "id": f"vulkan:{n}"})
    for n in range(len(ceilings), int(changes.get("ceilings", 0))):
        ceilings.append(ceiling("dram.read", "B/s", 1.0e9 * n, best=False, config=f"size {n}"))
    names = [f"plan{n}" for n in range(int(changes["plans"]))] if "plans" in changes else ["flash", "unfused"]
    for name in names:
        plan, ops = make_plan(name, changes, ceilings)
        record["plans"].append(plan)
        record["ops"] += ops
    record["warnings"] = make_warnings(record, changes)
    return record


def main():
    changes = dict(change.split("=", 1) for change in sys.argv[2:])
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(make_record(changes), file, indent=1)


if __name__ == "__main__":
    main()
