"""A model folder on a device."""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from . import _native
from .context import Context
from .devices import Device, device_of
from .errors import WherryError
from .session import Session, SessionKey, Ticket, batch_of
from .texts import Tokenizer, Tokens, batches, begun

_library = _native.library
# A session of at most so many tokens has kernels that finish soon (OpenCL on NVIDIA): for a question or two.
FEW_TOKENS = 256
UNDER_WAY = 2  # batches on the device while the next one is filled


class Ranked(NamedTuple):
    """One text of rerank's: its number in what was given, its score, itself."""

    index: int  # type: ignore[assignment]  # a tuple's own is not needed
    score: float
    text: str


@dataclass(frozen=True)
class Verified:
    """What verify found: groups of operators, those of them that computed wrongly, and how often the same batch gave
    other bits."""

    groups: int
    failed: tuple[str, ...]
    replays: int
    replays_different: int

    @property
    def passed(self) -> bool:
        return not self.failed and not self.replays_different


Texts = Union[str, Sequence[str]]


def _listed(texts: Texts, pairs: Optional[Texts]) -> tuple[bool, list[str], Optional[list[str]]]:
    """Whether it is a single text, and lists of both."""
    if isinstance(texts, str):
        if pairs is not None and not isinstance(pairs, str):
            raise TypeError(f"the pair of one str is no str but {type(pairs).__name__}")
        return True, [texts], None if pairs is None else [pairs]
    if not hasattr(texts, "__len__"):
        raise TypeError("texts is no str and no list of str: encode_iter takes what has no length")
    if isinstance(pairs, str):
        raise TypeError("pairs is one str, and there are several texts")
    listed, others = list(texts), None if pairs is None else list(pairs)
    if others is not None and len(others) != len(listed):
        raise ValueError(f"{len(listed)} texts and {len(others)} pairs: as many of both")
    return False, listed, others


class _Progress:
    """Tells how many texts are done: True on stderr, or a function; anything else tells nobody."""

    def __init__(self, wanted: Union[bool, Callable[[int], Any]], total: int):
        self._call = wanted if callable(wanted) else self._print if wanted else None
        self._total, self._done = total, 0

    def _print(self, done: int) -> None:
        sys.stderr.write(f"\r{done} of {self._total} texts" + ("\n" if done == self._total else ""))
        sys.stderr.flush()

    def add(self, count: int) -> None:
        self._done += count
        if self._call:
            self._call(self._done)


