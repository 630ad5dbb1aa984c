#!/usr/bin/env bash
# run.sh
# Counts with the hardware counters of an NVIDIA GPU what the groups of a training step move, and prints a table of
# counted against modelled bytes. Tries, in this order, and says which way worked: Nsight Compute (ncu) on OpenCL, on
# Vulkan; CUPTI's PM sampling around a loop of one group, which knows no API. Needs an already built Wherry with tests.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results (default: build/counters)
#   DEVICES  device ids (default: all usable GPUs)
#   SHAPE    BATCHxSEQ of a layer of BERT-large (default: 64x512)
#   PLANS    (default: "flash paper")
#   LEAST    bytes of the smallest group (default: 200000000)
#   SECONDS_EACH  length of a loop (default: 0.5)
#   CACHE    bytes of the last cache that the model assumes (default: 50000000)
#   METRICS  what PM sampling counts instead of the memory's and the L2 cache's bytes
#   CUDA     folder of the CUDA toolkit (default: /usr/local/cuda)
# A machine with a driver and nothing else: DEBS=FOLDER scripts/gpu.sh with bench/counters/run.sh
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build/release} out=${OUT:-build/counters} shape=${SHAPE:-64x512} plans=${PLANS:-flash paper}
least=${LEAST:-200000000} seconds=${SECONDS_EACH:-0.5} cache=${CACHE:-50000000} cuda=${CUDA:-/usr/local/cuda}
loop=$build/tests/loop_group
metrics=()
for metric in ${METRICS:-}; do metrics+=(-m "$metric"); done

say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'counters: %s\n' "$*" >&2
    exit 1
}
first_of() { # PATH...: the first that is there
    local path
    for path in "$@"; do
        if [ -e "$path" ]; then
            printf '%s\n' "$path"
            return
        fi
    done
}

[ -x "$loop" ] || die "no $loop: build with WHERRY_TESTS=ON, or set BUILD"
mkdir -p "$out"
devices=${DEVICES:-$("$build/wherry" devices --json | python3 -c '
import json, sys
print(" ".join(d["id"] for d in json.load(sys.stdin)["devices"] if d["usable"] and d["type"] != "CPU"))')}
[ -n "$devices" ] || die "no usable GPU"

# ---- ncu: made for CUDA; whether it sees kernels of other APIs is what this finds out ----
ncu=$(command -v ncu || true)
[ -n "$ncu" ] || ncu=$(find /opt/nvidia/nsight-compute /usr/local/cuda*/bin -maxdepth 2 -name ncu 2>/dev/null |
    sort | tail -n 1 || true)
worked=''
for device in $devices; do
    say "ncu on $device"
    if [ -z "$ncu" ]; then
        echo "ncu: not installed"
        continue
    fi
    name=$out/ncu-${device/:/-}.csv
    timeout 120 "$ncu" --clock-control none --metrics dram__bytes_read.sum,dram__bytes_write.sum,lts__t_bytes.sum --csv --page raw \
        "$loop" "$device" 1 128 flash layer.0.norm1 0.01 warm >"$name" 2>&1 || true
    if grep -q '^"[0-9]' "$name"; then
        echo "ncu: sees kernels of $device ($name)"
        worked="$worked ncu:$device"
    else
        echo "ncu: sees no kernel of $device: $(grep -E '==(WARNING|ERROR)==|No kernels' "$name" | head -n 1)"
    fi
done

# ---- PM sampling ----
say "PM sampling"
header=$(first_of "$cuda"/extras/CUPTI/include/cupti_pmsampling.h "$cuda"/include/cupti_pmsampling.h \
    "$cuda"/targets/*/include/cupti_pmsampling.h)
library=$(first_of "$cuda"/extras/CUPTI/lib64/libcupti.so* "$cuda"/lib64/libcupti.so* \
    "$cuda"/targets/*/lib/libcupti.so*)
driver=$(ldconfig -p | sed -n 's/.*=> *\(.*libcuda\.so\.1\)$/\1/p' | head -n 1)
[ -n "$driver" ] || driver=$(find /usr/lib /usr/local/nvidia -name libcuda.so.1 2>/dev/null | head -n 1 || true)
if [ -z "$header" ] || [ -z "$library" ]; then die "no CUPTI with PM sampling (CUDA 12.6 or newer) in $cuda"; fi
[ -n "$driver" ] || die "no libcuda.so.1"
mkdir -p "$out/shim"
: >"$out/shim/string" # CUDA 13.0's header for C includes C++'s <string> and does not use it
gcc -std=c17 -O2 -I "$out/shim" -I "$(dirname "$header")" -I "$cuda/include" bench/counters/pm_sampling.c "$library" \
    "$driver" -Wl,-rpath,"$(dirname "$library")" -o "$out/pm_sampling"

for device in $devices; do
    for plan in $plans; do
        # Large groups, each name once; the sum of what the model says of reads and writes.
        mapfile -t groups < <("$loop" "$device" "${shape%x*}" "${shape#*x}" "$plan" list 0 warm "$cache" | python3 -c '
import json, sys
least, seen = float(sys.argv[1]), set()
for line in sys.stdin:
    g = json.loads(line)
    if g["model"]["r"] + g["model"]["w"] >= least and g["group"] not in seen:
        seen.add(g["group"])
        print(g["group"])' "$least")
        [ "${#groups[@]}" -gt 0 ] || continue
        echo "$device, $plan: ${#groups[@]} groups"
        name=$out/counted-${device/:/-}-$plan.jsonl
        if "$out/pm_sampling" "${metrics[@]}" "${groups[@]}" -- "$loop" "$device" "${shape%x*}" "${shape#*x}" "$plan" - "$seconds" cold \
            "$cache" >"$name"; then
            worked="$worked pm_sampling:$device"
        else
            echo "PM sampling failed on $device, $plan (above)"
        fi
    done
done

say "what worked:${worked:- nothing}"
for name in "$out"/counted-*.jsonl; do
    if [ -s "$name" ]; then
        python3 bench/counters/table.py "$out"/counted-*.jsonl | tee "$out/table.md"
        exit "${PIPESTATUS[0]}"
    fi
done
die "no counter could be read"
