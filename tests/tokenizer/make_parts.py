#!/usr/bin/env python3
"""Tokenizers of all kinds of parts, lines to tokenize, and what Hugging Face's `tokenizers` gives for them: ids, types,
character offsets.

    pip install tokenizers==0.23.3 sentencepiece transformers
    python3 tests/tokenizer/make_parts.py sample tests/data/tokenizer    the committed sample
    python3 tests/tokenizer/make_parts.py full FOLDER [COUNT [NAME]]     COUNT (1,000,000) lines for each trained tokenizer, every
                                                                         Unicode scalar value among them
    python3 tests/tokenizer/make_parts.py mixed FOLDER [COUNT]           COUNT (500) tokenizers of random parts, 200 lines each

Each writes folders of one tokenizer each, with lines.txt and ids.txt beside the tokenizer's own files, as make_lines.py
does; ids.txt has a third column, the offsets. `test_tokenizer --compare FOLDER/lines.txt FOLDER/ids.txt FOLDER` compares.
"""
import json
import os
import random
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from make_lines import LANGUAGES, MARKS, ODD, SCALARS, SPACES, Maker, bert, escape


class TextMaker(Maker):
    """Adds what SentencePiece's character map and grapheme clusters are about."""

    def clusters(self):
        r = self.r
        parts = ["a", "é", "e\u0301", "\uff21", "\uff21\u0301", "\u00bd\u0308", "\r\n", "\r", "\u0600", "\u0600a", "\u200d", "\u00a9", "\u0915",
                 "\u094d", "\u0301", "\u1100", "\u1161", "\u11a8", "\uac00", "\uac01", "\U0001f1e9", "\U0001f469", "\u200d\U0001f680", "\ufe0f",
                 "\ufb01", "\u3000", " ", "  ", "   ", "\u2581", "\u00a0", "\u0e33", "\u0903", "\u1039", "\u1000", "\u0ca0", "\u0130", "\ufdfa", "\u1e9b\u0323"]
        return "".join(r.choice(parts) if r.random() < 0.85 else self.char() for _ in range(r.randrange(1, 20)))

    def any(self):
        if self.r.random() < 0.15:
            return self.clusters().encode("utf-8")
        return super().any()


# ---- what the library gives ----

def encode_lines(tokenizer, lines, direction):
    for limit in sorted({line[0] for line in lines}):
        if limit:
            tokenizer.enable_truncation(limit, strategy="longest_first", direction=direction)
        else:
            tokenizer.no_truncation()
        for i, line in enumerate(lines):
            if line[0] != limit:
                continue
            texts = [t.decode("utf-8", "replace") for t in line[1:] if t is not None]
            yield i, tokenizer.encode(*texts)


def write(folder, tokenizer, lines, files, direction="right"):
    os.makedirs(folder, exist_ok=True)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb" if isinstance(content, bytes) else "w",
                  **({} if isinstance(content, bytes) else {"encoding": "utf-8", "newline": ""})) as f:
            f.write(content)
    found = [None] * len(lines)
    for i, encoding in encode_lines(tokenizer, lines, direction):
        places = " ".join(f"{a}-{b}" if not special else "-" for (a, b), special in
                          zip(encoding.offsets, encoding.special_tokens_mask))
        types = "".join(map(str, encoding.type_ids))
        found[i] = " ".join(map(str, encoding.ids)) + "\t" + types + "\t" + places
    tokenizer.no_truncation()
    with open(os.path.join(folder, "lines.txt"), "w", encoding="utf-8", newline="\n") as out, \
            open(os.path.join(folder, "ids.txt"), "w", newline="\n") as ids:
        for (limit, text, pair), one in zip(lines, found):
            out.write(f"{limit}\t{escape(text)}" + ("" if pair is None else f"\t{escape(pair)}") + "\n")
            ids.write(one + "\n")
    print(f"{folder}: {len(lines)} lines", flush=True)


# ---- trained tokenizers ----

def corpus(path, count, seed="corpus"):
    r = random.Random(seed)
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "..", "data", "sentences.txt"), encoding="utf-8") as f:
        english = [line.strip() for line in f if line.strip()]
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(count):
            text = r.choice(english) if r.random() < 0.4 else r.choice(LANGUAGES)
            words = text.split(" ")
            r.shuffle(words)
            out.write(" ".join(words) + "\n")


def sentencepiece_model(size, count=20000, **options):
    """A trained sentencepiece.bpe.model, as bytes: of a Unigram, whatever the name, as XLM-R's is."""
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        text, prefix = os.path.join(folder, "text"), os.path.join(folder, "m")
        corpus(text, count)
        settings = dict(model_type="unigram", vocab_size=size, character_coverage=0.9995, hard_vocab_limit=False,
                        normalization_rule_name="nmt_nfkc", num_threads=1, minloglevel=2)
        sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=prefix, **{**settings, **options})
        with open(prefix + ".model", "rb") as f:
            return without_trainer(f.read())


