"""What the PyTorch peers share: how times are taken, and what is said about the run."""
import json
import platform
import statistics
import subprocess
import sys
import time

import torch

WARM_SECONDS = 0.5


def warm(function, seconds=WARM_SECONDS):
    """Clocks rise in this time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        function()
        torch.cuda.synchronize()


def device_times(functions, repeats, warm_seconds=WARM_SECONDS):
    """One list of ms for each of the functions, which are called one after the other."""

    def once():
        events[0].record()
        for function, event in zip(functions, events[1:]):
            function()
            event.record()

    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(functions) + 1)]
    warm(once, warm_seconds)
    times = [[] for _ in functions]
    for _ in range(repeats):
        once()
        events[-1].synchronize()
        for n, row in enumerate(times):
            row.append(events[n].elapsed_time(events[n + 1]))
    return times


def record(row, name, times):
    """Median, 5th and 95th percentile, in the unit of the times."""
    ordered = sorted(times)
    row[name] = statistics.median(ordered)
    row[name + "_p05"] = ordered[round(0.05 * (len(ordered) - 1))]
    row[name + "_p95"] = ordered[round(0.95 * (len(ordered) - 1))]


def short(error):
    return f"{type(error).__name__}: {error}"[:2000]


def parse_shapes(parser, text, known, what):
    """"NAME:BATCHxSEQ,..." as (name, batch, seq)."""
    shapes = []
    for word in text.split(","):
        name, _, size = word.partition(":")
        if name not in known:
            parser.error(f"--shapes: unknown {what} '{name}'; there are {', '.join(known)}")
        shapes.append((name, *map(int, size.split("x"))))
    return shapes


def driver():
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except Exception as error:
        return "unknown: " + short(error)


def run_facts(**more):
    if not torch.cuda.is_available():
        sys.exit("no CUDA device")
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "python": platform.python_version(),
        "dtype": "float16",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "warm_seconds": WARM_SECONDS,
        **more,
    }


def write_json(path, value):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.write("\n")
