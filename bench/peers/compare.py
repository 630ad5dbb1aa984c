#!/usr/bin/env python3
"""Puts Wherry's times beside PyTorch's: one file and one table of the bars that the project set itself.

Usage: compare.py FOLDER [--command TEXT]     FOLDER: what scripts/gpu.sh left; writes peers.json and peers.md there
       compare.py --readme README.md [--part tuned] PEERS.json... [--check]
                                              writes this file's part between its two marks from peers.json; --check
                                              changes nothing and exits with 1 where it is something else. The part
                                              "tuned" has only rows that were measured, each by the run of its file

Read from FOLDER, each where it is there: layer-*.json, bench-*.json and roof-*.json (records), gemm-*.json,
attention-*.json, lengths-*.json and norm-*.json (`wherry bench gemm` and so on), pytorch*.json (bench/peers). What
was not measured is null in peers.json and empty in tables.

peers.json: {"device", "drivers", "pytorch", "commit", "date", "command", "notes", "ways", "kernels", "rows"}; rows is
an array of {"what", "unit", "pytorch", "opencl", "vulkan"}. "ways" says for a row which of PyTorch's ways was the
fastest, "kernels" which kernels of ours ran. docs/measuring.md says how the times are taken and what counts.
"""
import argparse
import json
import math
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APIS = ("opencl", "vulkan")
FORMS = {
    "gemm": {
        "forward": "GEMM forward",
        "dx": "GEMM dX",
        "dw": "GEMM dW",
        "epilogue": "GEMM forward with bias, GELU, dropout",
    },
    "attention": {"forward": "attention forward", "backward": "attention backward with dropout"},
    "norm": {
        "forward": "layernorm forward",
        "backward": "layernorm backward",
        "bdrln": "bias, dropout, residual, layernorm",
    },
}
TENSORS = {"forward": 2, "backward": 3, "bdrln": 4}  # of R x N, each read or written once; bdrln keeps the sum
LAYER_SHAPES = ("8x512", "96x128")
ENCODES = {
    ("bert-base", "32x512"): "BERT-base",
    ("minilm-l6", "64x128"): "MiniLM-L6",
    ("minilm-l6", "1x32"): "MiniLM-L6",
}
TOKENS = 32768
MEAN = "GEMM, mean of the ratios to PyTorch"
DEVIATION = "attention forward, deviation from proportional to the sum of L squared"
GROWTH = "session memory of one layer, 32768 tokens over 16384"
SPREAD = "session memory of one layer, largest over smallest of these lengths"
LESS = ("ms", "MB")  # units of which less is better

# (what, the bar of OpenCL, the bar of Vulkan); the first that matches a row. "x": the ratio to PyTorch, above 1 is
# faster; else in the row's unit.
BARS = [
    (r"training of one layer, 8x512", "x >= 1.30", "x >= 1.00"),
    (r"training of one layer, 96x128", "x >= 1.20", "x >= 0.87"),
    (r"GEMM forward with ", "x >= 0.97", None),
    (r"GEMM (forward|dX|dW) 8192x8192x8192", "x >= 1.00", ">= 450"),
    (r"GEMM (forward|dX|dW) ", "x >= 1.00", ">= 400"),
    (MEAN, ">= 1.03", None),
    (r"attention forward 32x16x512x64", ">= 330", ">= 250"),
    (r"attention backward ", ">= 250", ">= 180"),
    (r".*, share of copy", ">= 90", ">= 90"),
    (r"BERT-base inference 32x512", "<= 6.0", "<= 8.5"),
    (r"MiniLM-L6 inference 64x128", "<= 0.6", "<= 0.8"),
    (r"MiniLM-L6 inference 1x32", "<= 0.25", "<= 0.15"),
    (DEVIATION, "<= 10", "<= 10"),
    (GROWTH, "<= 2.02", "<= 2.02"),
    (SPREAD, "<= 1.02", "<= 1.02"),
]
NOTES = [
    "f16, random values of the same spread on both sides, medians.",
    "GEMM, attention, layernorm: the device's time of the kernels alone, the same buffers again and again on both sides, "
    "so that what fits the cache is there. Wherry: 16 runs one after the other, each between two stamps of the device's "
    "timer. PyTorch: 4 or 16 calls in one CUDA graph; the lesser of a replay's time over its calls and the kernels' own "
    "time by the profiler.",
    "The bare product by cuBLAS or cuBLASLt stands beside ours with bias, GELU and dropout, which also keeps what "
    "training needs.",
    "Training: Wherry's is what the host waits for, PyTorch's the device's time. Inference: what the host waits for, "
    "copies of ids and embeddings included.",
    "TB/s count each tensor once: layernorm 2, backward 3, bias+dropout+residual+layernorm 4, because the sum is kept "
    "for the backward pass on both sides. Shares are of the copy that each side measured itself in the same run.",
]
FOLDER = "bench/results/nvidia-h200"
PARTS = {"peers": [f"{FOLDER}/peers.md"], "tuned": [f"{FOLDER}/tuned/{shape}/peers.md" for shape in LAYER_SHAPES]}


