"""Embeds many sentences with the package, with the command, and with others that are installed, in turn, and compares.

usage: bench.py --model FOLDER --wherry COMMAND [--device D] [--texts N] [--rounds N] [--others NAMES] [--json FILE]
with PYTHONPATH (and WHERRY_LIBRARY) set, or the wheel installed. Sentences are made of the words of docs/*.md, the same in
each run. A time is that from texts to vectors in memory; for the command from its first batch's tokens to its last vector
written, as its own line says, without the start of the process. Each peer runs once before it counts.
"""

import argparse
import glob
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import wherry

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sentences(count):
    """Of 3 to 60 words, 15 on average."""
    words = []
    for path in sorted(glob.glob(os.path.join(REPOSITORY, "docs", "*.md"))):
        with open(path, encoding="utf-8") as file:
            words += re.findall(r"[A-Za-z][a-z']*|[0-9]+", file.read())
    draw, made = random.Random(1), []
    for _ in range(count):
        length = min(60, max(3, round(draw.lognormvariate(math.log(13), 0.6))))
        at = draw.randrange(len(words) - length)
        made.append(" ".join(words[at:at + length]) + ".")
    return made


class Package:
    """The Python package; `sort` gives it the texts by their length."""

    def __init__(self, options, texts, sort=False):
        self.model = wherry.Model(options.model, device=options.device)
        self.texts = sorted(texts, key=len) if sort else texts

    def run(self):
        start = time.perf_counter()
        vectors = self.model.encode(self.texts)
        return time.perf_counter() - start, vectors


class Command:
    def __init__(self, options, texts):
        self.folder = tempfile.TemporaryDirectory()
        lines = os.path.join(self.folder.name, "lines")
        with open(lines, "w", encoding="utf-8") as file:
            file.write("".join(text + "\n" for text in texts))
        self.out = os.path.join(self.folder.name, "out.npy")
        self.words = [options.wherry, "embed", "-v", "--truncate", "--model", options.model, "--format", "npy", "-o", self.out,
                      *(["--device", options.device] if options.device else []), lines]

    def run(self):
        done = subprocess.run(self.words, capture_output=True, text=True, check=True)
        seconds = float(re.search(r"% of ([0-9.e+-]+) s", done.stderr)[1])
        return seconds, np.load(self.out)


class SentenceTransformers:
    def __init__(self, options, texts):
        import sentence_transformers
        import torch

        on = "cuda" if torch.cuda.is_available() and options.device != "cpu" else "cpu"
        self.model = sentence_transformers.SentenceTransformer(options.model, device=on)
        if on == "cuda":
            self.model.half()
        self.batch = 256 if on == "cuda" else 32
        self.texts = texts

    def run(self):
        start = time.perf_counter()
        vectors = self.model.encode(self.texts, batch_size=self.batch)
        return time.perf_counter() - start, vectors


class FastEmbed:
    """On the host's cores, with the ONNX file that stands in the model's folder (bench/peers/cpu_prepare.py exports one)."""

    def __init__(self, options, texts):
        from fastembed import TextEmbedding
        from fastembed.common.model_description import ModelSource, PoolingType

        if not os.path.exists(os.path.join(options.model, "model.onnx")):
            raise FileNotFoundError(f"no model.onnx in {options.model}")
        TextEmbedding.add_custom_model(model="here", pooling=PoolingType.MEAN, normalization=True,
                                       sources=ModelSource(hf="here/here"), dim=384, model_file="model.onnx")
        self.model = TextEmbedding("here", specific_model_path=options.model)
        self.texts = texts

    def run(self):
        start = time.perf_counter()
        vectors = np.stack(list(self.model.embed(self.texts, batch_size=32)))
        return time.perf_counter() - start, vectors


PEERS = {"python": Package, "command": Command, "sentence-transformers": SentenceTransformers, "fastembed": FastEmbed}


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(((a * b).sum(1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-30)).min())


def measure(options):
    texts = sentences(options.texts)
    peers, skipped = {}, {}
    for name in ["python", "command", *options.others]:
        try:
            peers[name] = PEERS[name](options, texts)
            peers[name].run()
        except Exception as why:  # whatever another package raises where something is missing
            if name in ("python", "command"):
                raise
            skipped[name] = f"{type(why).__name__}: {why}".splitlines()[0][:200]
    sorted_texts = Package(options, texts, sort=True)
    sorted_texts.run()
    model = peers["python"].model
    tokens = sum(map(len, model.tokenize(texts, truncate=True)))
    times, wanted, least = {name: [] for name in [*peers, "python, sorted"]}, None, {}
    for _ in range(options.rounds):
        for name in times:
            seconds, vectors = (sorted_texts if name == "python, sorted" else peers[name]).run()
            times[name].append(seconds)
            if name == "python":
                wanted = vectors
            elif name in peers:
                least[name] = cosine(np.asarray(vectors), wanted)
    rows = {name: {"seconds": found, "tokens_per_second": tokens / statistics.median(found)} for name, found in times.items()}
    return {"device": model.device.name, "driver": model.device.driver, "texts": len(texts), "tokens": tokens, "rounds": rows,
            "least_cosine": least, "skipped": skipped, "python": sys.version.split()[0],
            "python_to_command": rows["python"]["tokens_per_second"] / rows["command"]["tokens_per_second"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--wherry", required=True)
    parser.add_argument("--device")
    parser.add_argument("--texts", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--others", nargs="*", default=["sentence-transformers", "fastembed"])
    parser.add_argument("--json")
    options = parser.parse_args()
    found = measure(options)
    print(f"{found['texts']} sentences, {found['tokens']} tokens, {found['device']}; medians of {options.rounds} runs in turn")
    print("\n| | tokens/s | × the command | least cosine with the package's |\n|---|---:|---:|---:|")
    command = found["rounds"]["command"]["tokens_per_second"]
    for name, row in found["rounds"].items():
        near = found["least_cosine"].get(name)
        print(f"| {name} | {row['tokens_per_second']:,.0f} | {row['tokens_per_second'] / command:.3f} | "
              f"{'' if near is None else f'{near:.6f}'} |")
    for name, why in found["skipped"].items():
        print(f"\n{name}: not measured ({why})")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
