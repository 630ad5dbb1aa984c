#!/usr/bin/env python3
"""Processor time of WordPiece, Unigram and byte pair encoding beside Hugging Face's `tokenizers`, one thread each.

    pip install tokenizers==0.23.3 sentencepiece transformers
    python3 tests/tokenizer/speed.py FOLDER TEST_TOKENIZER

WordPiece has the vocabulary of tests/data/tokenizer; Unigram, in the form of XLM-RoBERTa's tokenizer.json, is trained here:
20,000 pieces, and the same with as many random ones as make 250,002; so is byte pair encoding, 32,000 tokens, with
GPT-2's words and with GPT-4's pattern. The texts are drawn from the words of
data/sentences.txt and parts of them, and from make_lines.py's sentences in 26 scripts, in the frequencies that
languages have. The library's fastest of encode, encode_batch and encode_batch_fast counts; the least of
RUNS runs of each.
"""
import json
import os
import random
import resource
import string
import subprocess
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

import make_parts
from compare_bpe import PATTERNS
from make_lines import LANGUAGES, bert, config

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES, RUNS = 2 << 20, 3


def word_lists():
    r = random.Random("words")
    with open(os.path.join(HERE, "..", "..", "data", "sentences.txt"), encoding="utf-8") as f:
        english = sorted({w.strip(".,;:!?\"'()") for w in f.read().split()} - {""})
    parts = [w[:r.randrange(2, 5)] for w in english] + [w[-r.randrange(2, 5):] for w in english]
    english += ["".join(r.choice(parts) for _ in range(r.randrange(1, 4))) for _ in range(40000)]
    r.shuffle(english)
    return english


def english_line(r, words, weights):
    return " ".join(w + "," if r.random() < 0.06 else w for w in r.choices(words, cum_weights=weights, k=r.randrange(5, 30))).capitalize() + "."


def mixed_line(r, words, weights):
    if r.random() < 0.2:
        return english_line(r, words, weights)
    text = r.choice(LANGUAGES)
    parts = text.split(" ")
    if len(parts) < 4:  # written without spaces
        parts = [text[i:i + r.randrange(1, 5)] for i in range(0, len(text), 3)]
    return (" " if " " in text else "").join(r.choices(parts, k=r.randrange(5, 30)))


def texts(line, seed, size=BYTES):
    r, words, total, weights, made = random.Random(seed), word_lists(), 0, [], []
    for i in range(len(words)):
        total += 1 / (i + 3)
        weights.append(total)
    while size > 0:
        made.append(line(r, words, weights))
        size -= len(made[-1].encode("utf-8")) + 1
    return made


def unigram():
    """Of both kinds of text."""
    make_parts.corpus = lambda path, count: open(path, "w", encoding="utf-8").write(
        "\n".join(texts(english_line, "train", 1 << 20) + texts(mixed_line, "train", 1 << 20)))
    return make_parts.xlmr(make_parts.sentencepiece_model(20000))


def enlarged(tokenizer, size=250002):
    whole, r = json.loads(tokenizer.to_str()), random.Random("pieces")
    vocab = whole["model"]["vocab"]
    mask, have = vocab.pop(), {piece for piece, _ in vocab}
    while len(vocab) < size - 1:
        piece = r.choice(["\u2581", ""]) + "".join(r.choice(string.ascii_lowercase) for _ in range(r.randrange(3, 9)))
        if piece not in have:
            have.add(piece)
            vocab.append([piece, -14 - 4 * r.random()])
    whole["model"]["vocab"] = vocab + [mask]
    whole["added_tokens"][-1]["id"] = size - 1
    return Tokenizer.from_str(json.dumps(whole))


def byte_pairs(pattern):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pattern == "gpt2" else pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=32000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts(english_line, "train") + texts(mixed_line, "train"), trainer)
    return Tokenizer.from_str(tokenizer.to_str())


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def theirs(text, lines):
    """Of a fresh tokenizer, so that its cache of words begins empty."""
    best, count = {}, 0
    for name in ("encode", "encode_batch", "encode_batch_fast"):
        for _ in range(RUNS):
            begin = used()
            tokenizer = Tokenizer.from_str(text)
            opened = used()
            call = getattr(tokenizer, name)
            found = [call(line) for line in lines] if name == "encode" else call(lines)
            best[name] = min(best.get(name, 1e9), used() - opened)
            best["open"] = min(best.get("open", 1e9), opened - begin)
            count = sum(len(e.ids) for e in found)
            del found
    return best, count


def main(folder, program):
    with open(os.path.join(HERE, "..", "data", "tokenizer", "vocab.txt"), encoding="utf-8", newline="\n") as f:
        word_piece = bert(f.read().split("\n")[:-1])
    trained = unigram()
    kinds = {"WordPiece, 30,522": word_piece, "Unigram, 20,000": trained, "Unigram, 250,002": enlarged(trained),
             "BPE (GPT-2), 32,000": byte_pairs("gpt2"), "BPE (GPT-4), 32,000": byte_pairs("gpt4")}
    os.makedirs(folder, exist_ok=True)
    for script, line in (("English", english_line), ("mixed scripts", mixed_line)):
        lines = texts(line, script)
        with open(os.path.join(folder, "lines"), "w", encoding="utf-8", newline="\n") as f:
            f.write("\n".join(lines))
        for name, tokenizer in kinds.items():
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
                f.write(tokenizer.to_str(pretty=True))
            their, count = theirs(tokenizer.to_str(pretty=True), lines)
            ours = [json.loads(subprocess.run([program, "--time", os.path.join(folder, "lines"), folder], capture_output=True, text=True,
                                              check=True).stdout) for _ in range(RUNS)]
            assert ours[0]["tokens"] == count, (ours[0], count)
            our, size = min(o["encode_s"] for o in ours), ours[0]["bytes"]
            fastest = min(("encode", "encode_batch", "encode_batch_fast"), key=their.get)
            print(f"{name} pieces, {script}: {size / their[fastest] / 1e6:.1f} MB/s there ({fastest}), {size / our / 1e6:.1f} MB/s here, "
                  f"{their[fastest] / our:.1f} times; opened in {1e3 * their['open']:.0f} and {min(o['open_ms'] for o in ours):.0f} ms", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