def warn(text):
    print(f"compare: {text}", file=sys.stderr)


# ---- what was measured ----


class Results:
    """The files of a folder, by kind."""

    def __init__(self, folder):
        self.records, self.pieces, self.lengths, self.torch = [], [], [], {}
        for path in sorted(folder.glob("*.json")):
            value = json.loads(path.read_text(encoding="utf-8"))
            for entry in value if isinstance(value, list) else [value]:
                if path.name.startswith("pytorch"):
                    self.torch[path.stem] = entry
                elif entry.get("schema") == "rl-1":
                    self.records.append(entry)
                elif entry.get("schema") == "wherry-pieces-1":
                    (self.lengths if path.name.startswith("lengths") else self.pieces).append(entry)
        if not self.records and not self.pieces:
            sys.exit(f"compare: {folder}: no results")

    def devices(self):
        """The first device of each API."""
        found = {}
        for device in [p["device"] for p in self.pieces + self.lengths] + [d for r in self.records for d in r["devices"]]:
            api = device["id"].split(":")[0]
            if api in APIS and (api not in found or device["id"] < found[api]["id"]):
                found[api] = device
        return found

    def commits(self):
        return {p["run"]["commit"] for p in self.pieces + self.lengths} | {r["run"]["tool"]["git"] for r in self.records}

    def dates(self):
        ours = [p["run"]["date"] for p in self.pieces] + [r["run"]["utc"] for r in self.records]
        return sorted(ours + [t["run"]["date"] for t in self.torch.values()])


class Peers:
    """The rows, as they come together."""

    def __init__(self):
        self.rows, self.ways, self.kernels = [], {}, {}

    def add(self, what, unit, pytorch=None, ours=None, way=None, kernels=None):
        values = [pytorch, *((ours or {}).get(api) for api in APIS)]
        values = [float(f"{value:.6g}") if value is not None else None for value in values]
        self.rows.append({"what": what, "unit": unit, **dict(zip(("pytorch", *APIS), values))})
        if way:
            self.ways[what] = way
        if kernels:
            self.kernels[what] = kernels


def shape_of(record):
    work = record["workload"]
    return f"{work['sequences']}x{work['lengths'][0]}" if len(set(work["lengths"])) == 1 else "uneven"


def our_plans(results, devices, kind, source, shape):
    """Plan "flash" of a record, for each API."""
    found = {}
    for record in results.records:
        work = record["workload"]
        if not work or work["kind"] != kind or work["model"]["source"] != source or shape_of(record) != shape:
            continue
        for plan in record["plans"]:
            device = record["devices"][plan["dev"]]["id"]
            for api in devices:
                if devices[api]["id"] == device and plan["plan"] == "flash" and plan["dtype"] == "f16":
                    found[api] = plan
    return found


