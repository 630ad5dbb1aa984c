#!/usr/bin/env python3
"""Tests bench/peers/cpu_table.py on a made-up record and the texts of bench/peers/sentences.py.

Usage: test_cpu_peers.py SOURCE_FOLDER WORK_FOLDER     WORK_FOLDER: made anew
"""
import copy
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(source / "bench/peers"))
import cpu_table
import sentences

failed = 0


def check(what, condition):
    global failed
    if not condition:
        failed += 1
        print(f"FAILED: {what}")


def sample(task, peer, setting, *seconds):
    return {"task": task, "peer": peer, "setting": setting, "turn": 0, "seconds": list(seconds), "cpu": list(seconds)}


def rate(peer, setting, gb_s):
    return {"task": "norm", "peer": peer, "setting": setting, "turn": 1, "gb_s": gb_s}


RECORD = {
    "schema": "wherry-cpu-peers-1",
    "processor": {"name": "Processor", "cores": 2, "flags": ["avx2"]},
    "threads": 2,
    "peers": {"wherry": {"version": "1"}, "pytorch": {"version": "2"}, "llama": {"absent": "not given"}},
    "commit": "abc",
    "date": "2026-11-24T00:00:00Z",
    "command": "bench/peers/cpu.sh",
    "texts": {"count": 2000, "tokens": 50000, "median": 20, "longest": 249},
    "samples": [
        sample("sentences", "wherry", "4096", 5.0),
        sample("sentences", "wherry", "4096", 6.0),
        sample("sentences", "pytorch", "16", 9.0),
        sample("sentences", "pytorch", "32", 8.0),
        sample("sentences", "onnxruntime", "fused-4", 6.5),
        sample("sentence", "wherry", "-", 0.004, 0.005, 0.1),
        sample("sentence", "onnxruntime", "plain", 0.006),
        sample("batch", "wherry", "512", 2.0),
        rate("stream", "copy", 10.0),
        rate("stream", "copy", 8.0),
        rate("stream", "past", 9.0),
        rate("wherry", "forward", 8.5),
        rate("wherry", "brln", 8.4),
    ],
    "errors": [{"task": "batch", "peer": "pytorch", "setting": "eager", "error": "no memory"}],
    "cosines": [
        {"task": "sentence", "peer": "onnxruntime", "least": 0.99999},
        {"task": "batch", "peer": "pytorch", "least": 0.9},
    ],
}


def row(table, begin):
    lines = [line for line in table.splitlines() if line.startswith("| " + begin)]
    return lines[0] if len(lines) == 1 else ""


def test_table():
    table = cpu_table.markdown(RECORD)
    best = "| 10,000 (4096) | 6,250 (32) | 7,692 (fused-4) |  | 1.30 |"
    check("the best setting of the best peer, and the best turn", best in table)
    check("1.3 is enough", "≥ 1.3 ×: reached" in row(table, "2,000 mixed"))
    check("a turn's median", "| 5 | " in row(table, "one sentence"))
    check("latency is above its bar", "| 0.83 | ≤ 0.8 ×: **not reached** |" in row(table, "one sentence"))
    check("what has no peer is not reached", "not measured" in row(table, "BERT-base"))
    check("why", "Failed: batch, PyTorch eager: no memory" in table)
    check("share of the best copy", "| 0.85 | ≥ 85 %: reached" in row(table, "layernorm 65536x1024"))
    faster = copy.deepcopy(RECORD)
    faster["samples"].append(rate("stream", "past", 12.0))
    check("the faster way of copying counts", "copy's 12.0" in row(cpu_table.markdown(faster), "layernorm 65536x1024"))
    check("a share below", "| 0.84 | ≥ 85 %: **not reached**" in row(table, "bias, residual"))
    check("cosine", row(table, "least cosine with ONNX Runtime").endswith("≥ 0.9999: reached |"))
    check("cosine below", "**not reached**" in row(table, "least cosine with PyTorch"))
    check("no bf16 in the processor", "not in this processor" in row(table, "the sentences in bf16"))
    with_bf16 = copy.deepcopy(RECORD)
    with_bf16["processor"]["flags"].append("amx_bf16")
    with_bf16["samples"].append(sample("bf16", "pytorch", "bf16-16", 4.0))
    check("bf16 of PyTorch alone", "not measured" in row(cpu_table.markdown(with_bf16), "the sentences in bf16"))
    with_bf16["samples"].append(sample("bf16", "wherry", "bf16-4096", 3.9))
    with_bf16["cosines"].append({"task": "bf16", "peer": "wherry", "least": 0.99991})
    table = cpu_table.markdown(with_bf16)
    check("bf16 of both", "| 1.03 | ≥ 1.2 ×: **not reached** |" in row(table, "the sentences in bf16"))
    check("its cosine", "reached" in row(table, "least cosine of bf16"))


def test_check():
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / "peers.json"
    path.write_text(cpu_table.dump(RECORD), encoding="utf-8")
    check("a record is read back", json.loads(path.read_text(encoding="utf-8")) == RECORD)
    command = [sys.executable, str(source / "bench/peers/cpu_table.py"), str(path)]
    check("a table is written", subprocess.run(command, check=False).returncode == 0)
    check("it is the record's", subprocess.run([*command, "--check"], check=False).returncode == 0)
    with open(folder / "peers.md", "a", encoding="utf-8") as file:
        file.write("more\n")
    check("another is not", subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 1)


def test_texts():
    lines = sentences.texts()
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    check("2,000 texts", len(lines) == 2000 and all(lines))
    check(f"the same texts everywhere: {digest}", digest.startswith("12335cd106195856"))


def test_readme():
    begin, end = "<!-- host: written by bench/peers/cpu_table.py -->", "<!-- end of host -->"
    readme, record = folder / "README.md", folder / "one/peers.json"
    record.parent.mkdir()
    record.write_text(cpu_table.dump(RECORD), encoding="utf-8")
    tool = [sys.executable, str(source / "bench/peers/cpu_table.py"), "--readme", str(readme)]

    def run(*arguments):
        return subprocess.run([*tool, *map(str, arguments)], capture_output=True, check=False).returncode

    readme.write_text("no marks\n", encoding="utf-8")
    check("a README without marks", run(record) == 1)
    readme.write_text(f"before\n{begin}\n{end}\nbehind\n", encoding="utf-8")
    check("nothing measured, nothing shown", run("--check") == 0)
    check("a README without the table", run("--check", record) == 1)
    check("the table is written", run(record) == 0 and run("--check", record) == 0)
    text = readme.read_text(encoding="utf-8")
    check("the rest stays", text.startswith("before\n") and text.endswith(f"{end}\nbehind\n"))
    best = "| tokens/s | 10,000 | 7,692 (ONNX Runtime) | 1.30 | ≥ 1.3 ×: reached |"
    check("the best peer alone", best in row(text, "2,000 mixed"))
    check("a layernorm beside STREAM", "| GB/s | 8.5 | 10.0 (STREAM copy) | 0.85 |" in row(text, "layernorm 65536"))
    check("where each peer is", "[each peer](one/peers.md)" in text and "least" not in row(text, "2,000"))
    readme.write_text(text.replace("7,692", "7,693"), encoding="utf-8")
    check("a number that was changed", run("--check", record) == 1)


test_table()
test_check()
test_texts()
test_readme()
sys.exit(failed > 0)
