#!/usr/bin/env python3
"""Writes made-up records (schema rl-1) for the tests of the report's page.

Usage: make_records.py FOLDER [--many]

The times of layer.tsv are real ones, of one BERT-large layer in training on an H200; all else here is invented around
them and must never be taken for a measurement. --many: 10 records of 800 operators, to see that the page stays fast.
"""

import json
import math
import random
import sys
import uuid
from pathlib import Path

HOSTILE = '</script><img src=x onerror="window.hacked=1"><!-- <script>\'\\\u2028&amp;'
CLASS_PEAK = {"contraction": "compute.matrix", "normalization": "compute.f32", "elementwise": "compute.f32"}


def time_of(rng, median, spread=0.012, n=50):
    """A TIME around a median."""

    def off(factor):
        return median * (1 + factor * spread * (0.5 + rng.random()))

    return {
        "median": median,
        "p05": off(-1),
        "p95": off(1.6),
        "min": off(-1.8),
        "mean": off(0.1),
        "cv": spread,
        "ci95": [off(-0.25), off(0.3)],
        "n": n,
        "outliers": rng.randrange(3),
        "first": median * (1.5 + rng.random()),
    }


# ---- devices ----


def device(backend, name, kind, driver, api, cache, memory, theoretical=None, timer="ok", dev=0):
    peak = dict(zip(("bandwidth", "flops", "source"), theoretical or (None, None, None)))
    stamps = {"opencl": "event", "vulkan": "timestamp"}[backend]
    return {
        "dev": dev,
        "id": f"{backend}:{dev}",
        "name": name,
        "uuid": "1c87e4161ab9c938434c91453f4cc40d",
        "type": kind,
        "backend": backend,
        "driver": driver,
        "api": api,
        "memory_bytes": memory,
        "limits": {
            "shared_bytes": 49152,
            "subgroup": [32, 32],
            "max_local_size": 1024,
            "max_buffer_bytes": memory // 4,
            "max_binding_bytes": 4294967295,
        },
        "theoretical": peak,
        "cache": {"bytes": cache, "source": "probed"},
        "timer": {
            "kind": stamps if timer == "ok" else "host",
            "tick_seconds": 1e-9,
            "valid_bits": 64,
            "slope": 1.0003 if timer == "ok" else 41.67,
            "status": timer,
            "reason": None if timer == "ok" else "41.67 device seconds in a second of the host's",
        },
    }


class Roof:
    """Ceilings, sweep and launches of a device."""

    def __init__(self, rng, dev, dram, cache, cache_bytes, flops, launch, zeros=False):
        self.bandwidth, self.cache, self.cache_bytes, self.launch, self.dev = dram, cache, cache_bytes, launch, dev
        self.flops = flops
        kind = "zeros" if zeros else "uniform"
        self.ceilings = []

        def add(name, unit, value, best, config, dtype, amount, footprint):
            seconds = value if unit == "s" else amount / value
            self.ceilings.append(
                {
                    "id": name,
                    "dev": dev,
                    "unit": unit,
                    "value": value,
                    "best": best,
                    "config": config,
                    "dtype": dtype,
                    "data_kind": kind,
                    "amount": amount,
                    "footprint_bytes": footprint,
                    "time": time_of(rng, seconds, 0.006, 21),
                }
            )

        size = 1 << 30
        for name, share in (("read", 0.96), ("write", 0.91), ("copy", 1.0), ("triad", 0.985)):
            for factor, config in (
                (1, "16 B a work-item, 256 in a work-group"),
                (0.93, "4 B a work-item, 256 in a work-group"),
            ):
                add(f"dram.{name}", "B/s", dram * share * factor, factor == 1, config, "f32", float(2 * size), 2 * size)
        for name, share in (("read", 1.0), ("copy", 0.92)):
            add(
                f"cache.{name}",
                "B/s",
                cache * share,
                True,
                "16 B a work-item, 256 in a work-group",
                "f32",
                16777216.0,
                16777216,
            )
        for name, value in flops.items():
            add(
                name,
                "flop/s",
                value,
                True,
                "8 chains, 256 in a work-group",
                name[-3:] if name != "compute.matrix" else "f16",
                1e10,
                4096,
            )
        add("launch.seconds", "s", launch, True, "copies of 4 kB to 64 MB", None, 1.0, 0)
        add("launch.bandwidth", "B/s", dram * 1.02, True, "copies of 4 kB to 64 MB", None, 1.0, 0)
        add("launch.gap", "s", launch * 0.45, True, "two dependent kernels", None, 1.0, 0)
        add("host.submit", "s", launch * 6, True, "one kernel", None, 1.0, 0)
        self.sweep = []
        for step in range(24, 64):
            size = int(2 ** (step / 2))
            inside = 1 / (1 + (size / cache_bytes) ** 3)
            rate = dram + (cache - dram) * inside
            self.sweep.append({"dev": dev, "bytes": size, "time": time_of(rng, launch * 0.2 + size / rate, 0.01, 21)})
        self.points = [
            {
                "dev": dev,
                "bytes": 4096 << step,
                "time": time_of(rng, (launch + (4096 << step) / (dram * 1.02)) * (1 + 0.04 * rng.random()), 0.02, 21),
            }
            for step in range(15)
        ]


