#!/usr/bin/env python3
"""drivers.py FOLDER [--write FILE]

The table of drivers by suites (tests/drivers.md) from the logs of scripts/drivers.sh: what passed, failed and was
skipped, by the programs' own last lines, with seconds. A log that says nothing is no pass. With --write, cells that the folder
has no log of stay as FILE has them, but for suites of which the folder ran another part."""

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


def parts(folder):
    """What is run of the suites that have parts, in the table's words."""
    return {suite: f"`test_{suite}`: {(folder / f'{suite}.txt').read_text().strip()}." for suite in ("groups", "training")}


def read_table(text):
    """Rows of a table by driver: its cells by column."""
    rows, columns = {}, []
    for line in text.splitlines():
        if not line.startswith("| "):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[0] == "driver":
            columns = cells
        else:
            rows[cells[0]] = dict(zip(columns, cells))
    return rows


def row_of(folder, driver, kept):
    """The driver's row: what the folder has logs of, else what the table had."""
    runs = {path.name.split(".")[-2]: path.read_text().split() for path in folder.glob(f"{driver}.*.status")}
    row = {suite: kept.get(suite, "") for suite in SUITES}
    stays = any(row[suite] for suite in SUITES if suite not in runs)
    commits, dates = {run[3] for run in runs.values()}, {run[2] for run in runs.values()}
    if stays:
        commits |= set(kept["of commit"].split(", "))
        dates.add(kept["date"])
    row |= {suite: escape(cell(folder, driver, suite)) for suite in runs}
    says = kept.get("what it says it is", "")
    if runs:
        device = device_of(folder, driver)
        says = f"{escape(device['driver'])}, {device['api']}"
    return [driver, says, max(dates, default=""), ", ".join(sorted(commits))] + [row[suite] for suite in SUITES]


def table(folder, old=""):
    kept, said = read_table(old), parts(folder)
    for cells in kept.values():
        cells |= {suite: "" for suite, words in said.items() if words not in old}
    drivers = {path.name[: -len(".devices.json")] for path in folder.glob("*.devices.json")}
    rows = [row_of(folder, driver, kept.get(driver, {})) for driver in sorted(drivers | set(kept))]
    rows = [row for row in rows if any(row[4:])]
    if not rows:
        sys.exit(f"drivers: no results in {folder}")
    lines = ["# Software drivers by suites", "",
             "Written by `scripts/drivers.sh` from its logs. Each driver was alone on the loader; counts are of cases, "
             "seconds of wall time on whatever else the machine did, and no measure of a driver. An empty cell was not "
             "run, and an *unfinished* one was ended by the time it was given: that is neither a pass nor a failure.",
             "", " ".join(said.values()) + " `verify-bert`: random weights, sequences of 17 and 5 tokens.", "",
             "| driver | what it says it is | date | of commit | " + " | ".join(SUITES) + " |",
             "|---|---|---|---" + "|---" * len(SUITES) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    old = options.write.read_text() if options.write and options.write.exists() else ""
    text = table(options.folder, old)
    if options.write:
        options.write.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
