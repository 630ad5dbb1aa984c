#!/usr/bin/env python3
"""Tests bench/peers/compare.py on made-up results: what it takes from where, rates, bars, what is missing, what does not
belong together, and the README's part.

Usage: test_peers.py COMPARE FOLDER     FOLDER: made anew
"""
import copy
import json
import shutil
import subprocess
import sys
from pathlib import Path

compare, folder = Path(sys.argv[1]), Path(sys.argv[2])
DEVICES = {
    "opencl": {"id": "opencl:0", "name": "Card", "api": "OpenCL 3.0", "driver": "driver 1"},
    "vulkan": {"id": "vulkan:0", "name": "Card", "api": "Vulkan 1.4", "driver": "driver 2"},
}
GEMM, ATTENTION, NORM = "8192x8192x8192", "32x16x512x64", "65536x1024"
failed = 0


def check(what, condition):
    global failed
    if not condition:
        failed += 1
        print(f"FAILED: {what}")


def write(name, value):
    (folder / name).write_text(json.dumps(value), encoding="utf-8")


# ---- made-up results ----


def group(name, kernel, timer="ok"):
    return {"id": "layer.0." + name, "timer": timer, "kernels": [{"kernel": kernel}]}


def pieces(api, piece, rows):
    run = {"commit": "abc", "date": "2026-11-22T10:00:00Z"}
    return {
        "schema": "wherry-pieces-1",
        "piece": piece,
        "dtype": "f16",
        "run": run,
        "device": DEVICES[api],
        "rows": rows,
    }


def row(shape, form, seconds, bytes_=0, groups=None):
    return {"shape": shape, "form": form, "seconds": seconds, "bytes": bytes_, "groups": groups or [group("x", "gemm")]}


def record(api, kind, source, lengths, plan=None, copy_rate=None):
    workload = {"kind": kind, "model": {"source": source}, "sequences": len(lengths), "lengths": lengths}
    ceilings = [] if copy_rate is None else [{"id": "dram.copy", "best": True, "dev": 0, "value": copy_rate}]
    return {
        "schema": "rl-1",
        "run": {"tool": {"git": "abc"}, "utc": "2026-11-22T10:01:00Z"},
        "devices": [{**DEVICES[api], "dev": 0}],
        "workload": workload if plan else {"kind": "ceilings"},
        "ceilings": ceilings,
        "plans": [{"dev": 0, "dtype": "f16", **plan}] if plan else [],
    }


def torch(rows):
    run = {"torch": "2.11", "cuda": "13.0", "cudnn": 91900, "device": "Card", "date": "2026-11-22T10:02:00Z"}
    return {"run": {**run, "driver_and_clocks": "580"}, "rows": rows}


def memory(shape, bytes_):
    both = {name: {"activation_bytes": bytes_, "weight_bytes": 1} for name in ("inference", "training")}
    return {"shape": shape, "form": "memory", "memory": both}


