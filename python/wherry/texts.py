"""From texts to token ids, by several threads, in the order of the texts."""

import ctypes
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from threading import local

import numpy as np

from . import _native
from .context import Context
from .errors import WherryError

_library = _native.library
CHUNK = 256  # texts that a thread gets at a time
THREADS_MOST = 16


def as_bytes(text, index, what="text"):
    if not isinstance(text, str):
        raise TypeError(f"{what} {index} is no str but {type(text).__name__}")
    return text.encode("utf-8", "surrogatepass")


class Tokens:
    """Sequences side by side: ids (and types) of all, and the length of each."""

    def __init__(self, ids, types, lengths):
        self.ids, self.types, self.lengths = ids, types, lengths


class _Worker:
    """One thread's context, and the memory that it tokenizes into."""

    def __init__(self, model):
        self.context = Context()
        self.model = model
        self.room = np.empty((2, 1 << 14), dtype=np.int32)
        self.count = ctypes.c_size_t()

    def _call(self, text, pair, most, at):
        self.count.value = self.room.shape[1] - at
        ids = self.room.ctypes.data + 4 * at
        status = _library.wherry_tokenize(self.context.handle, self.model, text, len(text), pair,
                                          len(pair) if pair is not None else 0, most, ids, ids + 4 * self.room.shape[1],
                                          ctypes.byref(self.count))
        self.context.check(status)
        return self.count.value

    def run(self, items, first, most, limit):
        """`limit`: more tokens than that are an error; `most`: what a text is cut to, 0: it is not."""
        at, lengths = 0, np.empty(len(items), dtype=np.uint32)
        for i, (text, pair) in enumerate(items):
            try:
                length = self._call(text, pair, most, at)
                if at + length > self.room.shape[1]:
                    grown = np.empty((2, 2 * (at + length)), dtype=np.int32)
                    grown[:, :at] = self.room[:, :at]
                    self.room = grown
                    length = self._call(text, pair, most, at)
            except WherryError as failure:
                raise WherryError(f"text {first + i}: {failure}", failure.status) from None
            if limit and length > limit:
                raise WherryError(f"text {first + i} has {length} tokens, and the model takes at most {limit}: shorten it, "
                                  "or let it be cut (truncate=True)", "too long")
            lengths[i] = length
            at += length
        return Tokens(self.room[0, :at].copy(), self.room[1, :at].copy(), lengths)


class Tokenizer:
    """Tokenizes ahead of whoever reads, in threads of its own, as long as it is open."""

    def __init__(self, model, threads=0):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.threads = max(1, min(threads or cores, THREADS_MOST))
        self._model = model
        self._local = local()
        self._workers = []
        self._pool = None

    def _worker(self):
        worker = getattr(self._local, "worker", None)
        if worker is None:
            worker = self._local.worker = _Worker(self._model)
            self._workers.append(worker)
        return worker

    def _run(self, items, first, most, limit):
        return self._worker().run(items, first, most, limit)

    def stream(self, pairs, prompt, most, limit):
        """`pairs` gives (text, pair or None). Yields Tokens of up to CHUNK texts each, in order. What the input raises is
        raised after the texts before it."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, "wherry")
        source, first, pending, failure = iter(pairs), 0, deque(), None
        while True:
            while failure is None and len(pending) <= self.threads:
                items = []
                try:
                    for text, pair in islice(source, CHUNK):
                        index = first + len(items)
                        items.append((prompt + as_bytes(text, index),
                                      None if pair is None else as_bytes(pair, index, "the pair of text")))
                except Exception as raised:  # of the caller's generator, or a text that is none
                    failure = raised
                if items:
                    pending.append(self._pool.submit(self._run, items, first, most, limit))
                    first += len(items)
                if len(items) < CHUNK:
                    failure = failure or StopIteration()
            if not pending:
                break
            yield pending.popleft().result()
        if not isinstance(failure, StopIteration):
            raise failure

    def close(self):
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        for worker in self._workers:
            worker.context.close()
        self._workers = []


def batches(stream, most_tokens, most_sequences):
    """Fills batches with the sequences of a stream, in order. Yields Tokens."""
    ids, types, lengths, tokens, sequences = [], [], [], 0, 0

    def whole():
        return Tokens(np.concatenate(ids), np.concatenate(types), np.concatenate(lengths))

    for chunk in stream:
        ends = np.cumsum(chunk.lengths, dtype=np.int64)
        begin, begin_token = 0, 0
        while begin < len(chunk.lengths):
            room = most_tokens - tokens
            end = int(np.searchsorted(ends, begin_token + room, side="right"))
            end = min(end, begin + most_sequences - sequences)
            if end > begin:
                end_token = int(ends[end - 1])
                ids.append(chunk.ids[begin_token:end_token])
                types.append(chunk.types[begin_token:end_token])
                lengths.append(chunk.lengths[begin:end])
                tokens += end_token - begin_token
                sequences += end - begin
                begin, begin_token = end, end_token
            if begin < len(chunk.lengths):
                yield whole()
                ids, types, lengths, tokens, sequences = [], [], [], 0, 0
    if sequences:
        yield whole()
