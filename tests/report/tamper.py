"""Changes every derived number of a record once, alone, and expects `wherry report --check` to find each.

usage: tamper.py WHERRY RECORD FOLDER

Also single raw fields, flags, regimes and warnings. Prints what was not found, and how many there were; exits with 1 when
one was not.
"""

import copy
import json
import subprocess
import sys
from pathlib import Path


def leaves(value, path=()):
    """(path, value) of everything below that is no object and no array."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, path + (key,))
    elif isinstance(value, list):
        for n, below in enumerate(value):
            yield from leaves(below, path + (n,))
    else:
        yield path, value


def is_derived(path):
    top = path[0]
    if top == "ops":
        return path[2] in ("derived", "share") or path[2:] == ("checks", "exceeds_peak")
    if top == "plans":
        names = ("by_class", "by_regime", "limit_seconds", "headroom")
        return path[2] in names or path[2:] == ("step", "gap_seconds")
    if top == "ceilings":
        return path[2] in ("value", "best")
    if top == "loads":
        return path[2] in ("requests", "rate", "min", "p50", "p90", "p99", "p999", "max", "mean")
    return path in (("status",), ("run", "sentinel", "drift"))


def is_raw(path):
    """What derived numbers follow from."""
    if path[0] == "ops":
        return path[2:] in (("flops",), ("warm", "median"), ("cold", "median"), ("bytes", "q", "r"),
                            ("bytes", "d_model", "w"), ("bytes", "requested", "r"), ("checks", "timer_ok"),
                            ("launches",))  # fmt: skip
    if path[0] == "loads":  # of a bucket how many are in it; "parts" makes it another kind of histogram
        return path[2] == "seconds" or (path[2] == "histogram" and path[3] != "parts" and path[5:] != (0,))
    return path in (("workload", "tokens"), ("workload", "sequences"), ("run", "sentinel", "last_seconds"))


def other_value(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * (1 + 1e-6) if value and isinstance(value, float) else value + 1
    return "compute" if value != "compute" else "memory"


def changed(record, path, value):
    record = copy.deepcopy(record)
    at = record
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return record


def variants(record):
    for path, value in leaves(record):
        fixed = path[0] == "ceilings" and record["ceilings"][path[1]]["unit"] == "s"
        if value is not None and not fixed and (is_derived(path) or is_raw(path)):
            yield path, changed(record, path, other_value(value))
        if isinstance(value, float) and is_derived(path) and not fixed and path[0] != "ceilings":
            yield path + ("null",), changed(record, path, None)
    for n in range(len(record["warnings"])):
        without = copy.deepcopy(record)
        del without["warnings"][n]
        yield ("warnings", n), without
    more = copy.deepcopy(record)
    more["warnings"].append({"code": "W_OVER_PEAK", "plan": "flash", "op": "layer.0.qkv", "text": "is not"})
    yield ("warnings", "one too many"), more


def main():
    wherry, source, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    record = json.loads(Path(source).read_text(encoding="utf-8"))
    paths = {}
    for n, (path, variant) in enumerate(variants(record)):
        file = folder / f"tampered-{n:05}.json"
        file.write_text(json.dumps(variant), encoding="utf-8")
        paths[str(file)] = path
    files = list(paths)
    missed = len(files) < 100
    for at in range(0, len(files), 500):
        some = files[at : at + 500]
        done = subprocess.run([wherry, "report", "--check", *some], capture_output=True, text=True, check=False)
        found = {line.split(": ")[0] for line in done.stdout.splitlines()}
        missed += done.returncode != 1
        for file in some:
            if file not in found:
                missed += 1
                print("not found:", *paths[file], done.stderr)
    for file in files:
        Path(file).unlink()
    print(f"{len(files)} changes, {missed} not found")
    sys.exit(missed > 0)


main()
