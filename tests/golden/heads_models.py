"""Tiny models with heads, and with sentence-transformers' modules, as folders: weights from Python's own random numbers,
so that the folders need not be kept. make_heads.py asks the reference libraries what they give, tests/cli/test_heads.py
asks wherry.

usage: heads_models.py KIND FOLDER
"""

import base64
import json
import os
import random
import shutil
import struct
import sys

HIDDEN, LAYERS, HEADS, FEED_FORWARD, POSITIONS = 32, 2, 4, 64, 64
NARROW = 24

WORDS = ("the a boat water river rows quickly slowly in on to bremen ada who and is lock ferry bridge mill "
         "near far red old . , ? !").split()
BYTE_WORDS = [word for word in WORDS if len(word) > 1] + ["f\u00eate", "\u6c34"]
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
SPECIAL = {"bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>")}


SENTENCEPIECE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "tokenizer", "xlmr_model",
                             "sentencepiece.bpe.model")


def byte_alphabet():
    """GPT-2's character of each byte."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen}, **{byte: chr(0x100 + n) for n, byte in enumerate(hidden)}}


def byte_merges():
    """Each word with a space before it and without grows from its left, a byte at a time."""
    alphabet, merges = byte_alphabet(), {}
    for word in (space + word for word in BYTE_WORDS for space in ("", " ")):
        spelled = [alphabet[byte] for byte in word.encode()]
        for n in range(1, len(spelled)):
            merges["".join(spelled[:n]), spelled[n]] = None
    return list(merges)


def fields(data):
    """(number, value) of each field of a message of Protocol Buffers: an int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}[tag & 7] if tag & 7 != 2 else varint()
        yield tag >> 3, data[at:at + size]
        at += size


def sentencepiece():
    """[(piece, score)] and the character map of the trained model that the tokenizer's tests have."""
    with open(SENTENCEPIECE, "rb") as file:
        model = list(fields(file.read()))
    pieces = [dict(fields(value)) for number, value in model if number == 1]
    normalizer = dict(fields(next(value for number, value in model if number == 3)))
    return [(piece[1].decode(), struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0) for piece in pieces], normalizer[2]


def xlmr_words():
    """As transformers orders them for XLM-RoBERTa: its own first four, the pieces after the first three, the mask."""
    first = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    return first + sentencepiece()[0][3:] + [("<mask>", 0.0)]


def vocabulary(family):
    if family in ("pieces", "pieces-json"):
        return [word for word, _ in xlmr_words()]
    if family == "camembert-pieces":
        return ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED",
                *(piece for piece, _ in sentencepiece()[0][1:]), "<mask>"]
    if family == "bytes":
        return [*SPECIAL["roberta"][:4], *byte_alphabet().values(), *(a + b for a, b in byte_merges()),
                SPECIAL["roberta"][4]]
    return list(SPECIAL[family]) + WORDS + LETTERS + ["##" + letter for letter in LETTERS]


def unigram_parts():
    """What of XLM-RoBERTa's tokenizer.json is other than WordPiece's."""
    return {
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(sentencepiece()[1]).decode()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}]},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": 3, "vocab": [list(word) for word in xlmr_words()], "byte_fallback": False},
    }


def tokenizer(family, marks=()):
    words = vocabulary(family)
    pad, unknown, first, last, mask = SPECIAL["bert"]
    if family != "bert":
        first, pad, last, unknown, mask = SPECIAL["roberta"]

    def special(token):
        return {"SpecialToken": {"id": token, "type_id": 0}}

    def part(name, kind):
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special(first), part("A", 0), special(last)]
    if family != "bert":
        pair = single + [special(last), part("B", 0), special(last)]
    else:
        pair = single + [part("B", 1), {"SpecialToken": {"id": last, "type_id": 1}}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": words.index(t), "content": t, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for t in (pad, unknown, first, last, mask)
        ] + [{"id": len(words) + n, "content": mark, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for n, mark in enumerate(marks)],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing", "single": single, "pair": pair,
            "special_tokens": {t: {"id": t, "ids": [words.index(t)], "tokens": [t]} for t in (first, last)},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: n for n, word in enumerate(words)}},
        **(unigram_parts() if family == "pieces-json" else {}),
    }


def linear(name, rows, columns):
    return {name + ".weight": [rows, columns], name + ".bias": [rows]}


def norm(name, size=HIDDEN):
    return {name + ".weight": [size], name + ".bias": [size]}