def without_trainer(model):
    """Without the names of files on the machine where it was trained."""
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.ParseFromString(model)
    del proto.trainer_spec.input[:]
    proto.trainer_spec.model_prefix = ""
    proto.normalizer_spec.normalization_rule_tsv = ""
    return proto.SerializeToString()


def few_rules(folder):
    """Normalization rules of our own, so that the committed map is small: all kinds that there are."""
    rules = [("\r", " "), ("\n", " "), ("\t", " "), ("\u3000", " "), ("\u00a0", " "), ("\u200b", ""), ("\u00ad", ""), ("e\u0301", "\u00e9"),
             ("a\u0308", "\u00e4"), ("\u00bd", "1\u20442"), ("\ufb01", "fi"), ("\u2122", "TM"), ("\u0130", "i\u0307"), ("\u1100\u1161", "\uac00"),
             ("\u0915\u093c", "\u0958"), ("\ufdfa", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"), ("x\u00b2", "x2")]
    rules += [(chr(0xFF21 + i), chr(0x41 + i)) for i in range(26)]
    path = os.path.join(folder, "rules.tsv")
    with open(path, "w", encoding="utf-8") as f:
        for a, b in rules:
            f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
    return path


def pieces_of(model):
    import sentencepiece
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [(sp.id_to_piece(i), sp.get_score(i)) for i in range(sp.get_piece_size())]


def charsmap_of(model):
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.ParseFromString(model)
    return proto.normalizer_spec.precompiled_charsmap


def xlmr(model):
    """What transformers makes of a sentencepiece.bpe.model for XLM-RoBERTa, written out here as its converter does it."""
    vocab = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)] + pieces_of(model)[3:] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap_of(model)), normalizers.Strip(left=False, right=True),
                                                 normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A", "</s>"], pair=["<s>", "$A", "</s>", "</s>", "$B", "</s>"],
        special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, normalized=False)])
    return tokenizer


def fallback(model):
    """Bytes for what is unknown; the older way to put spaces."""
    vocab = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)] + [(f"<0x{b:02X}>", -30.0 - b / 7) for b in range(256)] + pieces_of(model)[3:]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A:0 </s>", pair="<s> $A:0 </s> $B:1 </s>",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_special_tokens(["<s>", "</s>", "<unk>"])
    return tokenizer


def ties():
    """Scores of which many sums are equal."""
    r = random.Random("ties")
    vocab = {"<unk>": -1.0, "\u2581": -2.0}
    for _ in range(600):
        vocab["".join(r.choice("ab\u2581cd\u00e9") for _ in range(r.randrange(1, 6)))] = -float(r.randrange(1, 5))
    tokenizer = Tokenizer(models.Unigram(list(vocab.items()), unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


# ---- tokenizers of random parts ----

def characters_model(r, share):
    characters = sorted(set(ODD + MARKS + SPACES + [ord(c) for t in LANGUAGES for c in t] + list(range(0x20, 0x7F))))
    kept = [chr(c) for c in characters if c and r.random() < share]
    if r.random() < 0.5:
        vocab = {}
        for token in ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] + kept + ["##" + c for c in kept]:
            vocab.setdefault(token, len(vocab))
        return Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=r.choice([5, 20, 100])))
    vocab = {"[UNK]": 0.0, "[CLS]": 0.0, "[SEP]": 0.0, "[MASK]": 0.0}
    vocab.update((c, -float(r.randrange(3, 9))) for c in kept)
    vocab.update((r.choice(kept) + r.choice(kept), -4.5) for _ in range(500))
    return Tokenizer(models.Unigram(list(vocab.items()), unk_id=0, byte_fallback=False))


SAMPLE_SEEDS = [0, 6, 10, 15, 47, 86, 90, 146, 156, 189]


def random_normalizer(r, charsmap, depth=0):
    n = normalizers
    makers = [lambda: n.BertNormalizer(clean_text=r.random() < 0.5, handle_chinese_chars=r.random() < 0.5,
                                       strip_accents=r.choice([None, True, False]), lowercase=r.random() < 0.5),
              n.NFC, n.NFD, n.NFKC, n.NFKD, n.Lowercase, lambda: n.Strip(left=r.random() < 0.6, right=r.random() < 0.6), n.StripAccents,
              lambda: n.Replace(r.choice(["a", " ", "ab", "aa", "\u0301", "e\u0301"]), r.choice(["", "x", "\u2581", "yz", "abc"])),
              lambda: n.Replace(Regex(r.choice([" {2,}", "a+", "\u2581{3,}"])), r.choice([" ", "\u2581", ""])),
              lambda: n.Prepend(r.choice(["\u2581", " ", "xy"])), n.Nmt, lambda: n.Precompiled(charsmap)]
    if depth < 2 and r.random() < 0.4:
        return n.Sequence([random_normalizer(r, charsmap, depth + 1) for _ in range(r.randrange(0, 4))])
    return r.choice(makers)()


BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]


def random_pre_tokenizer(r, depth=0):
    p = pre_tokenizers
    makers = [p.BertPreTokenizer, p.Whitespace, p.WhitespaceSplit, lambda: p.Punctuation(r.choice(BEHAVIORS)),
              lambda: p.Digits(individual_digits=r.random() < 0.5), lambda: p.CharDelimiterSplit(r.choice(" a-")),
              lambda: p.Split(r.choice(["a", " ", "ab", "aa", "."]), r.choice(BEHAVIORS), invert=r.random() < 0.3),
              lambda: p.Metaspace(replacement=r.choice("\u2581_"), prepend_scheme=r.choice(["always", "first", "never"]), split=r.random() < 0.6)]
    if depth < 2 and r.random() < 0.4:
        return p.Sequence([random_pre_tokenizer(r, depth + 1) for _ in range(r.randrange(0, 4))])
    return r.choice(makers)()


def random_processor(r):
    p = processors
    tokens = [("[CLS]", 1), ("[SEP]", 2)]
    framed = r.choice([
        lambda: p.BertProcessing(("[SEP]", 2), ("[CLS]", 1)),
        lambda: p.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1), trim_offsets=r.random() < 0.7, add_prefix_space=r.random() < 0.5),
        lambda: p.TemplateProcessing(single="[CLS] $A:3 [SEP]:1", pair="[CLS] $A:3 [SEP] [SEP]:2 $B:1 [SEP]:1", special_tokens=tokens),
        lambda: p.TemplateProcessing(single="$A", pair="$B:1 [SEP] $A", special_tokens=tokens)])
    trim = lambda: p.ByteLevel(trim_offsets=r.random() < 0.7)
    kind = r.random()
    if kind < 0.2:
        return None
    if kind < 0.3:
        return trim()
    return framed() if kind < 0.7 else p.Sequence([trim(), framed()])


def random_tokenizer(seed, charsmap, share=0.9):
    r = random.Random(f"parts{seed}")
    tokenizer = characters_model(r, share)
    if r.random() < 0.85:
        tokenizer.normalizer = random_normalizer(r, charsmap)
    if r.random() < 0.85:
        tokenizer.pre_tokenizer = random_pre_tokenizer(r)
    made = random_processor(r)
    if made:
        tokenizer.post_processor = made
    added = []
    for content in ["[MASK]", "<r>", "Word", "a b", "\u00c4", " x"]:
        flags = {key: r.random() < 0.3 for key in ("single_word", "lstrip", "rstrip")}
        token = AddedToken(content, normalized=r.random() < 0.4, special=r.random() < 0.5, **flags)
        if r.random() < 0.6 and (not token.normalized or not tokenizer.normalizer or tokenizer.normalizer.normalize_str(content)):
            added.append(token)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return Tokenizer.from_str(tokenizer.to_str()), r.choice(["right", "right", "left"])


def with_direction(tokenizer, direction):
    """The file; the side lies in its truncation."""
    if direction == "left":
        tokenizer.enable_truncation(512, direction="left")
    text = tokenizer.to_str()
    tokenizer.no_truncation()
    return text


def accepted(tokenizer, lines):
    """Without those at which that library panics."""
    kept = []
    for line in lines:
        try:
            tokenizer.encode(*[t.decode("utf-8", "replace") for t in line[1:] if t is not None])
            kept.append(line)
        except BaseException as error:  # noqa: B036 - pyo3's PanicException is no Exception
            if type(error).__name__ != "PanicException":
                raise
    return kept


