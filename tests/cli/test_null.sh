#!/usr/bin/env bash
# Devices that do not execute what they are given, made of those that do by layers (tests/null_driver): every command
# that would tell results fails with one sentence; one that loses its queue is not usable.
# WHERRY: the command. NULL_OPENCL: the OpenCL layer. NULL_VULKAN: the folder of the Vulkan layer's manifest.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
check "$python" "$here/make_model.py" "$model"
printf 'the boat\nwater, water!\n' >"$work/texts"
if [ -n "${NULL_OPENCL:-}" ]; then export OPENCL_LAYERS=$NULL_OPENCL; fi
if [ -n "${NULL_VULKAN:-}" ]; then export VK_LAYER_PATH=$NULL_VULKAN VK_INSTANCE_LAYERS=VK_LAYER_WHERRY_null; fi
usable() { # ID: whether `devices` says so
    "$wherry" devices --json >"$work/out" 2>/dev/null &&
        json "any(x['id'] == '$1' and x['usable'] for x in d['devices'])" >/dev/null 2>&1
}
cache=(--cache "${WHERRY_TEST_CACHE:-$work}/null") # what PoCL generates is kept only where kernels run
tested=0
# shellcheck disable=SC2086 # words
for device in ${WHERRY_TEST_DEVICES:-opencl:0 vulkan:0}; do
    case $device in opencl:*) [ -n "${NULL_OPENCL:-}" ] || continue ;; vulkan:*) [ -n "${NULL_VULKAN:-}" ] || continue ;; *) continue ;; esac
    if ! usable "$device"; then
        printf 'SKIPPED: %s is not usable here\n' "$device"
        continue
    fi
    tested=$((tested + 1))
    embed=("$wherry" embed --quiet --model "$model" --device "$device" "${cache[@]}" -o "$work/vectors" "$work/texts")
    verify=("$wherry" verify --model "$model" --device "$device" "${cache[@]}")
    layer=("$wherry" verify layer --config minilm-l6 --batch 1 --seq 16 --device "$device" "${cache[@]}")
    expect 0 '' "${embed[@]}" # the layer alone changes nothing
    rm -f "$work/vectors"
    for mode in kernels copies kernels,copies; do
        export WHERRY_NULL=$mode
        said="$device (.*) does not execute what it is given: "
        case $mode in kernels) said="${said}its kernels do nothing" ;; *) said="${said}bytes written to it don't come back" ;; esac
        expect 1 "$said" "${embed[@]}"
        check test ! -e "$work/vectors"
        expect 1 "$said" "${verify[@]}"
        check test "$(wc -l <"$work/err")" -eq 1
        expect 1 "$said" "${layer[@]}"
    done
    export WHERRY_NULL=queue
    expect 4 "$device" "${embed[@]}"
    check test ! -e "$work/vectors"
    expect 0 '' "$wherry" devices
    check has "^$device can't be used: "
    unset WHERRY_NULL
    check usable "$device"
done
printf '%d checks passed, %d failed, on %d devices\n' "$passed" "$failed" "$tested"
[ "$failed" -eq 0 ] || exit 1
[ "$tested" -gt 0 ] || exit 77