def add_training(peers, results, devices):
    rows = results.torch.get("pytorch_layer", {"rows": []})["rows"]
    for shape in LAYER_SHAPES:
        plans = our_plans(results, devices, "layer", "bert-large", shape)
        ours = {api: 1e3 * plan["phases"]["both"]["host_seconds"] for api, plan in plans.items()}
        ways = {}
        for row in rows:
            if row["layer"] == "bert-large" and f"{row['batch']}x{row['seq']}" == shape:
                ways = {key[len("ms_both_") :]: ms for key, ms in row.items() if re.fullmatch("ms_both_[a-z]+", key)}
        way = min(ways, key=ways.get) if ways else None
        peers.add(f"training of one layer, {shape}, dropout 0.1", "ms", ways.get(way), ours, way)


def add_inference(peers, results, devices):
    rows = results.torch.get("pytorch", {"rows": []})["rows"]
    for (source, shape), name in ENCODES.items():
        plans = our_plans(results, devices, "encode", source, shape)
        ours = {api: 1e3 * plan["step"]["host"]["median"] for api, plan in plans.items()}
        ways = {}
        for row in rows:
            if row["model"] == source and f"{row['batch']}x{row['seq']}" == shape:
                ways = {key[len("wall_ms_") :]: ms for key, ms in row.items() if re.fullmatch("wall_ms_[a-z]+", key)}
        way = min(ways, key=ways.get) if ways else None
        peers.add(f"{name} inference {shape}", "ms", ways.get(way), ours, way)


# ---- pieces ----


def amount_of(piece, form, shape):
    """Flop or bytes, the same for both sides."""
    size = list(map(int, shape.split("x")))
    if piece == "gemm":
        return 2.0 * math.prod(size)
    if piece == "attention":
        batch, heads, length, width = size
        return 4.0 * batch * heads * length**2 * width * (2.5 if form == "backward" else 1)
    return 2.0 * math.prod(size) * TENSORS[form]


def our_piece(results, devices, piece, form, shape):
    found = {}
    for entry in results.pieces:
        for row in entry["rows"]:
            if entry["piece"] != piece or row["form"] != form or row["shape"] != shape or entry["dtype"] != "f16":
                continue
            for api in devices:
                if devices[api]["id"] == entry["device"]["id"]:
                    found[api] = row
    return found


def timed(row, what, piece, form, shape):
    """Whether the row's time can stand there."""
    if any(group["timer"] != "ok" for group in row["groups"]):
        warn(f"{what}: the device's timer is not to be trusted")
        return False
    if piece == "norm" and abs(row["bytes"] / amount_of(piece, form, shape) - 1) > 0.02:
        warn(f"{what}: the group moves other tensors than are counted")
        return False
    return True


def kernels_of(row):
    return " + ".join(dict.fromkeys(kernel["kernel"] for group in row["groups"] for kernel in group["kernels"]))


def best_way(results, piece, form, shape):
    """Seconds and the way, None where there is none."""
    ways = {}
    for row in results.torch.get("pytorch_pieces", {"rows": []})["rows"]:
        if (row["piece"], row["form"], row["shape"]) == (piece, form, shape) and "ms" in row:
            ways[row["way"]] = 1e-3 * min(row["ms"], row["kernel_ms"] or row["ms"])
    way = min(ways, key=ways.get) if ways else None
    return ways.get(way), way


def add_piece(peers, results, devices, piece, form, shape):
    what = f"{FORMS[piece][form]} {shape}"
    amount = amount_of(piece, form, shape)
    rows = our_piece(results, devices, piece, form, shape)
    rows = {api: row for api, row in rows.items() if timed(row, what, piece, form, shape)}
    seconds, way = best_way(results, piece, "forward" if form == "epilogue" else form, shape)
    ours = {api: 1e-12 * amount / row["seconds"] for api, row in rows.items()}
    kernels = {api: kernels_of(row) for api, row in rows.items()}
    rate = 1e-12 * amount / seconds if seconds else None
    peers.add(what, "TB/s" if piece == "norm" else "TFLOP/s", rate, ours, way, kernels)


