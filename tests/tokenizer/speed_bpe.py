#!/usr/bin/env python3
"""Processor time of byte pair encoding beside Hugging Face's `tokenizers`, one thread each, without places.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/speed_bpe.py FOLDER PROGRAM          PROGRAM is tests/test_tokenizer

Trains tokenizers of 32,000 tokens on generated texts (words of data/sentences.txt and made of their parts, in the
frequencies that words of a language have; sentences of 20 scripts), and encodes others that were not seen in training. Prints the
least of three runs of each.
"""
import itertools
import json
import os
import random
import resource
import subprocess
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from compare_bpe import PATTERNS
from make_lines import LANGUAGES

BYTES = 4 << 20
RUNS = 3


def syllables(r):
    """Words of a language that does not exist, from parts of English ones."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "data", "sentences.txt")
    with open(path, encoding="utf-8") as f:
        words = sorted({w.strip(".,;:!?\"'()") for w in f.read().split()} - {""})
    parts = [w[:r.randrange(2, 5)] for w in words] + [w[-r.randrange(2, 5):] for w in words]
    return words + ["".join(r.choice(parts) for _ in range(r.randrange(1, 4))) for _ in range(60000)]


def english(r, words):
    """Sentences; a word's frequency falls with its place in the list, as in texts (Zipf)."""
    weights = list(itertools.accumulate(1 / (i + 3) for i in range(len(words))))
    while True:
        chosen = r.choices(words, cum_weights=weights, k=r.randrange(5, 30))
        chosen = [str(r.randrange(3000)) if r.random() < 0.02 else w + "," if r.random() < 0.06 else w for w in chosen]
        text = " ".join(chosen)
        yield text[0].upper() + text[1:] + r.choice([".", ".", "?", "!"])


def mixed(r, words):
    """Sentences of 20 scripts: their words and, where they have none, stretches of characters, in any order."""
    sentences = english(r, words)
    while True:
        if r.random() < 0.25:
            yield next(sentences)
            continue
        language = r.choice(LANGUAGES)
        parts = language.split(" ")
        if len(parts) < 4:
            parts = [language[i:i + r.randrange(1, 5)] for i in range(0, len(language), 3)]
        yield (" " if " " in language else "").join(r.choices(parts, k=r.randrange(5, 30)))


def texts(kind, seed, size):
    r = random.Random(seed)
    words = syllables(random.Random("words"))
    random.Random("order").shuffle(words)
    lines, total = [], 0
    for text in kind(r, words):
        lines.append(text)
        total += len(text.encode("utf-8")) + 1
        if total > size:
            return lines


def make(name, lines):
    tokenizer = Tokenizer(models.BPE())
    if name == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[name]), "isolated"),
                                                           pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=32000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    return Tokenizer.from_str(tokenizer.to_str())


def seconds(tokenizer_json, lines):
    """A fresh tokenizer, so that its cache of words begins empty, as at a program's start."""
    tokenizer = Tokenizer.from_str(tokenizer_json)
    before = resource.getrusage(resource.RUSAGE_SELF)
    count = 0
    for first in range(0, len(lines), 1000):
        count += sum(len(e) for e in tokenizer.encode_batch_fast(lines[first:first + 1000]))
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, count


def main(folder, program):
    os.makedirs(folder, exist_ok=True)
    kinds = {"English": english, "20 scripts": mixed}
    for label, kind in kinds.items():
        lines = texts(kind, label, BYTES)
        for name in ("gpt2", "gpt4"):
            tokenizer = make(name, texts(kind, label + "training", BYTES))
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
                f.write(tokenizer.to_str())
            with open(os.path.join(folder, "texts"), "w", encoding="utf-8", newline="\n") as f:
                f.write("\n".join(lines))
            theirs, ours = [], []
            for _ in range(RUNS):
                theirs.append(seconds(tokenizer.to_str(), lines))
                done = subprocess.run([program, "--time", os.path.join(folder, "texts"), folder], capture_output=True, text=True, check=True)
                ours.append(json.loads(done.stdout))
            their, count = min(theirs)
            our = min(o["encode_s"] for o in ours)
            assert count == ours[0]["tokens"], (count, ours[0])
            size = ours[0]["bytes"]
            print(f"{label}, {name}: {size / their / 1e6:.1f} MB/s there, {size / our / 1e6:.1f} MB/s here, {their / our:.2f} times; "
                  f"opened in {min(o['open_ms'] for o in ours):.0f} ms", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
