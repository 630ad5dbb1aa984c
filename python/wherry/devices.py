"""The devices of this machine."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from . import _native
from .context import Context

_library = _native.library


@dataclass(frozen=True)
class Device:
    """One device through one API. `reason` says why it is not usable, "" where it is; `memory` in bytes.

    `priority`: "" but where low priority was asked for; then it begins with "low", or says why the device has none.
    """

    id: str
    name: str
    driver: str
    api: str
    type: str
    usable: bool
    reason: str
    memory: int
    priority: str = ""


def device_of(info: _native.DeviceInfo) -> Device:
    def text(value: bytes) -> str:
        return value.decode("utf-8", "replace")

    kinds = _native.DEVICE_TYPES
    return Device(text(info.id), text(info.name), text(info.driver), text(info.api),
                  kinds[info.type] if 0 <= info.type < len(kinds) else kinds[0], info.usable, text(info.reason),
                  info.memory_bytes, text(info.priority))


def devices() -> list[Device]:
    """All devices: Vulkan's, OpenCL's, the host's cores ("cpu"), the reference. A list of Device."""
    context = Context()
    try:
        count = ctypes.c_size_t()
        context.check(_library.wherry_device_list(context.handle, None, ctypes.byref(count)))
        infos = (_native.DeviceInfo * max(count.value, 1))()
        context.check(_library.wherry_device_list(context.handle, infos, ctypes.byref(count)))
        return [device_of(infos[i]) for i in range(min(count.value, len(infos)))]
    finally:
        context.close()
