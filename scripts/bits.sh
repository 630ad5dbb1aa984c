#!/usr/bin/env bash
# bits.sh OLD NEW [MODEL]
# Compares the bits that two builds compute: OLD and NEW are folders of builds (build/release of two checkouts, each with
# the library and the command). Golden sentences are embedded with MODEL (default: where scripts/model.sh puts it) in all
# plans and both types, and small layers are trained (tests/bits), on every device in DEVICES (default: "opencl:0
# vulkan:0"). Prints what differs; fails where anything does.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD

[ $# -ge 2 ] || {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
old=$(cd "$1" && pwd) new=$(cd "$2" && pwd) model=${3:-$(scripts/model.sh)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for build in "$old" "$new"; do
    [ -e "$build/libwherry.so" ] || {
        printf 'bits: no %s/libwherry.so: build all of it first\n' "$build" >&2
        exit 2
    }
done

source_of() { sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt"; }

bits_of() { # BUILD FILE
    local device plan dtype
    cc -std=c17 -O1 -I"$(source_of "$1")/core/include" "$here/tests/bits/bits.c" -L"$1" -lwherry -Wl,-rpath,"$1" -lm \
        -o "$work/bits"
    for device in ${DEVICES:-opencl:0 vulkan:0}; do
        "$work/bits" "$device" | sed "s/^/$device: /"
        for plan in flash paper unfused; do
            for dtype in f32 f16; do
                "$1/wherry" embed --model "$model" --device "$device" --plan "$plan" --dtype "$dtype" --format npy \
                    -o "$work/out.npy" -q data/sentences.txt
                printf '%s: sentences, %s, %s: %s\n' "$device" "$plan" "$dtype" "$(sha256sum <"$work/out.npy")"
            done
        done
    done >"$2"
}

bits_of "$old" "$work/old"
bits_of "$new" "$work/new"
if diff "$work/old" "$work/new"; then
    printf 'bits: %d results, 0 differ\n' "$(wc -l <"$work/new")"
else
    printf 'bits: %d results, of which these differ (<: %s)\n' "$(wc -l <"$work/new")" "$1" >&2
    exit 1
fi
