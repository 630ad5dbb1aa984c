"""Measures starts and writes a table. bench/start.sh has the words.

usage: measure.py --wherry FILE [--open FILE] --model DIR [--big DIR] [--warm N] [--cold N] [--output FILE] DEVICE...
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# What drivers keep compiled besides; a cold start has none of it.
DRIVER_CACHES = {
    "CUDA_CACHE_PATH": "cuda",
    "__GL_SHADER_DISK_CACHE_PATH": "gl",
    "MESA_SHADER_CACHE_DIR": "mesa",
    "POCL_CACHE_DIR": "pocl",
}
TEXT = "A boat carries people.\n"


def surroundings(folder):
    environment = dict(os.environ)
    for variable, name in DRIVER_CACHES.items():
        environment[variable] = os.path.join(folder, name)
        os.makedirs(environment[variable], exist_ok=True)
    return environment


def run_start(options, device, model, folder):
    """One process; its account, and what it took from outside."""
    command = [options.wherry, "embed", "--quiet", "--timings", "--json", "--model", model, "--device", device]
    command += ["--cache", os.path.join(folder, "wherry"), "--output", os.path.join(folder, "out")]
    begin = time.monotonic()
    process = subprocess.run(command, input=TEXT, capture_output=True, text=True, env=surroundings(folder), check=False)
    whole = time.monotonic() - begin
    lines = [line for line in process.stderr.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        sys.exit(f"start: {' '.join(command)} ended with {process.returncode}: {process.stderr.strip()}")
    account = json.loads(lines[-1])
    account["process"] = whole
    return account


def run_open(options, device, name):
    api = device.split(":")[0]
    if not options.open or api not in ("opencl", "vulkan"):
        return None
    process = subprocess.run([options.open, api, name], capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"start: {options.open} {api}: {process.stderr.strip()}")
    return json.loads(process.stdout)


def median(values):
    return statistics.median(values) if values else float("nan")


def of_part(accounts, name, key):
    return median([sum(part[key] for part in account["parts"] if part["part"] == name) for account in accounts])


def measure(options, device, model, what, folder):
    """(warm accounts, cold accounts, openings of the driver alone), in turns."""
    warm_folder = os.path.join(folder, f"{what}-{device.replace(':', '-')}")
    os.makedirs(warm_folder)
    warm, cold, opened = [], [], []
    first = run_start(options, device, model, warm_folder)
    name = first["device"]["name"]
    for turn in range(options.warm):
        opening = run_open(options, device, name)
        if opening:
            opened.append(opening)
        warm.append(run_start(options, device, model, warm_folder))
    for turn in range(options.cold):
        cold_folder = f"{warm_folder}-cold"
        os.makedirs(cold_folder)
        cold.append(run_start(options, device, model, cold_folder))
        shutil.rmtree(cold_folder)
    shutil.rmtree(warm_folder)
    return warm, cold, opened


def cell(seconds):
    return f"{1e3 * seconds:.1f}"


def table(device, what, warm, cold, opened):
    about = warm[0]["device"]
    yield f"### {what}, `{device}`"
    yield ""
    yield f"{about['name']}, {about['driver']}, {about['api']}; {warm[0]['dtype']}. Medians of {len(warm)} warm" + (
        f" and {len(cold)} cold starts" if cold else " starts"
    ) + f", ms. Kernels compiled in a cold one: {max([c['kernels_compiled'] for c in cold], default=0)}."
    yield ""
    columns = ["part", "warm", "warm, processor"] + (["cold", "cold, processor"] if cold else [])
    yield "| " + " | ".join(columns) + " |"
    yield "|---|" + "---:|" * (len(columns) - 1)
    for part in [part["part"] for part in warm[0]["parts"]]:
        cells = [of_part(a, part, key) for a in (warm, cold) if a for key in ("seconds", "processor_seconds")]
        if max(cells) >= 5e-5:
            yield f"| {part} | " + " | ".join(cell(c) for c in cells) + " |"
    cells = [median([a[key] for a in accounts]) for accounts in (warm, cold) if accounts
             for key in ("seconds", "processor_seconds")]
    yield "| **to the first embedding** | " + " | ".join(cell(c) for c in cells) + " |"
    yield "| the process, from outside | " + " | | ".join(
        cell(median([a["process"] for a in accounts])) for accounts in (warm, cold) if accounts) + " | |"
    yield ""
    for part in [part["part"] for part in warm[0]["beside"]]:
        times = [median([sum(p["seconds"] for p in a["beside"] if p["part"] == part) for a in accounts])
                 for accounts in (warm, cold) if accounts]
        yield f"Beside that, in another thread: {part} {cell(times[0])} ms warm" + (
            f", {cell(times[1])} cold." if cold else ".")
        yield ""
    before = "before the context"
    start = median([a["seconds"] - sum(p["seconds"] for p in a["parts"] if p["part"] == before) for a in warm])
    if opened:
        driver = median([o["seconds"] for o in opened])
        steps = ", ".join(f"{p['part']} {cell(median([o['parts'][n]['seconds'] for o in opened]))}"
                          for n, p in enumerate(opened[0]["parts"]))
        yield (f"The driver alone opens its device in {cell(driver)} ms ({steps}). "
               f"Warm, from the context to the first embedding: {cell(start)} ms, {cell(start - driver)} ms above that.")
    else:
        yield f"Warm, from the context to the first embedding: {cell(start)} ms."
    yield ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wherry", required=True)
    parser.add_argument("--open")
    parser.add_argument("--model", required=True)
    parser.add_argument("--big")
    parser.add_argument("--warm", type=int, default=11)
    parser.add_argument("--cold", type=int, default=3)
    parser.add_argument("--output")
    parser.add_argument("devices", nargs="+")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory(prefix="wherry-start-") as folder:
        for device in options.devices:
            for what, model in (("all-MiniLM-L6-v2", options.model), ("the size of XLM-R large", options.big)):
                if model:
                    results = measure(options, device, model, "big" if model == options.big else "model", folder)
                    if not lines:
                        run = results[0][0]["run"]
                        lines.append(f"Commit `{(run['commit'] or 'unknown')[:12]}`, {run['date'][:10]}, {os.cpu_count()} cores.")
                        lines.append("")
                    lines += table(device, what, *results)
    text = "\n".join(lines)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
