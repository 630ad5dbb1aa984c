#!/usr/bin/env python3
"""drivers.py FOLDER [--write FILE]

The table of drivers by suites (tests/drivers.md) from the logs of scripts/drivers.sh: what passed, failed and was
skipped, by the programs' own last lines, with seconds. A log that says nothing is no pass."""

import argparse
import json
import pathlib
import re
import sys

SUITES = ("groups", "encode", "training", "golden", "verify-minilm", "verify-bert")
TIMED_OUT = (124, 137)


def counts(text):
    """Passed, failed and skipped tests of a cmocka program; None: it did not come to its end."""
    ran = re.search(r"\[=+\] (\d+) test\(s\) run", text)
    if not ran:
        return None
    found = [re.search(pattern, text) for pattern in (r"\[  PASSED  \] (\d+)", r"\[  FAILED  \] .*?(\d+) test",
                                                      r"\[  SKIPPED \] (\d+)")]
    passed, failed, skipped = (int(one.group(1)) if one else 0 for one in found)
    return passed, failed, skipped


def cell(folder, driver, suite):
    status_file = folder / f"{driver}.{suite}.status"
    if not status_file.exists():
        return ""
    status, seconds, _, _ = status_file.read_text().split()
    status = int(status)
    text = (folder / f"{driver}.{suite}.log").read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    if status == 77:
        return f"skipped: {last}"
    done = len(re.findall(r"^\[       OK \]", text, re.M))
    if status in TIMED_OUT:
        return f"**unfinished** after {seconds} s ({done} passed)" if done else f"**unfinished** after {seconds} s"
    numbers = counts(text)
    if numbers is None and suite.startswith("verify"):
        return (last if status == 0 else f"**status {status}**") + f"; {seconds} s"
    if numbers is None:
        return f"**ended with {status}** after {seconds} s ({done} passed)"
    passed, failed, skipped = numbers
    words = [f"{passed} passed"]
    if failed or status:
        words.append(f"**{failed} failed**" if failed else f"**status {status}**")
    if skipped:
        words.append(f"{skipped} skipped")
    return ", ".join(words) + f"; {seconds} s"


def device_of(folder, driver):
    """What the driver calls itself, of the one device that is no other backend's."""
    devices = json.loads((folder / f"{driver}.devices.json").read_text())["devices"]
    return next(d for d in devices if d["id"].startswith(("opencl:", "vulkan:")))


def escape(text):
    return text.replace("|", "\\|")


def table(folder):
    drivers = sorted(path.name[: -len(".devices.json")] for path in folder.glob("*.devices.json"))
    suites = [s for s in SUITES if any((folder / f"{d}.{s}.status").exists() for d in drivers)]
    if not drivers or not suites:
        sys.exit(f"drivers: no results in {folder}")
    groups, training = (folder / f"{name}.txt" for name in ("groups", "training"))
    lines = ["# Software drivers by suites", "",
             "Written by `scripts/drivers.sh` from its logs. Each driver was alone on the loader; counts are of cases, "
             "seconds of wall time on whatever else the machine did, and no measure of a driver. An empty cell was not "
             "run, and an *unfinished* one was ended by the time it was given: that is neither a pass nor a failure.",
             "", f"`test_groups`: {groups.read_text().strip()}. `test_training`: {training.read_text().strip()}. "
             "`verify-bert`: random weights, sequences of 17 and 5 tokens.", "",
             "| driver | what it says it is | date | of commit | " + " | ".join(suites) + " |",
             "|---|---|---|---" + "|---" * len(suites) + "|"]
    for driver in drivers:
        device = device_of(folder, driver)
        runs = [path.read_text().split() for path in folder.glob(f"{driver}.*.status")]
        if not runs:
            continue
        date, commits = max(run[2] for run in runs), ", ".join(sorted({run[3] for run in runs}))
        cells = [escape(cell(folder, driver, suite)) for suite in suites]
        lines.append(f"| {driver} | {escape(device['driver'])}, {device['api']} | {date} | {commits} | " +
                     " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    text = table(options.folder)
    if options.write:
        options.write.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
