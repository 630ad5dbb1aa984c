#!/usr/bin/env python3
"""Makes optimizer.safetensors: what twenty steps of each optimizer make of weights and gradients that are made up, which
tests/test_optimizer.c compares with.

Usage: make_optimizer.py           writes optimizer.safetensors beside this script
       make_optimizer.py --check   compares the file with what this PyTorch says, writes nothing; exit 1 if they differ

Needs torch (any build, the CPU is enough), numpy and safetensors. AdamW, SGD and the clipping are torch's own, in
float32; LAMB, which torch lacks, is written out in float64 in the form that core/train/optimizer.h states; query, key and value,
which lie in one tensor here, have ratios of their own.

For each case C and tensor T there is C.T, the weights after the last step at the elements that `sampled` names, and
C.norms, the norm of all gradients before each step's clipping. The frozen tensor is not there.
"""
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

STEPS, FROZEN = 20, 3

# As "test_optimizer list" prints them: name, letters, elements.
TENSORS = [
    ("layer.0.gamma2", "i", 6),
    ("layer.0.beta2", "i", 6),
    ("layer.0.w_lin2", "iu", 60),
    ("layer.0.b_lin2", "i", 6),
    ("layer.0.b_lin1", "u", 10),
    ("layer.0.w_lin1", "ui", 60),
    ("layer.0.gamma1", "i", 6),
    ("layer.0.beta1", "i", 6),
    ("layer.0.b_out", "i", 6),
    ("layer.0.w_out", "ihp", 36),
    ("layer.0.w_qkv", "qhpi", 108),
    ("layer.0.b_qkv", "qhp", 18),
    ("embed.gamma", "i", 6),
    ("embed.beta", "i", 6),
    ("type", "ti", 12),
    ("position", "mi", 48),
    ("word", "vi", 9006),
]


def made_up(seed, count):
    """From -1 to 1, exact in float32, and the same as in the C program."""
    with np.errstate(over="ignore"):
        x = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(seed) * np.uint32(0x85EBCA77)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
        x = (x ^ (x >> np.uint32(12))) * np.uint32(0x297A2D39)
    x = x ^ (x >> np.uint32(15))
    return (x >> np.uint32(8)).astype(np.float32) / np.float32(8388608) - np.float32(1)


def start(n):
    name, _, count = TENSORS[n]
    return made_up(900000 + n, count) * np.float32(0.125) + np.float32(1 if "gamma" in name else 0)


def gradient(n, step):
    return made_up(1000 * step + n, TENSORS[n][2]) * np.float32(2.0 ** (-3 * (n % 9)))


def decays(n):
    name, letters, _ = TENSORS[n]
    return len(letters) > 1 and "b_" not in name


def factor(n):
    return 2.0 ** -(n % 3)


def rate(base, step):
    return base * (step / 5 if step < 5 else (STEPS + 1 - step) / 16)


TRAINED = [n for n in range(len(TENSORS)) if n != FROZEN]


def run_torch(make, base, decay, max_norm):
    """`make` gives torch's optimizer for groups of one tensor each."""
    weights = {n: torch.nn.Parameter(torch.from_numpy(start(n))) for n in TRAINED}
    groups = [{"params": [weights[n]], "weight_decay": decay if decays(n) else 0.0, "lr": 0.0} for n in TRAINED]
    optimizer = make(groups)
    norms = []
    for step in range(1, STEPS + 1):
        for n in TRAINED:
            weights[n].grad = torch.from_numpy(gradient(n, step))
        clipped = max_norm if max_norm else float("inf")
        norms.append(float(torch.nn.utils.clip_grad_norm_(weights.values(), clipped, foreach=False)))
        for n, group in zip(TRAINED, optimizer.param_groups):
            group["lr"] = rate(base, step) * factor(n)
        optimizer.step()
    return {n: w.detach().numpy() for n, w in weights.items()}, norms


def run_lamb(base, decay, max_norm, beta1=0.9, beta2=0.999, epsilon=1e-6):
    weights = {n: start(n).astype(np.float64) for n in TRAINED}
    first = {n: np.zeros_like(w) for n, w in weights.items()}
    second = {n: np.zeros_like(w) for n, w in weights.items()}
    norms = []
    for step in range(1, STEPS + 1):
        gradients = {n: gradient(n, step).astype(np.float64) for n in TRAINED}
        norm = np.sqrt(sum((g * g).sum() for g in gradients.values()))
        norms.append(norm)
        for n, g in gradients.items():
            g = g * min(1.0, max_norm / (norm + 1e-6))
            p, d = weights[n], decay if decays(n) else 0.0
            first[n] = beta1 * first[n] + (1 - beta1) * g
            second[n] = beta2 * second[n] + (1 - beta2) * g * g
            u = first[n] / (1 - beta1**step) / (np.sqrt(second[n] / (1 - beta2**step)) + epsilon) + d * p
            parts = (3 if "w_qkv" in TENSORS[n][0] else 1, -1)  # query, key and value
            sizes = [np.sqrt((x * x).reshape(parts).sum(1)) for x in (p, u)]
            ratio = sizes[0] / sizes[1] if decays(n) and min(sizes[0].min(), sizes[1].min()) > 0 else np.ones(parts[0])
            weights[n] = p - rate(base, step) * factor(n) * (ratio[:, None] * u.reshape(parts)).reshape(-1)
    return weights, norms


CASES = {
    "adamw": lambda: run_torch(
        lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, foreach=False), 0.01, 0.1, 1.0
    ),
    "lamb": lambda: run_lamb(0.02, 0.01, 1.0),
    "sgd": lambda: run_torch(lambda groups: torch.optim.SGD(groups, momentum=0.9, foreach=False), 0.05, 0.02, 5.0),
    "plain": lambda: run_torch(lambda groups: torch.optim.SGD(groups, foreach=False), 0.05, 0.02, 0.0),
}


def sampled(count):
    i = np.arange(count)
    return (i < 48) | (i + 4 >= count) | (i % 101 == 0)


def main():
    out = {}
    for case, run in CASES.items():
        weights, norms = run()
        for n, values in weights.items():
            out[f"{case}.{TENSORS[n][0]}"] = values[sampled(values.size)].astype(np.float32)
        out[f"{case}.norms"] = np.array(norms, dtype=np.float32)
    path = Path(__file__).with_name("optimizer.safetensors")
    if "--check" not in sys.argv[1:]:
        save_file(out, path)
        return 0
    have = load_file(path)
    wrong = sorted(set(have) ^ set(out))
    wrong += [k for k in out if k in have and not np.allclose(have[k], out[k], rtol=1e-6, atol=1e-8)]
    print("differ: " + ", ".join(wrong) if wrong else "the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
