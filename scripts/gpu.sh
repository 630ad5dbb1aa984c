#!/usr/bin/env bash
# gpu.sh
# Tests and measures an already built Wherry on the GPUs of this machine, through OpenCL and Vulkan: runs the test
# programs, then `wherry roof`, `wherry bench` and `wherry bench layer` over the standard shapes, each with a record as
# its result; clpeak, where it is installed, and PyTorch, where python3 has torch with CUDA, do the same work; makes a
# page of all records, checks them, and prints tables. Installs nothing, compiles nothing.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results, made if missing (default: build/gpu)
#   TESTS    programs to run first (default: "test_groups test_training test_encode test_golden"; "": none)
#   BENCH    shapes, as MODEL:BATCHxSEQ (default: the six of bench/results; "": none)
#   LAYERS   shapes of one layer of BERT-large in training, as BATCHxSEQ or BATCHxSEQ:PLAN (default: "8x512 96x128
#            64x512:flash 1x128", all but the third in all plans; "": none)
#   ROOF     "no": leaves out `wherry roof`; the benches measure ceilings themselves (default: yes)
#   PEERS    "yes": also single products, attention and layernorms of many sizes, here and in PyTorch, and peers.json
#            and peers.md from all results (bench/peers/compare.py); "only": nothing but what these need; "layers": of
#            that the layers alone (LAYERS; default: "8x512:flash 96x128:flash"), which with TUNE=layers are as they
#            were tuned (default: no)
#   GEMMS, ATTENTIONS, NORMS, LENGTHS  sizes of these, with commas (default: BERT's, see below)
#   TUNE     "layers": first `wherry tune layer` for each of LAYERS, so that what is measured then (plan flash) has the
#            orders and sizes that were chosen; "all": `wherry tune` for each of BENCH, too; results are
#            tune-API-SHAPE.json and tune.html. Several GPUs are tuned at the same time, each by its own process. What
#            was chosen stays in OUT/cache and is not yours; "kept": nothing is tuned, that of an earlier run is used
#            (default: no)
#   TUNE_OPTIONS  options for all `wherry tune`, as "--candidates 8" (default: none)
#   PROCESSES  how many processes measure the first of LAYERS once more, plan flash, to see how well that repeats
#            (default: 5; 0: none)
#   LIMIT    seconds that one command may take before it is ended and counts as failed (default: 600)
#   JOBS     how many processes test at the same time, test_groups one for each shape, test_training one for each file,
#            and compile before the benches: all that will be measured is run once, so that it finds its kernels
#            (default: 1: nothing is)
#   DTYPE    storage type of the benches (default: f16)
#   DEBS     folder of Debian packages with loaders and libraries, unpacked into OUT and used from there: for machines
#            that have a driver and nothing else. NVIDIA's driver is registered for OpenCL and Vulkan where it is not.
#   WHERRY_TEST_DEVICES  device ids instead of all usable GPUs
#   WHERRY_TEST_MODEL    folder of all-MiniLM-L6-v2, without which test_golden is skipped
#
# gpu.sh --quick
# Ten minutes for a laptop, CPU drivers too: verify, roof, three encodes, a layer, one folder (scripts/quick.sh).
#
# gpu.sh with COMMAND...
# Runs a command (bench/counters/run.sh, say) with the loaders, libraries and drivers that are found so.
#
# gpu.sh debs FOLDER
# Downloads into FOLDER the packages that a build of this machine needs elsewhere (run it where the build was made).
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" != --quick ] || exec scripts/quick.sh "${@:2}"

build=${BUILD:-build/release} out=${OUT:-build/gpu} dtype=${DTYPE:-f16}
tests=${TESTS-test_groups test_training test_encode test_golden}
bench=${BENCH-minilm-l6:1x32 minilm-l6:8x128 minilm-l6:64x128 minilm-l6:256x256 bert-base:64x128 bert-base:32x512}
layers=${LAYERS-8x512 96x128 64x512:flash 1x128} roof=${ROOF:-yes} processes=${PROCESSES-5} peers=${PEERS:-no}
jobs=${JOBS:-1} tune=${TUNE:-no}
# What is measured of each record: everything, or times alone.
record_options=() only=''
if [ "$peers" = only ]; then
    tests='' bench='bert-base:32x512 minilm-l6:64x128 minilm-l6:1x32' layers='8x512:flash 96x128:flash' processes=0
    record_options=(--roof no --caches warm) only=dram.copy
