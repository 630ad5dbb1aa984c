"""From texts to token ids, ahead of whoever reads them, in the order of the texts."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, Optional

import numpy as np

from . import _native
from .context import Context
from .errors import WherryError

_library = _native.library
# What is given to the library's threads at once: texts are taken by STEP until there are so many, or so many characters.
BLOCK_TEXTS, BLOCK_CHARACTERS, STEP = 4096, 1 << 16, 256
AHEAD = 2  # blocks
NO_LIMIT = 2**32 - 1


class Tokens(NamedTuple):
    """Sequences side by side: int32 ids and types of all, and the length of each."""

    ids: np.ndarray
    types: np.ndarray
    lengths: np.ndarray


def _joined(texts: list[str]) -> tuple[bytes, np.ndarray]:
    """UTF-8 of all, and where each begins and ends: uintp [texts + 1]. Half a surrogate pair becomes bytes that are no
    UTF-8, which the library replaces by U+FFFD."""
    ends = np.zeros(len(texts) + 1, dtype=np.uintp)
    whole = "".join(texts)
    if whole.isascii():
        data, sizes = whole.encode(), map(len, texts)
    else:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        data, sizes = b"".join(parts), map(len, parts)
    np.cumsum(np.fromiter(sizes, dtype=np.uintp, count=len(texts)), out=ends[1:])
    return data, ends


class _Block:
    """Texts as the library wants them: wherry_text [texts], and the memory that they point into."""

    def __init__(self, texts: list[str], pairs: Optional[list[str]], first: int):
        self.first, self.count = first, len(texts)
        self.table = np.zeros((len(texts), 4), dtype=np.uintp)
        self.memory = [self._put(0, *_joined(texts))]
        if pairs is not None:
            self.memory.append(self._put(2, *_joined(pairs)))

    def _put(self, column: int, data: bytes, ends: np.ndarray) -> bytes:
        address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
        self.table[:, column] = ends[:-1] + np.uintp(address)
        self.table[:, column + 1] = np.diff(ends)
        return data


class _Taken:
    """What was taken of an iterable: texts up to where it ended or raised, or up to one that is none, or a block's worth.
    `failure`: what ended it."""

    def __init__(self, source: Iterator[str], others: Optional[Iterator[str]], first: int):
        self.texts: list[str] = []
        self.failure: Optional[Exception] = None
        characters = 0
        while self.failure is None and len(self.texts) < BLOCK_TEXTS and characters < BLOCK_CHARACTERS:
            before = len(self.texts)
            try:
                self.texts.extend(islice(source, STEP))
                if len(self.texts) - before < STEP:
                    self.failure = StopIteration()
            except Exception as raised:  # the caller's own; what came before it is kept
                self.failure = raised
            self._check("text", self.texts, before, first)
            characters += sum(map(len, self.texts[before:]))
        self.pairs = None if others is None else list(islice(others, len(self.texts)))
        if self.pairs is not None:
            self._check("the pair of text", self.pairs, 0, first)
            del self.texts[len(self.pairs):]

    def _check(self, what: str, found: list, begin: int, first: int) -> None:
        if set(map(type, found[begin:])) <= {str}:
            return
        for i in range(begin, len(found)):
            if not isinstance(found[i], str):
                self.failure = TypeError(f"{what} {first + i} is no str but {type(found[i]).__name__}")
                del found[i:]
                return


class Tokenizer:
    """Tokenizes in a thread of its own, by the library's threads, as long as it is open."""

    def __init__(self, model: ctypes.c_void_p, threads: int = 0):
        self._model, self._threads = model, threads
        self._context = Context()
        self._pool: Optional[ThreadPoolExecutor] = ThreadPoolExecutor(1, "wherry")

    def _run(self, block: _Block, prompt: bytes, most: int, limit: Optional[int],
             instruction: Optional[bytes]) -> tuple[Tokens, Optional[WherryError]]:
        """The texts' tokens, and what is wrong with the first that has none."""
        desc = _native.TextsDesc(struct_size=ctypes.sizeof(_native.TextsDesc), max_tokens=most,
                                 limit=NO_LIMIT if limit is None else limit, threads=self._threads, prompt=prompt,
                                 instruction=instruction)
        out = _native.TokensOut(struct_size=ctypes.sizeof(_native.TokensOut))
        self._context.check(_library.wherry_tokenize_texts(self._context.handle, self._model, block.table.ctypes.data,
                                                           block.count, ctypes.byref(desc), ctypes.byref(out)))
        try:
            offsets = np.ctypeslib.as_array(out.offsets, (out.texts + 1,)).copy()
            total = (int(offsets[-1]),)
            tokens = Tokens(np.ctypeslib.as_array(out.ids, total).copy(), np.ctypeslib.as_array(out.types, total).copy(),
                            np.diff(offsets))
            return tokens, self._failure(block.first + out.texts, out, limit) if out.failed else None
        finally:
            _library.wherry_tokens_free(self._context.handle, ctypes.byref(out))

    @staticmethod
    def _failure(number: int, out: _native.TokensOut, limit: Optional[int]) -> WherryError:
        status = _library.wherry_status_name(out.failed).decode()
        if out.failed == _native.STATUS_TOO_LONG and out.failed_tokens:
            return WherryError(f"text {number} has {out.failed_tokens} tokens, and the model takes at most {limit}: "
                               "shorten it, or let it be cut (truncate=True)", status)
        return WherryError(f"text {number}: {out.problem.decode('utf-8', 'replace')}", status)

    def _submit(self, block: _Block, prompt: bytes, most: int, limit: Optional[int],
                instruction: Optional[bytes]) -> Future:
        if self._pool is None:
            raise ValueError("the model is closed")
        return self._pool.submit(self._run, block, prompt, most, limit, instruction)

    def stream(self, texts: Iterable[str], pairs: Optional[Iterable[str]], prompt: bytes, most: int,
               limit: Optional[int], instruction: Optional[bytes] = None) -> Iterator[Tokens]:
        """Tokens of some texts each, in order. `most`: what a text is cut to, 0: it is not; `limit`: more tokens than
        that are an error. What the input raises, and what is wrong with a text, is raised after the texts before it."""
        source, first = iter(texts), 0
        others = None if pairs is None else iter(pairs)
        pending: deque = deque()
        failure: Optional[Exception] = None
        while True:
            while failure is None and len(pending) < AHEAD:
                taken = _Taken(source, others, first)
                failure = taken.failure
                if taken.texts:
                    pending.append(self._submit(_Block(taken.texts, taken.pairs, first), prompt, most, limit,
                                                instruction))
                    first += len(taken.texts)
            if not pending:
                assert failure is not None
                break
            tokens, problem = pending.popleft().result()
            if len(tokens.lengths):
                yield tokens
            if problem:
                raise problem
        if not isinstance(failure, StopIteration):
            raise failure

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None
        self._context.close()


