#!/usr/bin/env python3
"""Writes made-up tunings (as wherry tune --json does) for the tests of their page.

Usage: make_tunings.py FOLDER

Names and the first time of each operator are of layer.tsv; all else is invented around them and must never be taken for
a measurement.
"""

import itertools
import json
import random
import statistics
import sys
from pathlib import Path

from make_records import HOSTILE, layer_rows

LETTERS = {"contraction": "T", "normalization": "S", "elementwise": "E"}
TENSORS = {
    "w_qkv": ["qhpi", "iqhp"],
    "w_out": ["ihp", "hpi"],
    "w_lin1": ["ui", "iu", "ui+iu", "iu+ui"],
    "w_lin2": ["iu", "ui"],
    "x": ["bji", "ibj"],
}
MODES = (1.0, 1.55, 2.6)  # of a contraction's times: kernels of three kinds


def interval(us):
    return {"us": us, "low_us": us * 0.994, "high_us": us * 1.007}


def candidates_of(rng, base, contraction, count=36):
    """Of a contraction in three modes far apart, of others in one; one is wrong, one fails."""
    found = []
    for n in range(count):
        mode = MODES[n % 3] if contraction else 1.0
        us = base * mode * (1 + abs(rng.gauss(0, 0.03 if contraction else 0.2)))
        name = ("gemm_wgmma", "gemm_mma", "gemm")[n % 3] if contraction else "rows"
        found.append({"sizes": f"{name} 27={64 << n % 3} 28={32 << n % 4} 31={n}", **interval(us), "verdict": "right"})
    found[-1].update(us=None, low_us=None, high_us=None, verdict="failed")
    found[-3]["cut"] = True
    if contraction:
        found[-2].update(us=None, low_us=None, high_us=None, verdict="wrong")
    return found


def right(candidates):
    return [one["us"] for one in candidates if one["verdict"] == "right"]


def make_time(rng, orders, base, row):
    contraction = row["class"] == "contraction"
    candidates = candidates_of(rng, base, contraction)
    best = min(right(candidates))
    return {
        "orders": list(orders),
        "kernels": "gemm_wgmma 128x256x64" if contraction else "rows 256",
        **interval(best * 1.02),
        "alone_us": best,
        "alone_default_us": best * (1.0 + 0.12 * rng.random()),
        "default": False,
        "chosen": False,
        "best": False,
        "candidates": candidates,
    }


def tensors_of(name):
    found = [tensor for tensor in TENSORS if tensor[2:] in name and tensor != "x"]
    if name.split("_")[0] in ("qkv", "out", "lin1", "norm1", "norm2"):
        found.append("x")
    return found


def make_operators(rng, rows):
    operators = []
    for row in rows:
        tensors = tensors_of(row["name"])
        times = []
        for orders in itertools.product(*(TENSORS[tensor] for tensor in tensors)):
            factor = 1.0 if not times else 0.84 + 0.36 * rng.random()
            times.append(make_time(rng, orders, float(row["opencl_us"]) * factor, row))
        times[0]["default"] = True
        min(times, key=lambda one: one["us"])["best"] = True
        operators.append(
            {
                "name": row["name"],
                "class": LETTERS[row["class"]],
                "pass": row["phase"],
                "tensors": tensors,
                "times": times,
            }
        )
    operators.append(make_copy())
    return operators


def make_copy():
    """A transposition that is run with one order alone."""
    times = []
    for n, order in enumerate(TENSORS["x"]):
        times.append(
            {
                "orders": [order],
                "kernels": "transpose 32x32" if n else "",
                **interval(5.9 * n),
                "alone_us": 5.7 * n,
                "alone_default_us": 6.1 * n,
                "default": n == 0,
                "chosen": False,
                "best": n == 0,
                "candidates": [{"sizes": "transpose 27=32", **interval(5.8), "verdict": "right"}] * n,
            }
        )
    return {"name": "x_transpose", "class": "E", "pass": "backward", "tensors": ["x"], "times": times}


def time_with(operator, choice):
    wanted = [choice[tensor] for tensor in operator["tensors"]]
    return next(one for one in operator["times"] if one["orders"] == wanted)


