"""Writes a folder of all-MiniLM-L6-v2's shape with random weights in f16, or a reranker's of that shape, by Python's own
library: for measuring where the model itself is not.

usage: make_minilm.py FOLDER VOCABULARY [rerank]      VOCABULARY: a vocab.txt, as BERT's uncased models have it
"""

import json
import os
import random
import struct
import sys

HIDDEN, LAYERS, FEED_FORWARD, POSITIONS = 384, 6, 1536, 512


def tensors(words, rerank):
    prefix = "bert." if rerank else ""
    shapes = {"embeddings.word_embeddings.weight": [words, HIDDEN],
              "embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
              "embeddings.token_type_embeddings.weight": [2, HIDDEN], "pooler.dense.weight": [HIDDEN, HIDDEN],
              "pooler.dense.bias": [HIDDEN]}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}."
        for name, rows, columns in (("attention.self.query", HIDDEN, HIDDEN), ("attention.self.key", HIDDEN, HIDDEN),
                                    ("attention.self.value", HIDDEN, HIDDEN), ("attention.output.dense", HIDDEN, HIDDEN),
                                    ("intermediate.dense", FEED_FORWARD, HIDDEN), ("output.dense", HIDDEN, FEED_FORWARD)):
            shapes[at + name + ".weight"], shapes[at + name + ".bias"] = [rows, columns], [rows]
        norms += [at + "attention.output.LayerNorm", at + "output.LayerNorm"]
    for norm in norms:
        shapes[norm + ".weight"], shapes[norm + ".bias"] = [HIDDEN], [HIDDEN]
    shapes = {prefix + name: shape for name, shape in shapes.items()}
    if rerank:
        shapes["classifier.weight"], shapes["classifier.bias"] = [1, HIDDEN], [1]
    return shapes


def values(generator, name, count):
    """16-bit floats: 1 for a layernorm's weights, else any sign and any of 0.0156 to 0.0312, made all at once."""
    if name.endswith("LayerNorm.weight"):
        return struct.pack("<e", 1.0) * count
    bits = int.from_bytes(generator.randbytes(2 * count), "little")
    keep = int.from_bytes(b"\xff\x83" * count, "little")
    size = int.from_bytes(b"\x00\x24" * count, "little")
    return (bits & keep | size).to_bytes(2 * count, "little")


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def main():
    folder, vocabulary, rerank = sys.argv[1], sys.argv[2], sys.argv[3:] == ["rerank"]
    os.makedirs(folder, exist_ok=True)
    with open(vocabulary, encoding="utf-8") as file:
        text = file.read()
    words = len(text.splitlines())
    config = {"architectures": ["BertForSequenceClassification" if rerank else "BertModel"], "model_type": "bert",
              "vocab_size": words, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 12,
              "intermediate_size": FEED_FORWARD, "hidden_act": "gelu", "max_position_embeddings": POSITIONS,
              "type_vocab_size": 2, "layer_norm_eps": 1e-12,
              **({"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}} if rerank else {})}
    write_json(folder, "config.json", config)
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True,
                                                 "model_max_length": POSITIONS})
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write(text)
    generator, header, data = random.Random(1), {}, bytearray()
    for name, shape in tensors(words, rerank).items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        start = len(data)
        data += values(generator, name, count)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [start, len(data)]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


main()
