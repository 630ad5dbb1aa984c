"""The library's context: errors become exceptions here. A context belongs to one thread at a time."""

from __future__ import annotations

import ctypes
import os
from typing import Union

from . import _native
from .errors import WherryError

_library = _native.library


class Context:
    def __init__(self, threads: int = 0, cache_dir: Union[str, os.PathLike, None] = None,
                 low_priority: bool = False):
        desc = _native.ContextDesc(struct_size=ctypes.sizeof(_native.ContextDesc), threads=threads or 0,
                                   low_priority=low_priority,
                                   cache_dir=None if cache_dir is None else os.fsencode(cache_dir))
        self.handle = ctypes.c_void_p()
        status = _library.wherry_context_create(ctypes.byref(desc), ctypes.byref(self.handle))
        if status:
            raise WherryError("a context can't be made", _library.wherry_status_name(status).decode())

    def check(self, status: int) -> None:
        if status:
            raise WherryError(_library.wherry_last_error(self.handle).decode("utf-8", "replace"),
                              _library.wherry_status_name(status).decode())

    def close(self) -> None:
        if self.handle:
            _library.wherry_context_destroy(self.handle)
            self.handle = ctypes.c_void_p()
