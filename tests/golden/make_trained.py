#!/usr/bin/env python3
"""Makes trained/: every loss with every optimizer, twenty steps of a tiny BERT of transformers each, trained by PyTorch as
make_trainer.py does it. tests/test_trained.c compares every device with them.

Usage: make_trained.py           writes trained/ beside this script
       make_trained.py --check   compares trained/ with what this PyTorch says, writes nothing; exit 1 if they differ

trained/vectors, trained/scores   the two models before: an encoder, and one with a classifier of three classes
trained/runs.safetensors          little-endian; of each loss
  LOSS/offsets, ids, labels or values   as in make_trainer.py
  LOSS/float32                          the most of all optimizers
  LOSS/KIND/loss, norm, rate            likewise, with the optimizer KIND
  LOSS/KIND/after/NAME                  likewise
"""
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file

from make_trainer import SCORES, differences, make_batches, model_files, sequences_and_targets, train, write_model

SHAPE = {"num_hidden_layers": 1}
# What test_trained.c sets likewise.
LOSSES = {
    "contrastive": dict(loss="contrastive", columns=3, examples=4),
    "cosent": dict(loss="cosent", columns=2, examples=6),
    "cosine": dict(loss="cosine", columns=2, examples=6),
    "vectors": dict(loss="vectors", columns=1, examples=8),
    "margin": dict(loss="margin", columns=3, examples=4),
    "classes": dict(loss="classes", columns=1, examples=9, class_weights=[0.5, 1.0, 2.0]),
    "binary": dict(loss="binary", columns=1, examples=8, positive_weight=1.5),
    "regression": dict(loss="regression", columns=1, examples=8),
    "dimensions": dict(loss="contrastive", columns=3, examples=4, dimensions=[(16, 1.0), (8, 0.5), (5, 0.25)]),
}
OPTIMIZERS = {
    "adamw": dict(kind="adamw", rate=1e-3, decay=0.01, clip=1.0, schedule="linear"),
    "lamb": dict(kind="lamb", rate=5e-3, decay=0.1, clip=1.0, schedule="cosine"),
    "sgd": dict(kind="sgd", rate=1e-2, decay=0.01, clip=0.5, schedule="constant"),
}


def make_runs(name, number):
    loss = {**LOSSES[name], "shape": SHAPE}
    batches = make_batches(loss, np.random.default_rng(number))
    tensors = {name + "/" + key: value for key, value in sequences_and_targets(loss, batches).items()}
    most = np.zeros(2)
    for kind, optimizer in OPTIMIZERS.items():
        case = {**loss, **optimizer}
        run, after = train(case, batches, torch.float64)
        far = differences(run, after, *train(case, batches, torch.float32))
        print("%-12s %-6s loss %.6f to %.6f, least %.3g, norm %.3g, float32 differs by %.2g and %.2g" % (
            name, kind, run["loss"][0], run["loss"][-1], min(run["loss"]), max(run["norm"]), *far), flush=True)
        begin = "%s/%s/" % (name, kind)
        most = np.maximum(most, far)
        tensors.update({begin + key: np.array(run[key]) for key in run})
        tensors.update({begin + "after/" + key: value.astype(np.float32) for key, value in after.items()})
    tensors[name + "/float32"] = most
    return tensors


def main():
    folder = Path(__file__).parent / "trained"
    torch.set_num_threads(1)
    tensors = {}
    for number, name in enumerate(LOSSES):
        tensors.update(make_runs(name, number))
    tensors = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    if "--check" in sys.argv:
        old = load_file(folder / "runs.safetensors")
        wrong = sorted(set(old) ^ set(tensors))
        wrong += [key for key in tensors if key in old and not key.endswith("float32")
                  and not np.allclose(old[key], tensors[key], rtol=1e-6, atol=1e-7)]
        print("differ: " + ", ".join(wrong) if wrong else "the same")
        return bool(wrong)
    for name, loss in (("vectors", "contrastive"), ("scores", SCORES[0])):
        write_model(folder / name, *model_files({"loss": loss, "shape": SHAPE}))
    save_file(tensors, folder / "runs.safetensors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
