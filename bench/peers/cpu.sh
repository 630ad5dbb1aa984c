#!/usr/bin/env bash
# cpu.sh
# Wherry on the host's cores beside PyTorch with sentence-transformers, ONNX Runtime and llama.cpp, on one machine, in
# one run: peers.json and peers.md in $OUT. Nothing is downloaded.
#   MODEL    folder of all-MiniLM-L6-v2 (default: the one that scripts/model.sh has fetched)
#   BUILD    has wherry, cpu_wherry and stream (default build/release, which a build with WHERRY_TESTS fills)
#   PYTHON   with torch, sentence-transformers, onnx, onnxruntime (default python3)
#   OUT      default build/cpu-peers; $OUT/data, what peers read, is made once
#   ROUNDS   turns of each task (default 3)
#   LLAMA    sources of llama.cpp, for its converter; $PYTHON must have llama-cpp-python and gguf. Without it llama.cpp is
#            left out: Debian 12 has no package of it
#   COMPILE  "yes": also torch.compile, which needs a C++ compiler and a minute (default no)
#   ONLY     tasks, as in bench/peers/cpu.py (default all)
#   THREADS  of every peer (default: as many as there are cores)
#   NOTE     what else a reader of the record should know
#   COMMIT   of the build, where this folder is no repository
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build/release} python=${PYTHON:-python3} out=${OUT:-build/cpu-peers} rounds=${ROUNDS:-3}
model=${MODEL:-$(scripts/model.sh)}
options=(--rounds "$rounds" --threads "${THREADS:-0}" --note "${NOTE:-}")
prepare=()
[ -z "${ONLY:-}" ] || options+=(--only "$ONLY")
[ "${COMPILE:-no}" = no ] || options+=(--compile)
if [ -n "${LLAMA:-}" ]; then
    options+=(--llama)
    prepare+=(--llama "$LLAMA")
fi
for program in wherry cpu_wherry stream; do
    [ -x "$build/$program" ] || {
        printf 'cpu.sh: no %s: build it first, with WHERRY_TESTS, or set BUILD\n' "$build/$program" >&2
        exit 1
    }
done
mkdir -p "$out"
export TOKENIZERS_PARALLELISM=true HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
"$python" bench/peers/cpu_prepare.py "$out/data" "$model" "${prepare[@]}" 2>"$out/prepare.log" || {
    tail -n 20 "$out/prepare.log" >&2
    exit 1
}
said="ROUNDS=$rounds${LLAMA:+ LLAMA=llama.cpp}${THREADS:+ THREADS=$THREADS}${ONLY:+ ONLY=$ONLY}${COMPILE:+ COMPILE=$COMPILE} bench/peers/cpu.sh"
"$python" bench/peers/cpu.py "$out/data" "$build" "$out" "${options[@]}" --command "$said"
