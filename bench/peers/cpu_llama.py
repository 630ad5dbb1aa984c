#!/usr/bin/env python3
"""llama.cpp beside Wherry on the host's cores: a worker of bench/peers/cpu.py, through llama-cpp-python's bindings.

Usage: cpu_llama.py FOLDER THREADS     FOLDER: of cpu_prepare.py with --llama; requests as in cpu_worker.py

f32 weights. Settings: tokens of a batch, which llama.cpp packs without padding; texts are sorted by length, so that few
tokens of a batch see many others.
"""
import ctypes
import os
import sys
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp

import cpu_worker

LENGTH, LONGEST = 512, 256
folder, threads = Path(sys.argv[1]), int(sys.argv[2])


class Encoder:
    def __init__(self, name, tokens):
        params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(os.fsencode(folder / f"{name}.gguf"), params)
        if not self.model:
            raise OSError(f"llama.cpp can't load {name}.gguf")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.width = llama_cpp.llama_model_n_embd(self.model)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = tokens
        params.n_seq_max = min(tokens // 2, 256)
        params.n_threads = params.n_threads_batch = threads
        params.embeddings = True
        params.pooling_type = llama_cpp.LLAMA_POOLING_TYPE_MEAN
        params.kv_unified = True
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise MemoryError("llama.cpp makes no context")
        self.most, self.texts = tokens, params.n_seq_max
        self.batch = llama_cpp.llama_batch_init(tokens, 0, 1)

    def tokenize(self, text):
        data = text.encode()
        ids = (llama_cpp.llama_token * LONGEST)()
        count = llama_cpp.llama_tokenize(self.vocabulary, data, len(data), ids, LONGEST, True, False)
        if count < 0:
            raise ValueError("a text is too long")
        return ids[:count]

    def encode(self, sequences):
        """Means of the tokens' vectors, a row for each list of ids."""
        n = 0
        for s, ids in enumerate(sequences):
            for position, token in enumerate(ids):
                self.batch.token[n], self.batch.pos[n] = token, position
                self.batch.n_seq_id[n], self.batch.seq_id[n][0], self.batch.logits[n] = 1, s, 1
                n += 1
        self.batch.n_tokens = n
        if llama_cpp.llama_encode(self.context, self.batch):
            raise RuntimeError("llama_encode failed")
        rows = np.empty((len(sequences), self.width), np.float32)
        for s in range(len(sequences)):
            at = llama_cpp.llama_get_embeddings_seq(self.context, s)
            rows[s] = np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (self.width,))
        return rows


def pack(lengths, most, texts):
    """Places of texts, shortest first, as many as fit."""
    places, tokens = [], 0
    for n in sorted(range(len(lengths)), key=lengths.__getitem__):
        if tokens + lengths[n] > most or len(places) == texts:
            yield places
            places, tokens = [], 0
        places.append(n)
        tokens += lengths[n]
    yield places


def texts_task(file, setting):
    texts = cpu_worker.read_lines(folder / file)
    encoder = Encoder("minilm", int(setting))

    def run():
        tokens = [encoder.tokenize(text) for text in texts]
        result = np.empty((len(texts), encoder.width), np.float32)
        for places in pack([len(ids) for ids in tokens], encoder.most, encoder.texts):
            result[places] = encoder.encode([tokens[n] for n in places])
        return cpu_worker.normalized(result)

    return run


def batch(setting):
    ids = np.fromfile(folder / "ids.i32", dtype=np.int32).reshape(-1, LENGTH).tolist()
    encoder = Encoder("bert-base", int(setting))
    return lambda: encoder.encode(ids)


tasks = {
    "sentences": lambda setting: texts_task("sentences.txt", setting),
    "sentence": lambda setting: texts_task("sentence.txt", setting),
    "batch": batch,
}
facts = {"version": llama_cpp.llama_print_system_info().decode().strip()}
try:
    from importlib.metadata import version

    facts["version"] = "llama-cpp-python " + version("llama-cpp-python") + ", " + facts["version"]
except ImportError:
    pass
cpu_worker.serve(facts, tasks)
