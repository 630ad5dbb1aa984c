#!/usr/bin/env python3
"""Byte pair encoding compared with Hugging Face's `tokenizers`: ids, types, places.

    pip install tokenizers==0.23.3 transformers==5.23.0
    python3 tests/tokenizer/compare_bpe.py sample tests/data/bpe           the committed sample
    python3 tests/tokenizer/compare_bpe.py PART FOLDER PROGRAM             compares; PROGRAM is tests/test_tokenizer,
                                                                           FOLDER takes up to 1 GB. PART is
        main [LINES [NAME]]  the main kinds, or one, LINES (1000000) for each
        every           every Unicode scalar value
        patterns        patterns of published tokenizers and odd ones, all behaviours
        odd             models with every option and merges in any order

Files are as make_lines.py and make_parts.py say.
"""
import collections
import json
import os
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from make_lines import LANGUAGES, LOOKALIKES, SCALARS, Maker, accepted, escape

# From publications of the models that are named; each is written for Oniguruma or meant for it.
PATTERNS = {
    "gpt2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "gpt4": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "gpt4_possessive": r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
    "gpt4o": r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "bloom": r""" ?[^(\s|[.,!?…。，、।۔،])]+""",
    "deepseek": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "ideographs": r"[一-龥ࠀ-一가-퟿]+",
    "digits": r"\p{N}{1,3}",
    "clip": r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+""",
    "newlines": r"\n+|[\r]",
    "empty": r"(?=[A-Z])|\b",
    "words": r"\w+|[^\w\s]+",
    "lines": r"^\s*|.+$",
    "thousands": r"\d{1,3}(?=(?:\d{3})*\b)",
    "scripts": r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]+|\S",
    "categories": r"\p{Lu}\p{Ll}*|\p{Nd}+|\p{P}|\P{L}{2,3}?x?|\p{^M}",
    "quantifiers": r"a{2}?b|a{,3}c|a{1,2}+d|x*?y|(?:ab){2,}|(?>a+)b|(?<=\n)\h+|\W\D\H",
}
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
CODE = ["def f(x):\n\treturn x**2  # don't\n", "for (int i = 0; i < 10; i++) {\r\n    a[i] += 3.14e-10;\r\n}", "I'LL WE'VE it's 'S 'ſ they'RE x'd",
        "1234567890 ٣٤٥٦٧ ⅫⅫ x²y³ 12,345.67", "   \n\n  \t x  \u3000\u3000y \u00a0\u00a0z   ", "aab aac aad aaab ababab xxy\nabcDEF", "a'b''s '' '"]


class BpeMaker(Maker):
    """As Maker, with more of what patterns tell apart."""

    def code(self):
        r = self.r
        text = "".join(r.choice(CODE) for _ in range(r.randrange(1, 3)))
        a, b = sorted(r.randrange(len(text) + 1) for _ in range(2))
        return text[a:b]

    def runs(self):
        r = self.r
        return "".join(r.choice([" ", "\n", "\t", "a", "B", "1", ".", "'", "s", "\u00e9", "\u4e2d", "\u0301", "\r", "\u00a0", "\u2028", "\u3000", self.scalar()])
                       * r.choice([1, 1, 1, 2, 3, 5]) for _ in range(r.randrange(1, 25)))

    def any(self):
        if self.r.random() < 0.4:
            return self.r.choice([self.code, self.runs])().encode("utf-8")
        return super().any()


def corpus():
    path = os.path.join(os.path.dirname(__file__), "..", "..", "data", "sentences.txt")
    with open(path, encoding="utf-8") as f:
        return LANGUAGES * 20 + f.read().split("\n") + CODE * 5


def most_frequent(count):
    """The trainer's own limit leaves to chance which of equally frequent characters are kept."""
    frequency = collections.Counter("".join(corpus()).replace(" ", "\u2581"))
    return sorted(frequency, key=lambda c: (-frequency[c], c))[:count]


def train(tokenizer, size, specials, alphabet=None, **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False, initial_alphabet=alphabet or [], **options)
    tokenizer.train_from_iterator(corpus(), trainer)


# ---- the main kinds ----

def roberta(size=1200, **options):
    """The older files of a RoBERTa, and the tokenizer that transformers makes of them."""
    from transformers import RobertaTokenizerFast
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    train(tokenizer, size, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], pre_tokenizers.ByteLevel.alphabet())
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(m) for m in model["merges"]]
    mask = {"content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False}
    made = RobertaTokenizerFast(vocab=model["vocab"], merges=merges, mask_token=AddedToken(**mask, special=True), **options)
    files = {"tokenizer_config.json": json.dumps({"tokenizer_class": "RobertaTokenizer", "mask_token": mask, **options}),
             "vocab.json": json.dumps(model["vocab"], ensure_ascii=False),
             "merges.txt": "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)}
    return made.backend_tokenizer, files


def gpt4(size=1500, pattern="gpt4", ignore_merges=False):
    """As Qwen's and Llama 3's: a pattern, then bytes; NFC before."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    train(tokenizer, size, [], pre_tokenizers.ByteLevel.alphabet())
    if ignore_merges:  # some tokens that no merge makes
        state = json.loads(tokenizer.to_str())
        for word in ["Ġdon", "Ġnobody", "xyz", "ĠĠĠx", "ä¸Ń"]:
            state["model"]["vocab"].setdefault(word, len(state["model"]["vocab"]))
        tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.add_special_tokens(["<|endoftext|>", AddedToken("<|im_start|>", normalized=False)])
    tokenizer.add_tokens([AddedToken("word", single_word=True), AddedToken(" x", normalized=True)])
    end = tokenizer.token_to_id("<|endoftext|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="$A <|endoftext|>", pair="$A <|endoftext|> $B:1 <|endoftext|>:1", special_tokens=[("<|endoftext|>", end)])])
    return tokenizer, {"tokenizer.json": tokenizer.to_str()}


def modernbert(size=1500):
    """As OLMo's, which ModernBERT has: GPT-2's pattern, NFC before, runs of spaces and marks of private texts as added
    tokens, BERT's special tokens at the end."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    train(tokenizer, size, ["|||IP_ADDRESS|||", "<|padding|>"], pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)] +
                         [AddedToken(text, normalized=False) for text in ("|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||", "<|endoftext|>")])
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    return tokenizer, {"tokenizer.json": tokenizer.to_str()}


def sentencepiece(size=2500, gemma=False, characters=None):
    """As Llama 2's and Gemma's: no bytes but where a character is not in the vocabulary."""
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    alphabet = {"alphabet": most_frequent(characters), "limit_alphabet": characters} if characters else {}
    train(tokenizer, size, specials, **alphabet)
    if gemma:
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        tokenizer.pre_tokenizer = None
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    return tokenizer, {"tokenizer.json": tokenizer.to_str()}


# ---- odd models, patterns ----

def pieces_of(pre_tokenizer):
    """One <unk> for each piece, in its place."""
    tokenizer = Tokenizer(models.BPE(vocab={"<unk>": 0}, merges=[], unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizer
    return tokenizer, {"tokenizer.json": tokenizer.to_str()}


def odd_model(r):
    """Few letters; merges of any order, also of pairs that another merge never leaves; every option."""
    prefix = r.choice(["", "", "", "##", "@"])
    suffix = r.choice(["", "", "", "</w>", "$"])
    letters = "abc\u00e9\u4e2d "
    starts = [c for c in letters if r.random() < 0.85]
    words = starts + [prefix + c for c in starts] + [c + suffix for c in starts] + [prefix + c + suffix for c in starts]
    merges = []
    for _ in range(r.randrange(0, 40)):
        a, b = r.choice(words), r.choice(words)
        if prefix and not b.startswith(prefix):
            continue
        if suffix and a.endswith(suffix):
            continue
        merges.append((a, b))
        words.append(a + b[len(prefix):])
    if r.random() < 0.5:
        r.shuffle(merges)
    words += [w for w in (f"<0x{b:02X}>" for b in range(256)) if r.random() < 0.97]
    words.append("<unk>")
    extra = ["".join(r.choice(letters) for _ in range(r.randrange(2, 5))) for _ in range(5)]
    vocab = {}
    for word in r.sample(words, len(words)) + extra:
        vocab.setdefault(word, len(vocab))
    options = {"unk_token": "<unk>"} if r.random() < 0.8 else {}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, continuing_subword_prefix=prefix, end_of_word_suffix=suffix,
                                     fuse_unk=r.random() < 0.5, byte_fallback=r.random() < 0.5, ignore_merges=r.random() < 0.3, **options))
    if r.random() < 0.5:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    elif r.random() < 0.5:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=r.random() < 0.5, use_regex=r.random() < 0.5)
        tokenizer.post_processor = processors.ByteLevel(add_prefix_space=r.random() < 0.5, trim_offsets=r.random() < 0.5)
    elif r.random() < 0.3:
        tokenizer.normalizer = normalizers.ByteLevel()
    state = json.loads(tokenizer.to_str())
    if r.random() < 0.5:
        state["model"]["merges"] = [" ".join(m) if " " not in m[0] + m[1] else m for m in state["model"]["merges"]]
        if not all(isinstance(m, str) for m in state["model"]["merges"]):
            state["model"]["merges"] = [m if isinstance(m, list) else m.split(" ") for m in state["model"]["merges"]]
    return Tokenizer.from_str(json.dumps(state)), {"tokenizer.json": json.dumps(state)}