# ---- operators ----


def derive(roof, op, seconds, cold, timer_ok, theoretical):
    """As wherry_derive does."""
    if not timer_ok or seconds is None:
        return None if seconds is None else {"regime": "unknown", "over_peak": False, "bandwidth": None, "mue": None}
    q, d, requested = (sum(op["bytes"][way].values()) for way in ("q", "d_model", "requested"))
    flops, peak = op["flops"], roof.flops.get(CLASS_PEAK[op["class"]]) or roof.flops["compute.f32"]
    limits = {"memory": q / roof.bandwidth, "compute": flops / peak, "launch": roof.launch}
    limit = max(limits.values())
    name = max(limits, key=limits.get)
    regime = name
    if seconds < 2 * roof.launch:
        regime = "launch"
    elif name != "compute":
        regime = "cache" if not cold and op["footprint_bytes"] < roof.cache_bytes else "memory"
    if sorted(limits.values())[-2] > 0.9 * limit:
        regime = "unknown"
    share = min(peak, flops / d * roof.bandwidth)
    cached = min(peak, flops / requested * roof.cache)
    rate = d / seconds
    peaks = roof.cache if regime in ("cache", "launch") and not cold else roof.bandwidth
    return {
        "bandwidth": rate,
        "bandwidth_unique": q / seconds,
        "bandwidth_requested": requested / seconds,
        "flops_per_second": flops / seconds,
        "intensity": flops / q,
        "intensity_model": flops / d,
        "roof_memory": flops / seconds / share if flops else rate / roof.bandwidth,
        "roof_cache": flops / seconds / cached if flops else rate / roof.cache,
        "copy_share": rate / roof.bandwidth,
        "mue": q / seconds / roof.bandwidth,
        "mue_theoretical": q / seconds / theoretical if theoretical else None,
        "q_over_d": q / d,
        "b_over_peak": rate / roof.bandwidth,
        "limit_seconds": limit,
        "headroom": seconds / limit,
        "regime": regime,
        "over_peak": rate > 1.02 * peaks or flops / seconds > 1.02 * peak,
    }


def layer_rows():
    lines = (Path(__file__).parent / "layer.tsv").read_text().splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, line.split("\t"))) for line in lines[1:]]


def make_op(
    rng, roof, row, seconds, layer=0, dev=0, dtype="f16", cold=True, timer_ok=True, theoretical=None, scale=1.0
):
    read, written = int(row["read"]) * scale, int(row["written"]) * scale
    again = {"gemm": 1.6, "bgemm": 1.25, "attention": 1.1, "attention_backward": 1.9}.get(row["kernel"], 1.0)
    asked = {"gemm": 24, "bgemm": 10, "attention": 9, "attention_backward": 12}.get(row["kernel"], 1.15)
    op = {
        "id": f"layer.{layer}.{row['name']}" if layer >= 0 else row["name"],
        "plan": row["plan"],
        "dev": dev,
        "class": row["class"],
        "phase": row["phase"],
        "layer": layer if layer >= 0 else None,
        "paper_row": int(row["paper_row"]) or None,
        "kernel": row["kernel"],
        "variant": "128x128x16, 8x8 a work-item" if row["kernel"] == "gemm" else "",
        "launches": 2 if row["kernel"] == "columns" else 1,
        "dtype": {"store": dtype, "accumulate": "f32"},
        "operators": int(row["operators"]),
        "flops": float(row["flops"]) * scale,
        "bytes": {
            "q": {"r": read, "w": written},
            "requested": {"r": read * asked, "w": written},
            "d_model": {"r": read * again, "w": written},
            "d_counter": None,
        },
        "footprint_bytes": read + written,
        "warm": time_of(rng, seconds) if timer_ok else None,
        "cold": time_of(rng, seconds * (1.05 + 12e6 / (read + written + 1e7))) if cold else None,
        "cold_sets": 6 if cold else None,
        "checks": {"exceeds_peak": False, "timer_ok": timer_ok, "remeasured": 0},
    }
    warm = op["warm"]["median"] if op["warm"] else None
    colds = op["cold"]["median"] if op["cold"] else None
    op["derived"] = {
        "warm": derive(roof, op, warm, False, timer_ok, theoretical),
        "cold": derive(roof, op, colds, True, timer_ok, theoretical),
    }
    if any(one and one["over_peak"] for one in op["derived"].values()):
        op["checks"].update(exceeds_peak=True, remeasured=2)
    return op


