#!/usr/bin/env python3
"""ONNX Runtime beside Wherry on the host's cores: a worker of bench/peers/cpu.py.

Usage: cpu_onnxruntime.py FOLDER THREADS     FOLDER: of cpu_prepare.py; requests as in cpu_worker.py

All graph optimizations. Settings: "sentences" and "some" plain-N, fused-N: N texts a batch, sorted by length;
"sentence" and "batch" plain, fused. Fused: after ONNX Runtime's optimizer for BERT (attention, skip layernorm, GELU as one operator).
"""
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import cpu_worker

LENGTH = 512
folder, threads = Path(sys.argv[1]), int(sys.argv[2])


class Encoder:
    def __init__(self, name, way):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        path = folder / f"{name}{'-fused' if way == 'fused' else ''}.onnx"
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.names = [value.name for value in self.session.get_inputs()]

    def mean(self, ids, mask):
        """[batch, length] ids and mask: the means over each text's tokens."""
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self.session.run(None, {key: given[key].astype(np.int64) for key in self.names})[0]
        if mask.all():
            return hidden.mean(axis=1)
        return np.matmul(mask[:, None, :].astype(np.float32), hidden)[:, 0] / mask.sum(axis=1, keepdims=True)


def texts_task(file, way, size):
    texts = cpu_worker.read_lines(folder / file)
    tokenizer = Tokenizer.from_file(str(folder / "minilm/tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    encoder = Encoder("minilm", way)

    def run(some):
        tokens = [encoding.ids for encoding in tokenizer.encode_batch(some)]
        lengths = [len(ids) for ids in tokens]
        result = np.empty((len(some), 384), np.float32)
        for places in cpu_worker.batches(lengths, size):
            ids = np.zeros((len(places), lengths[places[0]]), np.int64)
            mask = np.zeros_like(ids)
            for row, n in enumerate(places):
                ids[row, : lengths[n]] = tokens[n]
                mask[row, : lengths[n]] = 1
            result[places] = encoder.mean(ids, mask)
        return cpu_worker.normalized(result)

    return cpu_worker.Texts(run, texts)


def sentences(setting, file="sentences.txt"):
    way, _, size = setting.partition("-")
    return texts_task(file, way, int(size))


def some(setting):
    return sentences(setting, "some.txt")


def sentence(setting):
    return texts_task("sentence.txt", setting, 1)


def batch(setting):
    ids = np.fromfile(folder / "ids.i32", dtype=np.int32).reshape(-1, LENGTH)
    encoder = Encoder("bert-base", setting)
    return lambda: encoder.mean(ids, np.ones_like(ids))


tasks = {"sentences": sentences, "some": some, "sentence": sentence, "batch": batch}
cpu_worker.serve({"version": onnxruntime.__version__}, tasks)
