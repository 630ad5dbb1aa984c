#!/usr/bin/env bash
# families.sh
# Times the shapes of other encoders than BERT, and a reranker's pairs of unequal lengths, on the GPUs of this machine and
# in PyTorch (eager, CUDA graph, compile), in one run. With a table of all as its result, and the records. Where the
# machine lacks loaders: scripts/gpu.sh with bench/families.sh.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results, made if missing (default: build/families)
#   SHAPES   MODEL:BATCHxSEQ (default: XLM-R large, MPNet base)
#   PAIRS    MODEL:N:SHORTESTxLONGEST: N sequences of lengths evenly from one to the other (default:
#            minilm-l6:100:20x300)
#   DEVICES  device ids (default: opencl:0 vulkan:0)
#   DTYPE    storage type (default: f16)
#   LIMIT    seconds that one command may take (default: 600)
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} out=${OUT:-build/families} dtype=${DTYPE:-f16} devices=${DEVICES:-opencl:0 vulkan:0}
shapes=${SHAPES-xlmr-large:64x128 xlmr-large:32x512 xlmr-large:4x8192 mpnet-base:64x128}
pairs=${PAIRS-minilm-l6:100:20x300}
mkdir -p "$out"
rm -f "$out"/*.json
failed=''

bench() { # FILE OPTION...
    timeout "${LIMIT:-600}" "$build/wherry" bench --dtype "$dtype" --roof no --caches warm --json -o "$out/$1.json" \
        "${@:2}" || failed="$failed $1"
}

for device in $devices; do
    for shape in $shapes; do
        size=${shape#*:}
        bench "${shape/:/-}-${device/:/-}" --config "${shape%%:*}" --batch "${size%x*}" --seq "${size#*x}" \
            --device "$device"
    done
    [ -n "$pairs" ] || continue
    IFS=: read -r model count size <<<"$pairs"
    lengths=$(for i in $(seq 0 $((count - 1))); do
        echo $((${size%x*} + (${size#*x} - ${size%x*}) * i / (count > 1 ? count - 1 : 1)))
    done | paste -sd ,)
    bench "pairs-${device/:/-}" --config "$model" --lengths "$lengths" --device "$device"
done
if python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    timeout "${LIMIT:-600}" python3 bench/peers/pytorch_encoder.py --shapes "${shapes// /,}" \
        ${pairs:+--pairs "$pairs"} --repeats 30 --out "$out/pytorch.json" || failed="$failed pytorch"
else
    printf 'families: no PyTorch with CUDA here: nothing to compare with\n' >&2
fi
python3 bench/families.py "$out" | tee "$out/table.md"
[ -z "$failed" ] || { printf 'families: failed:%s\n' "$failed" >&2 && exit 1; }
