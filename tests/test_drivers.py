#!/usr/bin/env python3
"""test_drivers.py FOLDER: the table of scripts/drivers.sh says what logs say: a failure, a skip, an end by time and a program that
ended without a word are none of them a pass. Made-up logs, and the committed table's form."""

import json
import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).parent
work = pathlib.Path(sys.argv[1])
work.mkdir(parents=True, exist_ok=True)
for old in work.glob("*"):
    old.unlink()

device = {"devices": [{"id": "cpu", "driver": "no"}, {"id": "opencl:0", "driver": "Made | up 1.2", "api": "OpenCL 3.0"}]}
(work / "madeup.devices.json").write_text(json.dumps(device))
(work / "groups.txt").write_text("shapes tiny\n")
(work / "training.txt").write_text("model-mean\n")
RAN = "[==========] %d test(s) run.\n"
LOGS = {
    "groups": (0, 41, RAN % 7 + "[  PASSED  ] 7 test(s).\n", "7 passed; 41 s"),
    "encode": (1, 5, RAN % 7 + "[  PASSED  ] 5 test(s).\n[  FAILED  ] 2 test(s), listed below:\n", "5 passed, **2 failed**; 5 s"),
    "training": (124, 100, "[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n", "**unfinished** after 100 s (1 passed)"),
    "golden": (139, 3, "[ RUN      ] a\n", "**ended with 139** after 3 s (0 passed)"),
    "verify-minilm": (77, 0, "WHERRY_TEST_MODEL is not set\n", "skipped: WHERRY_TEST_MODEL is not set"),
    "verify-bert": (0, 9, "passed: 43 groups checked, 0 failed\n", "passed: 43 groups checked, 0 failed; 9 s"),
}
for suite, (status, seconds, log, _) in LOGS.items():
    (work / f"madeup.{suite}.log").write_text(log)
    (work / f"madeup.{suite}.status").write_text(f"{status} {seconds} 2026-01-02 12ab\n")

table = subprocess.run([sys.executable, here / "drivers.py", work], check=True, capture_output=True, text=True).stdout
row = next(line for line in table.splitlines() if line.startswith("| madeup |"))
expected = "| madeup | Made \\| up 1.2, OpenCL 3.0 | 2026-01-02 | 12ab | " + " | ".join(one[3] for one in LOGS.values()) + " |"
assert row == expected, f"\n{row}\n{expected}"

# Cells without logs stay as the file has them, but for a suite of which another part ran.
(work / "madeup.encode.status").unlink()
file = work / "table.md"
file.write_text(table.replace("12ab", "99cd").replace("| madeup |", "| gone |") +
                row.replace("12ab", "99cd").replace("5 passed", "6 passed") + "\n")
(work / "groups.txt").write_text("shapes odd\n")
(work / "madeup.groups.status").unlink()
subprocess.run([sys.executable, here / "drivers.py", work, "--write", file], check=True)
kept = {line.split(" ")[1]: line.split(" | ") for line in file.read_text().splitlines() if line.startswith("| ")}
assert kept["madeup"][3] == "12ab, 99cd" and kept["madeup"][4] == "" and kept["madeup"][5].startswith("6 passed"), kept
assert kept["gone"][3] == "99cd" and kept["gone"][5].startswith("5 passed") and len(kept["gone"]) == len(kept["madeup"]), kept

committed = (here / "drivers.md").read_text().splitlines()
rows = [line for line in committed if line.startswith("| ") and not line.startswith("| driver ")]
columns = next(line for line in committed if line.startswith("| driver ")).count("|")
assert len(rows) >= 8 and all(line.replace("\\|", "").count("|") == columns for line in rows), rows
print(f"{len(LOGS)} kinds of logs, {len(rows)} drivers in the table")
