#!/usr/bin/env python3
"""The table and the bars of a record of bench/peers/cpu.py.

Usage: cpu_table.py [--check] PEERS.json...                      writes peers.md beside each
       cpu_table.py --readme README.md [--check] [PEERS.json...] writes the README's part, which has the best peer alone
--check changes nothing and exits with 1 where a file says something else than the records.

A peer's time is the least of its turns' medians with its best setting; what is compared with is the best peer's. A row
that was not measured is empty, and its bar is not said to be reached.
"""
import argparse
import json
import math
import os
import statistics
import sys
from pathlib import Path

NAMES = {"wherry": "Wherry", "pytorch": "PyTorch", "onnxruntime": "ONNX Runtime", "llama": "llama.cpp"}
NORMS = {"forward": "layernorm", "brln": "bias, residual, layernorm", "bdrln": "bias, dropout, residual, layernorm"}
TENSORS = {"forward": 2, "bdrln": 4, "brln": 4}  # of R x N, each read or written once; the sum is kept
COPIES = ("copy", "past")  # of stream.c: the faster one counts
COSINE = 0.9999
# Task: what it is, the unit, the bar of the ratio to the best peer. Of times the ratio is Wherry's over theirs.
ROWS = {
    "sentences": ("2,000 mixed sentences, MiniLM, f32", "tokens/s", ">=", 1.3),
    "sentence": ("one sentence of 20 tokens, MiniLM, f32", "ms", "<=", 0.8),
    "batch": ("BERT-base 8x512, f32", "ms", "speed >=", 1.0),
    "bf16": ("the sentences in bf16", "tokens/s", ">=", 1.2),
    "layer": ("training of one layer of BERT-large 1x512, f32, dropout 0.1", "ms", "speed >=", 1.0),
    "layer-plain": ("the same without dropout", "ms", "speed >=", 1.0),
}
BANDWIDTH_BAR = 85
BF16 = {"avx512_bf16", "amx_bf16"}  # a processor that multiplies in bf16 has one of these


def median(values):
    return statistics.median(values)


def norm_bytes(form, shape):
    return 4.0 * TENSORS[form] * math.prod(map(int, shape.split("x")))


def dump(record):
    """A line for each sample, so that two records can be compared."""
    text = json.dumps({**record, "samples": [], "cosines": [], "errors": []}, indent=1)
    for key in ("samples", "cosines", "errors"):
        lines = ",\n".join("  " + json.dumps(value) for value in record[key])
        text = text.replace(f'"{key}": []', f'"{key}": [\n{lines}\n ]' if lines else f'"{key}": []')
    return text + "\n"


def times(samples, task, peer):
    """Setting: the least of its turns' medians, in seconds."""
    result = {}
    for sample in samples:
        if sample["task"] == task and sample["peer"] == peer:
            seconds = median(sample["seconds"])
            result[sample["setting"]] = min(seconds, result.get(sample["setting"], seconds))
    return result


def best(samples, task):
    """Peer: (seconds, setting)."""
    result = {}
    for peer in NAMES:
        of_peer = times(samples, task, peer)
        if of_peer:
            setting = min(of_peer, key=of_peer.get)
            result[peer] = of_peer[setting], setting
    return result


def number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def reached(ok):
    return "reached" if ok else "**not reached**"


def task_row(record, task):
    what, unit, kind, bar = ROWS[task]
    found = best(record["samples"], task)
    cells = []
    for peer in NAMES:
        if peer not in found:
            cells.append("")
            continue
        seconds, setting = found[peer]
        value = record["texts"]["tokens"] / seconds if unit == "tokens/s" else 1e3 * seconds
        cells.append(number(value) + (f" ({setting})" if setting != "-" else ""))
    others = [seconds for peer, (seconds, _) in found.items() if peer != "wherry"]
    said = f"{kind} {bar} ×"
    if "wherry" not in found or not others:
        state = "not in this processor" if task == "bf16" and not BF16 & set(record["processor"]["flags"]) else "not measured"
        return [what, unit, *cells, "", f"{said.replace('speed ', '')}: {state}"]
    ours, theirs = found["wherry"][0], min(others)
    ratio = ours / theirs if kind == "<=" else theirs / ours
    ok = ratio <= bar + 1e-9 if kind == "<=" else ratio >= bar - 1e-9
    return [what, unit, *cells, f"{ratio:.2f}", said.replace("speed ", "") + ": " + reached(ok)]


def norm_rows(record):
    rates = {}
    for sample in record["samples"]:
        if sample["task"] == "norm":
            key = sample["setting"]
            rates[key] = max(sample["gb_s"], rates.get(key, 0))
    copy = max((rates[way] for way in COPIES if way in rates), default=None)
    for form, what in NORMS.items():
        if form in rates and copy:
            share = 100 * rates[form] / copy
            said = f">= {BANDWIDTH_BAR} %: {reached(share >= BANDWIDTH_BAR - 1e-9)}"
            beside = f"{what} 65536x1024, beside STREAM copy's {copy:.1f}"
            yield [beside, "GB/s", number(rates[form]), "", "", "", f"{share / 100:.2f}", said]