def make_layouts(rng, rows):
    """The best of all assignments, as it is searched for, and the figures that follow."""
    operators = make_operators(rng, rows)
    all_choices = [dict(zip(TENSORS, orders)) for orders in itertools.product(*TENSORS.values())]
    sums = [sum(time_with(operator, choice)["us"] for operator in operators) / 1e3 for choice in all_choices]
    predicted = min(sums)
    choice = all_choices[sums.index(predicted)]
    for operator in operators:
        time_with(operator, choice)["chosen"] = True
    drawn = sorted(rng.choice(sums) for _ in range(256))
    default, chosen = sums[0] * 1.006, predicted * 1.012
    return {
        "tensors": [
            {"name": name, "orders": orders, "default": orders[0], "chosen": choice[name]}
            for name, orders in TENSORS.items()
        ],
        "operators": operators,
        "transposes": [{"tensor": "w_lin1", "us": 3.2}, {"tensor": "x", "us": 5.9}],
        "assignments": len(sums),
        "feasible": len(sums),
        "states": 17,
        "exact": True,
        "default_ms": default,
        "chosen_ms": chosen,
        "predicted_ms": predicted,
        "best_sum_ms": sum(min(one["us"] for one in operator["times"]) for operator in operators) / 1e3,
        "transposed_ms": predicted * 1.09,
        "default_low_ms": default * 0.996,
        "default_high_ms": default * 1.004,
        "chosen_low_ms": chosen * 0.996,
        "chosen_high_ms": chosen * 1.004,
        "default_host_ms": default * 1.05,
        "chosen_host_ms": chosen * 1.05,
        "random_ms": {"n": 256, "p05": drawn[12], "median": statistics.median(drawn), "p95": drawn[243]},
        "chosen": ",".join(f"{name}={order}" for name, order in choice.items() if order != TENSORS[name][0]),
        "reason": "the sum of the operators' times in the step is the smallest of all assignments",
    }


def make_work(rng, row, plan, layouts=None):
    contraction = row["class"] == "contraction"
    candidates = candidates_of(rng, float(row["opencl_us"]), contraction)
    best, default = min(right(candidates)), float(row["opencl_us"]) * 1.09
    work = {
        "plan": plan,
        "group": "layer.0." + row["name"],
        "work": f"f16 rungs=9 rows=4096 {row['kernel']} 1=1024 2=4096",
        "default": f"{row['kernel']} 27=128 28=128",
        "best": next(one["sizes"] for one in candidates if one["us"] == best),
        "chosen": best < 0.99 * default,
        "groups": 1,
        "default_us": default,
        "best_us": best,
        "measured": len(candidates),
        "known": 0,
        "wrong": int(contraction),
        "failed": 1,
        "refused": 12,
        "cut": 3,
        "reason": "1 element of 4096 differs" if contraction else None,
    }
    if layouts is not None:
        work.update(layouts=layouts, candidates=candidates)
    return work


def make_plan(name, works, layouts=False):
    plan = {
        "session": {"plan": name, "dtype": "f16", "groups": 25, "launches": 31, "notes": []},
        "works": len(works),
        "chosen": sum(work["chosen"] for work in works),
        "measured": sum(work["measured"] for work in works),
        "known": 40,
        "wrong": sum(work["wrong"] for work in works),
        "failed": sum(work["failed"] for work in works),
        "default_us": sum(work["default_us"] for work in works),
        "best_us": sum(work["best_us"] if work["chosen"] else work["default_us"] for work in works),
        "seconds": 812.5,
        "file": "/home/user/.cache/wherry/tuned-opencl-1c87e416.txt",
    }
    if layouts is not False:
        plan["layouts"] = layouts
    return plan


def tuning(plans, works, api="opencl", name="NVIDIA H200"):
    made = {
        "run": {
            "library": "0.1.0",
            "commit": "4af665c79a22",
            "date": "2026-11-21T03:05:33Z",
            "command_line": ["wherry", "tune", "layer", "--config", "bert-large", "--json", "-o", "a tuning.json"],
        },
        "device": {
            "id": f"{api}:0",
            "name": name,
            "driver": "NVIDIA 580.159.04",
            "api": "OpenCL 3.0" if api == "opencl" else "Vulkan 1.4.312",
            "type": "GPU",
            "uuid": "1c87e4161ab9c938434c91453f4cc40d",
            "usable": True,
            "reason": None,
            "memory_bytes": 150754820096,
        },
        "model": {
            "source": "bert-large",
            "architecture": "random",
            "layers": 1,
            "hidden": 1024,
            "heads": 16,
            "feed_forward": 4096,
            "vocabulary": 30522,
            "positions": 512,
            "parameters": 12596224,
            "weight_file_bytes": 0,
            "max_tokens": 512,
            "pool": "none",
        },
        "training": {
            "qkv_products": 1,
            "layers": 1,
            "pre_layernorm": False,
            "activation": "relu",
            "dropout": 0.1,
            "save": "less",
        },
        "lengths": [512] * 8,
        "plans": plans,
        "works": works,
    }
    first = next((plan["layouts"] for plan in plans if plan.get("layouts")), None)
    if first:
        made.update({key: first[key] for key in ("default_ms", "chosen_ms", "predicted_ms", "best_sum_ms")})
    return made


