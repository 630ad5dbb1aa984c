"""Gives every field of a record or a tuning every wrong type, and leaves each out, once: `wherry report` must refuse it with
a message, or read it, in every format; it must never crash. WHERRY_TEST_SAMPLE=N takes every Nth place.

usage: mistype.py WHERRY FILE FOLDER
"""

import json
import os
import subprocess
import sys
from pathlib import Path

WRONG = [None, True, -1, 1e308, 2**62, "a" * 5000, '\u0085\x1b[2J|,"<b>', [], {"a": [{}]}]
GONE = object()
FORMATS = ("text", "json", "csv", "markdown", "trace", "html")
LONG = {"plans": 1, "ops": 2, "works": 2, "loads": 1, "idle": 1, "ceilings": 1, "sweep": 1,
        "launch": 1}  # lists, and how much of them is enough


def places(value, path=()):
    """Every place, of entries of an array the first alone."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from places(below, path + (key,))
    elif isinstance(value, list) and value:
        yield from places(value[0], path + (0,))


def changed(record, path, value):
    """The text of it; the record is as before afterwards, but for an object's order."""
    at = record
    for key in path[:-1]:
        at = at[key]
    before = at[path[-1]]
    if value is GONE:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    text = json.dumps(record)
    if value is GONE and isinstance(at, list):
        at.insert(path[-1], before)
    else:
        at[path[-1]] = before
    return text


def run(command, files):
    done = subprocess.run([*command, *files], capture_output=True, check=False)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"exit {done.returncode} of {command}: {done.stderr[-2000:].decode()}")
    return done


def accepted_records(wherry, files):
    accepted = []
    for at in range(0, len(files), 1000):
        some = files[at : at + 1000]
        refused = run([wherry, "report", "--check"], some).stderr.decode()
        accepted += [file for file in some if f"{file}: " not in refused]
    return accepted


def accepted_tunings(wherry, files):
    """One by one: they have no --check that would go on after a wrong file."""
    accepted = []
    for file in files:
        done = run([wherry, "report"], [file])
        if not done.returncode:
            accepted.append(file)
        elif f"{file}: ".encode() not in done.stderr:
            sys.exit(f"{file}: {done.stderr[-2000:].decode()}")
    return accepted


def main():
    wherry, source, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    record = json.loads(Path(source).read_text(encoding="utf-8"))
    for key, count in LONG.items():
        if key in record:
            record[key] = record[key][:count]
    files = []
    for path in list(places(record))[:: int(os.environ.get("WHERRY_TEST_SAMPLE", "1"))]:
        for value in [*WRONG, GONE]:
            file = folder / f"mistyped-{len(files):05}.json"
            file.write_text(changed(record, path, value), encoding="utf-8")
            files.append(str(file))
    tuning = "works" in record
    accepted = (accepted_tunings if tuning else accepted_records)(wherry, files)
    for at in range(0, len(accepted), 1000):
        for name in FORMATS:
            if (tuning or "loads" in record) and name == "trace":
                continue  # which they have not
            done = run([wherry, "report", "--format", name], accepted[at : at + 1000])
            if done.returncode:
                sys.exit(f"{name}: {done.stderr[-2000:].decode()}")
            if name != "html" and any(byte in done.stdout for byte in (b"\x1b", b"\xc2\x85")):
                sys.exit(f"{name} has control characters of the record")
    for file in files:
        Path(file).unlink()
    print(f"{len(files)} files, {len(files) - len(accepted)} refused")
    sys.exit(not len(files) // 3 < len(files) - len(accepted) < len(files))


main()
