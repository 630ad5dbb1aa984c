#!/usr/bin/env python3
"""Writes the files of tests/data/torch/, as torch.save does, for tests/test_torch_file.c and the fuzz target.

usage: make_torch_files.py   (made with torch 2.11)
"""

import io
import os
import pickle
import zipfile

import torch

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "torch")


def linear(dtype):
    module = torch.nn.Linear(5, 3)
    with torch.no_grad():
        module.weight.copy_(torch.arange(15).reshape(3, 5) / 64 - 0.125)
        module.bias.copy_(torch.arange(3) / 4 - 0.25)
    return module.to(dtype).state_dict()


def save(name, value, **more):
    torch.save(value, os.path.join(FOLDER, name + ".pt"), **more)


class Calls:
    def __reduce__(self):
        return os.getenv, ("PATH",)


def zip_with(name, pickled, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(os.path.join(FOLDER, name + ".pt"), "w", method) as file:
        file.writestr(zipfile.ZipInfo("archive/data.pkl"), pickled, method)


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)):
        save(name, linear(dtype))
    whole = torch.arange(40.0) / 64
    save("slices", {"bias": whole[2:5], "weight": whole[10:25].view(3, 5)})
    save("transposed", {"weight": whole[:15].view(5, 3).T})
    save("integers", {"weight": torch.arange(15)})
    save("cube", {"weight": whole[:30].view(2, 3, 5)})
    save("many", {"w%d" % i: whole[i : i + 1] for i in range(9)})
    save("tensor", whole[:3])
    save("module", torch.nn.Linear(5, 3))
    save("legacy", linear(torch.float32), _use_new_zipfile_serialization=False)
    zip_with("calls", pickle.dumps({"weight": Calls()}, protocol=2))
    zip_with("compressed", pickle.dumps({}, protocol=2) + bytes(200), zipfile.ZIP_DEFLATED)
    zip_with("empty", pickle.dumps({}, protocol=2))


if __name__ == "__main__":
    main()