def odd_lines(r, count):
    def text():
        long = r.random() < 0.05
        return "".join(r.choice("abc\u00e9\u4e2d \U0001f600x") * (r.choice([1, 1, 2, 3, 70]) if long else 1) for _ in range(r.randrange(1, 30)))

    return [(0, text().encode("utf-8"), text().encode("utf-8") if r.random() < 0.1 else None) for _ in range(count)]


# ---- files ----

def has_places(files):
    """Bytes of what is put around a piece make the reference's places run out of the text."""
    model = json.loads(files["tokenizer.json"])["model"] if "tokenizer.json" in files else {}
    return not (model.get("byte_fallback") and (model.get("continuing_subword_prefix") or model.get("end_of_word_suffix")))


def written(encoding, places):
    found = [" ".join(map(str, encoding.ids)), "".join(map(str, encoding.type_ids))]
    if places:
        found.append(" ".join("-" if special else f"{a}-{b}" for (a, b), special in zip(encoding.offsets, encoding.special_tokens_mask)))
    return "\t".join(found)


def encode_all(tokenizer, lines, direction, places):
    """Yields (line, expected) in order."""
    for start in range(0, len(lines), 20000):
        part = lines[start:start + 20000]
        found = [None] * len(part)
        for limit in sorted({line[0] for line in part}):
            if limit:
                tokenizer.enable_truncation(limit, strategy="longest_first", direction=direction)
            else:
                tokenizer.no_truncation()
            at = [i for i, line in enumerate(part) if line[0] == limit]
            texts = [part[i][1].decode("utf-8", "replace") if part[i][2] is None else
                     tuple(t.decode("utf-8", "replace") for t in part[i][1:]) for i in at]
            for i, encoding in zip(at, tokenizer.encode_batch(texts)):
                found[i] = written(encoding, places)
        yield from zip(part, found)