def make():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    flop, traffic = 2.0 * 8192**3, 65536 * 1024 * 2
    for api, slower in (("opencl", 1), ("vulkan", 2)):
        gemm = [row(GEMM, "forward", flop / 700e12 * slower), row(GEMM, "dx", flop / 600e12 * slower)]
        gemm += [row(GEMM, "epilogue", flop / 640e12 * slower)]
        write(f"gemm-{api}-0.json", pieces(api, "gemm", gemm))
        work = 4.0 * 32 * 16 * 512**2 * 64
        parts = [group("delta", "delta"), group("attention_dx", "attention_backward")]
        attention = [row(ATTENTION, "forward", work / 330e12), row(ATTENTION, "backward", work / 100e12, 0, parts)]
        write(f"attention-{api}-0.json", pieces(api, "attention", attention + [memory(ATTENTION, 1)]))
        norm = [row(NORM, "forward", 2 * traffic / 3.8e12, 2 * traffic), row(NORM, "backward", 1e-4, 9 * traffic)]
        norm += [row(NORM, "bdrln", 4 * traffic / 3.4e12, 4.01 * traffic, [group("bdrln2", "layernorm")])]
        write(f"norm-{api}-0.json", pieces(api, "norm", norm))
        lengths = [row("256x16x128x64", "forward", 1.2e-3), memory("256x16x128x64", 100e6)]
        lengths += [row("2x16x16384x64", "forward", 128e-3), memory("2x16x16384x64", 101e6)]
        lengths += [row("128x16x128x64", "forward", 1), memory("128x16x128x64", 50e6)]
        write(f"lengths-{api}-0.json", pieces(api, "attention", lengths))
        write(f"roof-{api}-0.json", record(api, "ceilings", "", [], None, 4e12))
        both = {"plan": "flash", "phases": {"both": {"host_seconds": 1e-3 * slower}}}
        write(f"layer-8x512-{api}-0.json", record(api, "layer", "bert-large", [512] * 8, both))
        step = {"plan": "flash", "step": {"host": {"median": 5e-3 * slower}}}
        write(f"bench-bert-base-32x512-{api}-0.json", [record(api, "encode", "bert-base", [512] * 32, step)])
    ways = {"ms_both_eager": 3.0, "ms_both_graph": 1.5, "ms_both_compile": 1.4, "ms_both_compile_p05": 1.0}
    write("pytorch_layer.json", torch([{"layer": "bert-large", "batch": 8, "seq": 512, **ways}]))
    ways = {"wall_ms_eager": 9.0, "wall_ms_graph": 8.0, "wall_ms_graph_p05": 1.0, "ms_graph": 0.5}
    write("pytorch.json", torch([{"model": "bert-base", "batch": 32, "seq": 512, **ways}]))
    write("pytorch_roof.json", torch([{"what": "copy", "per_second": 4.2e12}]))
    rows = [
        {"form": "forward", "way": "cublas", "ms": 1e3 * flop / 650e12, "kernel_ms": 1e3 * flop / 656e12},
        {"form": "forward", "way": "cublaslt", "ms": 1e3 * flop / 640e12, "kernel_ms": None},
        {"form": "dx", "way": "cublas", "ms": 1e3 * flop / 650e12, "kernel_ms": None},
        {"form": "dx", "way": "cublaslt", "error": "it broke"},
    ]
    rows = [{"piece": "gemm", "shape": GEMM, **r} for r in rows]
    rows += [{"piece": "attention", "shape": ATTENTION, "form": "forward", "way": "cudnn", "ms": 0.1, "kernel_ms": 0.2}]
    rows += [{"piece": "norm", "shape": NORM, "form": "forward", "way": "compile", "ms": 0.1, "kernel_ms": None}]
    write("pytorch_pieces.json", torch(rows))


# ---- what comes out ----


def run(*arguments):
    return subprocess.run([sys.executable, compare, *arguments], capture_output=True, text=True)


def results():
    ran = run(folder, "--command", "made up")
    check(f"compare succeeds: {ran.stderr}", ran.returncode == 0)
    peers = json.loads((folder / "peers.json").read_text(encoding="utf-8"))
    return peers, {r["what"]: r for r in peers["rows"]}, ran


def near(value, wanted):
    return value is not None and abs(value / wanted - 1) < 1e-4


def line(path, what, columns=9):
    lines = [text.split(" | ") for text in path.read_text(encoding="utf-8").split("\n") if text.startswith(f"| {what} |")]
    found = [cells for cells in lines if len(cells) == columns]  # those of the kernels' table have three
    check(f"one line about {what}", len(found) == 1)
    return found[0] if found else [""] * columns


