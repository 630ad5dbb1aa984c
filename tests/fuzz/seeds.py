"""Writes the inputs that fuzzing begins with, a folder for each target, and those that once found a fault.

usage: seeds.py FOLDER [PROGRAM]

PROGRAM (seeds.c) is then run over all of them.
"""

import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
for folder in ("cli", "report", "page", "golden"):
    sys.path.insert(0, str(TESTS / folder))

import make_model  # noqa: E402
import make_record  # noqa: E402
import make_tunings  # noqa: E402
import question_models  # noqa: E402

SEPARATOR = b"\x1e"  # fuzz.h


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# ---- safetensors ----


def header_of(shapes, dtype="F32", size=4):
    header, at = {}, 0
    for name, shape in shapes.items():
        count = 1
        for n in shape:
            count *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count * size]}
        at += count * size
    return header, at


def safetensors_file(header, size, pad=0):
    text = (header if isinstance(header, bytes) else compact(header)) + b" " * pad
    return struct.pack("<Q", len(text)) + text + bytes(size)


def safetensors_seeds():
    plain = {"a": [2, 3], "b.weight": [4], "scalar": []}
    yield "plain", safetensors_file(*header_of(plain))
    yield "half", safetensors_file(*header_of(plain, "F16", 2), pad=5)
    yield "metadata", safetensors_file({"__metadata__": {"format": "pt"}, **header_of({"x": [1]})[0]}, 4)
    yield "empty", safetensors_file({}, 0)
    yield "no-elements", safetensors_file(*header_of({"a": [0, 7], "b": [1]}))
    yield "bits", safetensors_file({"q": {"dtype": "F4", "shape": [2, 2], "data_offsets": [0, 2]}}, 2)
    yield "huge", safetensors_file({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}, 0)
    yield "rank", safetensors_file({"a": {"dtype": "U8", "shape": [1] * 9, "data_offsets": [0, 1]}}, 1)
    yield "overlap", safetensors_file(
        {name: {"dtype": "U8", "shape": [4], "data_offsets": [at, at + 4]} for name, at in (("a", 0), ("b", 2))}, 6
    )
    yield "cut", safetensors_file(*header_of(plain))[:-3]
    yield "length", struct.pack("<Q", 2**63) + b"{}"


# ---- models ----


def small(layers=1, hidden=4):
    """The smallest shape that has everything."""
    make_model.HIDDEN, make_model.HEADS, make_model.FEED_FORWARD = hidden, 2, 4
    make_model.POSITIONS, make_model.LAYERS = 8, layers
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": 8,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 4,
        "hidden_act": "gelu",
        "max_position_embeddings": 8,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    return config, make_model.tensors(8)


MODULES = [
    {"idx": n, "name": str(n), "path": path, "type": "sentence_transformers.models." + kind}
    for n, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))
]
POOLING = {"word_embedding_dimension": 4, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
WORDS = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "##a", "##b"]).encode()


def model_folder(config, first, second=b"", sizes=(0, 0), **files):
    """The parts in the order of fuzz_model.c."""
    names = ("modules", "pooling", "sentence", "tokenizer_config", "vocab", "tokenizer", "index")
    parts = [files.get(name, b"") for name in names]
    return SEPARATOR.join([config, *parts, first, second, b"%d %d" % sizes])


