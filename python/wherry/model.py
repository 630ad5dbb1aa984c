"""A model folder on a device."""

import ctypes
import os
import sys
from dataclasses import dataclass
from itertools import chain, islice
from threading import RLock
from typing import NamedTuple

import numpy as np

from . import _native
from .context import Context
from .devices import device_of
from .errors import WherryError
from .texts import Tokenizer, Tokens, batches

_library = _native.library
BATCH_TOKENS = 16384
# A session of at most so many tokens has kernels that finish soon (OpenCL on NVIDIA): for a question or two.
FEW_TOKENS = 256


class Ranked(NamedTuple):
    """One text of rerank's: its number in what was given, its score, itself."""

    index: int
    score: float
    text: str


@dataclass(frozen=True)
class Verified:
    """What verify found: groups of operators, those of them that computed wrongly, and how often the same batch gave
    other bits."""

    groups: int
    failed: tuple
    replays: int
    replays_different: int

    @property
    def passed(self):
        return not self.failed and not self.replays_different


def _zip(texts, pairs):
    if pairs is None:
        return ((text, None) for text in texts)
    pairs = list(pairs)
    if len(pairs) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(pairs)} pairs: as many of both")
    return zip(texts, pairs)


class _Session:
    def __init__(self, model, key):
        output, dim, normalize, most_tokens, keep = key
        length = min(model.max_tokens, most_tokens)
        desc = _native.SessionDesc(struct_size=ctypes.sizeof(_native.SessionDesc), max_tokens=most_tokens,
                                   max_length=length, dtype=model.dtype_code, output=output, dimensions=dim,
                                   normalize=normalize, keep_intermediates=keep)
        self.context = model.context
        self.handle = ctypes.c_void_p()
        check = self.context.check
        check(_library.wherry_session_create(model.context.handle, model.device_handle, model.handle, ctypes.byref(desc),
                                             ctypes.byref(self.handle)))
        try:
            self.plan = _native.SessionPlan(struct_size=ctypes.sizeof(_native.SessionPlan))
            check(_library.wherry_session_query(self.handle, ctypes.byref(self.plan)))
            if not keep:
                check(_library.wherry_session_prepare(self.handle, None, None, None))
        except BaseException:
            self.close()
            raise

    @staticmethod
    def batch_of(tokens):
        """The structure, and what it points to."""
        offsets = np.zeros(len(tokens.lengths) + 1, dtype=np.uint32)
        np.cumsum(tokens.lengths, out=offsets[1:])
        batch = _native.Batch(struct_size=ctypes.sizeof(_native.Batch), sequences=len(tokens.lengths),
                              offsets=offsets.ctypes.data, ids=tokens.ids.ctypes.data, types=tokens.types.ctypes.data)
        return batch, offsets

    def run(self, tokens, out):
        """Into out, float32 [sequences][embedding_size]."""
        batch, offsets = self.batch_of(tokens)
        self.context.check(_library.wherry_encode(self.handle, ctypes.byref(batch), out.ctypes.data, out.size))
        del offsets

    def notes(self):
        found, index = [], 0
        while (note := _library.wherry_session_note(self.handle, index)) is not None:
            found.append(note.decode("utf-8", "replace"))
            index += 1
        return found

    def close(self):
        if self.handle:
            _library.wherry_session_destroy(self.handle)
            self.handle = ctypes.c_void_p()


class _Progress:
    def __init__(self, wanted, total):
        self._call = wanted if callable(wanted) else self._print if wanted else None
        self._total = total
        self._done = 0

    def _print(self, done):
        of = "" if self._total is None else f" of {self._total}"
        sys.stderr.write(f"\r{done}{of} texts")
        sys.stderr.flush()

    def add(self, count):
        self._done += count
        if self._call:
            self._call(self._done)

    def end(self):
        if self._call == self._print:
            sys.stderr.write("\n")


