#!/usr/bin/env python3
"""Makes adapter/, the runs that test_adapter compares with: adapters of PEFT on the models of trainer/, trained by PyTorch
for 20 steps.

Usage: make_adapter.py           writes adapter/ beside this script
       make_adapter.py --check   compares adapter/ with what this PEFT says, writes nothing; exit 1 if they differ

Needs what make_trainer.py needs, whose models, batches and losses these are, and peft. In float64.

adapter/CASE/adapter_config.json, adapter_model.safetensors   PEFT's files of the adapter before
adapter/CASE/run.safetensors    as make_trainer.py says, of the weights that are trained; and
  rows         F32: the output for the first step's sequences after the last step
"""
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file, save_file

import make_trainer as base

CASES = {
    "contrastive": dict(r=4, lora_alpha=6, target_modules=["query", "value", "attention.output.dense"],
                        task_type="FEATURE_EXTRACTION"),
    # More than what a work-group has of the rank, and a scale by its root
    "classes": dict(r=20, lora_alpha=8, target_modules="all-linear", use_rslora=True, task_type="SEQ_CLS"),
}
SEED, RATE = 11, 1e-2


def make_adapted(name):
    torch.manual_seed(SEED)
    model = get_peft_model(base.make_model(base.CASES[name], 7), LoraConfig(**CASES[name]))
    return model.double().train()


def name_of(name):
    """A parameter's, as the file that it is saved in has it, and of whole ones as the model's file."""
    name = name.replace(".default", "").replace("modules_to_save.", "")
    return name if "lora_" in name else name.replace("base_model.model.", "")


def train(name, batches):
    case, model = base.CASES[name], make_adapted(name)
    parameters = {key: p for key, p in model.named_parameters() if p.requires_grad}
    decays = [p for key, p in parameters.items() if not key.endswith("bias")]
    plain = [p for key, p in parameters.items() if key.endswith("bias")]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
                                  lr=RATE, eps=base.EPSILON)
    out = {"loss": [], "norm": [], "rate": []}
    for step, (offsets, ids, targets) in enumerate(batches):
        rate = RATE * base.factor(case, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = base.loss_of(case, base.output_of(model, case, offsets, ids), targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters.values(), case["clip"] if case["clip"] else math.inf)
        optimizer.step()
        for key, value in (("loss", loss.item()), ("norm", norm.item()), ("rate", rate)):
            out[key].append(value)
    with torch.no_grad():
        rows = base.output_of(model.eval(), case, *batches[0][:2])
    return out, {name_of(key): p.detach().numpy() for key, p in parameters.items()}, rows.numpy()


def make_case(name):
    case = base.CASES[name]
    batches = base.make_batches(case, np.random.default_rng(len(name)))
    run, after, rows = train(name, batches)
    tensors = base.sequences_and_targets(case, batches)
    tensors.update({key: np.array(run[key]) for key in run})
    tensors.update({"after/" + key: value.astype(np.float32) for key, value in after.items()})
    tensors["rows"] = rows.astype(np.float32)
    return tensors


def write_adapter(name, folder):
    """As PEFT writes it, without the page that it writes beside it; lists in order, so that it is the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        make_adapted(name).float().save_pretrained(work)
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            shutil.copy(Path(work) / file, folder / file)
    config = json.loads((folder / "adapter_config.json").read_text())
    for key in ("target_modules", "modules_to_save"):
        if config[key]:
            config[key] = sorted(config[key])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    folder = Path(__file__).parent / "adapter"
    torch.set_num_threads(1)
    wrong = 0
    for name in CASES:
        tensors = make_case(name)
        print("%-12s loss %.6f to %.6f, norm %.3g" % (name, tensors["loss"][0], tensors["loss"][-1],
                                                      tensors["norm"].max()))
        if "--check" in sys.argv:
            old = load_file(folder / name / "run.safetensors")
            for key in tensors:
                if not np.allclose(old[key], tensors[key], rtol=1e-6, atol=1e-7):
                    print("%s: %s differs" % (name, key))
                    wrong += 1
            continue
        write_adapter(name, folder / name)
        save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()},
                  folder / name / "run.safetensors")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
