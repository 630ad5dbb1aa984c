#!/usr/bin/env bash
# families.sh [architectures]
# Times the shapes of other encoders than BERT, a reranker's pairs of unequal lengths and single layers in training on the
# GPUs of this machine and in PyTorch (eager, CUDA graph, compile, flex attention), in one run. With tables of all as its
# result, and the records. Where the machine lacks loaders: scripts/gpu.sh with bench/families.sh.
# "architectures" has other defaults: rotary positions and gates, a mixture of experts, weights in 8 bits.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results, made if missing (default: build/families; build/architectures); its *.json go first
#   SHAPES   MODEL:BATCHxSEQ (default: XLM-R large, MPNet base; ModernBERT, NomicBERT, Qwen3-Embedding, BERT base 1x32)
#   ALONE    those that PyTorch has no peer of here (default: none; a mixture of experts)
#   INT8     those to be measured with --weights int8, too (default: none; BERT base 1x32)
#   LAYERS   MODEL:BATCHxSEQ of one layer in training (default: none; ModernBERT 8x1024)
#   PAIRS    MODEL:N:SHORTESTxLONGEST: N sequences of lengths evenly from one to the other (default:
#            minilm-l6:100:20x300; none)
#   DEVICES  device ids (default: opencl:0 vulkan:0)
#   DTYPE    storage type (default: f16)
#   ROOF     ceilings to measure in each record: no, copy (default: no; copy)
#   JOBS     how many processes compile before: all that will be measured is run once, side by side on all devices, for at
#            most a quarter of LIMIT, so that it finds its kernels (default: 1: nothing is)
#   LIMIT    seconds for all of it; what would begin after them is left out and named (default: 1800)
#   PEERS    "no": without PyTorch (default: yes)
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
'')
    out=build/families roof=no
    shapes='xlmr-large:64x128 xlmr-large:32x512 xlmr-large:4x8192 mpnet-base:64x128'
    alone='' int8='' layers='' pairs=minilm-l6:100:20x300
    ;;
architectures)
    out=build/architectures roof=copy
    shapes='modernbert-base:64x128 modernbert-base:32x512 modernbert-base:4x8192 nomic-bert-base:32x512'
    shapes="$shapes bert-base:1x32 qwen3-embedding-0.6b:32x512"
    alone=nomic-moe-base:32x512 int8=bert-base:1x32 layers=modernbert-base:8x1024 pairs=''
    ;;
*)
    printf 'families: unknown argument: %s\n' "$1" >&2
    exit 2
    ;;
esac
build=${BUILD:-build/release} out=${OUT:-$out} dtype=${DTYPE:-f16} devices=${DEVICES:-opencl:0 vulkan:0}
shapes=${SHAPES-$shapes} alone=${ALONE-$alone} int8=${INT8-$int8} layers=${LAYERS-$layers} pairs=${PAIRS-$pairs}
roof=${ROOF:-$roof} jobs=${JOBS:-1} limit=${LIMIT:-1800} peers=${PEERS:-yes} pass='' failed=''
[ -x "$build/wherry" ] || {
    printf 'families: no %s/wherry: build it first, or set BUILD\n' "$build" >&2
    exit 1
}
mkdir -p "$out"
rm -f "$out"/*.json

say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

# In the first pass all runs side by side for the sake of its kernels; then one after the other, in what is left of LIMIT.
run() { # FILE COMMAND...
    local seconds=$((limit - SECONDS)) status=0
    if [ "$pass" = first ]; then
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        [ $((limit / 4 - SECONDS)) -le 0 ] || timeout $((limit / 4 - SECONDS)) "${@:2}" >"$out/first/$1.log" 2>&1 &
    elif [ "$seconds" -le 5 ]; then
        printf 'left out: %d seconds are over: %s\n' "$limit" "$1"
        failed="$failed $1"
    else
        timeout "$seconds" "${@:2}" || status=$?
        [ $status = 0 ] || printf 'failed (exit code %d): %s\n' $status "$1"
        [ $status = 0 ] || failed="$failed $1"
    fi
}

bench() { # FILE [layer] OPTION...
    local command=("$build/wherry" bench "${@:2}" --dtype "$dtype" --caches warm --quiet --json)
    if [ "$pass" = first ]; then
        run "$1" "${command[@]}" --roof no --repeats 5 -o "$out/first/$1.json"
    else
        run "$1" "${command[@]}" --roof "$roof" -o "$out/$1.json"
    fi
}

torch() { # NAME OPTION...
    local folder=$out
    [ "$pass" != first ] || folder=$out/first
    [ "$pass" = first ] || say "PyTorch: $1"
    run "$1" python3 "bench/peers/$1.py" "${@:2}" --out "$folder/$1.json"
}

bench_all() {
    local device shape model count size lengths
    for device in $devices; do
        [ "$pass" = first ] || say "$device"
        for shape in $shapes $alone; do
            size=${shape#*:}
            bench "${shape/:/-}-${device/:/-}" --config "${shape%%:*}" --batch "${size%x*}" --seq "${size#*x}" \
                --device "$device"
        done
        for shape in $int8; do
            size=${shape#*:}
            bench "int8-${shape/:/-}-${device/:/-}" --config "${shape%%:*}" --batch "${size%x*}" --seq "${size#*x}" \
                --device "$device" --weights int8
        done
        for shape in $layers; do
            size=${shape#*:}
            bench "layer-${shape/:/-}-${device/:/-}" layer --config "${shape%%:*}" --batch "${size%x*}" \
                --seq "${size#*x}" --device "$device"
        done
        [ -n "$pairs" ] || continue
        IFS=: read -r model count size <<<"$pairs"
        lengths=$(for i in $(seq 0 $((count - 1))); do
            echo $((${size%x*} + (${size#*x} - ${size%x*}) * i / (count > 1 ? count - 1 : 1)))
        done | paste -sd ,)
        bench "pairs-${device/:/-}" --config "$model" --lengths "$lengths" --device "$device"
    done
}

torch_all() {
    local shape
    [ "$peers" = yes ] || return 0
    if [ "$pass" = first ]; then # each by a process of its own; of pairs little is to be compiled
        for shape in $shapes; do torch pytorch_encoder --shapes "$shape" --repeats 30; done
        for shape in $layers; do torch pytorch_layer --shapes "$shape"; done
        return 0
    fi
    [ -z "$layers" ] || torch pytorch_layer --shapes "${layers// /,}"
    [ -z "$shapes$pairs" ] ||
        torch pytorch_encoder --shapes "${shapes// /,}" ${pairs:+--pairs "$pairs"} --repeats 30
}

if [ "$peers" = yes ] && ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    printf 'families: no PyTorch with CUDA here: nothing to compare with\n' >&2
    peers=no
fi
if [ "$jobs" -gt 1 ]; then
    say "compiling, $jobs processes"
    pass=first
    mkdir -p "$out/first"
    torch_all # what takes longest
    bench_all
    wait
    rm -rf "$out/first"
fi
pass=measure
bench_all
torch_all
[ ! -f "$out/pytorch_encoder.json" ] || mv "$out/pytorch_encoder.json" "$out/pytorch.json"
say "tables"
python3 bench/families.py "$out" | tee "$out/table.md"
[ -z "$failed" ] || { printf 'families: failed:%s\n' "$failed" >&2 && exit 1; }
