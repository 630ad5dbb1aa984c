#!/usr/bin/env bash
# train_bench.sh
# Measures training steps of whole models on the GPUs of this machine, through OpenCL and Vulkan, and in PyTorch where
# PYTHON has torch with CUDA and transformers: records, and one table (bench/train_table.py). Where drivers are in
# packages: scripts/gpu.sh with scripts/train_bench.sh.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results, made if missing (default: build/train_bench)
#   DEVICES  ids (default: the first GPU of each API)
#   SHAPES   as MODEL:BATCHxSEQ (default: "bert-large:32x512 bert-large:8x512")
#   TASK     loss of our steps (default: mlm)
#   STEPS    measured steps, and as many with timestamps (default: 10)
#   OPTIONS  more options for all `wherry bench train` (default: none)
#   PEERS    "no": without PyTorch; "only": nothing else (default: yes)
#   WAYS     of PyTorch, with commas (default: eager,compile,reduce,graph)
#   GPUS     N: also N processes below mpirun, each with such a batch on a GPU of its own, and PyTorch's data parallelism
#            over N GPUs, with P2P and without (default: 0)
#   WIRE     of ours: f16 or f32 (default: f16)
#   MPIRUN   (default: "mpirun --bind-to none"; as root: --allow-run-as-root, too)
#   LIMIT    seconds for all of it; what would begin after them is left out and named (default: 350)
#   PYTHON   (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} out=${OUT:-build/train_bench} task=${TASK:-mlm} steps=${STEPS:-10}
shapes=${SHAPES:-bert-large:32x512 bert-large:8x512} peers=${PEERS:-yes} limit=${LIMIT:-350} python=${PYTHON:-python3}
ways=${WAYS:-eager,compile,reduce,graph} gpus=${GPUS:-0} wire=${WIRE:-f16}
as_root=''
[ "$(id -u)" != 0 ] || as_root=--allow-run-as-root
read -r -a mpirun <<<"${MPIRUN:-mpirun --bind-to none $as_root}"
read -r -a options <<<"${OPTIONS:-}"
failed=0

say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'train_bench: %s\n' "$*" >&2
    exit 1
}
# What is left of the time, for `timeout`; fails where there is none.
left() { [ $((limit - SECONDS)) -gt 5 ] && echo $((limit - SECONDS)); }
limited() { # COMMAND...
    local seconds
    if ! seconds=$(left); then
        printf 'left out: %s seconds are over: %s\n' "$limit" "$*"
        failed=1
    else
        timeout "$seconds" "$@" || {
            printf 'failed (exit code %d): %s\n' $? "$*"
            failed=1
        }
    fi
}

first_gpus() {
    "$build/wherry" devices --json | "$python" -c '
import json, sys
first = {}
for device in json.load(sys.stdin)["devices"]:
    if device["usable"] and device["type"] != "CPU":
        first.setdefault(device["id"].split(":")[0], device["id"])
print(" ".join(sorted(first.values())))'
}

command_of() { # DEVICE SHAPE OPTIONS...: into `command`
    local model=${2%%:*} size=${2#*:}
    command=("$build/wherry" bench train --config "$model" --batch "${size%x*}" --seq "${size#*x}" --task "$task" \
        --device "$1" "${options[@]}" "${@:3}")
}
record_of() { echo "$out/train-${1//:/-}-${2//:/-}.json"; } # DEVICE SHAPE

[ -x "$build/wherry" ] || die "no $build/wherry: build it first, or set BUILD"
mkdir -p "$out"
if [ "$peers" != only ]; then
    devices=${DEVICES:-$(first_gpus)}
    [ -n "$devices" ] || die "no GPU: name devices in DEVICES (wherry devices lists them)"
    # All kernels first, devices at the same time: drivers compile on the host.
    say "compiling"
    for device in $devices; do
        for shape in $shapes; do
            command_of "$device" "$shape" --steps 1 --warm 0 --roof no --quiet
            "${command[@]}" >"$out/compile-${device//:/-}.txt" 2>&1 || true
        done &
    done
    wait
    for shape in $shapes; do
        for device in $devices; do
            say "$shape, $device"
            command_of "$device" "$shape" --steps "$steps" --roof copy --quiet --json -o "$(record_of "$device" "$shape")"
            limited "${command[@]}"
        done
        [ "$gpus" -ge 2 ] || continue
        for api in $(printf '%s\n' $devices | cut -d: -f1 | sort -u); do
            say "$shape, $gpus processes, $api"
            command_of "$api" "$shape" --steps "$steps" --roof no --quiet --wire "$wire" --json \
                -o "$(record_of "$api-x$gpus" "$shape")"
            limited "${mpirun[@]}" -n "$gpus" "${command[@]}"
        done
    done
fi
if [ "$peers" != no ]; then
    say "PyTorch"
    if "$python" -c 'import torch, transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        remaining=$(left || echo 1)
        limited "$python" bench/peers/pytorch_train.py --shapes "${shapes// /,}" --ways "$ways" --repeats "$steps" \
            --seconds $((remaining / 2)) --out "$out/pytorch_train.json"
        [ "$gpus" -lt 2 ] || limited "$python" bench/peers/pytorch_train.py --shapes "${shapes// /,}" --ddp "$gpus" \
            --repeats "$steps" --out "$out/pytorch_ddp.json"
    else
        echo "$python has no torch with CUDA, or no transformers: left out"
    fi
fi
say "table"
"$python" bench/train_table.py "$out" | tee "$out/table.md"
exit $failed