def bert_tensors(prefix, words, types, positions, embedding=HIDDEN):
    shapes = {prefix + "embeddings.word_embeddings.weight": [words, embedding],
              prefix + "embeddings.position_embeddings.weight": [positions, embedding],
              prefix + "embeddings.token_type_embeddings.weight": [types, embedding],
              **norm(prefix + "embeddings.LayerNorm", embedding)}
    for layer in range(LAYERS):
        at = f"{prefix}encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            shapes.update(linear(f"{at}attention.self.{name}", HIDDEN, HIDDEN))
        shapes.update(linear(at + "attention.output.dense", HIDDEN, HIDDEN))
        shapes.update(linear(at + "intermediate.dense", FEED_FORWARD, HIDDEN))
        shapes.update(linear(at + "output.dense", HIDDEN, FEED_FORWARD))
        shapes.update({**norm(at + "attention.output.LayerNorm"), **norm(at + "output.LayerNorm")})
    return shapes


def distilbert_tensors(prefix, words):
    shapes = {prefix + "embeddings.word_embeddings.weight": [words, HIDDEN],
              prefix + "embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
              **norm(prefix + "embeddings.LayerNorm")}
    for layer in range(LAYERS):
        at = f"{prefix}transformer.layer.{layer}."
        for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
            shapes.update(linear(f"{at}attention.{name}", HIDDEN, HIDDEN))
        shapes.update({**linear(at + "ffn.lin1", FEED_FORWARD, HIDDEN), **linear(at + "ffn.lin2", HIDDEN, FEED_FORWARD)})
        shapes.update({**norm(at + "sa_layer_norm"), **norm(at + "output_layer_norm")})
    return shapes


def mpnet_tensors(prefix, words):
    names = {".attention.self.query": ".attention.attn.q", ".attention.self.key": ".attention.attn.k",
             ".attention.self.value": ".attention.attn.v", ".attention.output.dense": ".attention.attn.o",
             ".attention.output.LayerNorm": ".attention.LayerNorm"}
    shapes = {prefix + "encoder.relative_attention_bias.weight": [32, HEADS]}
    for name, shape in bert_tensors(prefix, words, 1, POSITIONS + 2).items():
        for old, new in names.items():
            name = name.replace(old, new)
        if "token_type" not in name:
            shapes[name] = shape
    return shapes


