#!/usr/bin/env bash
# Devices with lower limits, made of those that there are by layers that hold calls to them (tests/limits/limits.h), and
# what drivers' environment can set: the groups of a training layer and of a table of words agree with their references
# under each. With `gpu` the device says that it is a GPU, so that sizes are a GPU's.
# WHERRY: the command. PIECES: test_pieces. LIMITS_OPENCL: the OpenCL layer. LIMITS_VULKAN: the folder of the Vulkan
# layer's manifest.
set -u
here=$(cd "$(dirname "$0")/../cli" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
if [ -n "${LIMITS_OPENCL:-}" ]; then export OPENCL_LAYERS=$LIMITS_OPENCL; fi
if [ -n "${LIMITS_VULKAN:-}" ]; then export VK_LAYER_PATH=$LIMITS_VULKAN VK_INSTANCE_LAYERS=VK_LAYER_WHERRY_limits; fi
cache=(--cache "${WHERRY_TEST_CACHE:-$work}/limits")
usable() { # ID: whether `devices` says so
    "$wherry" devices --json >"$work/out" 2>/dev/null &&
        json "any(x['id'] == '$1' and x['usable'] for x in d['devices'])" >/dev/null 2>&1
}
layer() { # DEVICE DTYPE LIMITS
    WHERRY_LIMITS=$3 expect 0 '' "$wherry" verify layer --quiet --config minilm-l6 --heads 2 --hidden 48 --feed-forward 72 \
        --batch 2 --seq 33 --dtype "$2" --replays 1 --device "$1" "${cache[@]}"
}
# scripts/check.sh leaves these to --all: each is one more compiler's run over kernels that others here have with limits of
# their own.
all() { [ "${WHERRY_CHECK_ALL:-yes}" = no ] || "$@"; }
tested=0
vulkan=vulkan:0 opencl=opencl:0
if [ -n "${LIMITS_VULKAN:-}" ] && usable $vulkan; then
    tested=$((tested + 1))
    # The smallest that Vulkan's specification allows, and a phone's.
    layer $vulkan f32 gpu=1,local=128,shared=16384,groups=65535,alignment=256,binding=134217728
    # Sub-groups that the driver says it has (waves of 64 and 128, warps of 32), and that it has (4 and 16).
    layer $vulkan f16 gpu=1,local=256,shared=32768,groups=65535,alignment=256,subgroup=64
    LP_NATIVE_VECTOR_WIDTH=128 all layer $vulkan f16 gpu=1,local=128,subgroup=128
    LP_NATIVE_VECTOR_WIDTH=512 layer $vulkan f32 gpu=1,subgroup=32
    # No 16-bit floats: the default type is f32 there, and f16 is refused.
    WHERRY_LIMITS=gpu=1,half=0 expect 0 '' "$wherry" verify layer --quiet --config minilm-l6 --hidden 48 --heads 2 \
        --feed-forward 72 --batch 2 --seq 33 --replays 1 --device $vulkan "${cache[@]}"
    check has ' f32 '
    WHERRY_LIMITS=half=0 expect 4 'does not store 16-bit floats: use f32' "$wherry" verify layer --quiet \
        --config minilm-l6 --dtype f16 --device $vulkan "${cache[@]}"
    WHERRY_QUIRKS=no-16-bit expect 4 'does not store 16-bit floats: use f32' "$wherry" verify layer --quiet \
        --config minilm-l6 --dtype f16 --device $vulkan "${cache[@]}"
    # Matrices that a driver reports are not used: lavapipe has them from 25 on.
    WHERRY_QUIRKS=no-matrices expect 4 'has no coopmat' "$wherry" verify layer --quiet --config minilm-l6 --hidden 64 \
        --heads 2 --dtype f16 --kernels coopmat --device $vulkan "${cache[@]}"
    # Kernels need 16 arguments.
    WHERRY_LIMITS=slots=8 expect 0 '' "$wherry" devices
    check has "^$vulkan can't be used: a shader may use only 8 storage buffers, and kernels need 16"
    # A queue of low priority: where the driver has that, refuses it, and has none of it, which is said and no failure.
    WHERRY_LIMITS=priority=1 expect 0 '' "$wherry" devices --low-priority
    check has "^$vulkan, its priority: low (VK_KHR_global_priority)"
    WHERRY_LIMITS=priority=2 expect 0 '' "$wherry" devices --low-priority
    check has "^$vulkan, its priority: the driver's usual one: it refuses low priority by VK_KHR_global_priority"
    expect 0 "vulkan:0 is not of low priority, as was asked for: .* lists neither VK_KHR_global_priority" "$wherry" \
        verify layer --config minilm-l6 --hidden 48 --heads 2 --feed-forward 72 --batch 1 --seq 8 --replays 1 \
        --low-priority --device $vulkan "${cache[@]}"
    if [ -n "${PIECES:-}" ]; then
        WHERRY_TEST_DEVICES=$vulkan WHERRY_LIMITS=binding=150000 check "$PIECES"
    fi
    # What is switched on for a driver that is known.
    WHERRY_QUIRKS=check-all,no-uuid all layer $vulkan f32 ''
fi
if [ -n "${LIMITS_OPENCL:-}" ] && usable $opencl; then
    tested=$((tested + 1))
    # The driver says how much shared memory a kernel has: the layer holds kernels to it.
    layer $opencl f16 gpu=1,local=128,shared=16384,groups=65535
    all layer $opencl f32 gpu=1,local=256,shared=32768
    WHERRY_LIMITS=priority=1 expect 0 '' "$wherry" devices --low-priority
    check has "^$opencl, its priority: low (cl_khr_priority_hints)"
    check has "^cpu, its priority: the process's own"
    WHERRY_LIMITS=priority=2 expect 0 '' "$wherry" devices --low-priority
    check has "^$opencl, its priority: the driver's usual one: it refuses low priority"
    if [ -n "${PIECES:-}" ]; then WHERRY_TEST_DEVICES=$opencl WHERRY_LIMITS=buffer=150000 check "$PIECES"; fi
    WHERRY_QUIRKS=no-group-attribute,flush-often,check-all layer $opencl f32 ''
fi
# Compilers that end their process, or stand still, at one kernel, told by the bytes of its code.
code_bytes() { # DEVICE KERNEL
    WHERRY_LIMITS=gpu=1 "$wherry" prepare --quiet --config minilm-l6 --hidden 64 --heads 2 --dtype f16 --batch 1 --seq 8 \
        --device "$1" --dump "$work/code-$1" 2>/dev/null
    for file in "$work/code-$1/$2"*.cl "$work/code-$1/$2"*.spv; do [ ! -e "$file" ] || wc -c <"$file"; done
    rm -rf "$work/code-$1"
}
refused="the driver's compiler ended an earlier process, or stood still, at the kernel"
guarded() { # DEVICE
    local folder=$work/guard-$1 at
    local run=("$wherry" verify layer --quiet --config minilm-l6 --hidden 64 --heads 2 --feed-forward 72 --batch 1 --seq 8
        --replays 1 --dtype f16 --device "$1" --cache "$folder")
    at=$(code_bytes "$1" attention)
    # Of a driver that is known for it, in this process: once, and what it was at is not compiled again.
    export WHERRY_COMPILER=none WHERRY_QUIRKS=compile-guarded
    WHERRY_LIMITS=crash=1 expect 137 '' "${run[@]}" 2>/dev/null
    check test "$(find "$folder" -name 'compiling-*.txt' | wc -l)" -eq 1
    expect 4 "$refused .* remove .*compiling-" "${run[@]}"
    unset WHERRY_QUIRKS
    rm -rf "$folder"
    # Of any driver that is new here: once among others, which are told from it the second time.
    WHERRY_LIMITS=gpu=1,crash=$at expect 137 '' "${run[@]}" 2>/dev/null
    WHERRY_LIMITS=gpu=1,crash=$at expect 137 '' "${run[@]}" 2>/dev/null
    WHERRY_LIMITS=gpu=1,crash=$at expect 4 "$refused attention" "${run[@]}"
    check test "$(cat "$folder"/compiling-*.txt | grep -c ' alone')" -eq 1
    rm -rf "$folder"
    # In a process apart: this one lives on, and says at what.
    unset WHERRY_COMPILER
    WHERRY_LIMITS=gpu=1,crash=$at expect 4 "$refused attention" "${run[@]}"
    check test "$(cat "$folder"/compiling-*.txt | grep -c ' alone')" -eq 1
    rm -rf "$folder"
}
stands_still() { # DEVICE
    local at
    at=$(code_bytes "$1" attention)
    WHERRY_COMPILE_SECONDS=3 WHERRY_LIMITS=gpu=1,hang=$at expect 4 "$refused attention" "$wherry" verify layer \
        --config minilm-l6 --hidden 64 --heads 2 --batch 1 --seq 8 --dtype f16 --device "$1" --cache "$work/still-$1"
    check grep -q 'the process that compiles kernels did not come to its end: it stood still for 3 s' "$work/err"
}
# Where the kernel is of matrices, what else there is takes its place.
left_out() { # DEVICE
    local at
    at=$(code_bytes "$1" gemm_coopmat)
    [ -n "$at" ] || return 0
    WHERRY_LIMITS=gpu=1,crash=$at expect 0 "products by coopmat are left out: .* at the kernel gemm_coopmat" "$wherry" \
        verify layer --config minilm-l6 --hidden 64 --heads 2 --feed-forward 72 --batch 1 --seq 8 --replays 1 \
        --dtype f16 --device "$1" --cache "$work/left-$1"
    check has ', 0 failed'
}
if [ -n "${LIMITS_VULKAN:-}" ] && usable $vulkan; then
    guarded $vulkan
    stands_still $vulkan
    left_out $vulkan
fi
if [ -n "${LIMITS_OPENCL:-}" ] && usable $opencl; then guarded $opencl; fi
# A call beyond a limit ends the process: the layers hold what they report.
if [ -n "${LIMITS_VULKAN:-}" ] && usable $vulkan; then
    WHERRY_LIMITS=held-groups=0 expect 134 'limits: vkCmdDispatch: groups of ' "$wherry" verify layer --quiet \
        --config minilm-l6 --hidden 48 --heads 2 --batch 1 --seq 8 --device $vulkan "${cache[@]}"
fi
printf '%d checks passed, %d failed, on %d devices\n' "$passed" "$failed" "$tested"
[ "$failed" -eq 0 ] || exit 1
[ "$tested" -gt 0 ] || exit 77