def shapes_of(results, piece):
    """In the order of measuring, ours and PyTorch's."""
    ours = [row["shape"] for entry in results.pieces if entry["piece"] == piece for row in entry["rows"]]
    torch = [r["shape"] for r in results.torch.get("pytorch_pieces", {"rows": []})["rows"] if r["piece"] == piece]
    return list(dict.fromkeys(ours + torch))


def add_gemm(peers, results, devices):
    for form in FORMS["gemm"]:
        for shape in shapes_of(results, "gemm"):
            add_piece(peers, results, devices, "gemm", form, shape)
    rows = [row for row in peers.rows if re.match("GEMM (forward|dX|dW) [0-9]", row["what"]) and row["pytorch"]]
    mean = {api: [row[api] / row["pytorch"] for row in rows if row[api]] for api in APIS}
    peers.add(MEAN, "ratio", 1 if rows else None, {a: sum(m) / len(m) for a, m in mean.items() if m})


def copies(results, devices):
    """Bytes a second of the best copy, for PyTorch and each API."""
    found = {}
    for record in results.records:
        for ceiling in record["ceilings"]:
            if ceiling["id"] == "dram.copy" and ceiling["best"]:
                api = record["devices"][ceiling["dev"]]["id"].split(":")[0]
                if api in devices:
                    found[api] = max(found.get(api, 0), ceiling["value"])
    for row in results.torch.get("pytorch_roof", {"rows": []})["rows"]:
        if row["what"] == "copy":
            found["pytorch"] = row["per_second"]
    return found


def add_norm(peers, results, devices):
    copy = copies(results, devices)
    peers.add("copy", "TB/s", copy["pytorch"] * 1e-12 if "pytorch" in copy else None,
              {api: copy[api] * 1e-12 for api in APIS if api in copy})
    for shape in shapes_of(results, "norm"):
        for form in FORMS["norm"]:
            add_piece(peers, results, devices, "norm", form, shape)
            row = peers.rows[-1]
            share = {who: 1e14 * row[who] / copy[who] for who in copy if row[who]}
            peers.add(f"{row['what']}, share of copy", "%", share.get("pytorch"), share)


# ---- cost against length ----


