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
        # What can't be copied to is noticed when it is opened, and no device to be used.
        case $mode in
        kernels) said="${said}its kernels do nothing" code=1 ;;
        *) said="${said}bytes written to it don't come back" code=4 ;;
        esac
        expect $code "$said" "${embed[@]}"
        check test ! -e "$work/vectors"
        expect $code "$said" "${verify[@]}"
        check test "$(wc -l <"$work/err")" -eq 1
        expect $code "$said" "${layer[@]}"
        expect 0 '' "$wherry" devices
        [ "$mode" = kernels ] || check has "^$device can't be used: .*does not execute"
        [ "$mode" != kernels,copies ] || continue
        # Where devices that compile only are wanted, it is one: nothing runs on it, and it is never chosen.
        export WHERRY_COMPILE_ONLY=1
        expect 0 '' "$wherry" devices
        check has "^$device compiles only: "
        expect 0 '' "$wherry" devices --json
        check json "any(x['id'] == '$device' and x['compiles_only'] and not x['usable'] for x in d['devices'])"
        expect 0 '' "$wherry" prepare --quiet --model "$model" --device "$device" "${cache[@]}"
        check has "which compiles only"
        expect 4 "$device (.*) compiles only: " "${embed[@]}"
        check test ! -e "$work/vectors"
        expect 4 "$device (.*) compiles only: " "${verify[@]}"
        expect 4 "compiles only" "$wherry" roof --quiet --only dram --device "$device" "${cache[@]}"
        expect 0 '' "$wherry" embed --quiet --model "$model" "${cache[@]}" -o "$work/vectors" "$work/texts"
        rm -f "$work/vectors"
        unset WHERRY_COMPILE_ONLY
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
