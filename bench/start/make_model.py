"""Writes a BERT model folder of the size of XLM-RoBERTa large: 560 million weights in f16, 1.1 GB, and a vocabulary of
250,002 made-up words. For the time that a large model takes to start; its values mean nothing. Python's own library alone.

usage: make_model.py FOLDER
"""

import json
import os
import random
import struct
import sys

HIDDEN, LAYERS, HEADS, FEED_FORWARD, POSITIONS, WORDS = 1024, 24, 16, 4096, 514, 250002
CHUNK = 1 << 22


def shapes():
    yield "embeddings.word_embeddings.weight", [WORDS, HIDDEN]
    yield "embeddings.position_embeddings.weight", [POSITIONS, HIDDEN]
    yield "embeddings.token_type_embeddings.weight", [1, HIDDEN]
    for end in ("weight", "bias"):
        yield f"embeddings.LayerNorm.{end}", [HIDDEN]
    products = {
        "attention.self.query": (HIDDEN, HIDDEN),
        "attention.self.key": (HIDDEN, HIDDEN),
        "attention.self.value": (HIDDEN, HIDDEN),
        "attention.output.dense": (HIDDEN, HIDDEN),
        "intermediate.dense": (FEED_FORWARD, HIDDEN),
        "output.dense": (HIDDEN, FEED_FORWARD),
    }
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}."
        for name, (rows, columns) in products.items():
            yield f"{prefix}{name}.weight", [rows, columns]
            yield f"{prefix}{name}.bias", [rows]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            for end in ("weight", "bias"):
                yield f"{prefix}{name}.{end}", [HIDDEN]


def f16_bytes(generator, count):
    """16-bit floats of either sign from 1/64 to 1/32: random bits with one exponent."""
    mask, exponent = int.from_bytes(b"\xff\x83" * count, "little"), int.from_bytes(b"\x00\x24" * count, "little")
    return (int.from_bytes(generator.randbytes(2 * count), "little") & mask | exponent).to_bytes(2 * count, "little")


def write_weights(path):
    chunk = f16_bytes(random.Random(1), CHUNK)
    header, end = {}, 0
    for name, shape in shapes():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [end, end + 2 * count]}
        end += 2 * count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for at in range(0, end, len(chunk)):
            file.write(chunk[: end - at])
    os.replace(path + ".part", path)


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": WORDS,
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": FEED_FORWARD,
        "hidden_act": "gelu",
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    generator = random.Random(2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    seen = set(words)
    while len(words) < WORDS:
        word = generator.choice(["", "##"]) + "".join(generator.choice(letters) for _ in range(generator.randint(1, 9)))
        if word not in seen:
            seen.add(word)
            words.append(word)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(words) + "\n")
    write_weights(os.path.join(folder, "model.safetensors"))


if __name__ == "__main__":
    main()