def with_parts(maker, lines):
    r = maker.r
    parts = ["[MASK]", "<r>", "Word", "a b", "\u00c4", " x", "aab", "ab", "  ", " "]
    for _ in range(len(lines) // 4):
        text = "".join(r.choice(parts) if r.random() < 0.7 else maker.char() for _ in range(r.randrange(1, 12)))
        lines.append((r.choice([0, 0, 5, 8, 13]), text.encode("utf-8"), None))
    return lines


def mixed(folder, seeds, charsmap, lines, share=0.9):
    for seed in seeds:
        tokenizer, direction = random_tokenizer(seed, charsmap, share)
        maker = TextMaker(f"lines{seed}", SCALARS)
        made = [line if line[0] == 0 or line[0] > 6 else (0,) + line[1:] for line in with_parts(maker, [maker.line() for _ in range(lines)])]
        write(os.path.join(folder, str(seed)), tokenizer, accepted(tokenizer, made),
              {"tokenizer.json": with_direction(tokenizer, direction)}, direction)


def from_model(model, class_name, config):
    """What transformers makes of a folder that has only the older file, and that folder's files."""
    import transformers
    files = {"sentencepiece.bpe.model": model, "tokenizer_config.json": json.dumps(config) + "\n"}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as f:
                f.write(content if isinstance(content, bytes) else content.encode())
        made = getattr(transformers, class_name).from_pretrained(folder)
        return Tokenizer.from_str(made.backend_tokenizer.to_str()), files


def trained(size=8000, count=20000):
    model = sentencepiece_model(size, count)
    xlmr_model, xlmr_files = from_model(model, "XLMRobertaTokenizerFast", {
        "tokenizer_class": "XLMRobertaTokenizer",
        "mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": True, "rstrip": False, "single_word": False}})
    camembert, camembert_files = from_model(model, "CamembertTokenizerFast", {"tokenizer_class": "CamembertTokenizer"})
    made = [("xlmr", xlmr(model)), ("fallback", fallback(model)), ("ties", ties())]
    return [(name, tokenizer, {"tokenizer.json": tokenizer.to_str()}) for name, tokenizer in made] + [
        ("xlmr_model", xlmr_model, xlmr_files), ("camembert_model", camembert, camembert_files), ("bert", *bert_base())]


def bert_base():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "data", "tokenizer", "vocab.txt"), encoding="utf-8", newline="\n") as f:
        lines = f.read()
    tokenizer = bert(lines.split("\n")[:-1])
    return tokenizer, {"tokenizer.json": tokenizer.to_str()}


def tie_lines(maker, count):
    r = maker.r
    return [(0, "".join(r.choice("aabbc d\u00e9x") for _ in range(r.randrange(1, 40))).encode("utf-8"), None) for _ in range(count)]


def full(folder, count, only):
    for name, tokenizer, files in trained():
        if only not in ("", name):
            continue
        maker = TextMaker(name, SCALARS)
        every = ["".join(f"a{chr(c)} {chr(c)}b " for c in SCALARS[i:i + 8]) for i in range(0, len(SCALARS), 8)]
        lines = [(0, text.encode("utf-8"), None) for text in (every if len(every) < count // 2 else every[::4 * len(every) // count + 1])]
        lines += tie_lines(maker, count // 10) if name == "ties" else []
        lines += [maker.line() for _ in range(max(0, count - len(lines)))]
        lines = [(line[0] if line[0] == 0 or line[0] > 6 else 0,) + line[1:] for line in lines]
        write(os.path.join(folder, name), tokenizer, lines, files)


def sample(folder):
    with tempfile.TemporaryDirectory() as place:
        model = sentencepiece_model(1000, 3000, normalization_rule_tsv=few_rules(place), normalization_rule_name="", character_coverage=0.99)
    _, xlmr_files = from_model(model, "XLMRobertaTokenizerFast", {"tokenizer_class": "XLMRobertaTokenizer"})
    made, _ = from_model(model, "XLMRobertaTokenizerFast", {"tokenizer_class": "XLMRobertaTokenizer"})
    camembert, camembert_files = from_model(model, "CamembertTokenizerFast", {"tokenizer_class": "CamembertTokenizer", "truncation_side": "left"})
    bytes_kept = fallback(model)
    bytes_kept.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    for name, tokenizer, files, direction in [("xlmr_model", made, xlmr_files, "right"), ("camembert_model", camembert, camembert_files, "left"),
                                              ("fallback", bytes_kept, {"tokenizer.json": bytes_kept.to_str()}, "right"),
                                              ("ties", ties(), {"tokenizer.json": ties().to_str()}, "right")]:
        maker = TextMaker(name, SCALARS)
        lines = [(0, text.encode("utf-8"), None) for text in LANGUAGES] if name != "ties" else []
        lines += tie_lines(maker, 100) if name == "ties" else []
        lines += with_parts(maker, [maker.line() for _ in range(120)])
        lines = [(line[0] if line[0] == 0 or line[0] > 6 else 0,) + line[1:] for line in lines]
        write(os.path.join(folder, name), tokenizer, lines, files, direction)
    # Seeds that have each kind of part.
    mixed(os.path.join(folder, "parts"), SAMPLE_SEEDS, charsmap_of(model), 50, 0.2)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "sample":
        sample(sys.argv[2])
    elif len(sys.argv) in (3, 4, 5) and sys.argv[1] == "full":
        full(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1000000, sys.argv[4] if len(sys.argv) > 4 else "")
    elif len(sys.argv) in (3, 4) and sys.argv[1] == "mixed":
        mixed(sys.argv[2], range(int(sys.argv[3]) if len(sys.argv) == 4 else 500), charsmap_of(sentencepiece_model(2000, count=2000)), 200)
    else:
        sys.exit(__doc__)