elif [ "$peers" = layers ]; then
    tests='' bench='' layers=${LAYERS-8x512:flash 96x128:flash} processes=0 roof=no
    record_options=(--roof no --caches warm)
fi
read -r -a tune_options <<<"${TUNE_OPTIONS:-}"
gemms=8192x8192x8192,4096x4096x4096,4096x1024x1024,4096x3072x1024,4096x4096x1024,4096x1024x4096
gemms=${GEMMS:-$gemms,16384x768x768,16384x3072x768,16384x768x3072}
attentions=${ATTENTIONS:-32x16x512x64} norms=${NORMS:-65536x1024}
# 32768 tokens in sequences of 128 to 16384; and half of them.
lengths=256x16x128x64,64x16x512x64,16x16x2048x64,4x16x8192x64,2x16x16384x64
lengths=${LENGTHS:-$lengths,128x16x128x64}

limited() { timeout "${LIMIT:-600}" "$@"; }
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'gpu: %s\n' "$*" >&2
    exit 1
}

# The packages of all libraries that the build's programs load, but for the C and C++ runtimes, which drivers share; and
# what NVIDIA's drivers load.
fetch_debs() { # FOLDER
    local packages
    # A library is known to dpkg under /usr or without it.
    packages=$(ldd "$build/wherry" "$build"/tests/test_* | awk '$3 ~ /^\// {print $3}' | sort -u | xargs readlink -f |
        while read -r file; do dpkg -S "$file" "${file#/usr}" 2>/dev/null || true; done |
        cut -d: -f1 | sort -u | grep -vxE 'libc6|libgcc-s1|libstdc\+\+6')
    mkdir -p "$1"
    # shellcheck disable=SC2086 # a list
    (cd "$1" && apt-get -q -o APT::Sandbox::User=root download $packages libvulkan1 libegl1 libglvnd0 libgl1 libglx0 \
        libopengl0 libgles2 libx11-6 libxext6 libxcb1 libxau6 libxdmcp6)
    # "libx11-6_2%3a1.8.4.deb": a name that not every way of copying takes.
    find "$1" -name '*%*.deb' | while read -r deb; do mv "$deb" "${deb//%3a/_}"; done
}