def make_plan(rng, name, ops, gap, dev=0, dtype="f16"):
    timed = [op for op in ops if op["warm"]]
    kernels = sum(op["warm"]["median"] for op in timed)
    regimes = dict.fromkeys(("compute", "memory", "cache", "launch", "unknown"), 0.0)
    classes = {}
    for op in timed:
        op["share"] = op["warm"]["median"] / kernels
        regimes[op["derived"]["warm"]["regime"]] += op["warm"]["median"]
        entry = classes.setdefault(op["class"], {"class": op["class"], "seconds": 0.0, "flops": 0.0, "bytes": 0.0})
        entry["seconds"] += op["warm"]["median"]
        entry["flops"] += op["flops"]
        entry["bytes"] += sum(op["bytes"]["q"].values())
    for op in ops:
        op.setdefault("share", None)
    for entry in classes.values():
        entry["share"] = entry["seconds"] / kernels
    host = kernels + gap if timed else 0.2
    limit = sum(op["derived"]["warm"]["limit_seconds"] for op in timed) if timed else None

    def half(phase):
        seconds = sum(op["warm"]["median"] for op in timed if op["phase"] == phase)
        return {"host_seconds": seconds + gap / 2, "device_seconds": seconds} if seconds else None

    both = {"host_seconds": host, "device_seconds": kernels or None}
    phases = {"both": both, "forward": half("forward"), "backward": half("backward")} if half("backward") else None
    return {
        "plan": name,
        "dev": dev,
        "dtype": dtype,
        "groups": len(ops),
        "launches": sum(op["launches"] for op in ops),
        "operators": sum(op["operators"] for op in ops),
        "device_bytes": 204017664,
        "saved_bytes": 100925440,
        "notes": [],
        "repeats": 50,
        "step": {
            "host": time_of(rng, host),
            "kernels": time_of(rng, kernels) if timed else None,
            "gap_seconds": gap if timed else None,
        },
        "phases": phases,
        "by_class": list(classes.values()),
        "by_regime": {**regimes, "gap": max(0, gap)},
        "limit_seconds": limit,
        "headroom": kernels / limit if limit else None,
    }


def warnings_of(ops):
    return [
        {
            "code": "W_OVER_PEAK",
            "op": op["id"],
            "plan": op["plan"],
            "text": "faster than the measured ceiling after 2 further measurements of it",
        }
        for op in ops
        if op["checks"]["exceeds_peak"]
    ]


# ---- records ----


def record(
    rng,
    kind,
    devices,
    roofs,
    plans=(),
    ops=(),
    dtype="f16",
    sequences=8,
    length=512,
    layers=1,
    source="bert-large",
    drift=0.004,
    cold=True,
    command=None,
):
    return {
        "schema": "rl-1",
        "units": "SI",
        "status": "ok",
        "run": {
            "id": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            "utc": "2026-11-21T03:05:33Z",
            "tool": {"version": "0.1.0", "git": "4af665c79a22"},
            "command_line": command
            or [
                "build/release/wherry",
                "bench",
                kind,
                "--config",
                source,
                "--batch",
                str(sequences),
                "--seq",
                str(length),
                "--plan",
                "all",
                "-o",
                "results/record.json",
            ],
            "seed": 1,
            "data_kind": "uniform",
            "cache_modes": ["warm", "cold"] if cold else ["warm"],
            "host": {"os": "Linux 6.1.0", "cpu": "Xeon Platinum 8480C", "cores": 16, "ram_bytes": 137438953472},
            "sentinel": {"first_seconds": 5.05e-4, "last_seconds": 5.05e-4 * (1 + drift), "drift": drift},
        },
        "devices": devices,
        "workload": {
            "kind": kind,
            "model": {
                "source": source,
                "architecture": "random",
                "layers": layers,
                "hidden": 1024,
                "heads": 16,
                "feed_forward": 4096,
            },
            "training": {"layers": layers, "dropout": 0.1, "activation": "relu"} if kind == "layer" else None,
            "lengths": [length] * sequences,
            "sequences": sequences,
            "tokens": sequences * length,
            "dtype": dtype,
        },
        "ceilings": [ceiling for roof in roofs for ceiling in roof.ceilings],
        "sweep": [point for roof in roofs for point in roof.sweep],
        "launch": [point for roof in roofs for point in roof.points],
        "plans": list(plans),
        "ops": list(ops),
        "warnings": warnings_of(ops),
    }


