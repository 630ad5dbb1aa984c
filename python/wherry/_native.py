"""The C library through ctypes: its functions and structures as wherry/wherry.h declares them, and nothing else.

The library refuses structures of another size than its own, so it must be the one that this package came with, which
the names of versions tell. tests/test_native.py compares all sizes and offsets with the header's.
"""

import ctypes
import os
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

STATUS_OK, STATUS_TOO_LONG, STATUS_CANCELLED = 0, 10, 12
OUTPUT_EMBEDDING, OUTPUT_CLASSES = 0, 1
DTYPES = {None: 0, "f32": 1, "f16": 2, "bf16": 3}
WEIGHTS = {None: 0, "int8": 1}
DTYPE_NAMES = {1: "f32", 2: "f16", 3: "bf16"}
DEVICE_TYPES = ("other", "GPU", "integrated GPU", "virtual GPU", "CPU")
FOR_EVER = 2**64 - 1  # nanoseconds
HEADS = ("none", "sequence", "tokens", "vocabulary")


class ContextDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("alloc", c_void_p), ("free", c_void_p), ("log", c_void_p),
                ("user", c_void_p), ("cache_dir", c_char_p), ("unoptimized", c_bool), ("threads", c_uint32),
                ("timed", c_bool), ("compiler", c_char_p), ("compile_seconds", c_uint32), ("low_priority", c_bool)]


class DeviceInfo(Structure):
    _fields_ = [("id", c_char * 32), ("name", c_char * 256), ("driver", c_char * 256), ("api", c_char * 64),
                ("uuid", c_uint8 * 16), ("type", c_int), ("usable", c_bool), ("reason", c_char * 256),
                ("compiles_only", c_bool), ("memory_bytes", c_uint64), ("quirks", c_char * 256),
                ("device_class", c_char * 24), ("priority", c_char * 160)]


class ModelConfig(Structure):
    _fields_ = [("struct_size", c_uint32), ("layers", c_uint32), ("hidden", c_uint32), ("heads", c_uint32),
                ("feed_forward", c_uint32), ("vocabulary", c_uint32), ("positions", c_uint32),
                ("token_types", c_uint32), ("activation", c_int), ("pre_layernorm", c_bool), ("pooler", c_bool),
                ("epsilon", c_float), ("position_offset", c_uint32), ("embedding", c_uint32),
                ("relative_buckets", c_uint32), ("relative_distance", c_uint32), ("head", c_int), ("labels", c_uint32),
                ("head_activation", c_int), ("untied", c_bool), ("gate", c_int), ("without", c_uint32),
                ("rotary_base", c_float), ("rotary_base_local", c_float), ("rotary_factor", c_float),
                ("head_norm", c_bool), ("head_mean", c_bool), ("norm", c_int), ("key_heads", c_uint32),
                ("head_channels", c_uint32), ("head_norms", c_bool), ("causal", c_bool), ("window", c_uint32),
                ("global_every", c_uint32), ("global_first", c_uint32), ("alibi", c_bool), ("head_last", c_bool),
                ("block_norms", c_bool), ("embedding_scale", c_float),
                ("next_sentence", c_bool), ("beyond_f16", c_bool), ("experts", c_uint32),
                ("chosen_experts", c_uint32), ("experts_every", c_uint32), ("experts_normalized", c_bool),
                ("rotary_dynamic", c_float), ("rotary_trained", c_uint32), ("wide_norms", c_bool),
                ("double_norms", c_bool)]


class ModelInfo(Structure):
    _fields_ = [("struct_size", c_uint32), ("config", ModelConfig), ("architecture", c_char * 64), ("pool", c_int),
                ("normalize", c_bool), ("max_tokens", c_uint32), ("parameters", c_uint64),
                ("weight_file_bytes", c_uint64), ("has_tokenizer", c_bool), ("scores", c_int), ("prompts", c_uint32),
                ("mask_token", c_int32), ("dimensions", c_uint32), ("tokenizer", c_char * 24), ("cls_token", c_int32),
                ("eos_token", c_int32), ("pad_token", c_int32), ("unknown_token", c_int32), ("token_weights", c_bool),
                ("token_vectors", c_bool), ("words", c_bool), ("pair_template", c_bool)]


class SessionDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("max_tokens", c_uint32), ("max_sequences", c_uint32),
                ("max_length", c_uint32), ("max_labels", c_uint32), ("dtype", c_int), ("plan", c_char_p), ("pool", c_int), ("normalize", c_int),
                ("memory_budget", c_uint64), ("keep_intermediates", c_bool), ("training", c_void_p),
                ("kernels", c_char_p), ("tuning", c_char_p), ("only", c_char_p), ("layouts", c_char_p),
                ("output", c_int), ("dimensions", c_uint32), ("max_submit_ms", c_double), ("pause_us", c_uint32),
                ("weights", c_int), ("max_launch_ms", c_double)]


class SessionPlan(Structure):
    _fields_ = [("struct_size", c_uint32), ("device_bytes", c_uint64), ("weight_bytes", c_uint64),
                ("shared_bytes", c_uint64), ("activation_bytes", c_uint64), ("saved_bytes", c_uint64), ("groups", c_uint32),
                ("launches", c_uint32), ("operators", c_uint32), ("splits", c_uint32), ("embedding_size", c_uint32),
                ("dtype", c_int), ("max_tokens", c_uint32), ("max_sequences", c_uint32), ("max_length", c_uint32),
                ("plan", c_char * 16), ("layouts", c_char * 160), ("layouts_reason", c_char * 96), ("weights", c_int)]


class PrepareInfo(Structure):
    _fields_ = [("struct_size", c_uint32), ("kernels", c_uint32), ("kernels_compiled", c_uint32),
                ("seconds", c_double)]


class Batch(Structure):
    _fields_ = [("struct_size", c_uint32), ("sequences", c_uint32), ("offsets", c_void_p),
                ("ids", c_void_p), ("types", c_void_p), ("rows", c_void_p), ("labels", c_void_p),
                ("next", c_void_p)]


class VerifyResult(Structure):
    _fields_ = [("name", c_char * 64), ("kernel", c_char * 32), ("nmse", c_double), ("max_error", c_double),
                ("tolerance", c_double), ("values", c_uint64), ("not_finite", c_uint64), ("guards_intact", c_bool),
                ("passed", c_bool)]


class VerifySummary(Structure):
    _fields_ = [("struct_size", c_uint32), ("groups", c_uint32), ("failed", c_uint32), ("replays", c_uint32),
                ("replays_different", c_uint32)]


class SubmitDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("out", c_void_p), ("out_floats", c_size_t), ("done", c_void_p),
                ("user", c_void_p), ("vulkan", c_void_p), ("opencl", c_void_p)]


class TextsDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("max_tokens", c_uint32), ("limit", c_uint32), ("threads", c_uint32),
                ("prompt", c_char_p), ("form", c_void_p), ("places", c_bool), ("instruction", c_char_p)]


class TokensOut(Structure):
    _fields_ = [("struct_size", c_uint32), ("texts", c_size_t), ("offsets", POINTER(c_uint32)),
                ("ids", POINTER(c_int32)), ("types", POINTER(c_int32)), ("places", c_void_p), ("threads", c_uint32),
                ("failed", c_int), ("failed_tokens", c_uint64), ("problem", c_char * 512)]


class TrainingDesc(Structure):
    _fields_ = [("struct_size", c_uint32), ("dropout", c_float), ("save", c_int), ("stack", c_bool),
                ("qkv_products", c_uint32), ("least_layers", c_uint32)]


class Step(Structure):
    _fields_ = [("struct_size", c_uint32), ("step", c_uint32), ("seed", c_uint64)]


class Gradient(Structure):
    _fields_ = [("struct_size", c_uint32), ("name", c_char * 48), ("dims", c_char * 16), ("layer", c_int32),
                ("elements", c_uint64)]


ProgressCallback = CFUNCTYPE(c_bool, c_char_p, c_size_t, c_size_t, c_void_p)
VerifyCallback = CFUNCTYPE(c_bool, POINTER(VerifyResult), c_void_p)

