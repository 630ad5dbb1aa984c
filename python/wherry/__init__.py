"""Transformer encoders on any GPU, through OpenCL and Vulkan, and on the host's cores.

    import wherry
    with wherry.Model("all-MiniLM-L6-v2") as model:
        vectors = model.encode(["A wherry is a light boat.", "It carries goods and people."])

A thin binding of the C library of the same name: texts in, numpy arrays out. Calls let other threads run.
"""

from . import _native
from .devices import Device, devices
from .errors import WherryError
from .model import Model, Ranked, Verified
from .training import Layers

__version__ = _native.library.wherry_version_string().decode()
__all__ = ["Device", "Layers", "Model", "Ranked", "Verified", "WherryError", "devices"]