def begun(stream: Iterator[Tokens], count: int) -> tuple[list[Tokens], Iterator[Tokens]]:
    """The first ones, at most so many, and the whole stream. What is raised after some is raised by the stream."""
    first: list[Tokens] = []
    failure: Optional[Exception] = None
    try:
        first.extend(islice(stream, count))
    except Exception as raised:
        if not first:
            raise
        failure = raised

    def whole() -> Iterator[Tokens]:
        yield from first
        if failure is not None:
            raise failure
        yield from stream

    return first, whole()


def batches(stream: Iterator[Tokens], most_tokens: int, most_sequences: int) -> Iterator[Tokens]:
    """Fills batches with the sequences of a stream, in order. What the stream raises is raised after the last batch."""
    parts: list[Tokens] = []
    tokens = sequences = 0
    failure: Optional[Exception] = None
    while True:
        try:
            chunk = next(stream)
        except Exception as raised:
            failure = raised
            break
        ends = np.cumsum(chunk.lengths, dtype=np.int64)
        begin, begin_token = 0, 0
        while begin < len(chunk.lengths):
            room = most_tokens - tokens
            end = int(np.searchsorted(ends, begin_token + room, side="right"))
            end = min(end, begin + most_sequences - sequences)
            if end > begin:
                end_token = int(ends[end - 1])
                parts.append(Tokens(chunk.ids[begin_token:end_token], chunk.types[begin_token:end_token],
                                    chunk.lengths[begin:end]))
                tokens += end_token - begin_token
                sequences += end - begin
                begin, begin_token = end, end_token
            if begin < len(chunk.lengths):
                yield Tokens(*map(np.concatenate, zip(*parts)))
                parts, tokens, sequences = [], 0, 0
    if sequences:
        yield Tokens(*map(np.concatenate, zip(*parts)))
    if not isinstance(failure, StopIteration):
        raise failure
