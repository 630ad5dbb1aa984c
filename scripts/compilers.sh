#!/usr/bin/env bash
# compilers.sh [--quick] [--update] [DEVICE...]
# Compiles all kernels for GPUs that are not here, by their drivers' real compilers, and compares what they take with
# data/compilers.json: fails on a spill that no exception explains, on fewer resident sub-groups, on 10 % more registers.
#   --quick    a few sizes on Debian's own RADV, about a minute: what the test suite runs; of targets what spills first
#   --update   writes the table anew for these devices instead
#   DEVICE     of those below, or a target of wherry prepare (amd-gfx1100, intel-bmg, apple-m1, ...), for which compilers
#              are run that need no driver (scripts/compilers_offline.py); default: all that can be made here
#   BUILD        folder of the build (default: build/release)
#   OUT          folder for results, made if missing (default: build/compilers)
#   WHERRY_ROOT  folder with newer drivers; without it there are Debian's alone
# Stock Debian 12: RADV compiles for "null hardware", by RADV_FORCE_FAMILY (null:NAME). WHERRY_ROOT is a folder with the
# packages of a newer suite (mesa-vulkan-drivers, mesa-drm-shim, libvulkan1) unpacked in it, and a program `vendor` which
# runs a command in there, at /w what is the current folder, as on a GPU: amd:NAME with libamdgpu_noop_drm_shim.so and
# AMDGPU_GPU_ID, adreno:ID with libfreedreno_noop_drm_shim.so and FD_GPU_ID, nvk:CHIPSET with libnouveau_noop_drm_shim.so
# and NOUVEAU_CHIPSET, apple with libasahi_noop_drm_shim.so; each shim by LD_PRELOAD, its driver by VK_DRIVER_FILES.
# Copies and kernels do nothing there.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release} out=${OUT:-build/compilers} root=${WHERRY_ROOT:-}
table=data/compilers.json
null_icd=$(compgen -G '/usr/share/vulkan/icd.d/radeon_icd*.json' | sed -n 1p || true)
quick=no action=compare devices=() targets=
for word; do
    case $word in
    --quick) quick=yes ;; --update) action=merge ;; -*) sed -n '2,/^set/{/^set/d;s/^# \?//p}' "$0" >&2; exit 2 ;;
    amd-* | intel-* | apple-*) targets=$targets${targets:+,}$word ;; *) devices+=("$word") ;;
    esac
done
nulls=(null:polaris12 null:vega10 null:navi10 null:navi21 null:gfx1100)
shims=(amd:polaris12 amd:vega10 amd:navi10 amd:navi21 amd:navi33 amd:navi31 amd:phoenix amd:gfx1201 adreno:660 adreno:740
    adreno:830 nvk:172 apple)