class Model:
    """A model folder, as Hugging Face publishes it, on one device.

    path: the folder. device: an id of wherry.devices(), a UUID or a part of one name; None: the first GPU, else the
    host's cores. dtype: "f32", "f16" or "bf16"; None: f16 on a GPU, else f32. threads: of the host's cores, at most;
    0: all. cache_dir: for compiled kernels; None: the user's, "": none. low_priority: of the device's queue, so that
    other programs' work goes first; `device.priority` says whether the device has that. weights: "int8": those of
    products have 8 bits, with a scale for each row; None: as dtype says.

    Raises WherryError where the folder or the device can't be used. Several threads may share a model: their batches
    take turns. Close it, or use it in a `with`; calls of a closed model raise ValueError.
    """

    def __init__(self, path: Union[str, os.PathLike], device: Optional[str] = None, dtype: Optional[str] = None, *,
                 threads: int = 0, cache_dir: Union[str, os.PathLike, None] = None,
                 low_priority: bool = False, weights: Optional[str] = None):
        if dtype not in _native.DTYPES:
            raise ValueError(f"dtype is {dtype!r}: there are {', '.join(repr(d) for d in _native.DTYPES)}")
        if weights not in _native.WEIGHTS:
            raise ValueError(f"weights is {weights!r}: there are {', '.join(repr(w) for w in _native.WEIGHTS)}")
        self._dtype, self._weights = _native.DTYPES[dtype], _native.WEIGHTS[weights]
        self._lock = RLock()
        self._sessions: dict[SessionKey, Session] = {}
        self._tokenizer: Optional[Tokenizer] = None
        self._handle, self._device_handle = ctypes.c_void_p(), ctypes.c_void_p()
        self._context = Context(threads, cache_dir, low_priority)
        try:
            check, context = self._context.check, self._context.handle
            check(_library.wherry_device_open(context, None if device is None else str(device).encode(),
                                              ctypes.byref(self._device_handle)))
            check(_library.wherry_model_open(context, os.fsencode(os.fspath(path)), ctypes.byref(self._handle)))
            info = _native.DeviceInfo()
            check(_library.wherry_device_describe(self._device_handle, ctypes.byref(info)))
            self.device: Device = device_of(info)
            self._info = _native.ModelInfo(struct_size=ctypes.sizeof(_native.ModelInfo))
            check(_library.wherry_model_describe(self._handle, ctypes.byref(self._info)))
            self._tokenizer = Tokenizer(self._handle, threads)
        except BaseException:
            self.close()
            raise

    # ---- what it is ----

    @property
    def architecture(self) -> str:
        return self._info.architecture.decode()

    @property
    def max_tokens(self) -> int:
        """Of one text, special tokens included."""
        return self._info.max_tokens

    max_seq_length = max_tokens  # sentence-transformers' name

    @property
    def labels(self) -> list[str]:
        """Names of the classes that a classifier tells apart; [] of a model without."""
        names: list[str] = []
        with self._lock:
            self._check_open()
            while (name := _library.wherry_model_label(self._handle, len(names))) is not None:
                names.append(name.decode("utf-8", "replace"))
        return names

    @property
    def prompts(self) -> dict[str, str]:
        """{name: text} of what the model's files want before texts."""
        found: dict[str, str] = {}
        with self._lock:
            self._check_open()
            while (name := _library.wherry_model_prompt_name(self._handle, len(found))) is not None:
                found[name.decode("utf-8", "replace")] = self._prompt(name).decode("utf-8", "replace")
        return found

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers in an embedding: sentence-transformers' name."""
        with self._lock:
            self._check_open()
            plan = self._planned(SessionKey(_native.OUTPUT_EMBEDDING, 0, 0, self._batch_tokens(None)))
            return plan.embedding_size

    # ---- what it does ----

    def encode(self, texts: Texts, prompt: Optional[str] = None, dim: Optional[int] = None,
               pairs: Optional[Texts] = None, normalize: Optional[bool] = None, batch_tokens: Optional[int] = None,
               progress: Union[bool, Callable[[int], Any]] = False, truncate: bool = True) -> np.ndarray:
        """Embeddings: float32 [texts][dimensions], or [dimensions] of a single str.

        prompt: the name of a prompt of the model's files; None: the one that they use by themselves; "": none.
        dim: the leading dimensions alone, of length 1 again. pairs: a second text for each. normalize: True or False
        instead of what the files say. batch_tokens: of one run on the device, at most. progress: True shows how far it
        is on stderr; a function is called with the number of texts done. truncate: texts that are too long are cut;
        False: they are an error.

        TypeError names the first text that is none; WherryError is the library's. An interrupt (Ctrl-C) ends it after
        the batch that is running, and the model can be used again.
        """
        single, texts, pairs = _listed(texts, pairs)
        if not texts:
            return np.empty((0, dim or self.get_sentence_embedding_dimension()), dtype=np.float32)
        session, found = self._start(_native.OUTPUT_EMBEDDING, texts, pairs, prompt, dim, normalize, batch_tokens,
                                     truncate)
        out = self._all(session, found, len(texts), progress)
        return out[0] if single else out

    def encode_query(self, texts: Texts, **options: Any) -> np.ndarray:
        """encode with the prompt "query", where the files have one: sentence-transformers' name."""
        return self.encode(texts, **{"prompt": self._prompt_for("query"), **options})

    def encode_document(self, texts: Texts, **options: Any) -> np.ndarray:
        """encode with the prompt "document" or "passage", where the files have one: sentence-transformers' name."""
        return self.encode(texts, **{"prompt": self._prompt_for("document", "passage", "corpus"), **options})

    def encode_iter(self, texts: Iterable[str], prompt: Optional[str] = None, dim: Optional[int] = None,
                    normalize: Optional[bool] = None, batch_tokens: Optional[int] = None,
                    truncate: bool = True) -> Iterator[np.ndarray]:
        """The same of any iterable, one embedding after the other while it is read: float32 [dimensions] each. What the
        iterable raises is raised after the embeddings of what it gave before. Other calls may come in between."""
        session, found = self._start(_native.OUTPUT_EMBEDDING, texts, None, prompt, dim, normalize, batch_tokens,
                                     truncate)
        for out in self._runs(session, found, None):
            yield from out

    @staticmethod
    def similarity(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Cosines of all rows of a with all of b: float32 [rows of a][rows of b]. sentence-transformers' name."""
        def unit(x: np.ndarray) -> np.ndarray:
            x = np.atleast_2d(np.asarray(x, dtype=np.float32))
            return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), np.finfo(np.float32).tiny)

        return unit(a) @ unit(b).T

    def predict(self, texts: Texts, pairs: Optional[Texts] = None, batch_tokens: Optional[int] = None,
                truncate: bool = True, instruction: Optional[str] = None) -> np.ndarray:
        """Scores of a classifier or reranker, after what its files want to be made of them (sigmoid, softmax, nothing):
        float32 [texts][labels]. instruction: as rerank's. WherryError of a model that has no classes."""
        _, texts, pairs = _listed(texts, pairs)
        session, found = self._start(_native.OUTPUT_CLASSES, texts, pairs, "", None, None, batch_tokens, truncate,
                                     instruction)
        out = self._all(session, found, len(texts), False)
        _library.wherry_scores_apply(self._info.scores, out.ctypes.data, out.shape[0], out.shape[1])
        return out

    def rerank(self, query: str, texts: Sequence[str], top_k: Optional[int] = None, batch_tokens: Optional[int] = None,
               truncate: bool = True, instruction: Optional[str] = None) -> list[Ranked]:
        """How well texts answer the query, best first: a list of Ranked(index, score, text), at most top_k.

        instruction: what a reranker that is a language model (Qwen3-Reranker) is told to judge by; None: what its files
        say. WherryError of other models with one."""
        config = self._info.config
        if _native.HEADS[config.head] != "sequence" or config.labels != 1:
            raise WherryError("this model is no reranker: it has no classifier of one label", "unsupported")
        if not isinstance(query, str):
            raise TypeError(f"the query is no str but {type(query).__name__}")
        if isinstance(texts, str):
            raise TypeError("texts is one str: a list of them is ranked")
        texts = list(texts)
        scores = self.predict([query] * len(texts), texts, batch_tokens, truncate, instruction)[:, 0]
        order = np.argsort(-scores, kind="stable")[:top_k]
        return [Ranked(int(i), float(scores[i]), texts[i]) for i in order]

    def classify(self, texts: Texts, pairs: Optional[Texts] = None, batch_tokens: Optional[int] = None,
                 truncate: bool = True) -> list[dict[str, float]]:
        """For each text {label: score}, the best label first."""
        names = self.labels
        rows = self.predict(texts, pairs, batch_tokens, truncate)
        return [{names[i]: float(row[i]) for i in np.argsort(-row, kind="stable")} for row in rows]

    def tokenize(self, texts: Texts, pairs: Optional[Texts] = None,
                 truncate: bool = False) -> Union[np.ndarray, list[np.ndarray]]:
        """Token ids, special tokens included: a list of int32 arrays, or one of a single str."""
        single, texts, pairs = _listed(texts, pairs)
        found: list[np.ndarray] = []
        for tokens in self._tokens(texts, pairs, b"", self.max_tokens if truncate else 0, None):
            found += np.split(tokens.ids, np.cumsum(tokens.lengths)[:-1])
        return found[0] if single else found

    def verify(self, replays: int = 5) -> Verified:
        """Runs every group of operators on the device and compares it with the reference in double, and the whole
        `replays` times, whose bits have to be the same."""
        failed: list[str] = []

        def judge(result, _) -> bool:
            if not result.contents.passed:
                failed.append(result.contents.name.decode())
            return True

        lengths = np.array([1, 7, min(40, self.max_tokens)], dtype=np.uint32)
        ids = np.arange(int(lengths.sum()), dtype=np.int32) % self._info.config.vocabulary
        with self._lock:
            self._check_open()
            desc = self._desc(SessionKey(_native.OUTPUT_EMBEDDING, 0, 0, FEW_TOKENS))
            desc.keep_intermediates = True
            session = Session(self._context, self._device_handle, self._handle, desc)
            try:
                batch, offsets = batch_of(Tokens(ids, np.zeros_like(ids), lengths))
                summary = _native.VerifySummary(struct_size=ctypes.sizeof(_native.VerifySummary))
                callback = _native.VerifyCallback(judge)
                status = _library.wherry_verify(session.handle, ctypes.byref(batch), replays, callback, None,
                                                ctypes.byref(summary))
                if status and not summary.groups:
                    self._context.check(status)
                del offsets
            finally:
                session.close()
        return Verified(summary.groups, tuple(failed), summary.replays, summary.replays_different)

    def report(self) -> dict[str, Any]:
        """What runs where, and what it takes: library, architecture, parameters, device, and for each session that this
        model has had use for its plan, dtype, kernels, bytes of the device (of weight_bytes, shared_bytes are other
        sessions', too), tokens of a batch, and notes."""
        with self._lock:
            sessions = [s.report() for s in self._sessions.values()]
        return {"library": _library.wherry_version_string().decode(), "architecture": self.architecture,
                "parameters": self._info.parameters, "device": self.device, "sessions": sessions}

    # ---- within ----

    def _check_open(self) -> None:
        if not self._handle:
            raise ValueError("the model is closed")

    def _prompt(self, name: Optional[bytes]) -> bytes:
        out = ctypes.c_char_p()
        self._context.check(_library.wherry_model_prompt(self._context.handle, self._handle, name, ctypes.byref(out)))
        return out.value or b""

    def _prompt_for(self, *names: str) -> Optional[str]:
        prompts = self.prompts
        return next((name for name in names if name in prompts), None)

    def _batch_tokens(self, wanted: Optional[int]) -> int:
        """Of a batch, as many as the command has: what fills the device."""
        usual = 1024 if self.device.id == "reference" else 4096 if self.device.type == "CPU" else 16384
        return max(wanted or usual, self.max_tokens)

    def _desc(self, key: SessionKey) -> _native.SessionDesc:
        return _native.SessionDesc(struct_size=ctypes.sizeof(_native.SessionDesc), max_tokens=key.most_tokens,
                                   max_length=min(self.max_tokens, key.most_tokens), dtype=self._dtype,
                                   output=key.output, dimensions=key.dim, normalize=key.normalize,
                                   weights=self._weights)

    def _planned(self, key: SessionKey) -> _native.SessionPlan:
        """What such a session is; it takes no memory of the device before it is used."""
        if key in self._sessions:
            return self._sessions[key].plan
        session = Session(self._context, self._device_handle, self._handle, self._desc(key))
        session.close()
        return session.plan

    def _session(self, key: SessionKey) -> Session:
        with self._lock:
            self._check_open()
            if key not in self._sessions:
                session = Session(self._context, self._device_handle, self._handle, self._desc(key))
                try:
                    session.prepare()
                except BaseException:
                    session.close()
                    raise
                self._sessions[key] = session
            return self._sessions[key]

    def _tokens(self, texts: Iterable[str], pairs: Optional[Iterable[str]], prompt: bytes, most: int,
                limit: Optional[int], instruction: Optional[str] = None) -> Iterator[Tokens]:
        with self._lock:
            self._check_open()
            tokenizer = self._tokenizer
        assert tokenizer is not None
        return tokenizer.stream(texts, pairs, prompt, most, limit, None if instruction is None else instruction.encode())

    def _start(self, output: int, texts: Iterable[str], pairs: Optional[Iterable[str]], prompt: Optional[str],
               dim: Optional[int], normalize: Optional[bool], batch_tokens: Optional[int],
               truncate: bool, instruction: Optional[str] = None) -> tuple[Session, Iterator[Tokens]]:
        """The session for these texts, and a stream of their tokens. A call of few tokens has a small session."""
        for name, value in (("dim", dim), ("batch_tokens", batch_tokens)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: at least 1")
        with self._lock:
            self._check_open()
            before = b"" if prompt == "" else self._prompt(None if prompt is None else prompt.encode())
        stream = self._tokens(texts, pairs, before, self.max_tokens if truncate else 0, self.max_tokens, instruction)
        first, stream = begun(stream, 2)
        few = len(first) < 2 and sum(int(t.lengths.sum()) for t in first) <= FEW_TOKENS and batch_tokens is None
        sign = 0 if normalize is None else 1 if normalize else -1
        most = FEW_TOKENS if few else self._batch_tokens(batch_tokens)
        return self._session(SessionKey(output, dim or 0, sign, most)), stream

    def _runs(self, session: Session, found: Iterator[Tokens], out: Optional[np.ndarray]) -> Iterator[np.ndarray]:
        """Each batch's rows, in out where it is given. UNDER_WAY batches are on the device meanwhile, so that it goes on
        while this thread fills the next one. What the stream of tokens raises is raised after what came before it."""
        under_way: deque[Ticket] = deque()
        stream, at, failure = batches(found, session.plan.max_tokens, session.plan.max_sequences), 0, None
        try:
            while failure is None or under_way:
                try:
                    tokens = None if failure else next(stream)
                except Exception as raised:
                    tokens, failure = None, raised
                if tokens is not None:
                    end = at + len(tokens.lengths)
                    shape = (end - at, session.plan.embedding_size)
                    rows = np.empty(shape, dtype=np.float32) if out is None else out[at:end]
                    at = end
                    with self._lock:
                        under_way.append(session.submit(tokens, rows))
                if under_way and (failure or len(under_way) > UNDER_WAY):
                    with self._lock:
                        rows = under_way.popleft().wait()
                    yield rows
        finally:
            with self._lock:
                for ticket in under_way:
                    ticket.drop()
        if not isinstance(failure, StopIteration):
            raise failure

    def _all(self, session: Session, found: Iterator[Tokens], count: int,
             progress: Union[bool, Callable[[int], Any]]) -> np.ndarray:
        """All rows, each batch's written where they belong."""
        out, bar, done = np.empty((count, session.plan.embedding_size), dtype=np.float32), _Progress(progress, count), 0
        for rows in self._runs(session, found, out):
            done += len(rows)
            bar.add(len(rows))
        assert done == count
        return out

    def close(self) -> None:
        """Gives back what it has; twice is no error. Waits for a call of another thread that is running."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions = {}
            if self._tokenizer:
                self._tokenizer.close()
                self._tokenizer = None
            if self._handle:
                _library.wherry_model_close(self._handle)
            if self._device_handle:
                _library.wherry_device_close(self._device_handle)
            self._handle, self._device_handle = ctypes.c_void_p(), ctypes.c_void_p()
            self._context.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self.close()
