"""Writes a BERT model folder of one layer whose table of words is 250,000 x 1024 in f32, 1.02 GB, and texts with the
words at the borders of blocks of 128 MiB, with Python's own library alone.

usage: make_large_table.py FOLDER TEXTS
"""

import array
import json
import os
import random
import struct
import sys

WORDS, HIDDEN, HEADS, FEED_FORWARD, POSITIONS = 250000, 1024, 16, 64, 64
BLOCK_ROWS = (128 << 20) // (4 * HIDDEN)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def shapes():
    yield "embeddings.word_embeddings.weight", [WORDS, HIDDEN]
    yield "embeddings.position_embeddings.weight", [POSITIONS, HIDDEN]
    yield "embeddings.token_type_embeddings.weight", [2, HIDDEN]
    products = {"pooler.dense": (HIDDEN, HIDDEN)}
    norms = ["embeddings.LayerNorm"]
    prefix = "encoder.layer.0."
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        products[prefix + name] = (HIDDEN, HIDDEN)
    products[prefix + "intermediate.dense"] = (FEED_FORWARD, HIDDEN)
    products[prefix + "output.dense"] = (HIDDEN, FEED_FORWARD)
    norms += [prefix + "attention.output.LayerNorm", prefix + "output.LayerNorm"]
    for name, shape in products.items():
        yield name + ".weight", list(shape)
        yield name + ".bias", [shape[0]]
    for name in norms:
        yield name + ".weight", [HIDDEN]
        yield name + ".bias", [HIDDEN]


def write_weights(path):
    """Each row is a window of one block of numbers, from another place on than all others."""
    generator = random.Random(1)
    windows = (1 << 20) - HIDDEN
    block = array.array("f", (generator.uniform(-0.1, 0.1) for _ in range(1 << 20)))
    assert sys.byteorder == "little"
    block = memoryview(block.tobytes())
    header, end = {}, 0
    for name, shape in shapes():
        start, end = end, end + 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        number = 0
        for _, shape in shapes():
            columns = shape[-1]
            for _ in range(shape[0] if len(shape) > 1 else 1):
                at = 4 * (number * 4099 % windows)
                file.write(block[at : at + 4 * columns])
                number += 1


def texts():
    """The last and the first words of each block, and the table's own."""
    yield " ".join(f"w{n}" for n in (len(SPECIAL), WORDS // 2, WORDS - 1))
    for border in range(BLOCK_ROWS, WORDS, BLOCK_ROWS):
        yield " ".join(f"w{n}" for n in range(border - 3, border + 3))


def main():
    folder, lines = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": WORDS,
        "hidden_size": HIDDEN,
        "num_hidden_layers": 1,
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
        file.write("\n".join(SPECIAL + [f"w{n}" for n in range(len(SPECIAL), WORDS)]) + "\n")
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, file)
    write_weights(os.path.join(folder, "model.safetensors"))
    with open(lines, "w", encoding="utf-8") as file:
        file.write("\n".join(texts()) + "\n")


if __name__ == "__main__":
    main()