use_debs() { # FOLDER
    local deb root driver
    root=$(mkdir -p "$out/debs" && cd "$out/debs" && pwd)
    for deb in "$1"/*.deb; do dpkg-deb -x "$deb" "$root"; done
    LD_LIBRARY_PATH=$root/usr/lib/$(uname -m)-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    # Another driver (PoCL, say) may be registered alone.
    if ! grep -qs nvidia /etc/OpenCL/vendors/*.icd; then
        driver=$(ldconfig -p | sed -n 's/.*=> *\(.*libnvidia-opencl\.so\.1\)$/\1/p' | sed -n 1p)
        [ -n "$driver" ] ||
            driver=$(find /usr/lib /usr/local/nvidia -name libnvidia-opencl.so.1 2>/dev/null | sed -n 1p || true)
        [ -n "$driver" ] || die "no libnvidia-opencl.so.1 on this machine"
        mkdir -p "$root/vendors"
        cp /etc/OpenCL/vendors/*.icd "$root/vendors/" 2>/dev/null || true
        printf '%s\n' "$driver" >"$root/vendors/nvidia.icd"
        export OCL_ICD_VENDORS="$root/vendors/"
    fi
}

gpu_devices() {
    "$build/wherry" devices --json | python3 -c '
import json, sys
devices = json.load(sys.stdin)["devices"]
print(" ".join(d["id"] for d in devices if d["usable"] and d["type"] != "CPU"))'
}

if [ "${1:-}" = debs ]; then
    fetch_debs "${2:?usage: gpu.sh debs FOLDER}"
    exit 0
fi
[ -x "$build/wherry" ] || die "no $build/wherry: build it first, or set BUILD"
mkdir -p "$out"
[ -z "${DEBS:-}" ] || use_debs "$DEBS"
# Where the loader finds no GPU by itself, NVIDIA's driver may lie outside its folders.
icd=/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json
if [ -z "${VK_DRIVER_FILES:-}" ] && [ -f $icd ]; then
    case $(gpu_devices) in *vulkan:*) ;; *) export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd ;; esac
fi

if [ "${1:-}" = with ]; then
    shift
    exec "$@"
fi

"$build/wherry" devices
"$build/wherry" devices --json -o "$out/devices.json"
devices=${WHERRY_TEST_DEVICES:-$(gpu_devices)}
[ -n "$devices" ] || die "no usable GPU (above)"

failed=''
# Starts it beside the others, when there is place for it.
beside() { # COMMAND...
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    "$@" &
}

run_test() { # NAME DEVICES ARGUMENT...
    local status=0 log
    log="$out/$1$(printf -- '-%s' "${@:2}" | tr ' :' '_-').log"
    WHERRY_TEST_DEVICES="$2" "$build/tests/$1" "${@:3}" >"$log" 2>&1 || status=$?
    printf '%s\n' "$status" >"$log.status"
    case $status in
    0) printf '%s\n%s\n' "== ${*}: passed" "$(tail -n 3 "$log")" ;;
    77) printf '%s\n' "== ${*}: SKIPPED: $(tail -n 1 "$log")" ;;
    *) printf '%s\n' "== ${*}: FAILED: all of it is in $log" "$(grep -E '\[  FAILED|^    ' "$log" | head -n 40 || true)" ;;
    esac
}

rm -f "$out"/*.log "$out"/*.status
[ -z "$tests" ] || say "tests on $devices"
for test in $tests; do
    if [ "$jobs" = 1 ]; then
        run_test "$test" "$devices"
        continue
    fi
    parts=''
    case $test in test_groups | test_training) parts=$("$build/tests/$test" --list) ;; esac
    for device in $devices; do
        [ -n "$parts" ] || beside run_test "$test" "$device"
        for part in $parts; do beside run_test "$test" "$device" "$part"; done
    done
done
wait
for status in "$out"/*.status; do
    case $(cat "$status" 2>/dev/null || echo 0) in 0 | 77) ;; *) failed="$failed $(basename "${status%.log.status}")" ;; esac
done
rm -f "$out"/*.status

torch=no
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then torch=yes; fi
[ "$torch" = yes ] || printf '\nno PyTorch with CUDA here: nothing to compare with\n'

# What is measured goes to $out; in the first pass all of it runs side by side, a few times, for the sake of the kernels
# alone.
measure() { # NAME FILE COMMAND...
    if [ "$pass" = first ]; then
        mkdir -p "$out/first"
        beside limited "${@:3}" --repeats 5 -o "$out/first/$(basename "$2")" >/dev/null 2>&1
    else
        limited "${@:3}" -o "$2" || failed="$failed $1"
    fi
}

measure_torch() { # SCRIPT OPTION...
    local file=$out/$1.json
    [ "$torch" = yes ] || return 0
    if [ "$pass" = first ]; then
        mkdir -p "$out/first"
        beside limited python3 "bench/peers/$1.py" "${@:2}" --out "$out/first/$1.json" >/dev/null 2>&1
    else
        say "PyTorch: $1"
        limited python3 "bench/peers/$1.py" "${@:2}" --out "$file" || failed="$failed $1"
    fi
}

# One layer of BERT-large in training.
bench_layer() { # DEVICE BATCHxSEQ PLAN FILE
    measure "layer:$2:$1" "$4" "$build/wherry" bench layer --config bert-large --batch "${2%x*}" --seq "${2#*x}" \
        --device "$1" --dtype "$dtype" --plan "$3" --phase both --activation relu --dropout 0.1 \
        "${record_options[@]}" --json
}

# Single groups of one size after the other: the clocks are warm from the one before.
bench_pieces() { # DEVICE NAME PIECE SIZES OPTION...
    # shellcheck disable=SC2086 # a list
    measure "$2:$1" "$out/$2-${1/:/-}.json" "$build/wherry" bench "$3" ${4//,/ } --device "$1" --dtype "$dtype" \
        --warm 0.15 --json "${@:5}"
}

# The API; of further devices their number after it.
tune_name() { # DEVICE
    local name=${1%:0}
    printf '%s' "${name/:/-}"
}

# A line for each GPU: its devices, one for each API, which must not measure at the same time.
gpus() {
    # shellcheck disable=SC2086 # a list
    python3 - "$out/devices.json" $devices <<'SCRIPT'
import json, sys
uuids = {device["id"]: device["uuid"] for device in json.load(open(sys.argv[1]))["devices"]}
gpus = {}
for device in sys.argv[2:]:
    gpus.setdefault(uuids.get(device) or device, []).append(device)
for ids in gpus.values():
    print(*ids)
SCRIPT
}

tune_one() { # NAME COMMAND...
    say "tune $1"
    limited "${@:2}" "${tune_options[@]}" -q --json -o "$out/tune-$1.json" || echo "tune:$1" >>"$out/tune.failed"
}

tune_gpu() { # DEVICE...
    local device shape model size
    for shape in $layers; do
        size=${shape%%:*}
        for device in "$@"; do
            tune_one "$(tune_name "$device")-$size" "$build/wherry" tune layer --config bert-large --batch "${size%x*}" \
                --seq "${size#*x}" --device "$device" --dtype "$dtype" --activation relu --dropout 0.1
        done
    done
    for shape in $bench; do
        [ "$tune" = all ] || break
        model=${shape%%:*} size=${shape#*:}
        for device in "$@"; do
            tune_one "$(tune_name "$device")-$model-$size" "$build/wherry" tune --config "$model" --batch "${size%x*}" \
                --seq "${size#*x}" --device "$device" --dtype "$dtype"
        done
    done
}

tune_all() {
    local gpu
    case $tune in no | kept) return 0 ;; esac
    rm -f "$out/tune.failed"
    # shellcheck disable=SC2086 # a list
    while read -r gpu; do tune_gpu $gpu & done < <(gpus)
    wait
    [ ! -f "$out/tune.failed" ] || failed="$failed $(tr '\n' ' ' <"$out/tune.failed")"
}

measure_all() {
    local device shape model size plan shapes n
    for shape in $bench; do
        model=${shape%%:*} size=${shape#*:}
        [ "$pass" = first ] || say "bench $model $size"
        for device in $devices; do
            measure "bench:$model:$size:$device" "$out/bench-$model-$size-${device/:/-}.json" "$build/wherry" bench \
                --config "$model" --batch "${size%x*}" --seq "${size#*x}" --device "$device" --dtype "$dtype" \
                "${record_options[@]}" --json
        done
    done
    for shape in $layers; do
        size=${shape%%:*} plan=all
        case $shape in *:*) plan=${shape#*:} ;; esac
        [ "$pass" = first ] || say "bench layer, plan $plan, $size"
        for device in $devices; do bench_layer "$device" "$size" "$plan" "$out/layer-$size-${device/:/-}.json"; done
    done
    if [ -n "$layers" ] && [ "$processes" -gt 1 ] && [ "$pass" != first ]; then
        shape=${layers%% *}
        say "$processes processes, ${shape%%:*}"
        mkdir -p "$out/repeat"
        for device in $devices; do
            for n in $(seq "$processes"); do
                bench_layer "$device" "${shape%%:*}" flash "$out/repeat/${device/:/-}-$n.json"
            done
            python3 bench/repeat.py "$out/repeat/${device/:/-}"-*.json || failed="$failed repeat:$device"
            printf '\n'
        done >"$out/repeat.md"
        cat "$out/repeat.md"
    fi
    for device in $devices; do
        case $peers in no | layers) break ;; esac
        [ "$pass" = first ] || say "products, attention and layernorms alone, $device"
        bench_pieces "$device" gemm gemm "$gemms"
        bench_pieces "$device" attention attention "$attentions"
        bench_pieces "$device" norm norm "$norms"
        bench_pieces "$device" lengths attention "$lengths" --only forward
    done
    if [ "$pass" != first ] && [ "$roof" = yes ] && [ "$peers" != only ] && command -v clpeak >/dev/null 2>&1; then
        say "clpeak"
        clpeak --global-bandwidth --compute-sp | tee "$out/clpeak.txt" || failed="$failed clpeak"
    fi
    [ "$roof" != yes ] || [ "$pass" = first ] || measure_torch pytorch_roof ${only:+--only copy}
    [ -z "$bench" ] || measure_torch pytorch_encoder --shapes "${bench// /,}"
    if [ -n "$layers" ]; then
        shapes=''
        for shape in $layers; do shapes="$shapes,bert-large:${shape%%:*}"; done
        measure_torch pytorch_layer --shapes "${shapes#,}"
    fi
    case $peers in no | layers) ;; *) measure_torch pytorch_pieces --gemm "$gemms" --attention "$attentions" --norm "$norms" ;; esac
}

rm -rf "$out/repeat" "$out/first"
rm -f "$out"/roof-*.json "$out"/bench-*.json "$out"/layer-*.json "$out"/pytorch*.json
rm -f "$out"/gemm-*.json "$out"/attention-*.json "$out"/norm-*.json "$out"/lengths-*.json "$out"/peers.*
if [ "$tune" != no ]; then
    XDG_CACHE_HOME=$(mkdir -p "$out/cache" && cd "$out/cache" && pwd)
    export XDG_CACHE_HOME
    [ "$tune" = kept ] || rm -f "$out"/tune-*.json "$XDG_CACHE_HOME"/wherry/tun*.txt
fi
# What was chosen is what is compiled then.
tune_all
pass=first
if [ "$jobs" -gt 1 ]; then
    say "compiling, $jobs processes"
    measure_all
    wait
fi
pass=measure
for device in $devices; do
    [ "$roof" = yes ] || break
    say "roof $device"
    limited "$build/wherry" roof ${only:+--only "$only"} --device "$device" --json \
        -o "$out/roof-${device/:/-}.json" || failed="$failed roof:$device"
done
measure_all
[ ! -f "$out/pytorch_encoder.json" ] || mv "$out/pytorch_encoder.json" "$out/pytorch.json"
rm -rf "$out/first"
say "results"
shopt -s nullglob
tunings=("$out"/tune-*.json)
if [ ${#tunings[@]} -gt 0 ]; then
    "$build/wherry" report "${tunings[@]}" -o "$out/tune.html" || failed="$failed tune.html"
fi
records=("$out"/roof-*.json "$out"/bench-*.json "$out"/layer-*.json)
if [ ${#records[@]} -gt 0 ]; then
    "$build/wherry" report "${records[@]}" -o "$out/index.html" || failed="$failed report"
    "$build/wherry" report "${records[@]}" -o "$out/groups.md" || failed="$failed report"
    "$build/wherry" report --check "${records[@]}" || failed="$failed check"
fi
if [ -n "$bench$layers" ]; then python3 bench/table.py "$out" | tee "$out/table.md"; fi
if [ "$peers" != no ]; then
    say "against PyTorch"
    variables=''
    [ -z "${LAYERS:-}" ] || [ "$peers" = only ] || variables="LAYERS=\"$LAYERS\" "
    [ "$tune" = no ] || variables="${variables}TUNE=$tune ${TUNE_OPTIONS:+TUNE_OPTIONS=\"$TUNE_OPTIONS\" }"
    python3 bench/peers/compare.py "$out" --command "${variables}PEERS=$peers scripts/gpu.sh" || failed="$failed compare"
fi
[ -z "$failed" ] || die "failed:$failed"
