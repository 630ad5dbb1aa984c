#!/usr/bin/env bash
# demo.sh [MODEL_FOLDER]
# From a fresh clone to embeddings: installs what is missing, builds, fetches a model (or takes the folder given), and
# embeds data/demo.txt on the best device of this machine. WHERRY_DEVICE chooses another one.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'demo: %s\n' "$*" >&2; }
logged() { # NAME COMMAND...: the output goes to build/NAME.log, and to the user when the command fails
    local log=build/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        say "failed: $* (all of it is in $log)"
        exit 1
    }
}

model=''
[ $# -eq 0 ] || model=$(cd "$1" && pwd)
mkdir -p build
scripts/setup.sh build
say "building build/release/wherry"
logged configure cmake --preset release
logged build cmake --build --preset release --target wherry_tool
if [ -n "$model" ]; then model=$(scripts/model.sh "$model"); else model=$(scripts/model.sh); fi
device=${WHERRY_DEVICE:-}
exec build/release/wherry demo --model "$model" ${device:+--device "$device"} data/demo.txt
