#!/usr/bin/env python3
"""PyTorch and sentence-transformers beside Wherry on the host's cores: a worker of bench/peers/cpu.py.

Usage: cpu_pytorch.py FOLDER THREADS     FOLDER: of cpu_prepare.py; requests as in cpu_worker.py

Settings: "sentences" and "some" N or bf16-N: sentence-transformers, N texts a batch, sorted by length as it does. "sentence"
library (sentence-transformers' encode), model (tokenizer and model called directly). "batch" and "layer": eager or
compile (torch.compile), of "layer" with dropout: eager-0.1.
"""
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import AutoModel, AutoTokenizer

import cpu_worker

HIDDEN, HEADS, FEED_FORWARD, LENGTH = 1024, 16, 4096, 512  # a layer of BERT-large
folder, threads = Path(sys.argv[1]), int(sys.argv[2])


def sentences(setting, file="sentences.txt"):
    kind, _, size = setting.rpartition("-")
    texts = cpu_worker.read_lines(folder / file)
    kwargs = {"dtype": torch.bfloat16} if kind == "bf16" else {}
    model = SentenceTransformer(str(folder / "minilm"), device="cpu", model_kwargs=kwargs)

    def run(some):
        result = model.encode(some, batch_size=int(size), show_progress_bar=False, convert_to_tensor=bool(kind))
        return result if not kind else result.float().numpy()  # NumPy has no bf16

    return cpu_worker.Texts(run, texts)


def some(setting):
    return sentences(setting, "some.txt")


def sentence(setting):
    (text,) = cpu_worker.read_lines(folder / "sentence.txt")
    if setting == "library":
        model = SentenceTransformer(str(folder / "minilm"), device="cpu")
        return lambda: model.encode(text, show_progress_bar=False).reshape(1, -1)
    tokenizer = AutoTokenizer.from_pretrained(folder / "minilm")
    model = AutoModel.from_pretrained(folder / "minilm").eval()

    @torch.inference_mode()
    def run():
        hidden = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        return F.normalize(hidden.mean(dim=1)).numpy()

    return run


def batch(setting):
    ids = torch.from_numpy(np.fromfile(folder / "ids.i32", dtype=np.int32).reshape(-1, LENGTH)).long()
    model = AutoModel.from_pretrained(folder / "bert-base").eval()
    if setting == "compile":
        model.forward = torch.compile(model.forward, dynamic=False)

    @torch.inference_mode()
    def run():
        return model(input_ids=ids).last_hidden_state.mean(dim=1).numpy()

    return run


class Layer(nn.Module):
    """Post-LN, ReLU, dropout at its four places: `wherry bench layer`."""

    def __init__(self, dropout):
        super().__init__()
        self.p = dropout
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, 1e-12)
        self.lin1 = nn.Linear(HIDDEN, FEED_FORWARD)
        self.lin2 = nn.Linear(FEED_FORWARD, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, 1e-12)

    def drop(self, x):
        return F.dropout(x, self.p) if self.p else x

    def forward(self, x):  # [batch, length, hidden]
        qkv = self.qkv(x).view(*x.shape[:2], 3, HEADS, HIDDEN // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p).transpose(1, 2).reshape(x.shape)
        x = self.norm1(x + self.drop(self.out(context)))
        return self.norm2(x + self.drop(self.lin2(self.drop(F.relu(self.lin1(x))))))


def layer(setting):
    way, _, dropout = setting.partition("-")
    torch.manual_seed(1)
    module = Layer(float(dropout))
    parameters = list(module.parameters())
    if way == "compile":
        module = torch.compile(module, dynamic=False)
    x = torch.randn(1, LENGTH, HIDDEN, requires_grad=True)
    gradient = torch.randn(1, LENGTH, HIDDEN)

    def run():
        torch.autograd.grad(module(x), (x, *parameters), gradient)

    return run


torch.set_num_threads(threads)
facts = {"version": torch.__version__, "capability": torch.backends.cpu.get_cpu_capability()}
tasks = {"sentences": sentences, "some": some, "sentence": sentence, "batch": batch, "layer": layer}
cpu_worker.serve(facts, tasks)