def model_seeds():
    config, shapes = small()
    header, size = header_of(shapes)
    yield "plain", model_folder(compact(config), compact(header), sizes=(size, 0))
    yield "sentence", model_folder(
        compact(config),
        compact(header),
        sizes=(size, 0),
        modules=compact(MODULES),
        pooling=compact(POOLING),
        sentence=compact({"max_seq_length": 6, "do_lower_case": True}),
        tokenizer_config=compact({"do_lower_case": True, "model_max_length": int(1e30)}),
        vocab=WORDS,
    )
    half, half_size = header_of({"bert." + name: shape for name, shape in shapes.items() if "pooler" not in name}, "BF16", 2)
    yield "prefixed", model_folder(compact(config), compact(half), sizes=(half_size, 0))
    names = sorted(shapes)
    halves = [header_of({name: shapes[name] for name in part}) for part in (names[:9], names[9:])]
    index = {"weight_map": {name: "more.safetensors" for name in names}}
    yield "index", model_folder(
        compact(config), b"", compact(header), sizes=(0, size), index=compact({"metadata": {}, **index})
    )
    yield "two", model_folder(
        compact(config),
        compact(halves[0][0]),
        compact(halves[1][0]),
        sizes=(halves[0][1], halves[1][1]),
        index=compact(index),
    )
    yield "large", model_folder(compact({**config, "num_hidden_layers": 2**31 - 1}), compact(header), sizes=(size, 0))
    yield "outside", model_folder(
        compact(config), compact(header), sizes=(size, 0), modules=compact([{"type": "a.Transformer", "path": "../x"}])
    )
    # One of each architecture: its keys, and tensors that they ask for.
    for model in json.loads((TESTS / "golden" / "architectures.json").read_text(encoding="utf-8")):
        if model["name"].startswith("train-"):
            header, size = header_of(dict(model["tensors"]))
            yield model["name"], model_folder(compact(model["config"]), compact(header), sizes=(size, 0))


# ---- heads, modules, prompts ----


def heads_folder(config, shapes, sizes=(), torch=b"", **files):
    """The parts in the order of fuzz_heads.c; `sizes`: of the other files' shapes."""
    names = ("modules", "prompts", "sentence", "pooling", "dense", "norm")
    headers = [header_of(s) if s else (None, 0) for s in (shapes, *sizes)]
    headers += [(None, 0)] * (4 - len(headers))
    parts = [compact(config), *(compact(files[name]) if name in files else b"" for name in names)]
    parts += [compact(header) if header else b"" for header, _ in headers]
    return SEPARATOR.join([*parts, b" ".join(b"%d" % size for _, size in headers), torch])


def linear(name, rows, columns):
    return {name + ".weight": [rows, columns], name + ".bias": [rows]}


def heads_seeds():
    config, shapes = small()
    names = {"id2label": {"0": "no", "1": "perhaps", "2": "\u00e9"}, "label2id": {"no": 0}, "num_labels": 3}
    task = {"architectures": ["BertForSequenceClassification"], "problem_type": "multi_label_classification"}
    classify = {**shapes, **linear("classifier", 3, 4)}
    yield "classify", heads_folder({**config, **names, **task}, classify)
    identity = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}
    yield "rerank", heads_folder({**config, **task, **identity, "id2label": {"0": "LABEL_0"}}, {**shapes, **linear("classifier", 1, 4)})
    yield "old-key", heads_folder({**config, **names, **task, "sbert_ce_default_activation_function": "a.Sigmoid"}, classify)
    yield "entities", heads_folder({**config, **names, "architectures": ["BertForTokenClassification"]}, classify)
    yield "more-labels", heads_folder({**config, **task, "id2label": {str(n): str(n) for n in range(5)}}, classify)
    yield "fewer-labels", heads_folder({**config, **task, "id2label": {"0": "a", "7": "b"}}, classify)
    fill = {**shapes, **linear("cls.predictions.transform.dense", 4, 4), "cls.predictions.transform.LayerNorm.weight": [4],
            "cls.predictions.transform.LayerNorm.bias": [4], "cls.predictions.bias": [8]}
    yield "fill", heads_folder({**config, "architectures": ["BertForMaskedLM"]}, fill)
    yield "untied", heads_folder({**config, "architectures": ["BertForMaskedLM"], "tie_word_embeddings": False}, fill)

    kinds = ("Transformer", "Pooling", "Dense", "LayerNorm", "Normalize")
    paths = ("", "1_Pooling", "2_Dense", "3_LayerNorm", "4_Normalize")
    chain = [{"idx": n, "name": str(n), "path": path, "type": "sentence_transformers.models." + kind}
             for n, (kind, path) in enumerate(zip(kinds, paths))]
    dense = {"in_features": 8, "out_features": 3, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}
    files = {"dense": dense, "norm": {"dimension": 3}, "sentence": {"max_seq_length": 6}, "prompts": {
        "prompts": {"query": "query: ", "passage": "\u00e9"}, "default_prompt_name": "query", "truncate_dim": 2}}
    sizes = (linear("linear", 3, 8), {"norm.weight": [3], "norm.bias": [3]})
    yield "chain", heads_folder(config, shapes, sizes, modules=chain, pooling={"pooling_mode": ["cls", "weightedmean"]}, **files)
    flags = {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True, "include_prompt": False}
    yield "flags", heads_folder(config, shapes, sizes, modules=chain, pooling=flags, **files)
    yield "tokens", heads_folder(config, shapes, (linear("linear", 3, 4),), modules=[chain[0], chain[2], chain[4]], dense={
        **dense, "in_features": 4, "module_input_name": "token_embeddings", "module_output_name": "token_embeddings"})
    # A decoder that is asked: "1_Pooling" is where its LogitScore is.
    asked = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "tie_word_embeddings": True}
    score = [chain[0], {**chain[1], "type": "a.LogitScore"}]
    yield "score", heads_folder({**config, **asked}, shapes, modules=score, pooling={"true_token_id": 1, "false_token_id": 2})
    config, shapes = small(hidden=32)
    torch = (TESTS / "data" / "torch" / "sparse_f16.pt").read_bytes()
    yield "m3", heads_folder(config, shapes, ({}, {}, linear("", 5, 32)), torch)
    colbert = {name.lstrip("."): shape for name, shape in linear("", 5, 32).items()}
    yield "colbert", heads_folder(config, shapes, ({}, {}, colbert), torch)