_STATUS, _HANDLE = c_int, c_void_p
_FUNCTIONS = {
    "wherry_version_string": (c_char_p, []),
    "wherry_status_name": (c_char_p, [_STATUS]),
    "wherry_context_create": (_STATUS, [POINTER(ContextDesc), POINTER(_HANDLE)]),
    "wherry_context_destroy": (None, [_HANDLE]),
    "wherry_last_error": (c_char_p, [_HANDLE]),
    "wherry_device_list": (_STATUS, [_HANDLE, POINTER(DeviceInfo), POINTER(c_size_t)]),
    "wherry_device_open": (_STATUS, [_HANDLE, c_char_p, POINTER(_HANDLE)]),
    "wherry_device_close": (None, [_HANDLE]),
    "wherry_device_describe": (_STATUS, [_HANDLE, POINTER(DeviceInfo)]),
    "wherry_model_open": (_STATUS, [_HANDLE, c_char_p, POINTER(_HANDLE)]),
    "wherry_model_describe": (_STATUS, [_HANDLE, POINTER(ModelInfo)]),
    "wherry_model_close": (None, [_HANDLE]),
    "wherry_model_label": (c_char_p, [_HANDLE, c_uint32]),
    "wherry_model_prompt_name": (c_char_p, [_HANDLE, c_uint32]),
    "wherry_model_prompt": (_STATUS, [_HANDLE, _HANDLE, c_char_p, POINTER(c_char_p)]),
    "wherry_scores_apply": (None, [c_int, c_void_p, c_size_t, c_size_t]),
    "wherry_model_config_named": (_STATUS, [_HANDLE, c_char_p, POINTER(ModelConfig)]),
    "wherry_model_create_random": (_STATUS, [_HANDLE, POINTER(ModelConfig), c_uint64, POINTER(_HANDLE)]),
    "wherry_tokenize_texts": (_STATUS, [_HANDLE, _HANDLE, c_void_p, c_size_t, POINTER(TextsDesc), POINTER(TokensOut)]),
    "wherry_tokens_free": (None, [_HANDLE, POINTER(TokensOut)]),
    "wherry_session_create": (_STATUS, [_HANDLE, _HANDLE, _HANDLE, POINTER(SessionDesc), POINTER(_HANDLE)]),
    "wherry_session_destroy": (None, [_HANDLE]),
    "wherry_session_query": (_STATUS, [_HANDLE, POINTER(SessionPlan)]),
    "wherry_session_note": (c_char_p, [_HANDLE, c_size_t]),
    "wherry_session_prepare": (_STATUS, [_HANDLE, ProgressCallback, c_void_p, POINTER(PrepareInfo)]),
    "wherry_encode_submit": (_STATUS, [_HANDLE, POINTER(Batch), POINTER(SubmitDesc), POINTER(_HANDLE)]),
    "wherry_ticket_wait": (_STATUS, [_HANDLE, c_uint64]),
    "wherry_ticket_destroy": (None, [_HANDLE]),
    "wherry_forward": (_STATUS, [_HANDLE, POINTER(Batch), c_void_p, POINTER(Step), c_void_p, c_size_t]),
    "wherry_backward": (_STATUS, [_HANDLE, c_void_p, c_size_t, c_void_p, c_size_t]),
    "wherry_gradient_count": (c_size_t, [_HANDLE]),
    "wherry_gradient_describe": (_STATUS, [_HANDLE, c_size_t, POINTER(Gradient)]),
    "wherry_gradient_read": (_STATUS, [_HANDLE, c_size_t, c_void_p, c_size_t]),
    "wherry_verify": (_STATUS, [_HANDLE, POINTER(Batch), c_uint32, VerifyCallback, c_void_p, POINTER(VerifySummary)]),
}

_NAMES = {"win32": "libwherry.dll", "darwin": "libwherry.dylib"}


def _candidates():
    """What WHERRY_LIBRARY names, else the wheel's own, else what the system finds."""
    named = os.environ.get("WHERRY_LIBRARY")
    if named:
        return [named]
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_library")
    name = _NAMES.get(sys.platform, "libwherry.so.0")
    own = [os.path.join(here, found) for found in sorted(os.listdir(here))] if os.path.isdir(here) else []
    return [path for path in own if os.path.basename(path).startswith("libwherry")] + [name]


def _load():
    failures = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as failure:
            failures.append(str(failure))
            continue
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is None:
                raise ImportError(f"{path} has no {name}: it is older than this package; use the library that came with it")
            function.restype, function.argtypes = result, arguments
        return library
    raise ImportError("Wherry's library can't be loaded: " + "; ".join(failures) +
                      ". Set WHERRY_LIBRARY to its path, or install it where the system looks for libraries")


library = _load()