def write_weights(path, shapes, seed, norms=1.0):
    """Values that 16 bits hold, classifiers' larger, so that scores differ; those of norms about `norms`."""
    generator = random.Random(seed)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        center = norms if ("norm" in name.lower()) and name.endswith("weight") else 0.0
        spread = 0.6 if "classifier" in name or "predictions" in name else 0.15
        start = len(data)
        data += struct.pack(f"<{count}f", *(round(generator.gauss(center, spread) * 256) / 256 for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


BERT = {"model_type": "bert", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "intermediate_size": FEED_FORWARD, "hidden_act": "gelu", "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0}
ROBERTA = {**BERT, "model_type": "roberta", "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1,
           "layer_norm_eps": 1e-5, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
DISTILBERT = {"model_type": "distilbert", "dim": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS,
              "hidden_dim": FEED_FORWARD, "activation": "gelu", "max_position_embeddings": POSITIONS, "pad_token_id": 0}
ELECTRA = {**BERT, "model_type": "electra", "embedding_size": NARROW}
ENTITIES = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
POOLER = "bert.pooler.dense"


def labels(*names):
    return {"id2label": {str(n): name for n, name in enumerate(names)},
            "label2id": {name: n for n, name in enumerate(names)}}


def bert_head(name, shapes, **more):
    words = len(vocabulary("bert"))
    return "bert", {**BERT, "architectures": ["Bert" + name], **more}, {**bert_tensors("bert.", words, 2, POSITIONS), **shapes}


def model(kind):
    """Family of the tokenizer, config.json, tensors, other files."""
    words = len(vocabulary("bert"))
    dense, out = linear("classifier.dense", HIDDEN, HIDDEN), lambda n: linear("classifier.out_proj", n, HIDDEN)
    pooled = linear(POOLER, HIDDEN, HIDDEN)
    if kind == "bert-rerank":
        return bert_head("ForSequenceClassification", {**pooled, **linear("classifier", 1, HIDDEN)}, **labels("LABEL_0"))
    if kind == "bert-rerank-identity":
        return bert_head("ForSequenceClassification", {**pooled, **linear("classifier", 1, HIDDEN)}, **labels("LABEL_0"),
                         sbert_ce_default_activation_function="torch.nn.modules.linear.Identity")
    if kind == "bert-classify":
        return bert_head("ForSequenceClassification", {**pooled, **linear("classifier", 3, HIDDEN)},
                         **labels("against", "neutral", "for"))
    if kind == "bert-many":
        return bert_head("ForSequenceClassification", {**pooled, **linear("classifier", 4, HIDDEN)},
                         **labels("one", "two", "three", "four"), problem_type="multi_label_classification")
    if kind == "bert-entities":
        return bert_head("ForTokenClassification", linear("classifier", len(ENTITIES), HIDDEN), **labels(*ENTITIES))
    if kind == "bert-fill":
        head = {**linear("cls.predictions.transform.dense", HIDDEN, HIDDEN),
                **norm("cls.predictions.transform.LayerNorm"), "cls.predictions.bias": [words]}
        return bert_head("ForMaskedLM", head)
    if kind in ("bert-untied-fill", "splade-max", "splade-plain"):
        # What a decoder of its own has for a bias is its own, too.
        head = {**linear("cls.predictions.transform.dense", HIDDEN, HIDDEN),
                **norm("cls.predictions.transform.LayerNorm"), "cls.predictions.bias": [words],
                **({} if kind == "splade-max" else linear("cls.predictions.decoder", words, HIDDEN))}
        return bert_head("ForMaskedLM", head, tie_word_embeddings=kind == "splade-max")
    if kind in ("splade-sum", "splade-twice"):
        untied = kind == "splade-sum"
        return "bert", {**DISTILBERT, "architectures": ["DistilBertForMaskedLM"], "tie_word_embeddings": not untied}, \
            {**distilbert_tensors("distilbert.", words), **linear("vocab_transform", HIDDEN, HIDDEN),
             **norm("vocab_layer_norm"), "vocab_projector.bias": [words],
             **({"vocab_projector.weight": [words, HIDDEN]} if untied else {})}
    if kind == "roberta-rerank":
        return "roberta", {**ROBERTA, "architectures": ["RobertaForSequenceClassification"], **labels("LABEL_0"),
                           "sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Sigmoid"}}, \
            {**bert_tensors("roberta.", words, 1, POSITIONS + 2), **dense, **out(1)}
    if kind == "roberta-entities":
        return "roberta", {**ROBERTA, "architectures": ["RobertaForTokenClassification"], **labels(*ENTITIES)}, \
            {**bert_tensors("roberta.", words, 1, POSITIONS + 2), **linear("classifier", len(ENTITIES), HIDDEN)}
    if kind in ("roberta-bytes-classify", "roberta-bytes-fill"):
        words = len(vocabulary("bytes"))
        classify = kind == "roberta-bytes-classify"
        head = {**dense, **out(3)} if classify else {**linear("lm_head.dense", HIDDEN, HIDDEN),
                                                     **norm("lm_head.layer_norm"), "lm_head.bias": [words]}
        return "bytes", {**ROBERTA, **(labels("against", "neutral", "for") if classify else {}), "architectures": [
            "Roberta" + ("ForSequenceClassification" if classify else "ForMaskedLM")]}, \
            {**bert_tensors("roberta.", words, 1, POSITIONS + 2), **head}
    if kind == "distilbert-classify":
        return "bert", {**DISTILBERT, "architectures": ["DistilBertForSequenceClassification"], **labels("bad", "good")}, \
            {**distilbert_tensors("distilbert.", words), **linear("pre_classifier", HIDDEN, HIDDEN),
             **linear("classifier", 2, HIDDEN)}
    if kind == "electra-classify":
        return "bert", {**ELECTRA, "architectures": ["ElectraForSequenceClassification"], **labels("x", "y", "z")}, \
            {**bert_tensors("electra.", words, 2, POSITIONS, NARROW),
             **linear("electra.embeddings_project", HIDDEN, NARROW), **dense, **out(3)}
    if kind in ("xlmr-classify", "camembert-classify"):
        name, prefix = ("XLMRoberta", "xlm-roberta") if kind.startswith("x") else ("Camembert", "camembert")
        family = "pieces" if kind.startswith("x") else "camembert-pieces"
        return family, {**ROBERTA, "model_type": prefix, "architectures": [name + "ForSequenceClassification"],
                        **labels("no", "perhaps", "yes")}, \
            {**bert_tensors("roberta.", len(vocabulary(family)), 1, POSITIONS + 2), **dense, **out(3)}
    if kind in ("xlmr-rerank", "xlmr-entities"):
        family, rerank = ("pieces-json", True) if kind == "xlmr-rerank" else ("pieces", False)
        name, head = ("Sequence", {**dense, **out(1)}) if rerank else ("Token", linear("classifier", len(ENTITIES), HIDDEN))
        return family, {**ROBERTA, "model_type": "xlm-roberta", "architectures": [f"XLMRobertaFor{name}Classification"],
                        **labels(*(["LABEL_0"] if rerank else ENTITIES))}, \
            {**bert_tensors("roberta.", len(vocabulary(family)), 1, POSITIONS + 2), **head}
    if kind == "mpnet-classify":
        config = {**ROBERTA, "model_type": "mpnet", "relative_attention_num_buckets": 32,
                  "architectures": ["MPNetForSequenceClassification"], **labels("no", "yes")}
        return "roberta", config, {**mpnet_tensors("mpnet.", words), **dense, **out(2)}
    if kind.startswith("m3-"):
        return "pieces-json", {**ROBERTA, "model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"]}, \
            {**bert_tensors("", len(vocabulary("pieces-json")), 1, POSITIONS + 2), **linear("pooler.dense", HIDDEN, HIDDEN)}
    if kind in ("sentence-pieces", "sentence-bytes"):
        family, name, prefix = {"sentence-pieces": ("pieces-json", "XLMRoberta", "xlm-roberta"),
                                "sentence-bytes": ("bytes", "Roberta", "roberta")}[kind]
        return family, {**ROBERTA, "model_type": prefix, "architectures": [name + "Model"]}, \
            {**bert_tensors("", len(vocabulary(family)), 1, POSITIONS + 2), **linear("pooler.dense", HIDDEN, HIDDEN)}
    if kind.startswith("late-"):
        return "bert", {**BERT, "architectures": ["BertModel"]}, \
            {**bert_tensors("", words + len(MARKS), 2, POSITIONS), **linear("pooler.dense", HIDDEN, HIDDEN)}
    if kind.startswith("sentence-"):
        return "bert", {**BERT, "architectures": ["BertModel"]}, \
            {**bert_tensors("", words, 2, POSITIONS), **linear("pooler.dense", HIDDEN, HIDDEN)}
    raise SystemExit(f"no kind {kind}")


# Poolings, whether the spelling is the older one, and what follows: Dense (width, activation, bias), LayerNorm.
SENTENCES = {
    "sentence-dense": (["mean"], True, [(16, "torch.nn.modules.activation.Tanh", True)], True),
    "sentence-layers": (["cls"], False, [(40, "torch.nn.modules.linear.Identity", False), None,
                                         (12, "torch.nn.modules.activation.GELU", True)], False),
    "sentence-combined": (["cls", "max", "mean", "weightedmean"], False, [], False),
    "sentence-combined-dense": (["mean", "mean_sqrt_len_tokens", "lasttoken"], True,
                                [(20, "torch.nn.modules.activation.ReLU", True)], True),
    "sentence-last": (["lasttoken"], False, [], True),
    "sentence-weighted": (["weightedmean"], True, [], True),
    "sentence-root": (["mean_sqrt_len_tokens"], True, [], False),
    "sentence-pieces": (["mean"], False, [], True),
    "sentence-bytes": (["cls"], True, [], True),
}
# Strategy, activation, and whether the module's name and the transformer's are the older ones; splade-plain has no
# modules.
WORD_WEIGHTS = {"splade-max": ("max", "relu", True), "splade-sum": ("sum", "relu", False),
                "splade-twice": ("max", "log1p_relu", False)}
FLAGS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
         "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
PROMPTS = {"prompts": {"query": "the river ", "document": "a boat "}, "default_prompt_name": None}
KINDS = ["bert-rerank", "bert-rerank-identity", "bert-classify", "bert-many", "bert-entities", "bert-fill",
         "roberta-rerank", "roberta-entities", "bert-untied-fill", "roberta-bytes-classify", "roberta-bytes-fill",
         "distilbert-classify", "electra-classify", "xlmr-classify", "xlmr-rerank", "xlmr-entities", "camembert-classify",
         "mpnet-classify", *SENTENCES]
# bge-m3's form: CLS and length 1, with heads on token vectors in files that torch.save wrote (make_token_heads.py).
CHAINS = {**SENTENCES, "m3-f32": (["cls"], True, [], True), "m3-f16": (["cls"], True, [], True),
          "m3-bf16": (["cls"], True, [], True),
          "m3-colbert": ([], False, [(12, "torch.nn.modules.linear.Identity", False)], True)}


def write_json(folder, name, value):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def write_modules(folder, kind):
    poolings, old, layers, unit = CHAINS[kind]
    base = "sentence_transformers.models." if old else "sentence_transformers.sentence_transformer.modules."
    shared = "sentence_transformers.models." if old else "sentence_transformers.base.modules."

    def entry(path, module, where=base):
        name = where + module if old else f"{where}{ {'LayerNorm': 'layer_norm'}.get(module, module.lower())}.{module}"
        modules.append({"idx": len(modules), "name": str(len(modules)), "path": path, "type": name})

    modules = []
    entry("", "Transformer", shared)
    if poolings:
        entry("1_Pooling", "Pooling")
    if old:
        pooling = {"word_embedding_dimension": HIDDEN,
                   **{"pooling_mode_" + flag: name in poolings for name, flag in FLAGS.items()}, "include_prompt": True}
    else:
        pooling = {"embedding_dimension": HIDDEN, "pooling_mode": poolings if len(poolings) != 1 else poolings[0],
                   "include_prompt": True}
    if poolings:
        write_json(os.path.join(folder, "1_Pooling"), "config.json", pooling)
    width = HIDDEN * max(len(poolings), 1)
    for layer in layers:
        path = f"{len(modules)}_{'Dense' if layer else 'LayerNorm'}"
        at = os.path.join(folder, path)
        if layer:
            entry(path, "Dense", shared)
            write_json(at, "config.json", {"in_features": width, "out_features": layer[0], "bias": layer[2],
                                           "activation_function": layer[1],
                                           **({} if poolings else {"module_input_name": "token_embeddings",
                                                                   "module_output_name": "token_embeddings"})})
            shapes = {"linear.weight": [layer[0], width], **({"linear.bias": [layer[0]]} if layer[2] else {})}
            width = layer[0]
        else:
            entry(path, "LayerNorm")
            write_json(at, "config.json", {"dimension": width})
            shapes = norm("norm", width)
        write_weights(os.path.join(at, "model.safetensors"), shapes, path)
    if unit:
        os.makedirs(os.path.join(folder, f"{len(modules)}_Normalize"), exist_ok=True)
        entry(f"{len(modules)}_Normalize", "Normalize", shared)
    write_json(folder, "modules.json", modules)
    write_json(folder, "config_sentence_transformers.json", {**PROMPTS, "similarity_fn_name": "cosine"})
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})