def test_values():
    peers, rows, ran = results()
    check("the keys", list(peers) == "device drivers pytorch commit date command notes ways kernels rows".split())
    check("each row's keys", all(list(r) == ["what", "unit", "pytorch", "opencl", "vulkan"] for r in peers["rows"]))
    check("no row twice", len(rows) == len(peers["rows"]))
    check("who", (peers["device"], peers["commit"], peers["command"]) == ("Card", "abc", "made up"))
    check("the newest date", peers["date"] == "2026-11-22T10:02:00Z" and peers["pytorch"]["cudnn"] == 91900)
    training = rows["training of one layer, 8x512, dropout 0.1"]
    check("training", training == {**training, "pytorch": 1.4, "opencl": 1, "vulkan": 2, "unit": "ms"})
    check("PyTorch's way", peers["ways"][training["what"]] == "compile")
    check("not measured", rows["training of one layer, 96x128, dropout 0.1"]["opencl"] is None)
    gemm = rows[f"GEMM forward {GEMM}"]
    check("products", near(gemm["opencl"], 700) and near(gemm["vulkan"], 350) and near(gemm["pytorch"], 656))
    check("beside the bare product", near(rows[f"GEMM forward with bias, GELU, dropout {GEMM}"]["pytorch"], 656))
    mean = rows["GEMM, mean of the ratios to PyTorch"]["opencl"]
    check("the mean of those that are there", near(mean, (700 / 656 + 600 / 650) / 2))
    backward = rows[f"attention backward with dropout {ATTENTION}"]
    check("backward has 2.5 times the flop", near(backward["opencl"], 250) and backward["pytorch"] is None)
    check("kernels", peers["kernels"][backward["what"]]["vulkan"] == "delta + attention_backward")
    check("attention at one size", f"attention forward {ATTENTION}" in rows and len(peers["rows"]) == 26)
    norm = rows[f"layernorm forward {NORM}, share of copy"]
    check("shares", near(norm["opencl"], 95) and near(norm["pytorch"], 100 * 2 * 65536 * 2048 / 1e-4 / 4.2e12))
    check("other tensors than counted", rows[f"layernorm backward {NORM}"]["opencl"] is None)
    check("and that is said", "moves other tensors" in ran.stderr)
    inference = rows["BERT-base inference 32x512"]
    check("inference", inference["pytorch"] == 8.0 and inference["opencl"] == 5 and inference["vulkan"] == 10)
    deviation = rows["attention forward, deviation from proportional to the sum of L squared"]["opencl"]
    check("deviation", near(deviation, 100 * (1.2 / 128 - 128 / 16384) / (1.2 / 128 + 128 / 16384)))
    check("growth", near(rows["session memory of one layer, 32768 tokens over 16384"]["opencl"], 2))


def test_bars():
    page = folder / "peers.md"
    cells = line(page, "training of one layer, 8x512, dropout 0.1")
    check("1.4 times as fast", cells[4:6] == ["1.40", "≥ 1.30 ×: reached"] and "**not reached**" in cells[8])
    cells = line(page, f"GEMM forward {GEMM}")
    check("of a product", cells[5] == "≥ 1.00 ×: reached" and cells[8] == "≥ 450: **not reached** |")
    cells = line(page, f"GEMM dX {GEMM}")
    check("slower than cuBLAS", cells[5] == "≥ 1.00 ×: **not reached**")
    cells = line(page, f"GEMM forward with bias, GELU, dropout {GEMM}")
    check("an epilogue's", cells[5] == "≥ 0.97 ×: reached" and cells[8] == " |")
    cells = line(page, f"attention forward {ATTENTION}")
    check("of attention, just reached", cells[5] == "≥ 330: reached")
    cells = line(page, f"bias, dropout, residual, layernorm {NORM}, share of copy")
    check("of a share", cells[5] == "≥ 90: **not reached**")
    cells = line(page, "MiniLM-L6 inference 1x32")
    check("not measured is not reached", cells[5] == "≤ 0.25: not measured")


