"""Writes a record of latencies under load whose derived numbers are computed here, by docs/measuring.md and not by the
command: from all samples, sorted, where the command has buckets.

usage: make_latency.py FILE [CHANGE...]

CHANGE is NAME=VALUE:
  clients=N,N,...   loads with so many clients (default 1,4,16)
  requests=N        of each load (default 5000)
  idle=N            pauses (default 3)
  sessions=WORD     shared or per-client
  lengths=N,N,...   tokens of the requests
"""

import json
import math
import random
import sys
import uuid

PARTS = 128
NEEDED = {"p50": (500, 6), "p90": (900, 36), "p99": (990, 368), "p999": (999, 3688)}


def bucket_of(value):
    shift = max(0, value.bit_length() - 8)
    return value if value < PARTS else (shift + 1) * PARTS + (value >> shift) - PARTS


def bounds(bucket):
    octave, part = divmod(bucket, PARTS)
    if not octave:
        return part, part
    low = (PARTS + part) << (octave - 1)
    return low, low + (1 << (octave - 1)) - 1


def percentile(samples, per_mille):
    """The middle of the bucket that has the sample of the nearest rank; `samples` are sorted."""
    rank = max(1, -(-len(samples) * per_mille // 1000))
    low, high = bounds(bucket_of(samples[rank - 1]))
    return min(max((low + high) / 2, samples[0]), samples[-1])


def load(clients, requests, sessions):
    rng = random.Random(clients)
    samples = sorted(int(clients * rng.lognormvariate(math.log(2.4e5), 0.15)) for _ in range(requests))
    total = float(sum(samples))
    seconds = total * 1e-9 / clients * 1.01
    buckets = {}
    for sample in samples:
        buckets[bucket_of(sample)] = buckets.get(bucket_of(sample), 0) + 1
    entry = {
        "dev": 0,
        "clients": clients,
        "warm_seconds": 0.5,
        "seconds": max(seconds, samples[-1] * 1e-9),
        "waited_seconds": total * 1e-9 * (1 - 1 / clients) if sessions == "shared" else 0.0,
        "histogram": {
            "parts": PARTS,
            "min_ns": samples[0],
            "max_ns": samples[-1],
            "sum_ns": total,
            "buckets": [[n, buckets[n]] for n in sorted(buckets)],
        },
        "requests": requests,
        "min": samples[0] * 1e-9,
        "max": samples[-1] * 1e-9,
        "mean": total * 1e-9 / requests,
    }
    entry["rate"] = requests / entry["seconds"]
    for name, (per_mille, needed) in NEEDED.items():
        entry[name] = percentile(samples, per_mille) * 1e-9 if requests >= needed else None
    return entry


def record(clients, requests, idle, sessions, lengths):
    return {
        "schema": "rl-1",
        "units": "SI",
        "status": "ok",
        "run": {
            "id": str(uuid.UUID(int=7, version=4)),
            "utc": "2026-02-03T04:05:06Z",
            "tool": {"version": "0.1.0", "git": None},
            "command_line": ["wherry", "bench", "--latency"],
            "seed": 1,
            "data_kind": "uniform",
            "cache_modes": [],
            "host": {"os": None, "cpu": None, "cores": 16, "ram_bytes": None},
            "sentinel": None,
        },
        "devices": [
            {
                "dev": 0,
                "id": "opencl:0",
                "name": 'Card "one", 80 GB',
                "uuid": None,
                "type": "discrete GPU",
                "backend": "opencl",
                "driver": "1.0",
                "api": "OpenCL 3.0",
                "memory_bytes": 80_000_000_000,
                "limits": None,
                "theoretical": {"bandwidth": None, "flops": None, "source": None},
                "cache": {"bytes": None, "source": "probed"},
                "timer": None,
            }
        ],
        "workload": {
            "kind": "latency",
            "model": {"source": "all-MiniLM-L6-v2", "layers": 6},
            "training": None,
            "lengths": lengths,
            "sequences": len(lengths),
            "tokens": sum(lengths),
            "dtype": "f16",
            "requests": {"tokenized": True, "sessions": sessions},
        },
        "session": {"plan": "flash", "dtype": "f16", "device_bytes": 45_000_000, "notes": []},
        "ceilings": [],
        "sweep": [],
        "launch": [],
        "plans": [],
        "ops": [],
        "loads": [load(count, requests, sessions) for count in clients],
        "idle": [{"dev": 0, "idle_seconds": 10.0, "seconds": 0.0021 + 0.0001 * n} for n in range(idle)],
        "warnings": [],
    }


def main():
    changes = dict(change.split("=", 1) for change in sys.argv[2:])
    numbers = {name: [int(n) for n in changes.get(name, usual).split(",")] for name, usual in
               (("clients", "1,4,16"), ("requests", "5000"), ("idle", "3"), ("lengths", "20"))}  # fmt: skip
    value = record(
        numbers["clients"],
        numbers["requests"][0],
        numbers["idle"][0],
        changes.get("sessions", "shared"),
        numbers["lengths"],
    )
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(value, file)


main()
