#!/usr/bin/env python3
"""vendors.py ROOT: README.md says what stands behind "any GPU" in the words of docs/vendors.md, and no vendor is said to
have executed anything of which there are no records."""

import pathlib
import re
import sys


def table(path):
    found = re.search(r"<!-- vendors -->\n(.*?)<!-- end of vendors -->", path.read_text(), re.S)
    return found.group(1) if found else sys.exit(f"{path}: no table of vendors")


root = pathlib.Path(sys.argv[1])
readme, page = (table(root / name) for name in ("README.md", "docs/vendors.md"))
if readme != page:
    sys.exit("README.md has another table of vendors than docs/vendors.md: copy it")
rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in page.splitlines()[2:]]
assert len(rows) >= 8 and all(len(row) == 4 for row in rows), rows
for vendor, executed, _, _ in rows:
    folders = list((root / "bench/results").glob(vendor.lower().split()[0] + "-*"))
    if not executed.startswith("none") and not vendor.startswith("drivers") and not folders:
        sys.exit(f"docs/vendors.md: {vendor} has executed, and bench/results has no folder {vendor.lower()}-*")
    if executed.startswith("none") and folders:
        sys.exit(f"docs/vendors.md: {vendor} has executed nothing, and there is {folders[0]}")
print(f"{len(rows)} rows")
