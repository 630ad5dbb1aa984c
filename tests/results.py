"""Checks the committed measurements: each folder of bench/results tells in its README the driver, the commit and the
command, and its records pass: `wherry report --check`, of the comparison on the host's cores `cpu_table.py --check`. No JSON file is
larger than 1 MiB.

usage: results.py WHERRY [FOLDER ...]   (default: all folders of bench/results)
"""

import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench", "results")
HOST_TABLE = os.path.join(ROOT, "..", "peers", "cpu_table.py")
LARGEST = 1 << 20
CHECKS = {  # schema: what derives again what is written of such a record
    "rl-1": lambda wherry: [wherry, "report", "--check"],
    "layouts-1": lambda wherry: [wherry, "report", "--check"],
    "wherry-cpu-peers-1": lambda _: [sys.executable, HOST_TABLE, "--check"],
}


def records(folder):
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.join(where, name)
            if not name.endswith(".json"):
                continue
            if os.path.getsize(path) > LARGEST:
                sys.exit("%s: larger than 1 MiB; python3 -m json.tool --compact FILE FILE leaves out its line breaks" % path)
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            if isinstance(value, dict) and value.get("schema") in CHECKS:
                yield path, CHECKS[value["schema"]]


def main():
    wherry, failed, checked = sys.argv[1], 0, 0
    folders = sys.argv[2:] or [os.path.join(ROOT, name) for name in sorted(os.listdir(ROOT))]
    for folder in filter(os.path.isdir, folders):
        readme = os.path.join(folder, "README.md")
        text = open(readme, encoding="utf-8").read() if os.path.exists(readme) else ""
        wanted = {"the driver's name": r"(?i)driver|mesa|pocl|processor", "a commit": r"`[0-9a-f]{7,12}`", "a command": r"```"}
        missing = [what for what, pattern in wanted.items() if not re.search(pattern, text)]
        paths = list(records(folder))
        if not paths:
            missing.append("records")
        if missing:
            print("%s: its README.md or the folder lacks %s (docs/results.md)" % (folder, ", ".join(missing)))
            failed += 1
        for path, check in paths:
            done = subprocess.run([*check(wherry), path], capture_output=True, text=True)
            checked += 1
            if done.returncode:
                print("%s: %s" % (path, (done.stdout + done.stderr).strip()))
                failed += 1
    print("%d records checked, %d failures" % (checked, failed))
    sys.exit(bool(failed) or not checked)


main()