def test_refused():
    value = json.loads((folder / "gemm-opencl-0.json").read_text(encoding="utf-8"))
    other = copy.deepcopy(value)
    other["run"]["commit"] = "def"
    write("gemm-opencl-0.json", other)
    ran = run(folder)
    check("results of two commits are refused", ran.returncode == 1 and "several commits" in ran.stderr)
    lies = copy.deepcopy(value)
    lies["rows"][0]["groups"][0]["timer"] = "stuck"
    write("gemm-opencl-0.json", lies)
    _, rows, ran = results()
    check("a timer that lies gives no number", rows[f"GEMM forward {GEMM}"]["opencl"] is None)
    check("and that is said too", "timer is not to be trusted" in ran.stderr)
    write("gemm-opencl-0.json", value)
    (folder / "empty").mkdir()
    check("a folder without results is refused", run(folder / "empty").returncode == 1)


def test_readme():
    readme, peers = folder / "README.md", folder / "peers.json"
    results()
    begin, end = "<!-- peers: written by bench/peers/compare.py -->", "<!-- end of peers -->"
    readme.write_text(f"before\n{begin}\n{end}\nbehind\n", encoding="utf-8")
    check("nothing measured, nothing shown", run("--readme", readme, folder / "none.json", "--check").returncode == 0)
    check("a README without the table", run("--readme", readme, peers, "--check").returncode == 1)
    check("the table is written", run("--readme", readme, peers).returncode == 0)
    check("and is what it should be", run("--readme", readme, peers, "--check").returncode == 0)
    text = readme.read_text(encoding="utf-8")
    check("the rest stays", text.startswith("before\n") and text.endswith("\nbehind\n"))
    cells = line(readme, "GEMM forward, nine shapes", 7)
    check("the sizes of a form share a line", cells[3] == "700" and cells[4] == "1.07")
    check("without bars", "≥" not in text)
    check("a table without results", run("--readme", readme, folder / "none.json", "--check").returncode == 1)
    readme.write_text(text.replace("1.07", "1.17"), encoding="utf-8")
    check("a number that was changed", run("--readme", readme, peers, "--check").returncode == 1)
    check("a part that is not there", run("--readme", readme, "--part", "tuned", peers).returncode == 1)
    lines = [line for line in json.loads(peers.read_text(encoding="utf-8"))["rows"]]
    kept = [one for one in lines if one["what"].startswith("training of one layer, 8x512")]
    for one in lines:
        one.update({} if one in kept else {"opencl": None, "vulkan": None})
    few = {**json.loads(peers.read_text(encoding="utf-8")), "rows": lines}
    write("few.json", few)
    readme.write_text(text + "<!-- tuned: written by bench/peers/compare.py -->\n<!-- end of tuned -->\n", encoding="utf-8")
    check("its part is written", run("--readme", readme, "--part", "tuned", folder / "few.json").returncode == 0)
    tuned = readme.read_text(encoding="utf-8")
    check("the other part stays", tuned.startswith(text))
    check("with what was measured alone", len(kept) == 1 and tuned[len(text):].count("\n| ") == 2)
    for one in lines:
        other = one["what"].startswith("training of one layer, 96x128")
        one.update({"opencl": 4.0 if other else None, "vulkan": None})
    write("other.json", {**few, "commit": "of another run", "rows": lines})
    runs = [folder / "few.json", folder / "other.json"]
    check("rows of two runs", run("--readme", readme, "--part", "tuned", *runs).returncode == 0)
    tuned = readme.read_text(encoding="utf-8")
    check("stand in one table", tuned[len(text):].count("\n| ") == 3 and "`of another run`" in tuned)
    check("a row that two runs have", run("--readme", readme, "--part", "tuned", *runs[:1] * 2).returncode == 1)
    readme.write_text("no marks\n", encoding="utf-8")
    check("a README without marks", run("--readme", readme, peers).returncode == 1)


make()
test_values()
test_bars()
test_refused()
test_readme()
print("failed" if failed else "passed")
sys.exit(1 if failed else 0)