def write_words(folder, kind):
    strategy, activation, old = WORD_WEIGHTS[kind]
    transformer = ("sentence_transformers.sparse_encoder.models.MLMTransformer" if old
                   else "sentence_transformers.base.modules.transformer.Transformer")
    pooling = ("sentence_transformers.sparse_encoder.models.SpladePooling" if old
               else "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling")
    write_json(folder, "modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": transformer},
        {"idx": 1, "name": "1", "path": "1_SpladePooling", "type": pooling}])
    write_json(os.path.join(folder, "1_SpladePooling"), "config.json",
               {"pooling_strategy": strategy, "activation_function": activation,
                "word_embedding_dimension" if old else "embedding_dimension": len(vocabulary("bert"))})
    write_json(folder, "config_sentence_transformers.json", {"model_type": "SparseEncoder", "similarity_fn_name": "dot"})
    write_json(folder, "sentence_bert_config.json", {
        "max_seq_length": POSITIONS, "do_lower_case": False, **({} if old else {"transformer_task": "fill-mask"})})


# Late interaction: whether PyLate wrote it, whether queries' masks are seen, and the marks of queries and documents.
LATE = {"late-native": (False, True), "late-min": (False, True), "late-pylate": (True, False), "late-plain": (True, None)}
MARKS = ("[Q] ", "[D] ")