def write(folder, made, lines, direction="right"):
    tokenizer, files = made
    os.makedirs(folder, exist_ok=True)
    if direction == "left":
        tokenizer.enable_truncation(1 << 20, direction=direction)
        files = {"tokenizer.json": tokenizer.to_str()}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as f:
            f.write(content)
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8", newline="\n") as out, \
            open(os.path.join(folder, "ids.txt"), "w", newline="\n") as expected:
        for (limit, text, pair), found in encode_all(tokenizer, lines, direction, has_places(files)):
            out.write(f"{limit}\t{escape(text)}" + ("" if pair is None else f"\t{escape(pair)}") + "\n")
            expected.write(found + "\n")


SPACED = [(0, t.encode("utf-8"), None) for t in
          ["a" + " " * n + "b" for n in range(30)] + ["if x:\n" + " " * 8 + "return  y", "a [MASK] b", "a  [MASK]b", "|||EMAIL_ADDRESS||| x",
           "e\u0301 \u212b  \u3000  .", "[CLS] [SEP]", "|||IP_ADDRESS|||  |||"]]
FIXED = [(0, t.encode("utf-8"), None) for t in LANGUAGES + CODE + LOOKALIKES + ["", " ", "\u0301", "<mask>", "a <mask> b", "  <mask>", "<s>", "a</s>b"]]


def lines_of(seed, count, pool=SCALARS):
    maker = BpeMaker(seed, pool)
    # Special tokens are four at most.
    return [(limit if limit > 3 else 0, text, pair) for limit, text, pair in (maker.line() for _ in range(count))]


