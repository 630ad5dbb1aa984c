"""Forward and backward passes, and gradients, for a training loop of one's own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from threading import RLock
from typing import Any, Optional, Union

import numpy as np

from . import _native
from .context import Context
from .devices import Device, device_of
from .session import Session

_library = _native.library


class Layers:
    """The encoder layers of a model, without embeddings and pooling, for training: forward, backward, gradients.

    model: a folder, whose weights they have, or the name of a shape ("bert-base", "minilm-l6"), with random weights of
    `seed`. Keywords of a shape's fields override it: layers=2. max_tokens: of one batch, over all sequences. dropout:
    probability at the four places of a layer. dtype: "f32" or "f16"; in f16 the loss has to be scaled by the caller.
    Weights stay as they are: a step's update is the caller's, in a model folder of its own.

    Raises WherryError, which names what can't be had. Of one thread at a time, which a lock sees to.
    """

    def __init__(self, model: Union[str, os.PathLike], device: Optional[str] = None, dtype: Optional[str] = "f32", *,
                 max_tokens: int = 4096, dropout: float = 0.0, seed: int = 0, threads: int = 0,
                 cache_dir: Union[str, os.PathLike, None] = None, **shape: int):
        if dtype not in ("f32", "f16", None):
            raise ValueError(f"dtype is {dtype!r}: training has 'f32' and 'f16'")
        self._lock = RLock()
        self._session: Optional[Session] = None
        self._handle, self._device_handle = ctypes.c_void_p(), ctypes.c_void_p()
        self._context = Context(threads, cache_dir)
        self._tokens = 0
        try:
            check, context = self._context.check, self._context.handle
            check(_library.wherry_device_open(context, None if device is None else str(device).encode(),
                                              ctypes.byref(self._device_handle)))
            info = _native.DeviceInfo()
            check(_library.wherry_device_describe(self._device_handle, ctypes.byref(info)))
            self.device: Device = device_of(info)
            self._open_model(model, seed, shape)
            described = _native.ModelInfo(struct_size=ctypes.sizeof(_native.ModelInfo))
            check(_library.wherry_model_describe(self._handle, ctypes.byref(described)))
            self._config = described.config
            training = _native.TrainingDesc(struct_size=ctypes.sizeof(_native.TrainingDesc), dropout=dropout, stack=True)
            desc = _native.SessionDesc(struct_size=ctypes.sizeof(_native.SessionDesc), max_tokens=max_tokens,
                                       max_length=min(max_tokens, described.max_tokens), dtype=_native.DTYPES[dtype],
                                       training=ctypes.addressof(training))
            self._session = Session(self._context, self._device_handle, self._handle, desc)
            self._session.prepare()
        except BaseException:
            self.close()
            raise

    def _open_model(self, model: Union[str, os.PathLike], seed: int, shape: dict[str, int]) -> None:
        check, context = self._context.check, self._context.handle
        if os.path.isdir(model):
            if shape:
                raise ValueError(f"{', '.join(shape)}: a model folder has its own shape")
            check(_library.wherry_model_open(context, os.fsencode(os.fspath(model)), ctypes.byref(self._handle)))
            return
        config = _native.ModelConfig(struct_size=ctypes.sizeof(_native.ModelConfig))
        check(_library.wherry_model_config_named(context, os.fsencode(os.fspath(model)), ctypes.byref(config)))
        fields = {name for name, _ in _native.ModelConfig._fields_} - {"struct_size"}
        for name, value in shape.items():
            if name not in fields:
                raise TypeError(f"a shape has no {name!r}, but {', '.join(sorted(fields))}")
            setattr(config, name, value)
        check(_library.wherry_model_create_random(context, ctypes.byref(config), seed, ctypes.byref(self._handle)))

    @property
    def hidden(self) -> int:
        """Columns of what goes in and comes out."""
        return self._config.hidden

    @property
    def max_tokens(self) -> int:
        """Of one batch, over all its sequences."""
        return self._open().plan.max_tokens

    def forward(self, x: np.ndarray, lengths: Sequence[int], step: int = 0, seed: int = 0) -> np.ndarray:
        """Float32 [tokens][hidden] of x, the same: sequences back to back, of these lengths. seed and step decide what
        dropout drops. What backward needs stays on the device."""
        x = self._rows("x", x, int(np.sum(lengths)))
        offsets = np.zeros(len(lengths) + 1, dtype=np.uint32)
        np.cumsum(np.asarray(lengths, dtype=np.uint32), out=offsets[1:])
        batch = _native.Batch(struct_size=ctypes.sizeof(_native.Batch), sequences=len(lengths),
                              offsets=offsets.ctypes.data)
        place = _native.Step(struct_size=ctypes.sizeof(_native.Step), step=step, seed=seed)
        out = np.empty_like(x)
        with self._lock:
            session = self._open()
            self._context.check(_library.wherry_forward(session.handle, ctypes.byref(batch), x.ctypes.data,
                                                        ctypes.byref(place), out.ctypes.data, out.size))
            self._tokens = len(x)
        return out

    def backward(self, gradient: np.ndarray) -> np.ndarray:
        """The loss's gradient by x, float32 [tokens][hidden], from the one by what the last forward gave. Afterwards
        gradients() has those by the weights."""
        with self._lock:
            session = self._open()
            gradient = self._rows("gradient", gradient, self._tokens)
            out = np.empty_like(gradient)
            self._context.check(_library.wherry_backward(session.handle, gradient.ctypes.data, gradient.size,
                                                         out.ctypes.data, out.size))
        return out

    def gradients(self) -> dict[str, np.ndarray]:
        """{weight's name: float32} of the last backward, in the order in which it makes them. Axes as in the model's
        files: rows of a product's weight are its outputs. Q, K and V are one weight, [3][heads][size of a head][hidden]."""
        found: dict[str, np.ndarray] = {}
        with self._lock:
            session = self._open()
            for index in range(_library.wherry_gradient_count(session.handle)):
                weight = _native.Gradient(struct_size=ctypes.sizeof(_native.Gradient))
                self._context.check(_library.wherry_gradient_describe(session.handle, index, ctypes.byref(weight)))
                values = np.empty(weight.elements, dtype=np.float32)
                self._context.check(_library.wherry_gradient_read(session.handle, index, values.ctypes.data, values.size))
                found[weight.name.decode()] = self._shaped(values, weight.dims.decode())
        return found

    def _shaped(self, values: np.ndarray, letters: str) -> np.ndarray:
        config = self._config
        sizes = {"q": 3, "h": config.heads, "p": config.hidden // config.heads, "i": config.hidden,
                 "u": config.feed_forward}
        return values.reshape([sizes[letter] for letter in letters]) if set(letters) <= set(sizes) else values

    def _rows(self, name: str, values: np.ndarray, tokens: int) -> np.ndarray:
        values = np.ascontiguousarray(values, dtype=np.float32)
        if values.shape != (tokens, self.hidden):
            raise ValueError(f"{name} is {values.shape}, and has to be [tokens][hidden], {(tokens, self.hidden)}")
        return values

    def _open(self) -> Session:
        if self._session is None:
            raise ValueError("the layers are closed")
        return self._session

    def close(self) -> None:
        """Gives back what it has; twice is no error."""
        with self._lock:
            if self._session:
                self._session.close()
                self._session = None
            if self._handle:
                _library.wherry_model_close(self._handle)
            if self._device_handle:
                _library.wherry_device_close(self._device_handle)
            self._handle, self._device_handle = ctypes.c_void_p(), ctypes.c_void_p()
            self._context.close()

    def __enter__(self) -> Layers:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self.close()
