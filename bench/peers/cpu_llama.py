#!/usr/bin/env python3
"""llama.cpp beside Wherry on the host's cores: a worker of bench/peers/cpu.py, through llama-cpp-python's bindings.

Usage: cpu_llama.py FOLDER THREADS     FOLDER: of cpu_prepare.py with --llama; requests as in cpu_worker.py

f32 weights. Settings: tokens of a batch, which llama.cpp packs without padding; texts are sorted by length, so that few
tokens of a batch see many others. LLAMA_CPP_LIB_PATH, which the bindings read, names a folder with another libllama.so.
"""
import ctypes
import os
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp

import cpu_worker

LENGTH, LONGEST = 512, 256
folder, threads = Path(sys.argv[1]), int(sys.argv[2])


def load_backends():
    """A build with a library for each kind of processor reads the one that fits; another build has none to read."""
    place = Path(llama_cpp._lib._name).resolve().parent
    library = ctypes.CDLL(str(place / "libggml.so"))
    library.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    library.ggml_backend_load_all_from_path.restype = None
    library.ggml_backend_load_all_from_path(os.fsencode(place))


class Batch:
    """llama.cpp's batch, of arrays that are filled as a whole: Python's loop over tokens is not llama.cpp's time."""

    def __init__(self, tokens):
        self.token, self.position, self.sequence = (np.zeros(tokens, np.int32) for _ in range(3))
        self.ones = np.ones(tokens, np.int32)
        self.outputs = np.ones(tokens, np.int8)
        self.places = self.sequence.ctypes.data + 4 * np.arange(tokens, dtype=np.uint64)
        fields = dict(llama_cpp.llama_batch._fields_)
        arrays = {"token": self.token, "pos": self.position, "n_seq_id": self.ones}
        arrays |= {"seq_id": self.places, "logits": self.outputs}
        pointers = {name: ctypes.cast(array.ctypes.data, fields[name]) for name, array in arrays.items()}
        self.batch = llama_cpp.llama_batch(**pointers)

    def fill(self, sequences):
        lengths = [len(ids) for ids in sequences]
        count = self.batch.n_tokens = sum(lengths)
        self.token[:count] = np.concatenate(sequences)
        self.position[:count] = np.concatenate([np.arange(n) for n in lengths])
        self.sequence[:count] = np.repeat(np.arange(len(lengths)), lengths)
        return self.batch


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
        self.batch = Batch(tokens)
        self.ids = (llama_cpp.llama_token * LONGEST)()

    def tokenize(self, text):
        data = text.encode()
        count = llama_cpp.llama_tokenize(self.vocabulary, data, len(data), self.ids, LONGEST, True, False)
        if count < 0:
            raise ValueError("a text is too long")
        return np.frombuffer(self.ids, np.int32, count).copy()

    def encode_some(self, sequences):
        if llama_cpp.llama_encode(self.context, self.batch.fill(sequences)):
            raise RuntimeError("llama_encode failed")
        rows = np.empty((len(sequences), self.width), np.float32)
        for s in range(len(sequences)):
            at = llama_cpp.llama_get_embeddings_seq(self.context, s)
            rows[s] = np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (self.width,))
        return rows

    def encode(self, sequences):
        """Means of the tokens' vectors, a row for each array of ids."""
        result = np.empty((len(sequences), self.width), np.float32)
        for places in pack([len(ids) for ids in sequences], self.most, self.texts):
            result[places] = self.encode_some([sequences[n] for n in places])
        return result


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

    def run(some):
        return cpu_worker.normalized(encoder.encode([encoder.tokenize(text) for text in some]))

    return cpu_worker.Texts(run, texts)


def batch(setting):
    ids = list(np.fromfile(folder / "ids.i32", dtype=np.int32).reshape(-1, LENGTH))
    encoder = Encoder("bert-base", int(setting))
    return lambda: encoder.encode(ids)


def version():
    text = llama_cpp.llama_print_system_info().decode().replace("CPU : ", "").replace(" = 1", "").replace(" |", "").strip()
    try:
        return f"of llama-cpp-python {metadata.version('llama-cpp-python')} ({text})"
    except metadata.PackageNotFoundError:
        return f"({text})"


load_backends()
llama_cpp.llama_backend_init()
tasks = {
    "sentences": lambda setting: texts_task("sentences.txt", setting),
    "some": lambda setting: texts_task("some.txt", setting),
    "sentence": lambda setting: texts_task("sentence.txt", setting),
    "batch": batch,
}
cpu_worker.serve({"version": version()}, tasks)