offline=no # compilers that need no driver, of targets: those that are named, or in a whole run all
if [ -n "$targets" ] || { [ ${#devices[@]} -eq 0 ] && [ "$quick" = no ]; }; then offline=yes; fi
if [ ${#devices[@]} -eq 0 ] && [ -z "$targets" ]; then
    devices=("${nulls[@]}")
    if [ "$quick" = yes ]; then devices=(null:vega10 null:navi21 null:gfx1100); elif [ -n "$root" ]; then devices+=("${shims[@]}"); fi
fi

on() { # DEVICE COMMAND...: as on that GPU
    local device=$1
    shift
    case $device in
    null:*) RADV_FORCE_FAMILY=${device#null:} VK_DRIVER_FILES=$null_icd VK_ICD_FILENAMES=$null_icd WHERRY_COMPILE_ONLY=1 "$@" ;;
    # Without OpenCL: rusticl on a shim ends a thread of its own at the first copy, and is then waited for for ever.
    *) "$root/vendor" "$device" env WHERRY_COMPILE_ONLY=1 OCL_ICD_VENDORS=/nonexistent "$@" ;;
    esac
}
available() { # DEVICE
    case $1 in null:*) [ -n "$null_icd" ] ;; *) [ -x "$root/vendor" ] ;; esac &&
        on "$1" "$build/wherry" devices --json 2>/dev/null | python3 -c '
import json, sys
sys.exit(not any(d["id"] == "vulkan:0" and d["compiles_only"] for d in json.load(sys.stdin)["devices"]))'
}
# One encoder layer of BERT-base, its heads of 64, 32, 128 and 80 channels: hidden and heads.
shapes=("768 12" "768 24" "768 6" "640 8")
phases=("--layers 1" "--layers 1 --train")
# Other encoders: windows, gates, rotary positions, ALiBi, RMS norms, norms of heads, grouped heads; and weights of 8 bits.
encoders=("modernbert-base --layers 1" "modernbert-base --layers 1 --train" "nomic-bert-base --layers 1"
    "nomic-bert-base --layers 1 --train" "jina-base --layers 1" "jina-base --layers 1 --train" "qwen3-embedding-0.6b --layers 1"
    "qwen3-embedding-0.6b --layers 1 --train" "embedding-gemma-300m --layers 1" "embedding-gemma-300m --layers 1 --train"
    "gte-multilingual --layers 1" "bert-base --layers 1 --weights int8" "qwen3-embedding-0.6b --layers 1 --weights int8")
# Of training whole models: between them they have all kernels of losses, optimizers, adapters and messages.
trainers=("--layers 1 --task mlm --wire f16" "--layers 1 --task contrastive --optimizer lamb --lora 8 --wire f32"
    "--layers 1 --task scored --optimizer sgd")
own=entropy,entropy_sum,entropy_backward,pick,take,pairs,loss,loss_sum,loss_backward,handover_take,handover_give
own=$own,optimizer_add,optimizer_step,optimizer_sum,adapter_gradient,adapter_merge
own=$own,bucket_add,bucket_scan,bucket_pack,bucket_sum,bucket_unpack
[ "$quick" = no ] || { shapes=("768 12" "640 8") encoders=("${encoders[7]}"); }

results=() tested=0 failed=0
mkdir -p "$out"
for device in "${devices[@]}"; do
    if ! available "$device"; then
        echo "SKIPPED: $device: no driver here compiles for it$([ -n "$root" ] || echo ' (WHERRY_ROOT is not set: see scripts/compilers.sh)')"
        continue
    fi
    tested=$((tested + 1))
    for trainer in "${trainers[@]}"; do
        [ "$quick" = no ] || break # of these the suite has the targets' below
        file=$out/${device/:/-}-${trainer//[^a-z]/}.json
        # shellcheck disable=SC2086 # words
        if on "$device" timeout 600 "$build/wherry" prepare --config bert-base $trainer --dtype all --batch 4 --seq 512 \
            --device vulkan:0 --cache "" --quiet --json -o "$file" </dev/null; then
            results+=("$device=$file")
        else
            echo "FAILED: $device, $trainer"
            failed=$((failed + 1))
        fi
    done
    for encoder in "${encoders[@]}"; do
        file=$out/${device/:/-}-${encoder//[^a-z0-9]/}.json
        # shellcheck disable=SC2086 # words
        if on "$device" timeout 600 "$build/wherry" prepare --config $encoder --dtype all --batch 4 --seq 512 --device vulkan:0 \
            --cache "" --quiet --json -o "$file" </dev/null; then
            results+=("$device=$file")
        else
            echo "FAILED: $device, $encoder"
            failed=$((failed + 1))
        fi
    done
    for shape in "${shapes[@]}"; do
        for phase in "${phases[@]}"; do
            for rung in auto tiled; do
                name=$out/${device/:/-}-${shape/ /x}${phase//[^a-z]/}
                file=$name-$rung.json
                read -r hidden heads <<<"$shape"
                case $rung in
                auto) dtype=all ;;
                *) # where auto took matrices, also without them
                    grep -qs _coopmat "$name-auto.json" || continue
                    dtype=f16
                    ;;
                esac
                # shellcheck disable=SC2086 # words
                if on "$device" timeout 600 "$build/wherry" prepare --config bert-base --hidden "$hidden" --heads "$heads" \
                    $phase --plan all --dtype "$dtype" --kernels "$rung" --batch 4 --seq 512 --device vulkan:0 --cache "" \
                    --quiet --json -o "$file" </dev/null; then
                    results+=("$device=$file")
                else
                    echo "FAILED: $device, hidden $hidden, $heads heads, $phase, $rung"
                    failed=$((failed + 1))
                fi
            done
        done
    done
done
if [ "$offline" = yes ]; then
    models=()
    for trainer in "${trainers[@]}"; do
        # shellcheck disable=SC2206 # words
        models+=(-- --config bert-base $trainer --dtype all --batch 4 --seq 512)
    done
    for shape in "${shapes[@]}"; do
        for phase in "${phases[@]}"; do
            # shellcheck disable=SC2206 # words
            models+=(-- --config bert-base --hidden ${shape% *} --heads ${shape#* } $phase --plan all --dtype all --batch 4 --seq 512)
        done
    done
    for encoder in "${encoders[@]}"; do
        # shellcheck disable=SC2206 # words
        models+=(-- --config $encoder --dtype all --batch 4 --seq 512)
    done
    if [ "$quick" = yes ]; then
        models=(--kernels "attention,attention_backward,layernorm_backward,$own" -- --config bert-base --layers 1 --train --dtype f16
            --batch 4 --seq 512)
        # scripts/check.sh leaves all but the first to --all: half a minute of compiling.
        [ "${WHERRY_CHECK_ALL:-yes}" = yes ] || trainers=("${trainers[0]}")
        for trainer in "${trainers[@]}"; do
            # shellcheck disable=SC2206 # words
            models+=(-- --config bert-base $trainer --dtype f16 --batch 4 --seq 512)
        done
    fi
    status=0
    python3 scripts/compilers_offline.py --wherry "$build/wherry" ${root:+--root "$root"} ${targets:+--targets "$targets"} \
        --kept "$out/kept" -o "$out/offline.rows.json" "${models[@]}" || status=$?
    if [ "$status" -ne 77 ]; then tested=$((tested + 1)); results+=("$out/offline.rows.json"); fi
fi
if [ "$tested" -eq 0 ]; then
    echo "SKIPPED: no compiler of a GPU that is not here: mesa-vulkan-drivers has RADV's null hardware up to 25.0"
    exit 77
fi
python3 scripts/compilers.py "$action" "$table" "${results[@]}" || failed=$((failed + 1))
[ "$quick" = yes ] || python3 scripts/compilers.py check "$table" || failed=$((failed + 1))
[ "$failed" -eq 0 ]