# ---- tokenizers ----


def added(content, **flags):
    keys = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return {"id": 0, "content": content, **{key: bool(flags.get(key)) for key in keys}}


def tokenizer_json(tokens, **model):
    words = ["[UNK]", "[CLS]", "[SEP]", *"abcde-.", *("##" + c for c in "abcde"), "ab", "##cd", "\u4e2d", "\u00e9"]
    return {
        "version": "1.0",
        "added_tokens": tokens,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: n for n, word in enumerate(words)},
            **model,
        },
    }


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "B", "type_id": 1}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}},
}
TEXT = "The \u00c9t\u00e9, ab-cde \u4e2d\u6587 e\u0301\u0323\u0300 [MASK]  [CLS] \U0001f600.".encode()
PAIR = b"a second \xff one\r\n"


def tokenizer_files(vocabulary=b"", whole=b"", config=b"", text=TEXT, pair=PAIR):
    return SEPARATOR.join([vocabulary, whole, config, text, pair])


def tokenizer_seeds():
    words = b"\n".join(word.encode() for word in make_model.vocabulary())
    yield "lines", tokenizer_files(words)
    yield "cased", tokenizer_files(words, config=compact({"do_lower_case": False, "tokenize_chinese_chars": False}))
    yield "special", tokenizer_files(
        words,
        config=compact(
            {
                "strip_accents": False,
                "mask_token": added("<m>", lstrip=True),
                "additional_special_tokens": ["<a>", added("<a>b", rstrip=True)],
                "added_tokens_decoder": {"60": added("two parts", normalized=True, single_word=True)},
            }
        ),
        text=b"x <m> <a>b <a> two parts two partsx",
    )
    tokens = [
        added("-"),
        added("-" * 20 + "x"),
        added(" ", rstrip=True),
        added("ab", single_word=True),
        added("\u00c9T", normalized=True, lstrip=True),
        added("e\u0301", normalized=True),
    ]
    yield "tokens", tokenizer_files(whole=compact(tokenizer_json(tokens)), text=b"-" * 50 + TEXT + b" ab ")
    yield "template", tokenizer_files(whole=compact({**tokenizer_json([]), "post_processor": TEMPLATE}))
    # Its texts, cut to a limit, were over it: the second stands there twice.
    twice = {**TEMPLATE, "pair": TEMPLATE["pair"] + [{"Sequence": {"id": "B", "type_id": 1}}]}
    yield "twice", tokenizer_files(whole=compact({**tokenizer_json([]), "post_processor": twice}))
    yield "long", tokenizer_files(
        whole=compact(tokenizer_json([], max_input_chars_per_word=2**31, continuing_subword_prefix="")),
        text=b"ab" * 300 + b"cdcd" * 100,
    )
    # No token continues a word, and a long one came: a tree without nodes was searched.
    yield "nothing-continues", tokenizer_files(
        whole=compact(tokenizer_json([], max_input_chars_per_word=2**31, continuing_subword_prefix="0")),
        text=b"ab" * 200,
    )
    # The one token that begins with the prefix is the prefix: of what continues words there are no characters.
    yield "prefix-alone", tokenizer_files(
        whole=compact(tokenizer_json([], max_input_chars_per_word=2**31, continuing_subword_prefix="[SEP]")),
        text=b"ab" * 200,
    )
    yield "marks", tokenizer_files(words, text="a\u0301\u0323\u0345\u302e\u0f71\u0f72\u3099".encode() * 20)


    yield from unigram_seeds()
    yield from bpe_seeds()


