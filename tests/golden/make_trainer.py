#!/usr/bin/env python3
"""Makes trainer/, the runs that test_trainer compares with: tiny BERTs of transformers, trained by PyTorch for 20 steps.

Usage: make_trainer.py           writes trainer/ beside this script
       make_trainer.py --check   compares trainer/ with what this PyTorch says, writes nothing; exit 1 if they differ
Names of cases after it: these alone.

Needs torch, transformers, safetensors and numpy. The models, the gradients and the optimizers but LAMB are theirs, in
float64; losses and schedules are written here as sentence-transformers and transformers have them, LAMB as
core/train/optimizer.h states it. No dropout. make_trained.py has what is here train with every loss and optimizer.

trainer/CASE/config.json, model.safetensors   the model before
trainer/CASE/run.safetensors                  little-endian; a step's sequences are those of all its batches
  offsets      I32 [steps][sequences + 1]
  ids          I32 [all tokens of all steps]
  labels       I32 [steps][n], or values F32 [steps][n], or neither; of masked models labels are [all tokens of all steps]
  types        I32 [all tokens of all steps], next I32 [steps][sequences], of BERT's pretraining
  loss, norm, rate   F64 [steps]: of the step; the gradient's norm before it is limited
  float32      F64 [2]: the largest relative difference of a loss, and of a weight after, when torch computes in float32:
               of a weight the norm of the difference by the norm of the weight
  after/NAME   F32: the weight NAME after the last step
  gradient/NAME   F32, of masked models: the gradient of NAME in the first step
"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import (BertConfig, BertForMaskedLM, BertForPreTraining, BertForSequenceClassification,
                          BertModel)

STEPS, WARMUP, VOCABULARY, POSITIONS = 20, 4, 40, 12
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
             max_position_embeddings=POSITIONS, type_vocab_size=2, hidden_dropout_prob=0.0,
             attention_probs_dropout_prob=0.0, initializer_range=0.2)
# loss, columns, examples; optimizer, and what test_trainer sets likewise
CASES = {
    "contrastive": dict(loss="contrastive", columns=3, examples=4, kind="adamw", rate=1e-3, decay=0.01, clip=1.0,
                        schedule="linear"),
    "cosent": dict(loss="cosent", columns=2, examples=6, kind="adamw", rate=2e-3, decay=0.1, clip=0.0,
                   schedule="cosine"),
    "regression": dict(loss="vectors", columns=1, examples=8, kind="sgd", rate=5e-2, decay=0.01, clip=0.5,
                       schedule="constant"),
    "classes": dict(loss="classes", columns=1, examples=9, kind="adamw", rate=1e-3, decay=0.0, clip=1.0,
                    schedule="linear"),
    # Words in four strips, of which the last two are narrower
    "masked": dict(loss="masked", columns=1, examples=8, kind="adamw", rate=1e-3, decay=0.01, clip=1.0,
                   schedule="linear", vocabulary=700),
    "untied": dict(loss="masked", columns=1, examples=8, kind="sgd", rate=5e-2, decay=0.01, clip=1.0,
                   schedule="linear", vocabulary=300, tied=False),
    # Pairs, and whether their second part comes after the first
    "next": dict(loss="next", columns=1, examples=8, kind="adamw", rate=1e-3, decay=0.01, clip=1.0, schedule="linear",
                 vocabulary=300),
}
MASKED = ("masked", "next")
SCORES = ("classes", "binary", "regression")  # losses of a classifier's output
EPSILON = 1e-3  # of AdamW and LAMB: with less of it, gradients that are 0 but for rounding (a key's bias) change weights by the rate


def shape_of(case):
    return {**SHAPE, "vocab_size": case.get("vocabulary", VOCABULARY)}


def make_model(case, seed):
    """No weight is near 0: what is measured relative to it would be rounding alone."""
    torch.manual_seed(seed)
    shape = {**shape_of(case), **case.get("shape", {})}
    if case["loss"] in SCORES:
        model = BertForSequenceClassification(BertConfig(**shape, num_labels=3))
    elif case["loss"] in MASKED:
        of = BertForPreTraining if case["loss"] == "next" else BertForMaskedLM
        model = of(BertConfig(**shape, tie_word_embeddings=case.get("tied", True)))
        model.cls.predictions.decoder.bias = model.cls.predictions.bias  # whether tables are tied or not
    else:
        model = BertModel(BertConfig(**shape), add_pooling_layer=False)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p += 0.1 * torch.randn(p.shape)
    return model


def make_batches(case, random):
    batches = []
    for _ in range(STEPS):
        lengths = random.integers(2, POSITIONS - 1, case["columns"] * case["examples"])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        ids = random.integers(1, shape_of(case)["vocab_size"], int(offsets[-1]))
        targets = None
        if case["loss"] in ("cosent", "cosine"):
            targets = random.random(case["examples"])
        elif case["loss"] == "margin":
            targets = 3 * random.standard_normal(case["examples"])
        elif case["loss"] == "binary":
            targets = random.integers(0, 2, 3 * case["examples"])
        elif case["loss"] == "regression":
            targets = random.standard_normal(3 * case["examples"])
        elif case["loss"] == "vectors":
            targets = random.standard_normal(case["examples"] * SHAPE["hidden_size"])
        elif case["loss"] == "classes":
            targets = random.integers(0, 3, case["examples"])
            targets[random.integers(0, case["examples"])] = -100
        elif case["loss"] in MASKED:
            targets = np.where(random.random(len(ids)) < 0.3, random.integers(0, case["vocabulary"], len(ids)), -100)
            if case["loss"] == "masked":
                targets[offsets[2]:offsets[4]] = -100  # a batch of these two has none
            else:  # with next sentences each has some
                targets[offsets[:-1]] = random.integers(0, case["vocabulary"], case["examples"])
            targets[0] = case["vocabulary"] - 1
        if targets is not None and case["loss"] not in ("classes", *MASKED):
            targets = targets.astype(np.float32)
        if case["loss"] == "next":
            types = np.concatenate([np.arange(n) >= random.integers(1, n) for n in lengths])
            next = random.integers(0, 2, case["examples"])
            next[random.integers(0, case["examples"])] = -100
            targets = (targets, types.astype(np.int32), next)
        batches.append((offsets.astype(np.int32), ids.astype(np.int32), targets))
    return batches


def padded(lengths, values, otherwise):
    x = torch.full((len(lengths), int(lengths.max())), otherwise, dtype=torch.long)
    for row, end in enumerate(np.cumsum(lengths)):
        x[row, : lengths[row]] = torch.tensor(values[end - lengths[row]: end], dtype=torch.long)
    return x


def pretraining_loss(model, offsets, ids, labels, types, next):
    """transformers' own: the sum of the two means."""
    lengths = np.diff(offsets)
    return model(padded(lengths, ids, 0), attention_mask=padded(lengths, np.ones_like(ids), 0),
                 token_type_ids=padded(lengths, types, 0), labels=padded(lengths, labels, -100),
                 next_sentence_label=torch.tensor(next, dtype=torch.long)).loss