def write_late(folder, kind):
    pylate, attend = LATE[kind]
    base = "sentence_transformers.base.modules."
    types = [base + "transformer.Transformer", "pylate.models.Dense.Dense" if pylate else base + "dense.Dense"]
    paths = ["", "1_Dense"]
    if not pylate:
        types += ["sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
                  base + "normalize.Normalize"]
        paths += ["2_MultiVectorMask", "3_Normalize"]
        write_json(os.path.join(folder, "2_MultiVectorMask"), "config.json", {
            "skiplist_words": [".", ",", "the"], "skiplist_tasks": ["document"], "keep_only_token_ids": None})
        write_json(os.path.join(folder, "3_Normalize"), "config.json", {
            "module_input_name": "token_embeddings", "module_output_name": "token_embeddings"})
    write_json(folder, "modules.json", [{"idx": n, "name": str(n), "path": path, "type": name}
                                        for n, (path, name) in enumerate(zip(paths, types))])
    write_json(os.path.join(folder, "1_Dense"), "config.json", {
        "in_features": HIDDEN, "out_features": 12, "bias": False, "activation_function": "torch.nn.modules.linear.Identity",
        **({"use_residual": False} if pylate else {"module_input_name": "token_embeddings",
                                                   "module_output_name": "token_embeddings"})})
    write_weights(os.path.join(folder, "1_Dense", "model.safetensors"), {"linear.weight": [12, HIDDEN]}, kind)
    if pylate:
        write_json(folder, "config_sentence_transformers.json", {
            "prompts": {}, "default_prompt_name": None, "query_prefix": MARKS[0], "document_prefix": MARKS[1],
            "query_length": 12, "document_length": 9, "do_query_expansion": attend is not None,
            "attend_to_expansion_tokens": bool(attend), "skiplist_words": [".", ",", "!", "?"]})
        write_json(folder, "sentence_bert_config.json", {"max_seq_length": POSITIONS, "do_lower_case": False})
        return
    write_json(folder, "config_sentence_transformers.json", {
        "model_type": "MultiVectorEncoder", "prompts": {"query": MARKS[0], "document": MARKS[1]},
        "default_prompt_name": None})
    write_json(folder, "sentence_bert_config.json", {
        "max_seq_length": POSITIONS, "do_lower_case": False, "document_length": 14,
        "query_expansion": {"strategy": "fixed" if kind == "late-native" else "min", "attend": attend, "token": None,
                            "length": 10}})