def character_map(rules):
    """As SentencePiece has it, of keys that are one byte or two: a double array of 1024 units, and the replacements."""
    units, pool, leaf = [0] * 1024, b"", 1
    units[0] = 256 << 10
    for key, value in rules.items():
        at = 256
        for n, byte in enumerate(key):
            at ^= byte
            last = n + 1 == len(key)
            target = leaf if last else 512
            units[at] = byte | last << 8 | (at ^ target) << 10
            at = target
        units[leaf] = len(pool) | 1 << 31
        leaf += 1
        pool += value.encode() + b"\0"
    return struct.pack("<1025I", 4096, *units) + pool


MAP = character_map({b"\r": " ", b"\xc2\xbd": "1/2", b"A": "a", b"\xcc\x81": ""})


def unigram_json(**parts):
    pieces = ["<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "ab", "b", "c", "\u2581ab", "\u4e2d", "<0x41>", "<0xC3>", "<0x89>"]
    return {
        "added_tokens": [added("<s>", special=True), added("<m>", lstrip=True, normalized=True)],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [[p, -float(n % 4)] for n, p in enumerate(pieces)]},
        **parts,
    }


def sequence(key, *members):
    return {"type": "Sequence", key: list(members)}


def unigram_seeds():
    charsmap = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(MAP).decode()}
    yield "unigram", tokenizer_files(whole=compact(unigram_json()))
    yield "precompiled", tokenizer_files(whole=compact(unigram_json(normalizer=charsmap)), text=b"A\r\n\xcc\x81 \xc2\xbd\xcc\x81x")
    pattern = {"String": "ab"}
    yield "normalizers", tokenizer_files(whole=compact(unigram_json(normalizer=sequence(
        "normalizers", {"type": "NFKC"}, {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Nmt"},
        {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Prepend", "prepend": "x"},
        {"type": "Replace", "pattern": pattern, "content": "cab"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": ""}))))
    yield "pre-tokenizers", tokenizer_files(whole=compact(unigram_json(pre_tokenizer=sequence(
        "pretokenizers", {"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "MergedWithPrevious"},
        {"type": "Digits", "individual_digits": False}, {"type": "CharDelimiterSplit", "delimiter": "c"},
        {"type": "Split", "pattern": pattern, "behavior": "MergedWithNext", "invert": True}))))
    yield "processors", tokenizer_files(whole=compact(unigram_json(truncation={"direction": "Left"}, post_processor=sequence(
        "processors", {"type": "ByteLevel", "trim_offsets": True, "add_prefix_space": True},
        {"type": "RobertaProcessing", "cls": ["<s>", 1], "sep": ["</s>", 2], "trim_offsets": True, "add_prefix_space": False}))))


BPE_WORDS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *"abcde", "\u0120", "ab", "\u0120a", "cd", "abcd", "\u00c3", "\u00a9", "<0x41>"]
BPE_MERGES = ["a b", "c d", "\u0120 a", "ab cd"]


def bpe_json(pre_tokenizer, **model):
    vocab = {word: n for n, word in enumerate(BPE_WORDS)}
    return {"added_tokens": [added("<mask>", lstrip=True)], "pre_tokenizer": pre_tokenizer,
            "model": {"type": "BPE", "vocab": vocab, "merges": BPE_MERGES, "unk_token": "<unk>", **model}}


def bpe_seeds():
    bytes_ = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    yield "bpe", tokenizer_files(whole=compact(bpe_json(bytes_)), text=b"abcd don't  <mask>" + b"ab" * 50)
    pairs = [merge.split(" ") for merge in BPE_MERGES]
    yield "bpe-options", tokenizer_files(whole=compact(bpe_json(
        None, merges=pairs, continuing_subword_prefix="", end_of_word_suffix="c", fuse_unk=True, byte_fallback=True, ignore_merges=True)))
    patterns = [r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+", r"(?<=a)\b|[a-c[de]]{2}+|\w*?$"]
    for n, pattern in enumerate(patterns):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Contiguous", "invert": False}
        yield f"pattern{n}", tokenizer_files(whole=compact(bpe_json(sequence("pretokenizers", split, bytes_))))


def merges_seeds():
    vocab = compact({word: n for n, word in enumerate(BPE_WORDS)})
    merges = "\n".join(["#version: 0.2", *BPE_MERGES, ""]).encode()
    config = {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}
    yield "merges", SEPARATOR.join([vocab, merges, compact(config), compact({"mask_token": added("<mask>", lstrip=True)}), TEXT])
    # Nothing after the space: the list of its characters was none.
    yield "empty-part", SEPARATOR.join([vocab, b"a \n", compact(config), b"", TEXT])


def message(*fields):
    """Of protocol buffers: (number, value) of bytes or of a float."""
    out = b""
    for number, value in fields:
        if isinstance(value, float):
            out += bytes([number << 3 | 5]) + struct.pack("<f", value)
        elif isinstance(value, int):
            out += bytes([number << 3, value])
        else:
            length, sizes = len(value), b""
            while length > 127:
                sizes, length = sizes + bytes([length & 127 | 128]), length >> 7
            out += bytes([number << 3 | 2]) + sizes + bytes([length]) + value
    return out


def sentencepiece_seeds():
    pieces = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581a", "ab", "1", "/"]
    model = message(*((1, message((1, piece.encode()), (2, -float(n)), (3, 1))) for n, piece in enumerate(pieces)),
                    (2, message((3, 1))), (3, message((1, b"ours"), (2, MAP), (3, 1))))
    for name in ("XLMRobertaTokenizer", "CamembertTokenizerFast"):
        config = {"tokenizer_class": name, "mask_token": added("<mask>", lstrip=True), "truncation_side": "left"}
        yield name, SEPARATOR.join([compact(config), b"A\r\n b\xc2\xbd <mask>\xcc\x81 \xe4\xb8\xad", model])


# ---- tunings ----


def tuning_seeds():
    chosen = [
        "sizes\tf16 rungs=9 rows=4096 gemm 1=1024 2=4096\tgemm 27=128 28=128\t1.500000000e-03\t1.000000000e-03",
        "sizes\tanother work\tgemm 27=64\t2e-3\t1e-3",
        "layouts\tbert-large flash 8x512\tx=bji,w=ui\t1.0e-2\t9e-3",
        "something else\t1",
    ]
    log = [
        "measured\ttried\ta work\tgemm 27=128\tright\t1e-3\t9e-4\t1.1e-3\t8e-4\t7e-4\t9e-4\t12\t1e-9\t",
        "measured\tconfirmed\ta work\tgemm 27=128\twrong\t1e-3\t9e-4\t1.1e-3\t8e-4\t7e-4\t9e-4\t12\t1e-3\tnmse 1e-3",
        "step\t00000000000000ff\t0000000000000001\t1e-3\t1e-3\t9e-4\t1.1e-3\t8\tright\t",
        "step\t00000000000000ff\t0000000000000000\t1e-3\t1e-3\t9e-4\t1.1e-3\t8\twrong\tno result",
    ]
    whole = ["wherry-tuning 1", "device x", "driver y", "kernels 0"]
    for name, lines in {
        "chosen": chosen,
        "log": log,
        "both": chosen + log,
        "damaged": chosen[:1] + ["=0123456789abcdef\tsizes\ta\tb\t1\t2"] + log,
        "another": ["=" + line for line in whole] + chosen,
        "long": ["sizes\t" + "w" * 1500 + "\tuse\t1\t2", "measured\t" + "\t".join("abcdefghijklmnopqrst")],
    }.items():
        yield name, "\n".join(lines).encode() + b"\n"
    yield "torn", "\n".join(chosen).encode()[:-20]


# ---- reports ----


def few(record):
    """The record with one plan and some of everything, so that an input stays small."""
    record["plans"], record["ceilings"] = record["plans"][:1], record["ceilings"][:4]
    record["ops"] = record["ops"][:2]
    return record


def report_seeds():
    yield "record", compact(make_record.make_record({}))
    yield "few", compact(few(make_record.make_record({"name": "a\u0007 <b>|\"card\", \u202e=1+1"})))
    yield "bare", compact(few(make_record.make_record({"roof": "no", "cold": "no"})))
    yield "two", compact([few(make_record.make_record({})), few(make_record.make_record({"timer": "wraps"}))])
    tuning = make_tunings.plain_file(14)
    tuning["works"] = tuning["works"][:2]
    yield "tuning", compact(tuning)
    yield "sizes", compact(make_tunings.empty_file())
    yield "peaks", compact(
        {"name": "a card", "source": "its sheet", "bandwidth": 1e12, "f32_flops": 2e13, "matrix_flops": 1e14,
         "cache_bytes": 4e7, "cache_bandwidth": 5e12, "launch_seconds": 5e-6}
    )  # fmt: skip


# ---- texts ----


def texts_seeds():
    lines, pairs, jsonl = b"\0", b"\2", b"\1"
    yield "lines", lines + b"\xef\xbb\xbfone\r\ntwo \xff\n\n" + TEXT
    yield "pairs", pairs + b"a\tb\nc\t\n\td"
    yield "tabless", pairs + b"a\tb\nno tab\n"
    values = [
        {"text": "a text", "id": 1},
        {"text": "\u00e9\0", "pair": "b", "id": "x\"\n"},
        {"id": 1.5e300, "text": "", "pair": None},
        {"text": "c", "id": None},
    ]
    yield "jsonl", jsonl + b"\n".join(map(compact, values)) + b"\n \t\n"
    yield "numbers", jsonl + b"".join(
        b'{"id":%s,"text":"n"}\n' % n for n in (b"1.10", b"0.1", b"1e2", b"12345678901234567890123", b"-0")
    )
    yield "surrogates", jsonl + rb'{"text":"\ud83d\ude00 \u0000"}' + b"\n" + rb'{"text":"\ud800"}'
    yield "utf16", lines + "a text".encode("utf-16")


# ---- files of torch.save ----


def torch_file_seeds():
    for path in sorted((TESTS / "data" / "torch").glob("*.pt")):
        yield path.stem, path.read_bytes()


def chat_template_seeds():
    for name in ("CHAT", "NAMED", "PLAIN"):
        yield name.lower(), getattr(question_models, name).encode()


SEEDS = {
    "safetensors": safetensors_seeds,
    "model": model_seeds,
    "heads": heads_seeds,
    "tokenizer": tokenizer_seeds,
    "sentencepiece": sentencepiece_seeds,
    "merges": merges_seeds,
    "tuning": tuning_seeds,
    "report": report_seeds,
    "texts": texts_seeds,
    "torch_file": torch_file_seeds,
    "chat_template": chat_template_seeds,
}


def main():
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    for target, seeds in SEEDS.items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)
    if len(sys.argv) == 3:
        with tempfile.TemporaryDirectory(prefix="wherry-fuzz-") as scratch:
            environment = {**os.environ, "FUZZ_FOLDER": scratch}
            sys.exit(subprocess.run([sys.argv[2], sys.argv[1]], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