def cosine_rows(record):
    for entry in record["cosines"]:
        if entry["task"] == "bf16" and entry["peer"] != "wherry":
            continue
        what = f"least cosine with {NAMES[entry['peer']]}, {entry['task']}"
        if entry["task"] == "bf16":
            what = "least cosine of bf16 with f32"
        ok = entry["least"] >= COSINE
        yield [what, "", f"{entry['least']:.6f}", "", "", "", "", f">= {COSINE}: {reached(ok)}"]


def line(cells):
    return "| " + " | ".join(cells).replace(">=", "≥").replace("<=", "≤") + " |"


def peer_words(record):
    for name, facts in record["peers"].items():
        yield f"{NAMES[name]} {facts.get('version') or facts.get('absent') or 'did not start'}"


def peer_versions(record):
    """The others, without what a build of theirs can do."""
    return [words.partition(" (")[0] for words in peer_words(record) if not words.startswith(NAMES["wherry"])]


def markdown(record):
    processor = record["processor"]
    rows = [task_row(record, task) for task in ROWS]
    rows += [*norm_rows(record), *cosine_rows(record)]
    flags = ", ".join(processor["flags"]) or "none of those that are asked for"
    texts = record["texts"]
    lines = [
        "# On the host's cores, beside PyTorch, ONNX Runtime and llama.cpp",
        "",
        f"{processor['name']}, {record['threads']} threads ({flags}); {'; '.join(peer_words(record))}; commit "
        f"`{record['commit']}`, {record['date'][:10]}, in one run of `{record['command']}`.",
        "",
        "| what | unit | " + " | ".join(NAMES.values()) + " | ratio | bar |",
        "|---|---|" + "---:|" * len(NAMES) + "---:|---|",
        *map(line, rows),
        "",
        f"- The sentences are {texts['count']} texts of {texts['tokens']:,} tokens, median {texts['median']:g}, longest "
        f"{texts['longest']} (`bench/peers/sentences.py`); times are from texts to embeddings, tokenizing included.",
        "- Each peer with its best setting (in brackets) of those in `bench/peers/cpu.py`, the least of its turns' medians, "
        "in turns; the ratio is to the best peer: speed, but of the one sentence, which is time. PyTorch's sentences are "
        "sentence-transformers'.",
    ]
    if record.get("note"):
        lines.append(f"- {record['note']}")
    for e in record["errors"]:
        lines.append(f"- Failed: {e['task']}, {NAMES.get(e['peer'], e['peer'])} {e['setting']}: {e['error'][:160]}")
    return "\n".join(lines) + "\n"


# ---- the README's part ----

PART = "host"


def beside(record, task, row):
    """The best peer's value and name."""
    found = {peer: seconds for peer, (seconds, _) in best(record["samples"], task).items() if peer != "wherry"}
    if not found:
        return ""
    name = min(found, key=found.get)
    value = row[2 + list(NAMES).index(name)].partition(" ")[0]
    return f"{value} ({NAMES[name]})"


def short_rows(record):
    """What, unit, Wherry, best of the others, ratio, bar."""
    for task in ROWS:
        row = task_row(record, task)
        yield [row[0], row[1], row[2].partition(" ")[0], beside(record, task, row), *row[6:]]
    for row in norm_rows(record):
        what, _, copy = row[0].rpartition(", beside STREAM copy's ")
        yield [what, row[1], row[2], f"{copy} (STREAM copy)", *row[6:]]


def short_text(path, folder):
    """A record's table, and in `folder` where to find more."""
    record = json.loads(path.read_text(encoding="utf-8"))
    more = os.path.relpath(path.with_suffix(".md"), folder)
    least = min((entry["least"] for entry in record["cosines"] if entry["task"] != "bf16"), default=None)
    cosine = "" if least is None else f" Least cosine of an f32 embedding with a peer's: {least:.6f}."
    lines = [
        f"{record['processor']['name']}, {record['threads']} threads; {'; '.join(peer_versions(record))}; commit "
        f"`{record['commit']}`, {record['date'][:10]}, in one run of `{record['command']}` ([each peer]({more})).{cosine}",
        "",
        "| what | unit | Wherry | best of the others | ratio | bar |",
        "|---|---|---:|---:|---:|---|",
        *map(line, short_rows(record)),
    ]
    return "\n".join(lines) + "\n"


def write_readme(readme, paths, check):
    begin, end = f"<!-- {PART}: written by bench/peers/cpu_table.py -->", f"<!-- end of {PART} -->"
    text = readme.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f'cpu_table: {readme}: it has no place for the table, between "{begin}" and "{end}"')
    before, rest = text.split(begin)
    inside = "\n".join(short_text(path, readme.resolve().parent) for path in sorted(paths))
    wanted = f"{before}{begin}\n{inside}{end}{rest.split(end)[1]}"
    if not check:
        readme.write_text(wanted, encoding="utf-8")
    elif wanted != text:
        sys.exit(f"cpu_table: {readme} differs from its records: cpu_table.py --readme {readme} {' '.join(map(str, paths))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=lambda text: Path(text).resolve())
    parser.add_argument("--readme", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.readme:
        write_readme(args.readme, args.records, args.check)
        return
    for path in args.records:
        text, table = markdown(json.loads(path.read_text(encoding="utf-8"))), path.with_suffix(".md")
        if not args.check:
            table.write_text(text, encoding="utf-8")
        elif table.read_text(encoding="utf-8") != text:
            sys.exit(f"cpu_table: {table} is not what {path} says: run cpu_table.py {path}")


if __name__ == "__main__":
    main()
