#!/usr/bin/env python3
"""Checks minilm.npy against an encoder written here in numpy, in float64: nothing of it is shared with torch.

Usage: check_minilm.py MODEL_FOLDER    (needs numpy, scipy, tokenizers, safetensors)

Prints the largest difference and the smallest cosine over all rows; exit status 1 when a component differs by more than
1e-6.
"""
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from scipy.special import erf
from tokenizers import Tokenizer

LAYERS, HEADS, EPSILON = 6, 12, 1e-12


def layernorm(x, w, name):
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + EPSILON) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def attention(x, w, name):
    tokens, hidden = x.shape

    def heads(part):
        return linear(x, w, name + "self." + part).reshape(tokens, HEADS, hidden // HEADS).transpose(1, 0, 2)

    scores = heads("query") @ heads("key").transpose(0, 2, 1) / np.sqrt(hidden / HEADS)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    context = (weights @ heads("value")).transpose(1, 0, 2).reshape(tokens, hidden)
    return layernorm(x + linear(context, w, name + "output.dense"), w, name + "output.LayerNorm")


def encode(ids, w):
    """ids: one sequence with its special tokens -> unit vector [384]"""
    e = "embeddings."
    x = w[e + "word_embeddings.weight"][ids] + w[e + "position_embeddings.weight"][: len(ids)]
    x = layernorm(x + w[e + "token_type_embeddings.weight"][0], w, e + "LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        x = attention(x, w, name + "attention.")
        u = linear(x, w, name + "intermediate.dense")
        u = 0.5 * u * (1 + erf(u / np.sqrt(2)))
        x = layernorm(x + linear(u, w, name + "output.dense"), w, name + "output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / np.linalg.norm(mean)


def main():
    here = Path(__file__).resolve().parent
    folder = Path(sys.argv[1])
    weights = {name: value.astype(np.float64) for name, value in load_file(folder / "model.safetensors").items()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    lines = (here.parent.parent / "data" / "sentences.txt").read_text(encoding="utf-8").split("\n")[:-1]
    golden = np.load(here / "minilm.npy").astype(np.float64)
    ours = np.stack([encode(tokenizer.encode(line).ids, weights) for line in lines])
    difference = np.abs(ours - golden).max()
    cosine = ((ours * golden).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(golden, axis=1)).min()
    print(f"{len(lines)} rows: largest difference {difference:.2e}, smallest cosine 1 - {1 - cosine:.2e}")
    sys.exit(0 if difference <= 1e-6 else 1)


main()
