"""The declarations of wherry/_native.py beside those of wherry.h, as a C compiler has them.

usage: test_native.py INCLUDE_FOLDER, with WHERRY_LIBRARY and PYTHONPATH set
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile

from wherry import _native

STRUCTURES = {
    "wherry_context_desc": _native.ContextDesc,
    "wherry_device_info": _native.DeviceInfo,
    "wherry_model_config": _native.ModelConfig,
    "wherry_model_info": _native.ModelInfo,
    "wherry_session_desc": _native.SessionDesc,
    "wherry_session_plan": _native.SessionPlan,
    "wherry_prepare_info": _native.PrepareInfo,
    "wherry_batch": _native.Batch,
    "wherry_submit_desc": _native.SubmitDesc,
    "wherry_texts_desc": _native.TextsDesc,
    "wherry_tokens": _native.TokensOut,
    "wherry_training_desc": _native.TrainingDesc,
    "wherry_step": _native.Step,
    "wherry_gradient": _native.Gradient,
    "wherry_verify_result": _native.VerifyResult,
    "wherry_verify_summary": _native.VerifySummary,
}
VALUES = {
    "WHERRY_STATUS_CANCELLED": _native.STATUS_CANCELLED,
    "WHERRY_OUTPUT_EMBEDDING": _native.OUTPUT_EMBEDDING,
    "WHERRY_OUTPUT_CLASSES": _native.OUTPUT_CLASSES,
    "WHERRY_STATUS_TOO_LONG": _native.STATUS_TOO_LONG,
    "WHERRY_DTYPE_F32": _native.DTYPES["f32"],
    "WHERRY_DTYPE_F16": _native.DTYPES["f16"],
    "WHERRY_DTYPE_BF16": _native.DTYPES["bf16"],
    "WHERRY_WEIGHTS_INT8": _native.WEIGHTS["int8"],
    "WHERRY_DEVICE_CPU": _native.DEVICE_TYPES.index("CPU"),
    "WHERRY_HEAD_SEQUENCE": _native.HEADS.index("sequence"),
    "WHERRY_HEAD_VOCABULARY": _native.HEADS.index("vocabulary"),
}


COMPILER = os.environ.get("CC", "cc")  # another system's, whose programs RUN runs
RUN = os.environ.get("RUN", "").split()


def offsets_of_header(include):
    """Lines "structure.field offset size" of a program that includes the header."""
    lines = []
    for name, structure in STRUCTURES.items():
        lines.append(f'printf("{name} 0 %zu\\n", sizeof({name}));')
        for field, _ in structure._fields_:
            lines.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    for name in VALUES:
        lines.append(f'printf("{name} 0 %d\\n", (int){name});')
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "sizes.c"), os.path.join(folder, "sizes.exe")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\n#include <wherry/wherry.h>\n#include <wherry/wherry_async.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n")
        subprocess.run([COMPILER, "-I", include, source, "-o", program], check=True)
        return subprocess.run(RUN + [program], capture_output=True, check=True, text=True).stdout.splitlines()


def main(include):
    checks = 0
    for line in offsets_of_header(include):
        name, offset, size = line.split()
        structure, _, field = name.partition(".")
        if structure in VALUES:
            assert VALUES[structure] == int(size), (name, VALUES[structure], size)
        elif field:
            found = getattr(STRUCTURES[structure], field)
            assert (found.offset, found.size) == (int(offset), int(size)), (name, found.offset, found.size, line)
        else:
            assert ctypes.sizeof(STRUCTURES[structure]) == int(size), (name, ctypes.sizeof(STRUCTURES[structure]), size)
        checks += 1
    header = ""  # those that it is made of
    for name in sorted(os.listdir(os.path.join(include, "wherry"))):
        with open(os.path.join(include, "wherry", name), encoding="utf-8") as file:
            header += file.read()
    for name in _native._FUNCTIONS:
        arguments = re.search(rf"\b{name}\(([^;]*)\);", header)
        assert arguments, f"{name} is not in the headers"
        count = 0 if arguments[1].strip() == "void" else arguments[1].count(",") + 1
        assert count == len(_native._FUNCTIONS[name][1]), (name, count)
        checks += 1
    print(f"{checks} checks passed")


if __name__ == "__main__":
    if not shutil.which(COMPILER):
        print("skipped: no C compiler")
        sys.exit(77)
    main(sys.argv[1])
