#!/usr/bin/env python3
"""Makes the texts that the comparison on the host's cores embeds: 2,000 lines, always the same, of the lines of
data/sentences.txt, which were written for this project.

Usage: sentences.py FILE [--check MODEL_FOLDER]     --check: their lengths by the model's tokenizer, as JSON

Lengths in words follow a log-normal distribution, as those of sentences do, and one text of 50 is a passage. With the
tokenizer of all-MiniLM-L6-v2 the median is 20 tokens and the longest texts have about 250 (its limit is 256).
"""
import argparse
import json
import math
import random
import statistics
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "data/sentences.txt"
COUNT, MEDIAN_WORDS, SPREAD, PASSAGE_WORDS = 2000, 15.4, 0.55, (192, 206)


def is_plain(line):
    """Whether words are some 1.3 tokens each."""
    words = line.split()
    return line.isascii() and all(c.isalpha() or c in " .,;?" for c in line) and len(words) >= 4 and max(map(len, words)) <= 16


def texts():
    rng = random.Random(19)
    lines = [line for line in SOURCE.read_text(encoding="utf-8").splitlines() if is_plain(line)]
    result = []
    for n in range(COUNT):
        if n % 50 == 49:
            words = rng.randint(*PASSAGE_WORDS)
        else:
            words = max(2, min(120, round(MEDIAN_WORDS * math.exp(SPREAD * rng.gauss(0, 1)))))
        taken = []
        while len(taken) < words:
            taken += rng.choice(lines).split()
        result.append(" ".join(taken[:words]))
    return result


def lengths(lines, folder):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(lines)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--check", metavar="MODEL_FOLDER")
    args = parser.parse_args()
    lines = texts()
    Path(args.file).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    if args.check:
        tokens = lengths(lines, args.check)
        facts = {"texts": len(tokens), "tokens": sum(tokens), "median": statistics.median(tokens), "longest": max(tokens)}
        print(json.dumps({**facts, "of_200_and_more": sum(n >= 200 for n in tokens)}))


if __name__ == "__main__":
    main()