def h200(api, seed, plans=("flash", "paper", "unfused"), slower=1.0):
    rng = random.Random(seed)
    theory = (4.8e12, 9.89e14, "user")
    roof = Roof(
        rng,
        0,
        4.25e12 if api == "vulkan" else 4.21e12,
        9.6e12,
        44e6,
        {"compute.f32": 6.02e13, "compute.f16": 1.19e14, **({"compute.matrix": 6.4e14} if api == "vulkan" else {})},
        2.4e-6 if api == "vulkan" else 3.1e-6,
    )
    dev = device(
        api,
        "NVIDIA H200",
        "GPU",
        "NVIDIA 580.159.04",
        "Vulkan 1.4.312" if api == "vulkan" else "OpenCL 3.0",
        44000000,
        150754820096,
        theory,
    )
    ops, made = [], []
    for plan in plans:
        own = [
            make_op(rng, roof, row, float(row[api + "_us"]) * 1e-6 * slower, theoretical=theory[0])
            for row in layer_rows()
            if row["plan"] == plan
        ]
        if plan == "flash":  # one that no ceiling explains
            row = next(op for op in own if op["id"] == "layer.0.norm2")
            for mode in ("warm", "cold"):
                row[mode] = time_of(rng, 1.4e-6)
                row["derived"][mode] = derive(roof, row, 1.4e-6, mode == "cold", True, theory[0])
                row["derived"][mode]["over_peak"] = True
            row["checks"].update(exceeds_peak=True, remeasured=2)
        made.append(make_plan(rng, plan, own, 1.9e-4 if api == "vulkan" else -2.2e-5))
        ops += own
    return record(rng, "layer", [dev], [roof], made, ops)


def cpu(seed, name="cpu-haswell-Intel(R) Xeon(R) Platinum 8480C", backend="opencl", timer="ok"):
    """A CPU driver: no 16-bit arithmetic, no cold times, a smaller batch."""
    rng = random.Random(seed)
    roof = Roof(rng, 0, 2.1e10, 9.5e10, 33e6, {"compute.f32": 3.1e11}, 4.2e-5)
    dev = device(backend, name, "CPU", "PoCL 3.1", "OpenCL 3.0 PoCL", 33000000, (16e9).__int__(), timer=timer)
    ops, made = [], []
    for plan in ("flash", "unfused"):
        own = []
        for row in layer_rows():
            if row["plan"] != plan:
                continue
            moved = (int(row["read"]) + int(row["written"])) / 4
            seconds = max(float(row["flops"]) / 8 / 1.4e11, moved / 1.5e10, 4.4e-5) * (1 + 0.4 * rng.random())
            own.append(make_op(rng, roof, row, seconds, dtype="f32", cold=False, scale=0.125, timer_ok=timer == "ok"))
        made.append(make_plan(rng, plan, own, 3e-3, dtype="f32"))
        made[-1]["notes"] = ["f16 is not supported: f32"]
        ops += own
    return record(rng, "layer", [dev], [roof], made, ops, "f32", 1, 512, cold=False, drift=0.041)


def encoder(seed, layers=6, source="all-MiniLM-L6-v2", per_layer=7):
    """Several layers, and operators outside of them."""
    rng = random.Random(seed)
    roof = Roof(rng, 0, 1.9e10, 8e10, 30e6, {"compute.f32": 2.4e11}, 6e-5)
    dev = device(
        "vulkan", "llvmpipe (LLVM 19.1.4, 256 bits)", "CPU", "llvmpipe Mesa 25.0.7", "Vulkan 1.4", 30000000, 16 << 30
    )
    rows = [row for row in layer_rows() if row["plan"] == "flash" and row["phase"] == "forward"]
    rows += [row for row in layer_rows() if row["plan"] == "flash" and row["phase"] == "backward"]
    ops = []
    for name, layer_class in (("embed", "normalization"), ("pool", "elementwise")):
        row = {
            "name": name,
            "plan": "flash",
            "phase": "encode",
            "class": layer_class,
            "kernel": name,
            "paper_row": 0,
            "operators": 3,
            "flops": 4e6,
            "read": 3e6,
            "written": 2e6,
        }
        ops.append(make_op(rng, roof, row, 4e-4, layer=-1, dtype="f32"))
    for layer in range(layers):
        for row in rows[:per_layer]:
            seconds = max(float(row["flops"]) / 64 / 1.2e11, 2e-4) * (1 + 0.2 * rng.random())
            ops.append(make_op(rng, roof, {**row, "phase": "encode"}, seconds, layer=layer, dtype="f32", scale=1 / 64))
    return record(
        rng,
        "encode",
        [dev],
        [roof],
        [make_plan(rng, "flash", ops, 1e-3, dtype="f32")],
        ops,
        "f32",
        4,
        128,
        layers,
        source,
    )


