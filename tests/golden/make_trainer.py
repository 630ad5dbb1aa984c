#!/usr/bin/env python3
"""Makes trainer/, the runs that test_trainer compares with: tiny BERTs of transformers, trained by PyTorch for 20 steps.

Usage: make_trainer.py           writes trainer/ beside this script
       make_trainer.py --check   compares trainer/ with what this PyTorch says, writes nothing; exit 1 if they differ

Needs torch, transformers, safetensors and numpy. The models, the gradients and the optimizers are theirs, in float64;
losses and schedules are written here as sentence-transformers and transformers have them. No dropout.

trainer/CASE/config.json, model.safetensors   the model before
trainer/CASE/run.safetensors                  little-endian; a step's sequences are those of all its batches
  offsets      I32 [steps][sequences + 1]
  ids          I32 [all tokens of all steps]
  labels       I32 [steps][n], or values F32 [steps][n], or neither; of masked models labels are [all tokens of all steps]
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
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

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
}
EPSILON = 1e-3  # of AdamW: with less of it, gradients that are 0 but for rounding (a key's bias) change weights by the rate


def shape_of(case):
    return {**SHAPE, "vocab_size": case.get("vocabulary", VOCABULARY)}


def make_model(case, seed):
    """No weight is near 0: what is measured relative to it would be rounding alone."""
    torch.manual_seed(seed)
    if case["loss"] == "classes":
        model = BertForSequenceClassification(BertConfig(**SHAPE, num_labels=3))
    elif case["loss"] == "masked":
        model = BertForMaskedLM(BertConfig(**shape_of(case), tie_word_embeddings=case.get("tied", True)))
        model.cls.predictions.decoder.bias = model.cls.predictions.bias  # whether tables are tied or not
    else:
        model = BertModel(BertConfig(**SHAPE), add_pooling_layer=False)
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
        if case["loss"] == "cosent":
            targets = random.random(case["examples"])
        elif case["loss"] == "vectors":
            targets = random.standard_normal(case["examples"] * SHAPE["hidden_size"])
        elif case["loss"] == "classes":
            targets = random.integers(0, 3, case["examples"])
            targets[random.integers(0, case["examples"])] = -100
        elif case["loss"] == "masked":
            targets = np.where(random.random(len(ids)) < 0.3, random.integers(0, case["vocabulary"], len(ids)), -100)
            targets[offsets[2]:offsets[4]] = -100  # a batch of these two has none
            targets[0] = case["vocabulary"] - 1
        if targets is not None and case["loss"] not in ("classes", "masked"):
            targets = targets.astype(np.float32)
        batches.append((offsets.astype(np.int32), ids.astype(np.int32), targets))
    return batches


def output_of(model, case, offsets, ids):
    """One sequence at a time: no padding."""
    rows = []
    for a, b in zip(offsets[:-1], offsets[1:]):
        x = torch.tensor(ids[a:b], dtype=torch.long)[None]
        mask = torch.ones_like(x)
        if case["loss"] == "classes":
            rows.append(model(x, attention_mask=mask).logits[0])
        elif case["loss"] == "masked":
            rows += model(x, attention_mask=mask).logits[0]
        else:
            rows.append(model(x, attention_mask=mask).last_hidden_state[0].mean(0))
    return torch.stack(rows)


def loss_of(case, rows, targets):
    n = case["examples"]
    unit = torch.nn.functional.normalize(rows, dim=1) if case["loss"] not in ("classes", "masked") else None
    if case["loss"] == "contrastive":
        return torch.nn.functional.cross_entropy(20 * unit[:n] @ unit[n:].T, torch.arange(n))
    if case["loss"] == "cosent":
        scores = 20 * (unit[:n] * unit[n:]).sum(1)
        t = torch.tensor(targets)
        differences = (scores[:, None] - scores[None])[t[:, None] < t[None]]
        return torch.logsumexp(torch.cat([torch.zeros(1, dtype=rows.dtype), differences]), 0)
    if case["loss"] == "vectors":
        return torch.nn.functional.mse_loss(rows, torch.tensor(targets, dtype=rows.dtype).reshape(rows.shape))
    return torch.nn.functional.cross_entropy(rows, torch.tensor(targets, dtype=torch.long))


def factor(case, step):
    if step < WARMUP:
        return step / WARMUP
    done = (step - WARMUP) / (STEPS - WARMUP)
    return {"linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done)), "constant": 1.0}[case["schedule"]]


def train(case, batches, dtype):
    model = make_model(case, 7).to(dtype).train()
    parameters = {name: p for name, p in model.named_parameters() if "pooler" not in name or case["loss"] == "classes"}
    plain = [p for name, p in parameters.items() if name.endswith("bias") or "LayerNorm" in name]
    decays = [p for name, p in parameters.items() if not (name.endswith("bias") or "LayerNorm" in name)]
    groups = [{"params": decays, "weight_decay": case["decay"]}, {"params": plain, "weight_decay": 0.0}]
    if case["kind"] == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=case["rate"], eps=EPSILON)
    else:
        optimizer = torch.optim.SGD(groups, lr=case["rate"], momentum=0.9)
    out = {"loss": [], "norm": [], "rate": []}
    for step, (offsets, ids, targets) in enumerate(batches):
        rate = case["rate"] * factor(case, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = loss_of(case, output_of(model, case, offsets, ids), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), case["clip"] if case["clip"] else math.inf)
        optimizer.step()
        if step == 0 and case["loss"] == "masked":
            out["gradient"] = {name: p.grad.numpy().astype(np.float32) * max(1.0, (norm.item() + 1e-6) / case["clip"])
                               for name, p in parameters.items()}
        for key, value in (("loss", loss.item()), ("norm", norm.item()), ("rate", rate)):
            out[key].append(value)
    return out, {name: p.detach().double().numpy() for name, p in parameters.items()}


def make_case(name):
    case = CASES[name]
    batches = make_batches(case, np.random.default_rng(len(name)))
    run, after = train(case, batches, torch.float64)
    run32, after32 = train(case, batches, torch.float32)
    far = [max(abs(a - b) / abs(a) for a, b in zip(run["loss"], run32["loss"])),
           max(np.linalg.norm(after[k] - after32[k]) / np.linalg.norm(after[k]) for k in after32)]
    tensors = {"offsets": np.stack([b[0] for b in batches]), "ids": np.concatenate([b[1] for b in batches]),
               "float32": np.array(far)}
    if not case.get("tied", True):  # one bias of two names
        for of in (after, run["gradient"]):
            of["cls.predictions.decoder.bias"] = of["cls.predictions.bias"]
    tensors.update({"gradient/" + key: value for key, value in run.pop("gradient", {}).items()})
    tensors.update({key: np.array(run[key]) for key in run})
    if batches[0][2] is not None:
        key = "labels" if case["loss"] in ("classes", "masked") else "values"
        join = np.concatenate if case["loss"] == "masked" else np.stack
        tensors[key] = join([b[2] for b in batches]).astype(np.int32 if key == "labels" else np.float32)
    tensors.update({"after/" + key: after[key].astype(np.float32) for key in after})
    model = make_model(case, 7)
    twice = () if not case.get("tied", True) else ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
    weights = {key: value.numpy() for key, value in model.state_dict().items()
               if "position_ids" not in key and key not in twice}
    config = {**{key: value for key, value in shape_of(case).items()}, "model_type": "bert", "hidden_act": "gelu",
              "architectures": [type(model).__name__], "layer_norm_eps": 1e-12, "dtype": "float32"}
    if not case.get("tied", True):
        config["tie_word_embeddings"] = False
    if case["loss"] == "classes":
        config["id2label"] = {str(i): "class %d" % i for i in range(3)}
        config["label2id"] = {"class %d" % i: i for i in range(3)}
    return tensors, weights, config


def main():
    folder = Path(__file__).parent / "trainer"
    torch.set_num_threads(1)
    wrong = 0
    for name in CASES:
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
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_file(weights, folder / name / "model.safetensors", metadata={"format": "pt"})
        save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()}, folder / name / "run.safetensors")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