class Model:
    """A model folder, as Hugging Face publishes it, on one device.

    path: the folder. device: an id of wherry.devices(), a UUID or a part of one name; None: the first GPU, else the
    host's cores. dtype: "f32", "f16" or "bf16"; None: f16 on a GPU, else f32. threads: of the host's cores, at most;
    0: all.

    Several threads may share a model; their calls wait for each other. Close it, or use it in a `with`.
    """

    def __init__(self, path, device=None, dtype=None, *, threads=0, cache_dir=None):
        if dtype not in _native.DTYPES:
            raise ValueError(f"dtype is {dtype!r}: there are {', '.join(repr(d) for d in _native.DTYPES)}")
        self.dtype_code = _native.DTYPES[dtype]
        self._lock = RLock()
        self._sessions = {}
        self._tokenizer = None
        self.handle, self.device_handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.context = Context(threads, cache_dir)
        try:
            check, context = self.context.check, self.context.handle
            check(_library.wherry_device_open(context, None if device is None else str(device).encode(),
                                              ctypes.byref(self.device_handle)))
            check(_library.wherry_model_open(context, os.fsencode(os.fspath(path)), ctypes.byref(self.handle)))
            info = _native.DeviceInfo()
            check(_library.wherry_device_describe(self.device_handle, ctypes.byref(info)))
            self.device = device_of(info)
            self._info = _native.ModelInfo(struct_size=ctypes.sizeof(_native.ModelInfo))
            check(_library.wherry_model_describe(self.handle, ctypes.byref(self._info)))
            self._tokenizer = Tokenizer(self.handle, threads)
        except BaseException:
            self.close()
            raise

    # ---- what it is ----

    @property
    def architecture(self):
        return self._info.architecture.decode()

    @property
    def max_tokens(self):
        """Of one text, special tokens included."""
        return self._info.max_tokens

    @property
    def labels(self):
        """Names of the classes that a classifier tells apart; [] of a model without."""
        names, index = [], 0
        while (name := _library.wherry_model_label(self.handle, index)) is not None:
            names.append(name.decode("utf-8", "replace"))
            index += 1
        return names

    @property
    def prompts(self):
        """{name: text} of what the model's files want before texts."""
        found, index = {}, 0
        while (name := _library.wherry_model_prompt_name(self.handle, index)) is not None:
            found[name.decode("utf-8", "replace")] = self._prompt(name).decode("utf-8", "replace")
            index += 1
        return found

    def get_sentence_embedding_dimension(self):
        """Numbers in an embedding: sentence-transformers' name."""
        with self._lock:
            return self._session(_native.OUTPUT_EMBEDDING, 0, 0, BATCH_TOKENS).plan.embedding_size

    # ---- what it does ----

    def encode(self, texts, prompt=None, dim=None, pairs=None, normalize=None, batch_tokens=None, progress=False,
               truncate=True):
        """Embeddings: float32 [texts][dimensions], or [dimensions] of a single str.

        prompt: the name of a prompt of the model's files; None: the one that they use by themselves; "": none.
        dim: the leading dimensions alone, of length 1 again. pairs: a second text for each. normalize: True or False
        instead of what the files say. batch_tokens: of one run on the device, at most. progress: True shows how far it
        is on stderr; a function is called with the number of texts done. truncate: texts that are too long are cut;
        False: they are an error.
        """
        single = isinstance(texts, str)
        if single:
            texts, pairs = [texts], None if pairs is None else [pairs]
        if not hasattr(texts, "__len__"):
            raise TypeError("texts is no str and no list of str: encode_iter takes what has no length")
        texts = list(texts)
        out, at = None, 0
        with self._lock:
            session, found = self._start(_native.OUTPUT_EMBEDDING, _zip(texts, pairs), prompt, dim, normalize,
                                         batch_tokens, truncate)
            out = np.empty((len(texts), session.plan.embedding_size), dtype=np.float32)
            bar = _Progress(progress, len(texts))
            for tokens in batches(found, session.plan.max_tokens, session.plan.max_sequences):
                session.run(tokens, out[at:at + len(tokens.lengths)])
                at += len(tokens.lengths)
                bar.add(len(tokens.lengths))
            bar.end()
        return out[0] if single else out

    def encode_iter(self, texts, prompt=None, dim=None, normalize=None, batch_tokens=None, truncate=True):
        """The same of any iterable, one embedding after the other, while it is read: float32 [dimensions] each. The
        model waits for nobody else until the generator is exhausted or closed."""
        with self._lock:
            session, found = self._start(_native.OUTPUT_EMBEDDING, ((text, None) for text in texts), prompt, dim,
                                         normalize, batch_tokens, truncate)
            for tokens in batches(found, session.plan.max_tokens, session.plan.max_sequences):
                out = np.empty((len(tokens.lengths), session.plan.embedding_size), dtype=np.float32)
                session.run(tokens, out)
                yield from out

    def predict(self, texts, pairs=None, batch_tokens=None, truncate=True):
        """Scores of a classifier or reranker, after what its files want to be made of them (sigmoid, softmax, nothing):
        float32 [texts][labels]."""
        texts = list(texts)
        with self._lock:
            session, found = self._start(_native.OUTPUT_CLASSES, _zip(texts, pairs), "", None, None, batch_tokens,
                                         truncate)
            out, at = np.empty((len(texts), session.plan.embedding_size), dtype=np.float32), 0
            for tokens in batches(found, session.plan.max_tokens, session.plan.max_sequences):
                session.run(tokens, out[at:at + len(tokens.lengths)])
                at += len(tokens.lengths)
        _library.wherry_scores_apply(self._info.scores, out.ctypes.data, out.shape[0], out.shape[1])
        return out

    def rerank(self, query, texts, top_k=None, batch_tokens=None, truncate=True):
        """How well texts answer the query, best first: a list of Ranked(index, score, text), at most top_k."""
        config = self._info.config
        if _native.HEADS[config.head] != "sequence" or config.labels != 1:
            raise WherryError("this model is no reranker: it has no classifier of one label", "unsupported")
        texts = list(texts)
        scores = self.predict([query] * len(texts), texts, batch_tokens, truncate)[:, 0]
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [Ranked(int(i), float(scores[i]), texts[i]) for i in order]

    def classify(self, texts, pairs=None, batch_tokens=None, truncate=True):
        """For each text {label: score}, the best label first."""
        names = self.labels
        rows = self.predict(texts, pairs, batch_tokens, truncate)
        return [{names[i]: float(row[i]) for i in np.argsort(-row, kind="stable")} for row in rows]

    def tokenize(self, texts, pairs=None, truncate=False):
        """Token ids, special tokens included: a list of int32 arrays, or one of a single str."""
        single = isinstance(texts, str)
        if single:
            texts, pairs = [texts], None if pairs is None else [pairs]
        found = []
        with self._lock:
            for tokens in self._tokenizer.stream(_zip(list(texts), pairs), b"", self.max_tokens if truncate else 0, 0):
                found += np.split(tokens.ids, np.cumsum(tokens.lengths)[:-1])
        return found[0] if single else found

    def verify(self, replays=5):
        """Runs every group of operators on the device and compares it with the reference in double. Verified."""
        failed = []

        def judge(result, _):
            if not result.contents.passed:
                failed.append(result.contents.name.decode())
            return True

        lengths = np.array([1, 7, min(40, self.max_tokens)], dtype=np.uint32)
        ids = np.arange(int(lengths.sum()), dtype=np.int32) % self._info.config.vocabulary
        with self._lock:
            session = _Session(self, (_native.OUTPUT_EMBEDDING, 0, 0, FEW_TOKENS, True))
            try:
                batch, offsets = session.batch_of(Tokens(ids, np.zeros_like(ids), lengths))
                summary = _native.VerifySummary(struct_size=ctypes.sizeof(_native.VerifySummary))
                callback = _native.VerifyCallback(judge)
                status = _library.wherry_verify(session.handle, ctypes.byref(batch), replays, callback, None,
                                                ctypes.byref(summary))
                if status and not summary.groups:
                    self.context.check(status)
                del offsets
            finally:
                session.close()
        return Verified(summary.groups, tuple(failed), summary.replays, summary.replays_different)

    def report(self):
        """What runs where, and what it takes: a dictionary."""
        with self._lock:
            sessions = [{"plan": s.plan.plan.decode(), "dtype": _native.DTYPE_NAMES.get(s.plan.dtype, "?"),
                         "kernels": s.plan.launches, "device_bytes": s.plan.device_bytes,
                         "weight_bytes": s.plan.weight_bytes, "max_tokens": s.plan.max_tokens, "notes": s.notes()}
                        for s in self._sessions.values()]
        return {"library": _library.wherry_version_string().decode(), "architecture": self.architecture,
                "parameters": self._info.parameters, "device": self.device, "sessions": sessions}

    # ---- within ----

    def _prompt(self, name):
        out = ctypes.c_char_p()
        self.context.check(_library.wherry_model_prompt(self.context.handle, self.handle, name, ctypes.byref(out)))
        return out.value or b""

    def _session(self, output, dim, normalize, most_tokens):
        key = (output, dim, normalize, most_tokens, False)
        if key not in self._sessions:
            self._sessions[key] = _Session(self, key)
        return self._sessions[key]

    def _start(self, output, items, prompt, dim, normalize, batch_tokens, truncate):
        """The session for these texts, and a stream of their tokens."""
        if not self.handle:
            raise ValueError("the model is closed")
        if dim is not None and dim < 1:
            raise ValueError(f"dim is {dim}: at least 1")
        before = b"" if prompt == "" else self._prompt(None if prompt is None else prompt.encode())
        stream = self._tokenizer.stream(items, before, self.max_tokens if truncate else 0, self.max_tokens)
        first = list(islice(stream, 2))
        few = len(first) < 2 and sum(int(t.lengths.sum()) for t in first) <= FEW_TOKENS and batch_tokens is None
        most = FEW_TOKENS if few else max(batch_tokens or BATCH_TOKENS, self.max_tokens)
        sign = 0 if normalize is None else 1 if normalize else -1
        return self._session(output, dim or 0, sign, most), chain(first, stream)

    def close(self):
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions = {}
            if self._tokenizer:
                self._tokenizer.close()
                self._tokenizer = None
            if self.handle:
                _library.wherry_model_close(self.handle)
            if self.device_handle:
                _library.wherry_device_close(self.device_handle)
            self.handle, self.device_handle = ctypes.c_void_p(), ctypes.c_void_p()
            self.context.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if hasattr(self, "_lock"):
            self.close()
