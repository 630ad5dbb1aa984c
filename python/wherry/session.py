"""A session: the model on its device, for batches up to a size."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from . import _native
from .context import Context
from .texts import Tokens

_library = _native.library


class SessionKey(NamedTuple):
    """What tells a model's sessions apart. dim, 0: as the files say. normalize: 1, -1, 0: as the files say."""

    output: int
    dim: int
    normalize: int
    most_tokens: int


def batch_of(tokens: Tokens) -> tuple[_native.Batch, np.ndarray]:
    """The structure, and what else it points to than tokens' arrays."""
    offsets = np.zeros(len(tokens.lengths) + 1, dtype=np.uint32)
    np.cumsum(tokens.lengths, out=offsets[1:])
    batch = _native.Batch(struct_size=ctypes.sizeof(_native.Batch), sequences=len(tokens.lengths),
                          offsets=offsets.ctypes.data, ids=tokens.ids.ctypes.data, types=tokens.types.ctypes.data)
    return batch, offsets


class Ticket:
    """A batch that is under way. Whoever made its session holds a lock in all calls."""

    def __init__(self, session: Session, handle: ctypes.c_void_p, out: np.ndarray):
        self._session, self._handle = session, handle
        self.out = out  # the device's until it is done

    def wait(self) -> np.ndarray:
        if not self._handle:
            raise ValueError("the model is closed")
        try:
            self._session.context.check(_library.wherry_ticket_wait(self._handle, _native.FOR_EVER))
        finally:
            self.drop()
        return self.out

    def drop(self) -> None:
        """Nobody waits for it any more. A second time is no error."""
        if self._handle:
            _library.wherry_ticket_destroy(self._handle)
            self._handle = ctypes.c_void_p()
            self._session.tickets.discard(self)


class Session:
    """Made of a context, a device, a model and a SessionDesc. Of one thread at a time."""

    def __init__(self, context: Context, device: ctypes.c_void_p, model: ctypes.c_void_p, desc: _native.SessionDesc):
        self.context, self.handle = context, ctypes.c_void_p()
        self.tickets: set[Ticket] = set()
        context.check(_library.wherry_session_create(context.handle, device, model, ctypes.byref(desc),
                                                     ctypes.byref(self.handle)))
        self.plan = self._query()

    def _query(self) -> _native.SessionPlan:
        plan = _native.SessionPlan(struct_size=ctypes.sizeof(_native.SessionPlan))
        self.context.check(_library.wherry_session_query(self.handle, ctypes.byref(plan)))
        return plan

    def report(self) -> dict[str, Any]:
        plan = self._query()  # anew: what is shared depends on who else is there
        return {"plan": plan.plan.decode(), "dtype": _native.DTYPE_NAMES.get(plan.dtype, "?"), "kernels": plan.launches,
                "device_bytes": plan.device_bytes, "weight_bytes": plan.weight_bytes, "shared_bytes": plan.shared_bytes,
                "max_tokens": plan.max_tokens, "notes": self.notes()}

    def prepare(self) -> None:
        """Compiles what is not in the cache, which may take minutes: in another thread, so that this one can be
        interrupted; then it ends between two kernels."""
        stop = Event()
        go_on = _native.ProgressCallback(lambda *_: not stop.is_set())

        def work() -> None:
            self.context.check(_library.wherry_session_prepare(self.handle, go_on, None, None))

        with ThreadPoolExecutor(1, "wherry-prepare") as pool:
            done = pool.submit(work)
            try:
                done.result()
            except BaseException:
                stop.set()
                while not done.done():
                    try:
                        wait([done])
                    except KeyboardInterrupt:
                        pass  # the session can't go before
                raise

    def submit(self, tokens: Tokens, out: np.ndarray) -> Ticket:
        """Hands the batch to the device, whose results go into out, float32 [sequences][embedding_size]."""
        if not self.handle:
            raise ValueError("the model is closed")
        batch, offsets = batch_of(tokens)
        desc = _native.SubmitDesc(struct_size=ctypes.sizeof(_native.SubmitDesc), out=out.ctypes.data,
                                  out_floats=out.size)
        handle = ctypes.c_void_p()
        self.context.check(_library.wherry_encode_submit(self.handle, ctypes.byref(batch), ctypes.byref(desc),
                                                         ctypes.byref(handle)))
        del offsets  # the library has what it needs of them
        ticket = Ticket(self, handle, out)
        self.tickets.add(ticket)
        return ticket

    def notes(self) -> list[str]:
        found: list[str] = []
        while (note := _library.wherry_session_note(self.handle, len(found))) is not None:
            found.append(note.decode("utf-8", "replace"))
        return found

    def close(self) -> None:
        for ticket in list(self.tickets):
            ticket.drop()
        if self.handle:
            _library.wherry_session_destroy(self.handle)
            self.handle = ctypes.c_void_p()
