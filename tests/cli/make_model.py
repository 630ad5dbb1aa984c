"""Writes a tiny BERT model folder (random weights, WordPiece vocabulary of letters) with Python's own library alone.

usage: make_model.py FOLDER [TENSOR ELEMENT VALUE]
With a tensor, it has this value at this element ("all": everywhere).
"""

import json
import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, FEED_FORWARD, POSITIONS = 32, 2, 4, 64, 48


def vocabulary():
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + [str(d) for d in range(10)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "boat", "water", ".", ",", "!", "?", '"']
    return words + letters + ["##" + letter for letter in letters]


def tensors(words):
    shapes = {
        "embeddings.word_embeddings.weight": [words, HIDDEN],
        "embeddings.position_embeddings.weight": [POSITIONS, HIDDEN],
        "embeddings.token_type_embeddings.weight": [2, HIDDEN],
        "embeddings.LayerNorm.weight": [HIDDEN],
        "embeddings.LayerNorm.bias": [HIDDEN],
        "pooler.dense.weight": [HIDDEN, HIDDEN],
        "pooler.dense.bias": [HIDDEN],
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        products = {
            "attention.self.query": (HIDDEN, HIDDEN),
            "attention.self.key": (HIDDEN, HIDDEN),
            "attention.self.value": (HIDDEN, HIDDEN),
            "attention.output.dense": (HIDDEN, HIDDEN),
            "intermediate.dense": (FEED_FORWARD, HIDDEN),
            "output.dense": (HIDDEN, FEED_FORWARD),
        }
        for name, (rows, columns) in products.items():
            shapes[prefix + name + ".weight"] = [rows, columns]
            shapes[prefix + name + ".bias"] = [rows]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[prefix + name + ".weight"] = [HIDDEN]
            shapes[prefix + name + ".bias"] = [HIDDEN]
    return shapes


def write_weights(path, shapes, changed=None, element="", value=0.0):
    generator = random.Random(1)
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        center = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        values = [generator.gauss(center, 0.1) for _ in range(count)]
        if name == changed:
            values = [value if element in ("all", str(n)) else old for n, old in enumerate(values)]
        start = len(data)
        data += struct.pack(f"<{count}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    words = vocabulary()
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": len(words),
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": FEED_FORWARD,
        "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-12,
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(words) + "\n")
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, file)
    change = (sys.argv[2], sys.argv[3], float(sys.argv[4])) if len(sys.argv) > 2 else ()
    write_weights(os.path.join(folder, "model.safetensors"), tensors(len(words)), *change)


if __name__ == "__main__":
    main()
