#!/usr/bin/env bash
# train_run.sh
# A real training of 500 steps whose logs become a record with its curves: all-MiniLM-L6-v2 on pairs of this project's
# pages (bench/train_pairs.py), all pairs in each step, on each device, and by sentence-transformers beside it
# (bench/train_beside.py) where PYTHON has it; or, TASK=mlm, a model's masked tokens on the text of the pages. Leaves
# the logs, curves.html, curves.svg and curves.md, and the trained models.
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for results, made if missing (default: build/train_run)
#   MODEL    folder of all-MiniLM-L6-v2; with TASK=mlm of a model with a head of masked tokens
#   DEVICES  ids (default: the first GPU of each API, else the host's cores)
#   TASK     contrastive or mlm (default: contrastive)
#   STEPS    (default: 500)
#   RATE     learning rate (default: 2e-5; mlm: 1e-4)
#   BESIDE   device of sentence-transformers, cpu or cuda; "no": without (default: cuda where PyTorch has one, else no)
#   OPTIONS  more options for all `wherry train` (default: none)
#   PYTHON   (default: python3)
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} out=${OUT:-build/train_run} task=${TASK:-contrastive} steps=${STEPS:-500}
python=${PYTHON:-python3} beside=${BESIDE:-}
die() {
    printf 'train_run: %s\n' "$*" >&2
    exit 1
}
read -r -a options <<<"${OPTIONS:-}"
[ -x "$build/wherry" ] || die "no $build/wherry: build it first, or set BUILD"
[ -n "${MODEL:-}" ] || die "a model is missing: MODEL=FOLDER, all-MiniLM-L6-v2 or, with TASK=mlm, one of masked tokens"
mkdir -p "$out"
devices=${DEVICES:-$("$build/wherry" devices --json | "$python" -c '
import json, sys
first = {}
for device in json.load(sys.stdin)["devices"]:
    if device["usable"] and device["type"] != "CPU":
        first.setdefault(device["id"].split(":")[0], device["id"])
print(" ".join(sorted(first.values())) or "cpu")')}

case $task in
contrastive)
    rate=${RATE:-2e-5}
    "$python" bench/train_pairs.py "$out/data"
    pairs=$(wc -l <"$out/data/train.jsonl")
    train=(--data "$out/data/train.jsonl" --dev "$out/data/dev.jsonl" --batch "$pairs" --dropout 0 --max-tokens 128)
    ;;
mlm)
    rate=${RATE:-1e-4}
    mkdir -p "$out/data"
    # Paragraphs, a line each; every tenth is held out.
    cat README.md docs/*.md | awk '
        /^```/ { code = !code }
        !code && /^[^|#`[:space:]]/ { text = text (text == "" ? "" : " ") $0; next }
        { if (length(text) > 80) print text; text = "" }
        END { if (length(text) > 80) print text }' >"$out/data/all.txt"
    awk -v part="$out/data" '{ print >(part (NR % 10 ? "/train.txt" : "/dev.txt")) }' "$out/data/all.txt"
    train=(--data "$out/data/train.txt" --dev "$out/data/dev.txt" --batch-tokens 4096 --max-tokens 128)
    ;;
*) die "TASK is contrastive or mlm, not $task" ;;
esac

logs=()
for device in $devices; do
    name=wherry-${device//:/-}
    logs+=("$out/$name.jsonl")
    rm -rf "${out:?}/$name"
    "$build/wherry" train --model "$MODEL" --task "$task" "${train[@]}" --truncate --steps "$steps" --lr "$rate" \
        --warmup $((steps / 10)) --eval-every $(((steps + 9) / 10)) --device "$device" --out "$out/$name" \
        --log "$out/$name.jsonl" "${options[@]}"
done
if [ -z "$beside" ]; then
    beside=no
    if "$python" -c 'import torch, sentence_transformers, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        beside=cuda
    fi
fi
if [ "$task" = contrastive ] && [ "$beside" != no ]; then
    logs+=("$out/sentence-transformers-$beside.jsonl")
    "$python" bench/train_beside.py "$MODEL" "$out/data" --steps "$steps" --warmup $((steps / 10)) --rate "$rate" \
        --every $(((steps + 9) / 10)) --device "$beside" --log "$out/sentence-transformers-$beside.jsonl"
fi
for file in curves.html curves.svg curves.md; do "$build/wherry" report "${logs[@]}" -o "$out/$file"; done
"$build/wherry" report "${logs[@]}"