def rows_of(plan):
    return [row for row in layer_rows() if row["plan"] == plan]


def layouts_file(seed, api="opencl"):
    rng = random.Random(seed)
    rows = rows_of("flash")
    works = [
        make_work(rng, row, "flash", layouts)
        for row in rows
        for layouts in ("", "w_lin1=iu")[: 1 + ("lin1" in row["name"])]
    ]
    return tuning([make_plan("flash", works, make_layouts(rng, rows))], works, api)


def sizes_file(seed):
    """Two plans without layouts, with candidates."""
    rng = random.Random(seed)
    works = {plan: [make_work(rng, row, plan, "") for row in rows_of(plan)] for plan in ("flash", "paper")}
    plans = [make_plan(plan, of, None) for plan, of in works.items()]
    return tuning(plans, works["flash"] + works["paper"], "vulkan")


def plain_file(seed):
    """As without layouts and candidates, for inference."""
    rng = random.Random(seed)
    works = [make_work(rng, row, "flash") for row in rows_of("flash")[:6]]
    works[0].update(default_us=0.0, best_us=0.0, chosen=False)
    made = tuning([make_plan("flash", works)], works)
    made.update(training=None, lengths=[17, 400, 64])
    return made


def step_file(seed):
    """Times in the step alone, an operator without any, and figures that are not known."""
    made = layouts_file(seed)
    layouts = made["plans"][0]["layouts"]
    for operator in layouts["operators"]:
        for one in operator["times"]:
            one.update(candidates=[], alone_us=None, alone_default_us=None, low_us=None, high_us=None)
    for one in layouts["operators"][2]["times"]:
        one["us"] = None
    layouts["operators"][3]["times"] = layouts["operators"][3]["times"][:1]
    layouts.update(dict.fromkeys(("predicted_ms", "best_sum_ms", "transposed_ms", "random_ms", "default_low_ms")))
    layouts.update(exact=False, transposes=[], reason=None, states=None)
    made["works"] = []
    return made


def empty_file():
    layouts = make_layouts(random.Random(1), rows_of("flash"))
    layouts.update(tensors=[], operators=[], transposes=[], chosen="")
    return tuning([make_plan("flash", [], layouts)], [])


def hostile_file(seed):
    made = layouts_file(seed)
    made["device"].update(name=HOSTILE, driver=HOSTILE)
    made["run"].update(command_line=["wherry", HOSTILE], commit=HOSTILE, date=HOSTILE)
    made["model"]["source"] = HOSTILE
    plan = made["plans"][0]
    plan["session"]["plan"] = HOSTILE
    plan["file"] = HOSTILE
    layouts = plan["layouts"]
    layouts.update(chosen=HOSTILE, reason=HOSTILE)
    layouts["tensors"][2].update(name=HOSTILE, chosen=HOSTILE, orders=[HOSTILE, "ui"])
    for operator in layouts["operators"]:
        operator["tensors"] = [HOSTILE if tensor == "w_lin1" else tensor for tensor in operator["tensors"]]
    layouts["operators"][0].update(name=HOSTILE, **{"class": HOSTILE, "pass": HOSTILE})
    layouts["operators"][0]["times"][0].update(kernels=HOSTILE)
    layouts["operators"][0]["times"][0]["candidates"][0].update(sizes=HOSTILE)
    for work in made["works"]:
        work.update(plan=HOSTILE, group=HOSTILE, layouts=HOSTILE)
    return made


def configurations(operator):
    """All times of an operator: of right candidates, and those beside them that are none of these."""
    times = operator["times"]
    if not any(one["candidates"] for one in times):
        return [one["us"] for one in times if one["us"]]
    found = []
    for one in times:
        own = [candidate["us"] for candidate in one["candidates"] if candidate["verdict"] == "right"]
        for us in (one["alone_default_us"], one["alone_us"]):
            if us and us not in own:
                own.append(us)
        found += own
    return found


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "layouts": layouts_file(11),
        "layouts-vulkan": layouts_file(12, "vulkan"),
        "sizes": sizes_file(13),
        "plain": plain_file(14),
        "step": step_file(15),
        "empty": empty_file(),
        "hostile": hostile_file(16),
    }
    for name, value in made.items():
        (folder / f"tuning-{name}.json").write_text(
            json.dumps(value, ensure_ascii=False, allow_nan=False), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
