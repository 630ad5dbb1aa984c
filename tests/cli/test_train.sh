#!/usr/bin/env bash
# Tests wherry train on a tiny model: a loss that falls, a batch in parts, the optimizers, a run that is killed and goes on
# with the same bits, the folder that is written, and bad input.
# WHERRY: the command.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
cd "$work" || exit 1
check "$python" "$here/make_model.py" model

# 24 pairs of which each has a letter of its own, 4 of them to evaluate on.
for letter in a b c d e f g h i j k l m n o p q r s t u v w x; do
    printf '{"query": "the %s", "answer": "boat %s %s water"}\n' $letter $letter $letter
done >all.jsonl
head -n 20 all.jsonl >data.jsonl
tail -n 4 all.jsonl >dev.jsonl
train=("$wherry" train --model model --device cpu --quiet --dropout 0.1 --lr 3e-3)
pairs=(--task contrastive --data data.jsonl --batch 8)

# ---- a loss that falls; what is written opens ----
expect 0 '' "${train[@]}" "${pairs[@]}" --dev dev.jsonl --epochs 20 --log log.jsonl --out trained
check "$python" -c '
import json
lines = [json.loads(line) for line in open("log.jsonl", encoding="utf-8")]
steps = [line for line in lines if "loss" in line]
evaluations = [line["evaluation"] for line in lines if "evaluation" in line]
assert [step["step"] for step in steps] == list(range(1, len(steps) + 1)) and len(steps) >= 40, len(steps)
assert evaluations[-1]["loss"] < 0.7 * evaluations[0]["loss"], evaluations
assert evaluations[-1]["recall@1"] >= evaluations[0]["recall@1"], evaluations
assert all(step["norm"] > 0 and step["parts"] == 1 and not step["skipped"] for step in steps)'
printf 'the a\n' >text
expect 0 '' "$wherry" embed --quiet --device cpu --model trained text
cp out vector
expect 0 '' "$wherry" embed --quiet --device cpu --model model text
check test "$(cat out)" != "$(cat vector)"
for file in config.json vocab.txt tokenizer_config.json model.safetensors; do check test -s trained/$file; done
check test ! -e trained.checkpoints
expect 5 'trained is not empty' "${train[@]}" "${pairs[@]}" --epochs 1 --out trained

# ---- other optimizers, f32 in parts ----
for optimizer in lamb sgd; do
    expect 0 '' "${train[@]}" "${pairs[@]}" --optimizer $optimizer --steps 3 --out with_$optimizer --log $optimizer.jsonl
done
for run in 64 48; do # tokens at a time: the first step does not depend on them without dropout
    expect 0 '' "${train[@]}" "${pairs[@]}" --dropout 0 --steps 1 --run-tokens $run --out run_$run --log run_$run.jsonl
done
expect 0 '' "${train[@]}" "${pairs[@]}" --dropout 0 --steps 1 --out run_all --log run_all.jsonl
check "$python" -c '
import json
steps = {name: [json.loads(line) for line in open(f"run_{name}.jsonl", encoding="utf-8")][-1] for name in ("64", "48", "all")}
assert steps["48"]["parts"] >= steps["64"]["parts"] > steps["all"]["parts"] == 1, steps
for name in ("64", "48"):
    assert abs(steps[name]["loss"] / steps["all"]["loss"] - 1) < 1e-5, steps
    assert abs(steps[name]["norm"] / steps["all"]["norm"] - 1) < 1e-4, steps'

# ---- low-rank adapters: what is learned is in the adapter, and in the model that it is merged into ----
lora=("${train[@]}" "${pairs[@]}" --lora 4 --lr 3e-2 --steps 20)
expect 0 '' "${lora[@]}" --out adapter
expect 0 '' "${lora[@]}" --lora-merge --out merged
expect 0 '' "$wherry" merge --quiet --model model --adapter adapter --out merged_later
check cmp merged/model.safetensors merged_later/model.safetensors
expect 0 '' "$wherry" embed --quiet --device cpu --model merged text
cp out merged_vector
expect 0 '' "$wherry" embed --quiet --device cpu --model model --adapter adapter text
check cmp out merged_vector
check test "$(cat out)" != "$(cat vector)"
expect 0 '' "$wherry" embed --quiet --device cpu --model model text
check test "$(cat out)" != "$(cat merged_vector)"
check "$python" -c '
import json
config = json.load(open("adapter/adapter_config.json", encoding="utf-8"))
assert config["r"] == 4 and config["lora_alpha"] == 8 and config["peft_type"] == "LORA", config
assert set(config["target_modules"]) == {"attention.self.query", "attention.self.key", "attention.self.value",
    "attention.output.dense", "intermediate.dense", "output.dense"}, config'