def roof_only(seed):
    """Two devices, ceilings alone."""
    rng = random.Random(seed)
    roofs = [
        Roof(rng, 0, 9.1e11, 3.4e12, 96e6, {"compute.f32": 6.1e13, "compute.f16": 1.2e14}, 7e-6),
        Roof(rng, 1, 4.4e11, 1.6e12, 18e6, {"compute.f32": 1.2e13}, 9e-6, True),
    ]
    devices = [
        device(
            "vulkan",
            "AMD Radeon RX 7900 XTX",
            "GPU",
            "RADV 25.0",
            "Vulkan 1.4",
            96000000,
            24 << 30,
            (9.6e11, None, "driver"),
        ),
        device("vulkan", "Intel Arc A770", "GPU", "ANV 25.0", "Vulkan 1.4", 18000000, 16 << 30, dev=1),
    ]
    return record(rng, "roof", devices, roofs, command=["wherry", "roof", "-o", "a file's name.json"])


def bare(seed):
    """A timer that lies, and nothing that could be divided by."""
    rng = random.Random(seed)
    roof = Roof(rng, 0, 1e10, 4e10, 1e6, {"compute.f32": 1e11}, 1e-5)
    made = cpu(seed, "Old Mobile GPU", timer="unit")
    made.update(ceilings=[], sweep=[], launch=[], status="partial")
    made["warnings"] = [
        {"code": "W_TIMER", "op": None, "plan": None, "text": "the device's timer is not to be trusted"}
    ]
    made["devices"][0].update(cache={"bytes": None, "source": "probed"})
    made["run"].update(sentinel=None)
    for op in made["ops"]:
        op["derived"] = {"warm": None, "cold": None}
    del roof, rng
    return made


def hostile(seed):
    made = h200("opencl", seed, ("flash",))
    made["devices"][0].update(name=HOSTILE, driver=HOSTILE, id=HOSTILE)
    made["run"].update(command_line=["wherry", HOSTILE], utc=HOSTILE)
    made["run"]["tool"]["git"] = HOSTILE
    made["workload"]["model"]["source"] = HOSTILE
    for op in made["ops"]:
        op["plan"] = HOSTILE
    made["ops"][0].update(id="layer.0." + HOSTILE, kernel=HOSTILE, variant=HOSTILE)
    made["ops"][1].update(id="\u202eright to left \U0001f6a3 " + "very long name " * 30)
    made["ops"][2].update({"class": HOSTILE})
    made["ops"][3].update(phase=HOSTILE)
    made["plans"][0].update(plan=HOSTILE, notes=[HOSTILE])
    made["warnings"] = [{"code": HOSTILE, "op": HOSTILE, "plan": HOSTILE, "text": HOSTILE}] * 40
    return made


def check(value):
    """No NaN gets into a file."""
    if isinstance(value, float):
        assert math.isfinite(value)
    elif isinstance(value, dict):
        for inner in value.values():
            check(inner)
    elif isinstance(value, list):
        for inner in value:
            check(inner)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    records = {
        "h200-opencl": h200("opencl", 1),
        "h200-vulkan": h200("vulkan", 2),
        "pocl": cpu(3),
        "lavapipe": encoder(4),
        "roof": roof_only(5),
        "bare": bare(6),
        "hostile": hostile(7),
        "empty": {"schema": "rl-1", "units": "SI", "status": "ok"},
    }
    if "--many" in sys.argv:
        records = {f"many-{n}": encoder(100 + n, 24, f"model-{n}", 20) for n in range(5)}
        for n in range(5, 10):
            made = encoder(100 + n, 40, f"model-{n}", 20)
            made["devices"][0].update(name=f"Device {n}")
            records[f"many-{n}"] = made
    for name, made in records.items():
        check(made)
        (folder / f"{name}.json").write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