def mask_of(folder):
    with open(os.path.join(folder, "tokenizer_config.json"), encoding="utf-8") as file:
        mask = json.load(file)["mask_token"]
    return mask["content"] if isinstance(mask, dict) else mask


def write_model(kind, folder):
    family, config, tensors = model(kind)
    marks = MARKS if kind in LATE else ()
    write_json(folder, "config.json", {**config, "vocab_size": len(vocabulary(family)) + len(marks)})
    if family == "bytes":
        write_json(folder, "vocab.json", {word: n for n, word in enumerate(vocabulary(family))})
        with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as file:
            file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in byte_merges()))
    elif family.endswith("pieces"):
        shutil.copyfile(SENTENCEPIECE, os.path.join(folder, "sentencepiece.bpe.model"))
    else:
        write_json(folder, "tokenizer.json", tokenizer(family, marks))
    names = SPECIAL["bert"]
    pad, unknown, first, last, mask = names if family == "bert" else (
        "<pad>", "<unk>", "<s>", "</s>", "<mask>")
    # Beside a sentencepiece.bpe.model the class is left to the model's type.
    classes = {"bytes": "RobertaTokenizer", "pieces": None, "camembert-pieces": None}
    named = classes.get(family, "PreTrainedTokenizerFast")
    write_json(folder, "tokenizer_config.json", {
        **({"tokenizer_class": named} if named else {}),
        "model_max_length": POSITIONS, "pad_token": pad, "unk_token": unknown, "cls_token": first, "sep_token": last,
        **({"eos_token": last} if kind.startswith("m3-") else {}),
        # RoBERTa's takes the space before it, as its published files say.
        "mask_token": {"__type": "AddedToken", "content": mask, "lstrip": True, "rstrip": False, "normalized": False,
                       "single_word": False, "special": True} if family == "bytes" else mask,
        "model_input_names": ["input_ids", "attention_mask"] + (["token_type_ids"] if config.get("type_vocab_size") == 2
                                                                else [])})
    write_weights(os.path.join(folder, "model.safetensors"), tensors, kind)
    if kind in CHAINS:
        write_modules(folder, kind)
    if kind in WORD_WEIGHTS:
        write_words(folder, kind)
    if kind in LATE:
        write_late(folder, kind)


def write_changed(kind, folder, within, name, change):
    """A model of which one JSON file is what `change` makes of it, in `folder`, anew."""
    shutil.rmtree(folder, ignore_errors=True)
    write_model(kind, folder)
    path = os.path.join(folder, within)
    with open(os.path.join(path, name), encoding="utf-8") as file:
        value = json.load(file)
    write_json(path, name, change(value))


def merge(**more):
    """A change that sets these keys."""
    return lambda value: {**value, **more}


if __name__ == "__main__":
    write_model(sys.argv[1], sys.argv[2])