expect 0 '' "${train[@]}" "${pairs[@]}" --adapter adapter --steps 1 --out adapter_more
check cmp adapter/adapter_config.json adapter_more/adapter_config.json
expect 5 'adapter is not empty' "${lora[@]}" --out adapter
expect 2 'leave --lora out' "${lora[@]}" --adapter adapter --out bad
expect 2 '--lora-targets instead of --freeze' "${lora[@]}" --freeze 'embeddings.*' --out bad
expect 2 'for a new adapter' "${train[@]}" "${pairs[@]}" --steps 1 --lora-targets query --out bad
expect 2 '"quer" is the end of no linear layer' "${lora[@]}" --lora-targets quer --out bad
expect 3 'no adapter' "$wherry" embed --quiet --device cpu --model model --adapter model text
expect 3 'another model' "$wherry" embed --quiet --device cpu --model model --adapter "$here/../golden/adapter/classes" text
expect 2 'an adapter is missing' "$wherry" merge --model model --out bad
rm -rf bad bad.checkpoints

# ---- killed, stopped, gone on with: the same bits ----
long=("${train[@]}" "${pairs[@]}" --steps 300 --save-every 10)
expect 0 '' "${long[@]}" --out whole
expect 0 '' "${long[@]}" --lora 2 --out whole_adapter
kept() { [ -n "$(find "$1" -maxdepth 1 -name 'step-*' ! -name '*.unfinished' 2>/dev/null)" ]; }
set -m
for signal in KILL INT; do
    "${long[@]}" --out cut_$signal 2>err &
    process=$!
    for ((tries = 0; tries < 3000; tries++)); do
        if kept cut_$signal.checkpoints || ! kill -0 $process 2>/dev/null; then break; fi
        sleep 0.02
    done
    kill -$signal $process 2>/dev/null
    wait $process
    check test ! -e cut_$signal
    check kept cut_$signal.checkpoints
    expect 3 '"lr" was' "${long[@]}" --lr 1e-3 --out cut_$signal
    expect 0 '' "${long[@]}" --out cut_$signal
    check cmp whole/model.safetensors cut_$signal/model.safetensors
done
"${long[@]}" --lora 2 --out cut_adapter 2>err &
process=$!
for ((tries = 0; tries < 3000; tries++)); do
    if kept cut_adapter.checkpoints || ! kill -0 $process 2>/dev/null; then break; fi
    sleep 0.02
done
kill -KILL $process 2>/dev/null
wait $process
check kept cut_adapter.checkpoints
expect 3 'differs' "${long[@]}" --lora 3 --out cut_adapter
expect 0 '' "${long[@]}" --lora 2 --out cut_adapter
check cmp whole_adapter/adapter_model.safetensors cut_adapter/adapter_model.safetensors
set +m
# In bf16 a checkpoint has the floats that are trained.
narrow=("$wherry" train --model model --device reference --dtype bf16 --quiet --no-check --dropout 0.1 --lr 3e-3 "${pairs[@]}" --steps 60 --save-every 5)
expect 0 '' "${narrow[@]}" --out whole_narrow
"${narrow[@]}" --out cut_narrow 2>err &
process=$!
for ((tries = 0; tries < 3000; tries++)); do
    if kept cut_narrow.checkpoints || ! kill -0 $process 2>/dev/null; then break; fi
    sleep 0.02
done
kill -KILL $process 2>/dev/null
wait $process
check kept cut_narrow.checkpoints
expect 0 '' "${narrow[@]}" --out cut_narrow
check cmp whole_narrow/model.safetensors cut_narrow/model.safetensors

# What somebody else put into a folder stays, and checkpoints beside it.
mkdir -p filled filled.checkpoints/step-000000010
touch filled/mine filled.checkpoints/step-000000010/kept
expect 5 'filled is not empty, and has no model' "${long[@]}" --out filled
check test -e filled.checkpoints/step-000000010/kept
mkdir -p others.checkpoints
touch others.checkpoints/mine
expect 0 '' "${train[@]}" "${pairs[@]}" --steps 2 --save-every 1 --out others
check test "$(ls others.checkpoints)" = mine

# ---- bad input: what, where, and nothing is written ----
bad() { # CODE PATTERN OPTION...
    expect "$1" "$2" "${train[@]}" "${@:3}" --steps 1 --out bad
    check test ! -e bad
    rm -rf bad.checkpoints
}
printf '{"query": "the a", "answer": "boat"}\n{"query": "the b"}\n' >missing.jsonl
printf '{"query": "the a", "answer": ""}\n' >empty.jsonl
printf '{"query": "the a", "answer": 3}\n' >type.jsonl
printf '{"query": "the a", \n' >broken.jsonl
printf '{"query": "the a", "answer": "%s"}\n' "$(printf 'boat %.0s' {1..99})" >long.jsonl
: >nothing.jsonl
bad 3 'missing.jsonl.*2' --task contrastive --data missing.jsonl --batch 2
bad 3 'empty.jsonl.*1' --task contrastive --data empty.jsonl
bad 3 'type.jsonl.*1' --task contrastive --data type.jsonl
bad 3 'broken.jsonl.*1' --task contrastive --data broken.jsonl
bad 3 'long.jsonl.*1' --task contrastive --data long.jsonl
bad 3 'nothing.jsonl' --task contrastive --data nothing.jsonl
bad 3 'nowhere.jsonl' --task contrastive --data nowhere.jsonl
bad 2 'fits none' --task contrastive --data data.jsonl --freeze 'nothing.*'
bad 3 'no classifier' --task classify --data data.jsonl
bad 3 'head' --task mlm --data data.jsonl
bad 2 'next-sentence is for --task mlm' --task contrastive --data data.jsonl --next-sentence
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