def output_of(model, case, offsets, ids):
    """The sequences beside each other; what is filled up attends to nothing and counts nowhere."""
    lengths = np.diff(offsets)
    x = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.long)
    mask = torch.zeros_like(x)
    for row, (a, b) in enumerate(zip(offsets[:-1], offsets[1:])):
        x[row, : b - a] = torch.tensor(ids[a:b], dtype=torch.long)
        mask[row, : b - a] = 1
    if case["loss"] == "masked":
        return model(x, attention_mask=mask).logits[mask.bool()]
    if case["loss"] in SCORES:
        return model(x, attention_mask=mask).logits
    tokens = model(x, attention_mask=mask).last_hidden_state
    return (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def loss_of_vectors(case, rows, t):
    n = case["examples"]
    if case["loss"] == "margin":
        query, positive, negative = rows.split(n)
        return torch.nn.functional.mse_loss((query * positive).sum(1) - (query * negative).sum(1), t)
    if case["loss"] == "vectors":
        return torch.nn.functional.mse_loss(rows, t.reshape(rows.shape))
    unit = torch.nn.functional.normalize(rows, dim=1)
    if case["loss"] == "contrastive":
        return torch.nn.functional.cross_entropy(20 * unit[:n] @ unit[n:].T, torch.arange(n))
    cosines = (unit[:n] * unit[n:]).sum(1)
    if case["loss"] == "cosine":
        return torch.nn.functional.mse_loss(cosines, t)
    scores = 20 * cosines
    differences = (scores[:, None] - scores[None])[t[:, None] < t[None]]
    return torch.logsumexp(torch.cat([torch.zeros(1, dtype=rows.dtype), differences]), 0)


def loss_of(case, rows, targets):
    if case["loss"] in ("classes", "masked"):
        weights = torch.tensor(case["class_weights"], dtype=rows.dtype) if "class_weights" in case else None
        return torch.nn.functional.cross_entropy(rows, torch.tensor(targets, dtype=torch.long), weight=weights)
    t = None if targets is None else torch.tensor(targets, dtype=rows.dtype)
    if case["loss"] == "binary":
        return torch.nn.functional.binary_cross_entropy_with_logits(
            rows, t.reshape(rows.shape), pos_weight=torch.tensor(case.get("positive_weight", 1.0), dtype=rows.dtype))
    if case["loss"] == "regression":
        return torch.nn.functional.mse_loss(rows, t.reshape(rows.shape))
    if "dimensions" not in case:
        return loss_of_vectors(case, rows, t)
    return sum(weight * loss_of_vectors(case, torch.nn.functional.normalize(rows[:, :width], dim=1), t)
               for width, weight in case["dimensions"])


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of You et al., the moments' bias corrected, phi the identity; tensors that do not decay have the ratio
    1."""

    def __init__(self, groups, lr, eps):
        super().__init__(groups, {"lr": lr, "eps": eps, "betas": (0.9, 0.999)})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                state, decay = self.state[p], group["weight_decay"]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                u = state["m"] / (1 - b1 ** state["t"])
                u = u / ((state["v"] / (1 - b2 ** state["t"])).sqrt() + group["eps"]) + decay * p
                sizes = p.norm().item(), u.norm().item()
                ratio = sizes[0] / sizes[1] if decay > 0 and sizes[0] > 0 and sizes[1] > 0 else 1.0
                p.sub_(u, alpha=group["lr"] * ratio)


def optimizer_of(case, groups):
    if case["kind"] == "adamw":
        return torch.optim.AdamW(groups, lr=case["rate"], eps=EPSILON)
    if case["kind"] == "lamb":
        return Lamb(groups, lr=case["rate"], eps=EPSILON)
    return torch.optim.SGD(groups, lr=case["rate"], momentum=0.9)


def factor(case, step):
    if step < WARMUP:
        return step / WARMUP
    done = (step - WARMUP) / (STEPS - WARMUP)
    return {"linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done)), "constant": 1.0}[case["schedule"]]


def train(case, batches, dtype):
    model = make_model(case, 7).to(dtype).train()
    pooled = case["loss"] in SCORES or case["loss"] == "next"
    parameters = {name: p for name, p in model.named_parameters() if "pooler" not in name or pooled}
    plain = [p for name, p in parameters.items() if name.endswith("bias") or "LayerNorm" in name]
    decays = [p for name, p in parameters.items() if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [{"params": decays, "weight_decay": case["decay"]}, {"params": plain, "weight_decay": 0.0}]
    optimizer = optimizer_of(case, groups)
    out = {"loss": [], "norm": [], "rate": []}
    for step, (offsets, ids, targets) in enumerate(batches):
        rate = case["rate"] * factor(case, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        if case["loss"] == "next":
            loss = pretraining_loss(model, offsets, ids, *targets)
        else:
            loss = loss_of(case, output_of(model, case, offsets, ids), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), case["clip"] if case["clip"] else math.inf)
        optimizer.step()
        if step == 0 and case["loss"] in MASKED:
            out["gradient"] = {name: p.grad.numpy().astype(np.float32) * max(1.0, (norm.item() + 1e-6) / case["clip"])
                               for name, p in parameters.items()}
        for key, value in (("loss", loss.item()), ("norm", norm.item()), ("rate", rate)):
            out[key].append(value)
    return out, {name: p.detach().double().numpy() for name, p in parameters.items()}


def differences(run, after, run32, after32):
    """The largest, relative, of a loss, and of a weight after."""
    return [max(abs(a - b) / abs(a) for a, b in zip(run["loss"], run32["loss"])),
            max(np.linalg.norm(after[k] - after32[k]) / np.linalg.norm(after[k]) for k in after)]


def sequences_and_targets(case, batches):
    tensors = {"offsets": np.stack([b[0] for b in batches]), "ids": np.concatenate([b[1] for b in batches])}
    if case["loss"] == "next":
        for n, (key, join) in enumerate((("labels", np.concatenate), ("types", np.concatenate), ("next", np.stack))):
            tensors[key] = join([b[2][n] for b in batches]).astype(np.int32)
    elif batches[0][2] is not None:
        key = "labels" if case["loss"] in ("classes", "masked") else "values"
        join = np.concatenate if case["loss"] == "masked" else np.stack
        tensors[key] = join([b[2] for b in batches]).astype(np.int32 if key == "labels" else np.float32)
    return tensors


def make_case(name):
    case = CASES[name]
    batches = make_batches(case, np.random.default_rng(len(name)))
    run, after = train(case, batches, torch.float64)
    far = differences(run, after, *train(case, batches, torch.float32))
    tensors = {**sequences_and_targets(case, batches), "float32": np.array(far)}
    if not case.get("tied", True):  # one bias of two names
        for of in (after, run["gradient"]):
            of["cls.predictions.decoder.bias"] = of["cls.predictions.bias"]
    tensors.update({"gradient/" + key: value for key, value in run.pop("gradient", {}).items()})
    tensors.update({key: np.array(run[key]) for key in run})
    tensors.update({"after/" + key: after[key].astype(np.float32) for key in after})
    return (tensors, *model_files(case))


def model_files(case):
    model = make_model(case, 7)
    twice = () if not case.get("tied", True) else ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    weights = {key: value.numpy() for key, value in model.state_dict().items()
               if "position_ids" not in key and key not in twice}
    config = {**shape_of(case), **case.get("shape", {}), "model_type": "bert", "hidden_act": "gelu",
              "architectures": [type(model).__name__], "layer_norm_eps": 1e-12, "dtype": "float32"}
    if not case.get("tied", True):
        config["tie_word_embeddings"] = False
    if case["loss"] in SCORES:
        config["id2label"] = {str(i): "class %d" % i for i in range(3)}
        config["label2id"] = {"class %d" % i: i for i in range(3)}
    return weights, config


def write_model(folder, weights, config):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def main():
    folder = Path(__file__).parent / "trainer"
    torch.set_num_threads(1)
    wrong = 0
    for name in [name for name in CASES if name in sys.argv] or CASES:
        tensors, weights, config = make_case(name)
        print("%-12s loss %.6f to %.6f, norm %.3g, float32 differs by %.2g and %.2g" % (
            name, tensors["loss"][0], tensors["loss"][-1], tensors["norm"].max(), *tensors["float32"]))
        if "--check" in sys.argv:
            old = load_file(folder / name / "run.safetensors")
            for key in tensors:
                if key != "float32" and not np.allclose(old[key], tensors[key], rtol=1e-6, atol=1e-7):
                    print("%s: %s differs" % (name, key))
                    wrong += 1
            continue
        write_model(folder / name, weights, config)
        save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, folder / name / "run.safetensors")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