def add_lengths(peers, results, devices):
    times, memory = {}, {}
    for entry in results.lengths:
        api = next((api for api in devices if devices[api]["id"] == entry["device"]["id"]), None)
        if not api:
            continue
        for row in entry["rows"]:
            batch, _, length, _ = map(int, row["shape"].split("x"))
            if row["form"] == "memory":
                bytes_ = row["memory"]["inference"]["activation_bytes"]
                memory.setdefault((batch * length, length), {})[api] = 1e-6 * bytes_
            elif row["form"] == "forward" and batch * length == TOKENS:
                times.setdefault(length, {})[api] = 1e3 * row["seconds"]
    for length in sorted(times):
        peers.add(f"attention forward, {TOKENS} tokens, L = {length}", "ms", None, times[length])
    each = {api: [times[length][api] / length for length in times if api in times[length]] for api in APIS}
    peers.add(DEVIATION, "%", None, {a: 1e2 * (max(e) - min(e)) / (max(e) + min(e)) for a, e in each.items() if e})
    lengths = [length for tokens, length in sorted(memory) if tokens == TOKENS]
    for length in lengths:
        peers.add(f"session memory of one layer, {TOKENS} tokens, L = {length}", "MB", None, memory[TOKENS, length])
    all_ = {api: [memory[TOKENS, length][api] for length in lengths if api in memory[TOKENS, length]] for api in APIS}
    peers.add(SPREAD, "ratio", None, {api: max(a) / min(a) for api, a in all_.items() if a})
    growth = {}
    for length in lengths:
        half = memory.get((TOKENS // 2, length), {})
        growth.update({api: memory[TOKENS, length][api] / half[api] for api in half if api in memory[TOKENS, length]})
    peers.add(GROWTH, "ratio", None, growth)


def gather(folder, command):
    results = Results(folder)
    devices = results.devices()
    commits = results.commits()
    if len(commits) > 1:
        sys.exit(f"compare: {folder}: results of several commits: {', '.join(map(str, commits))}")
    peers = Peers()
    for add in (add_training, add_gemm):
        add(peers, results, devices)
    for shape in shapes_of(results, "attention"):
        for form in FORMS["attention"]:
            add_piece(peers, results, devices, "attention", form, shape)
    for add in (add_norm, add_inference, add_lengths):
        add(peers, results, devices)
    torch = next((t["run"] for t in results.torch.values() if "cudnn" in t["run"]), {})
    return {
        "device": next((device["name"] for device in devices.values()), None),
        "drivers": {api: f"{device['api']}, {device['driver']}" for api, device in devices.items()},
        "pytorch": {key: torch.get(key) for key in ("torch", "cuda", "cudnn", "device", "driver_and_clocks")},
        "commit": commits.pop(),
        "date": results.dates()[-1],
        "command": command,
        "notes": NOTES,
        "ways": peers.ways,
        "kernels": peers.kernels,
        "rows": peers.rows,
    }


# ---- tables, from peers.json alone ----


def ratio(row, api):
    """How many times as fast as PyTorch."""
    if not row["pytorch"] or not row[api] or row["unit"] in ("ratio", "MB"):
        return None
    return row["pytorch"] / row[api] if row["unit"] in LESS else row[api] / row["pytorch"]


def bar_of(row, api):
    """The bar's text and whether it is reached; None, None without one."""
    for what, *bars in BARS:
        if re.match(what, row["what"]):
            text = bars[APIS.index(api)]
            break
    else:
        return None, None
    if not text:
        return None, None
    value = ratio(row, api) if text.startswith("x") else row[api]
    if value is None:
        return text, None
    bound = float(text.split()[-1])
    return text, value >= bound if ">=" in text else value <= bound


def number(value):
    if value is None:
        return ""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 20 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def bar_text(bars):
    """Of one row or several that share a line."""
    texts = {text for text, _ in bars if text}
    if not texts:
        return ""
    states = [reached for text, reached in bars if text]
    parts = []
    for state, name in ((True, "reached"), (False, "**not reached**"), (None, "not measured")):
        count = states.count(state)
        if count:
            parts.append(name if count == len(states) else f"{name} by {count}")
    bar = " or ".join(f"{text[2:]} ×" if text.startswith("x") else text for text in sorted(texts))
    return f"{bar.replace('>=', '≥').replace('<=', '≤')}: {', '.join(parts)}"


def span(values, text=number):
    values = [value for value in values if value is not None]
    if not values:
        return ""
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"


def line(peers, what, rows, bars):
    """One row, or several of the same kind as ranges."""
    ways = sorted({peers["ways"][row["what"]] for row in rows if row["what"] in peers["ways"]})
    values = span([row["pytorch"] for row in rows])
    cells = [what, rows[0]["unit"], f"{values} ({', '.join(ways)})" if values and ways else values]
    for api in APIS:
        ratios = span([ratio(row, api) for row in rows], lambda value: f"{value:.2f}")
        cells += [span([row[api] for row in rows]), ratios]
        if bars:
            cells.append(bar_text([bar_of(row, api) for row in rows]))
    return "| " + " | ".join(cells) + " |"


def kind_of(what):
    """Rows that share a line of the short table: products of one form, times and memory at many lengths."""
    what = re.sub(r"^(GEMM .*?) [0-9x]+$", r"\1, nine shapes", what)
    return re.sub(r", L = [0-9]+$", ", L = 128 to 16384", what)


def table(peers, short, bars=True):
    """`short`: sizes of one kind on one line."""
    head = ["what", "unit", "PyTorch (its fastest way)"]
    for api in ("OpenCL", "Vulkan"):
        head += [api, "× PyTorch", "bar"] if bars else [api, "× PyTorch"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|---:" + ("|---:|---:|---" if bars else "|---:|---:") * 2 + "|"]
    kinds = {}
    for row in peers["rows"]:
        kinds.setdefault(kind_of(row["what"]) if short else row["what"], []).append(row)
    return "\n".join(lines + [line(peers, what, rows, bars) for what, rows in kinds.items()])


def about(peers):
    torch = peers["pytorch"]
    drivers = "; ".join(peers["drivers"].values())
    return (
        f"{peers['device']} ({drivers}), PyTorch {torch['torch']} (CUDA {torch['cuda']}, cuDNN {torch['cudnn']}),\n"
        f"commit `{peers['commit']}`, {peers['date'][:10]}, in one run of `{peers['command']}`."
    )


def full_text(peers):
    notes = "\n".join(f"- {note}" for note in peers["notes"])
    kernels = ["| what | OpenCL | Vulkan |", "|---|---|---|"]
    for what, by_api in peers["kernels"].items():
        kernels.append(f"| {what} | " + " | ".join(by_api.get(api, "") for api in APIS) + " |")
    parts = ("# Against PyTorch", about(peers), table(peers, False), notes, "## Kernels", "\n".join(kernels))
    return "\n\n".join(parts) + "\n"


def measured(runs):
    """The rows of which some run has our times."""
    rows = [row for run in runs for row in run["rows"] if any(row[api] is not None for api in APIS)]
    whats = [row["what"] for row in rows]
    for what in whats:
        if whats.count(what) > 1:
            sys.exit(f"compare: {what}: in more than one of these files; a row is of one run")
    return {"rows": rows, "ways": {what: way for run in runs for what, way in run["ways"].items() if what in whats}}


def readme_text(runs, part, folder):
    more = "× PyTorch: above 1 is faster. Each size by itself, how it was measured, and the bars that we set ourselves: "
    where = ", ".join(f"[{text}]({os.path.relpath(ROOT / text, folder)})" for text in PARTS[part])
    head = "\n".join(about(run) for run in runs)
    if part == "tuned":
        shown = measured(runs)
    else:  # what can be compared
        shown = {**runs[0], "rows": [row for row in runs[0]["rows"] if row["pytorch"] is not None]}
    return f"{head}\n{more}{where}.\n\n{table(shown, True, False)}\n"


def write_readme(readme, part, paths, check):
    begin, end = f"<!-- {part}: written by bench/peers/compare.py -->", f"<!-- end of {part} -->"
    text = readme.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"compare: {readme}: it has no place for the table, between \"{begin}\" and \"{end}\"")
    before, rest = text.split(begin)
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    inside = readme_text(runs, part, readme.resolve().parent) if runs else ""  # nothing was measured yet
    wanted = f"{before}{begin}\n{inside}{end}{rest.split(end)[1]}"
    if check and wanted != text:
        sys.exit(
            f"compare: {readme} differs from its results: "
            f"write it with compare.py --readme {readme} --part {part} {' '.join(map(str, paths))}"
        )
    if not check:
        readme.write_text(wanted, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+", help="of results; with --readme: peers.json, one of each run")
    parser.add_argument("--command", default="scripts/gpu.sh")
    parser.add_argument("--readme")
    parser.add_argument("--part", choices=PARTS, default="peers")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if len(args.folder) > 1 and not (args.readme and args.part == "tuned"):
        parser.error("several are for the part \"tuned\" of a README alone")
    if args.readme:
        write_readme(Path(args.readme), args.part, list(map(Path, args.folder)), args.check)
        return
    folder = Path(args.folder[0])
    peers = gather(folder, args.command)
    (folder / "peers.json").write_text(json.dumps(peers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "peers.md").write_text(full_text(peers), encoding="utf-8")
    print(table(peers, True))


main()