MAIN = [("roberta", roberta, "right"), ("gpt4", gpt4, "left"), ("sentencepiece", sentencepiece, "right"),
        ("gemma", lambda: sentencepiece(gemma=True), "right"), ("llama3", lambda: gpt4(ignore_merges=True), "right"),
        ("modernbert", modernbert, "right"), ("gpt4o", lambda: gpt4(pattern="gpt4o"), "right"),
        ("roberta_prefix", lambda: roberta(800, add_prefix_space=True, trim_offsets=False), "right")]


def sample(folder):
    for name, made, direction in [("roberta", roberta(450), "right"), ("gpt4", gpt4(450, ignore_merges=True), "left"),
                                  ("sentencepiece", sentencepiece(500, characters=120), "right"),
                                  ("modernbert", modernbert(450), "right")]:
        write(os.path.join(folder, name), made, FIXED + (SPACED if name == "modernbert" else []) + lines_of(name, 60), direction)
    for name, pattern in PATTERNS.items():
        r = random.Random(name)
        made = pieces_of(pre_tokenizers.Split(Regex(pattern), r.choice(BEHAVIORS), invert=r.random() < 0.3))
        write(os.path.join(folder, "patterns", name), made, FIXED[:len(LANGUAGES) + len(CODE):3] + FIXED[len(LANGUAGES):][:len(CODE)] + lines_of(name, 5))
    for n in range(12):
        r = random.Random(f"odd{n}")
        write(os.path.join(folder, "odd", str(n)), odd_model(r), odd_lines(r, 20))


class Comparison:
    def __init__(self, folder, program):
        self.folder, self.program = folder, program
        self.lines = self.different = 0

    def run(self, name, made, lines, direction="right"):
        folder = os.path.join(self.folder, name)
        write(folder, made, lines, direction)
        done = subprocess.run([self.program, "--compare", f"{folder}/lines.txt", f"{folder}/ids.txt", folder], capture_output=True, text=True)
        tail = done.stdout.strip().split("\n")[-1]
        different = int(tail.split(", ")[1].split()[0]) if " failed" in tail else len(lines)
        self.lines += len(lines)
        self.different += different
        if different:
            print(done.stdout[-3000:], done.stderr[-500:])
        print(f"{name}: {len(lines)} lines, {different} different", flush=True)
        for file in ("lines.txt", "ids.txt"):
            if not different:
                os.remove(os.path.join(folder, file))


def compare_main(c, count="1000000", only=""):
    count = int(count)
    for name, make, direction in MAIN:
        if only not in ("", name):
            continue
        made = make()
        for first in range(0, count, 100000):
            c.run(name, made, FIXED + lines_of(f"full{name}{first}", min(count - first, 100000)), direction)


EVERY = [f"{chr(x)}\0a{chr(x)}b {chr(x)}'s{chr(x)}{chr(x)}1 " for x in SCALARS]


def every(step=1):
    return [(0, t.encode("utf-8"), None) for texts in EVERY[::step] for t in texts.split("\0", 1)]


def compare_every(c):
    for name, make, direction in MAIN:
        c.run(name + "_every", make(), every(), direction)


def compare_patterns(c):
    for name, pattern in PATTERNS.items():
        for behavior in BEHAVIORS:
            invert = behavior != "isolated" and len(behavior + name) % 2 == 0
            made = pieces_of(pre_tokenizers.Split(Regex(pattern), behavior, invert=invert))
            lines = (FIXED + lines_of(name + behavior, 2000) + every(7 if behavior == "isolated" else 211))
            # Where the reference gives up, there is nothing to compare.
            c.run(f"pattern_{name}_{behavior}", made, accepted(made[0], lines) if name == "quantifiers" else lines)


def compare_odd(c):
    for n in range(300):
        r = random.Random(f"odd{n}")
        c.run(f"odd{n}", odd_model(r), odd_lines(r, 300))


PARTS = {"main": compare_main, "every": compare_every, "patterns": compare_patterns, "odd": compare_odd}

if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "sample":
        sample(sys.argv[2])
    elif len(sys.argv) in (4, 5, 6) and sys.argv[1] in PARTS:
        comparison = Comparison(sys.argv[2], sys.argv[3])
        PARTS[sys.argv[1]](comparison, *sys.argv[4:])
        print(f"{comparison.lines} lines in all, {comparison.different} different")
        sys.exit(comparison.different != 0)
    else:
        sys.exit(__doc__)
