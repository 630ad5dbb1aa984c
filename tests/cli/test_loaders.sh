#!/usr/bin/env bash
# What is opened at run time and is not there, or is another library: the command starts, says which names were looked
# for, and computes with what is left. And what the library is linked with, which is what has to be there.
# WHERRY: the command. LIBRARY: the shared library. LIBRARIES: those that it may need besides the C library's.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"

# ---- linked ----
needed=$(readelf -d "${LIBRARY:?}" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p')
for name in $needed; do
    case $name in
    libjansson.so.* | libutf8proc.so.* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | ld-linux*) pass ;;
    *) echo "$needed" >"$work/err" && flunk "$LIBRARY needs $name" ;;
    esac
done

# ---- absent ----
nothing=$work/absent/lib.so
missing="$nothing: cannot open shared object file"
WHERRY_OPENCL_LIBRARY=$nothing WHERRY_VULKAN_LIBRARY=$nothing expect 0 '' "$wherry" devices
[ -z "${HAS_OPENCL:-}" ] || check has "^opencl:0 can't be used: OpenCL: no library; install it .* Tried: $missing"
[ -z "${HAS_VULKAN:-}" ] || check has "^vulkan:0 can't be used: Vulkan: no loader; install it .* Tried: $missing"
check has '^reference '
"$python" "$here/make_model.py" "$work/model"
if [ -n "${HAS_OPENCL:-}" ]; then
    WHERRY_OPENCL_LIBRARY=$nothing expect 4 "OpenCL: no library" "$wherry" embed --device opencl:0 --model "$work/model" /dev/null
fi
if [ -n "${HAS_VULKAN:-}" ]; then
    WHERRY_VULKAN_LIBRARY=$nothing expect 4 "Vulkan: no loader" "$wherry" embed --device vulkan:0 --model "$work/model" /dev/null
fi
echo 'a boat' >"$work/text"
WHERRY_OPENCL_LIBRARY=$nothing WHERRY_VULKAN_LIBRARY=$nothing expect 0 '' "$wherry" embed -q --model "$work/model" "$work/text"

# ---- another library ----
WHERRY_OPENCL_LIBRARY=libm.so.6 WHERRY_VULKAN_LIBRARY=libm.so.6 expect 0 '' "$wherry" devices
[ -z "${HAS_OPENCL:-}" ] || check has "Tried: libm.so.6 has no clGetPlatformIDs"
[ -z "${HAS_VULKAN:-}" ] || check has "Tried: libm.so.6 has no vkGetInstanceProcAddr"
if [ -n "${HAS_OPENCL:-}" ] && command -v cc >/dev/null; then # one of OpenCL 1.0, say
    echo 'int clGetPlatformIDs(void) { return -1001; }' >"$work/old.c"
    check cc -shared -fPIC -o "$work/old.so" "$work/old.c"
    WHERRY_OPENCL_LIBRARY=$work/old.so expect 0 '' "$wherry" devices
    check has "can't be used: OpenCL: the library has no cl[A-Z][A-Za-z]*, a function of OpenCL 1.2"
fi

# ---- CLBlast ----
clblast() { # PATTERN
    "$wherry" devices --json >"$work/out" 2>/dev/null
    json "any(x['id'] == 'opencl:0' and x['usable'] for x in d['devices'])" 2>/dev/null || return 0
    expect 0 "$1" "$wherry" verify layer --config minilm-l6 --hidden 32 --heads 2 --feed-forward 64 --batch 1 --seq 4 --replays 1 \
        --plan unfused --dtype f32 --kernels clblast --device opencl:0
}
if [ -n "${HAS_CLBLAST:-}" ]; then
    WHERRY_CLBLAST_LIBRARY=$nothing clblast "own kernel, because CLBlast is not usable here: $missing"
    WHERRY_OPENCL_LIBRARY=libOpenCL.so.1 clblast "CLBlast is not usable here: it calls the system's OpenCL library"
fi

# ---- PCRE2: tokenizers with patterns alone ----
if [ -n "${LOADS_PCRE2:-}" ]; then
    "$python" - "$work/model" <<'END'
import json, os, sys
words = open(os.path.join(sys.argv[1], "vocab.txt")).read().split("\n")
vocabulary = {word: n for n, word in enumerate(words) if word}
special = [{"id": vocabulary[word], "content": word, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False} for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")]
split = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Removed", "invert": False}
json.dump({"version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": split, "post_processor": None,
           "decoder": None, "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                                      "max_input_chars_per_word": 100, "vocab": vocabulary}},
          open(os.path.join(sys.argv[1], "tokenizer.json"), "w"))
END
    expect 0 '' "$wherry" embed -q --device reference --model "$work/model" "$work/text"
    WHERRY_PCRE2_LIBRARY=$nothing expect 3 "matched by PCRE2: install it .* Tried: $missing" "$wherry" embed -q --device reference \
        --model "$work/model" "$work/text"
fi
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
