#!/usr/bin/env bash
# arm64.sh [root | TEST...]
# Builds the libraries, the command and tests for 64-bit ARM, with Debian's cross compiler, and runs them under QEMU: those of
# the device cpu, of the system's calls, of files, numbers and tokenizers ($tests below), `wherry devices` and `wherry
# verify`; or only the tests that are named. Minutes; no part of scripts/check.sh. The libraries come from
# the distribution's packages for arm64, into build/arm64-root, once ("root": nothing but that); the system is left
# alone. Exits with 77 and says why where this can't be had.
#   WHERRY_TEST_MODEL  folder of all-MiniLM-L6-v2, for test_golden (default: scripts/model.sh fetches it)
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD root=$PWD/build/arm64-root

die() {
    printf 'arm64: %s\n' "$*" >&2
    exit 1
}
unavailable() {
    printf 'SKIPPED: build for arm64: %s\n' "$*"
    exit 77
}
quietly() { # COMMAND...: the output is shown when it fails
    "$@" >build/arm64.log 2>&1 || {
        tail -n 60 build/arm64.log
        die "failed: $*"
    }
}

tests="cpu cores groups encode training golden platform json number parts safetensors weights weight_files model text tokenizer
    tokenizer_parts bpe heads graph predict"

build() {
    local launcher=()
    if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
    export WHERRY_SHADER_CACHE=${WHERRY_SHADER_CACHE:-$source/build/shader-cache}
    quietly cmake -G Ninja -B build/arm64 -DCMAKE_TOOLCHAIN_FILE="$source/cmake/toolchains/arm64-linux.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_FLAGS_RELEASE='-O1 -DNDEBUG' -DWHERRY_WERROR=ON "${launcher[@]}"
    # shellcheck disable=SC2046,SC2086 # lists of words
    quietly cmake --build build/arm64 --target wherry_tool libwherry.so $(printf 'test_%s ' $tests)
}

# Sums of a product's tile stay in registers: none of the loops with 24 multiplications has vectors on the stack.
check_registers() {
    aarch64-linux-gnu-objdump -d --no-show-raw-insn build/arm64/CMakeFiles/wherry_objects.dir/cpu/gemm_baseline.c.o |
        python3 tests/loops.py fmla 24 || die "the loops of products are not as they should be"
}

emulate() { qemu-aarch64 -L "$root" "$@"; }

run_test() { # NAME
    local log=build/arm64-$1.log status=0 few=()
    [ "$1" != test_golden ] || few=(-E WHERRY_TEST_FEW=1) # five sentences, in one plan
    printf '%s: ' "$1"
    emulate "${few[@]}" "build/arm64/tests/$1" >"$log" 2>&1 || status=$?
    case $status in
    0) grep -E '^\[  PASSED|groups checked' "$log" | tail -n 1 ;;
    77) printf 'SKIPPED: %s\n' "$(tail -n 1 "$log")" ;;
    *)
        tail -n 40 "$log"
        die "$1 failed ($log)"
        ;;
    esac
}

# The command takes the device cpu where there is no GPU, and its numbers are the reference's.
run_command() {
    local listed
    listed=$(emulate build/arm64/wherry devices)
    grep -q '^cpu  *host processor (neon,' <<<"$listed" || die "wherry devices: $listed"
    listed=$(WHERRY_OPENCL_LIBRARY=libnothing.so WHERRY_VULKAN_LIBRARY=libnothing.so emulate build/arm64/wherry devices)
    [ "$(grep -c 'Tried: libnothing.so: cannot open shared object file' <<<"$listed")" = 2 ] || die "wherry devices: $listed"
    tests/app/symbols.sh build/arm64/libwherry.so tests/symbols.txt
    quietly emulate build/arm64/wherry verify --config minilm-l6 --lengths 1,17,5 --replays 1
    grep -F 'on cpu (host processor (neon,' build/arm64.log || die "wherry verify took another device (build/arm64.log)"
    tail -n 1 build/arm64.log
}

case $(uname -m) in aarch64 | arm64) unavailable "this is such a machine: scripts/check.sh tests it" ;; esac
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool >/dev/null 2>&1 ||
        unavailable "no $tool (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
done
[ -e /usr/aarch64-linux-gnu/include/stdio.h ] || unavailable "no C library for arm64 (libc6-dev-arm64-cross)"
mkdir -p build
# Of Vulkan only the headers.
missing=$(scripts/arm64_root.sh "$root" libjansson-dev libutf8proc-dev libpcre2-dev zlib1g-dev libcmocka-dev \
    ocl-icd-opencl-dev opencl-c-headers -libvulkan-dev) || unavailable "$missing"
[ "${1:-}" != root ] || exit 0
build
check_registers
# Drivers of this machine are another architecture's.
export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent
export WHERRY_TEST_API=cpu WHERRY_TEST_SHAPES="tiny odd unaligned-heads"
if [ -z "${WHERRY_TEST_MODEL:-}" ]; then WHERRY_TEST_MODEL=$(scripts/model.sh) || WHERRY_TEST_MODEL=; fi
export WHERRY_TEST_MODEL
if [ $# = 0 ]; then
    run_command
    # shellcheck disable=SC2046,SC2086
    set -- $(printf 'test_%s ' $tests)
fi
for name in "$@"; do run_test "$name"; done
printf 'arm64: passed, under %s\n' "$(qemu-aarch64 --version | sed -n 1p)"
