"""Compares a tuning's CSV (wherry report --format csv) with the numbers that follow from the file.

usage: check_tuning.py TUNING CSV
"""

import csv
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "page"))

from make_tunings import configurations  # noqa: E402


def number(text):
    return float(text) if text else None


def marked(operator, mark):
    return next((one for one in operator["times"] if one[mark]), None)


def expected_of(operator):
    times = configurations(operator)
    alone = any(one["candidates"] for one in operator["times"])
    default, chosen = marked(operator, "default"), marked(operator, "chosen")
    candidates = [candidate for one in operator["times"] for candidate in one["candidates"]]
    return {
        "times": len(times),
        "wrong": sum(one["verdict"] == "wrong" for one in candidates),
        "failed": sum(one["verdict"] == "failed" for one in candidates),
        "best_us": min(times, default=None),
        "worst_us": max(times, default=None),
        "default_us": default and default["alone_default_us" if alone else "us"],
        "chosen_us": chosen and chosen["alone_us" if alone else "us"],
        "default_in_step_us": default and default["us"],
        "chosen_in_step_us": chosen and chosen["us"],
    }


def main():
    tuning = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    with open(sys.argv[2], newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    operators = [
        operator for plan in tuning["plans"] if plan.get("layouts") for operator in plan["layouts"]["operators"]
    ]
    own = [row for row in rows if row["kind"] == "operator"]
    assert [row["name"] for row in own] == [operator["name"] for operator in operators]
    for row, operator in zip(own, operators):
        for key, value in expected_of(operator).items():
            assert number(row[key]) == value, (operator["name"], key, row[key], value)
    works = [row for row in rows if row["kind"] == "work"]
    assert len(works) == len(tuning["works"]), len(works)
    for row, work in zip(works, tuning["works"]):
        times = {one["us"] for one in work.get("candidates", []) if one["verdict"] == "right"}
        times |= {us for us in (work["default_us"], work["best_us"]) if us}
        assert int(row["times"]) == len(times) and number(row["best_us"]) == min(times, default=None), row


main()
