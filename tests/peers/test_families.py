#!/usr/bin/env python3
"""Tests bench/families.sh on the device cpu, and the tables that bench/families.py makes of its records and of made-up
results of PyTorch.

Usage: test_families.py WHERRY FOLDER     FOLDER: made anew
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

wherry, folder = Path(sys.argv[1]), Path(sys.argv[2])
bench = Path(__file__).resolve().parents[2] / "bench"
failed = 0


def check(what, condition):
    global failed
    if not condition:
        failed += 1
        print(f"FAILED: {what}")


def families(**variables):
    usual = {"BUILD": wherry.resolve().parent, "OUT": folder.resolve(), "DEVICES": "cpu", "DTYPE": "f32", "ROOF": "no", "PEERS": "no"}
    shapes = {"SHAPES": "minilm-l6:1x8", "ALONE": "", "INT8": "minilm-l6:1x8", "LAYERS": "nomic-bert-base:1x8"}
    env = {**os.environ, **{name: str(value) for name, value in {**usual, **shapes, **variables}.items()}}
    return subprocess.run(["bash", bench / "families.sh", "architectures"], env=env, capture_output=True, text=True)


def write(name, row):
    run = {"torch": "2.11", "device": "Card", "date": "2026-11-28T10:02:00Z"}
    (folder / name).write_text(json.dumps({"run": run, "rows": [row]}), encoding="utf-8")


def cells_of(text, *left):
    """Of the row that begins with these."""
    start = "| " + " | ".join(left) + " | "
    rows = [line[len(start) :].strip(" |") for line in text.splitlines() if line.startswith(start)]
    check(f"one row {left}", len(rows) == 1)
    return [cell.strip() for cell in rows[0].split(" | ")] if rows else [""] * 9


def host_ms(name):
    plan = json.loads((folder / name).read_text(encoding="utf-8"))["plans"][0]
    return 1e3 * (plan["phases"]["both"]["host_seconds"] if plan["phases"] else plan["step"]["host"]["median"])


shutil.rmtree(folder, ignore_errors=True)
done = families(JOBS=2)
check(f"families.sh: {done.stdout}{done.stderr}", done.returncode == 0)
check("what was compiled before is away", not (folder / "first").exists())
encode, layer = "minilm-l6-1x8-cpu.json", "layer-nomic-bert-base-1x8-cpu.json"
for name in (encode, layer, "int8-minilm-l6-1x8-cpu.json", "table.md"):
    check(f"{name} is there", (folder / name).exists())
if not failed:
    ms = host_ms(encode)
    ways = {"wall_ms_eager": 4 * ms, "wall_ms_flex": 2 * ms, "ms_compile": ms / 9}
    write("pytorch.json", {"model": "minilm-l6", "batch": 1, "seq": 8, **ways})
    ms = host_ms(layer)
    ways = {"ms_forward_eager": ms, "ms_backward_eager": 3 * ms, "ms_both_eager": 4 * ms}
    ways |= {"ms_forward_compile": ms, "ms_both_compile": 3 * ms, "error_graph": "it broke"}
    write("pytorch_layer.json", {"layer": "nomic-bert-base", "batch": 1, "seq": 8, **ways})
    text = subprocess.run([sys.executable, bench / "families.py", folder], capture_output=True, text=True, check=True).stdout
    cells = cells_of(text.split("| device, stored |")[0], "minilm-l6", "1×8")
    check(f"an encode beside the fastest way: {cells}", cells[0].endswith("(flex)") and cells[2] == "2.00")
    both, backward = (cells_of(text, "nomic-bert-base", "1×8", name) for name in ("both", "backward"))
    check(f"a layer beside its fastest way: {both}", both[0].endswith("(compile)") and both[2] == "3.00")
    check(f"a replayed backward pass is the difference: {backward}", backward[0] == f"{2 * ms:.3g} (compile)")
    small = cells_of(text, "minilm-l6", "1×8", "cpu, f32")
    check(f"8 bits beside f32: {small}", len(small) == 8 and all(small) and int(small[7]) < int(small[6]))
done = families(LIMIT=3)
check("what begins too late is left out and named", done.returncode == 1 and "left out: 3 seconds are over: minilm-l6-1x8-cpu" in done.stdout)
done = subprocess.run(["bash", bench / "families.sh", "other"], capture_output=True, text=True)
check("an unknown argument is refused", done.returncode == 2)
sys.exit(failed > 0)
