#!/usr/bin/env bash
# Tests wherry bench train, wherry analyze --train and the curves of logs: on the reference and the host's cores, with
# small models; no time is held to anything.
# WHERRY: the command. SCHEMA: the schema's file.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
# shellcheck source=tests/cli/records.sh
. "$here/records.sh"
models=$work # by short names
ln -s "$(cd "$here/../golden/trainer" && pwd)"/{contrastive,classes} "$work"
bench() { # MODEL TASK OPTIONS...
    expect 0 '' "$wherry" bench train --model "$models/$1" --task "$2" --batch 4 --seq 6 --steps 3 --warm 0 --quiet \
        --roof no "${@:3}"
}

# ---- records ----
bench contrastive contrastive --device cpu --json -o "$work/cpu.json"
bench classes classify --device reference --optimizer lamb --plan all --json -o "$work/reference.json"
bench classes classify --device cpu --optimizer sgd --dropout 0 --json -o "$work/sgd.json"
for name in cpu reference sgd; do
    valid "$work/$name.json"
    expect 0 '' "$wherry" report --check "$work/$name.json"
    check has ' 0 wrong$'
    for format in text markdown csv json trace html; do
        expect 0 '' "$wherry" report "$work/$name.json" --format $format
        if [ $format != html ]; then check no_nan "$work/out"; fi
    done
done
expect 0 '' "$wherry" report "$work/cpu.json"
check awk 'length > 80 { exit 1 }' "$work/out"
check has 'training (contrastive), 4 x 6$'
check has '^optimizer\.'
check has '^all optimizer '
check has "^the optimizer's moments, f32 "
cp "$work/cpu.json" "$work/out"
check json 'd["workload"]["kind"] == "train" and d["workload"]["training"]["task"] == "contrastive"'
check json 'd["plans"][0]["device_bytes"] == d["plans"][0]["memory"]["total"] and d["plans"][0]["loss"] > 0'
check json 'len({op["id"] for op in d["ops"]}) == len(d["ops"]) == d["plans"][0]["groups"]'
check json '{op["phase"] for op in d["ops"]} == {"forward", "backward", "loss", "optimizer"}'
check json '[op["id"] for op in d["ops"] if op["phase"] == "optimizer"] == ["optimizer.squares", "optimizer.norm", "optimizer.step"]'
check json 'sum(op["launches"] for op in d["ops"]) == d["plans"][0]["launches"]'
cp "$work/reference.json" "$work/out"
check json 'len(d["plans"]) == 3 and sum(op["id"] == "optimizer.change" for op in d["ops"]) == 3'
cp "$work/sgd.json" "$work/out"
check json 'd["plans"][0]["memory"]["moments"] == d["plans"][0]["memory"]["gradients"] > d["plans"][0]["memory"]["accumulated"] == 0'
"$python" -c "import json,sys
d = json.load(open(sys.argv[1])); d['plans'][0]['memory']['saved'] *= 1000
json.dump(d, open(sys.argv[2], 'w'))" "$work/cpu.json" "$work/bad.json"
expect 1 '' "$wherry" report --check "$work/bad.json"
check has 'parts of the memory are more'
expect 2 'so the number is even' "$wherry" bench train --model "$models/contrastive" --task contrastive --batch 3 --device cpu
expect 2 'changes a --config' "$wherry" bench train --model "$models/contrastive" --layers 2 --device cpu

# ---- counts: the memory of analyze --train is that which bench train had ----
expect 0 '' "$wherry" analyze --train --model "$models/contrastive" --task contrastive --batch 4 --seq 6 --dtype f32 \
    --device cpu --json
check "$python" -c 'import json, sys
a, b = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
assert a["memory"] == b["plans"][0]["memory"], (a["memory"], b["plans"][0]["memory"])
assert [g["name"] for g in a["groups"]] == [op["id"] for op in b["ops"]]
for group, op in zip(a["groups"], b["ops"]):
    assert (group["part"], group["flops"]) == (op["phase"], op["flops"]), group
    assert (group["bytes_read"], group["bytes_written"]) == (op["bytes"]["q"]["r"], op["bytes"]["q"]["w"]), group' \
    "$work/out" "$work/cpu.json"
# Of masked words the tokens that have a label count: 9 of 64.
expect 0 '' "$wherry" analyze --train --config minilm-l6 --task mlm --batch 1 --seq 64 --dtype f32 --device cpu --json
check "$python" -c 'import json, sys
a = json.load(open(sys.argv[1]))
scores = sum(g["flops"] for g in a["groups"] if g["name"].split("#")[0] == "vocabulary")
assert a["training"]["masked_tokens"] == 9 and scores == 9 * 30522 * (2 * 384 + 1), scores' "$work/out"
expect 0 '' "$wherry" analyze --train --model "$models/classes" --task classify --batch 4 --seq 6 --device-spec h200,a100
check has '^optimizer  optimizer.s'
check has '^H200\|^h200'
check awk 'length > 80 { exit 1 }' "$work/out"
# Within less memory than that, some layers keep the least; within too little none are enough.
within=("$wherry" analyze --train --config minilm-l6 --task mlm --batch 32 --seq 128 --json)
expect 0 '' "${within[@]}"
bytes=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["memory"]["total"])' "$work/out")
expect 0 '1 of 6 layers keep the least' "${within[@]}" --memory-budget $((bytes - 1))
check json "d['memory']['total'] < $bytes and d['training']['memory_budget'] == $bytes - 1"
expect 4 'the budget is 1048576' "${within[@]}" --memory-budget 1M
expect 2 'memory-budget go with --train' "$wherry" analyze --config minilm-l6 --memory-budget 1G
expect 2 'goes with' "$wherry" analyze --train --model "$models/classes" --task classify --layer
expect 4 'no classes of texts' "$wherry" analyze --train --model "$models/contrastive" --task classify

# ---- many processes, by the record of one ----
ranks=("$wherry" analyze --train --model "$models/contrastive" --task contrastive --batch 4 --seq 6 --dtype f32 --ranks 1,2,64)
expect 0 '' "${ranks[@]}" --device cpu --link 25GB/s,5us,0.2us --copy 55GB/s --measured "$work/cpu.json"
check has '^   64 .* %$'
expect 0 '' "${ranks[@]}" --device cpu --link 1Gbit/s,50us --wire f16 --measured "$work/cpu.json" --json
check json '[r["processes"] for r in d["ranks"]] == [1, 2, 64] and d["ranks"][0]["beside"]["efficiency"] == 1'
check json 'all(0 < r["beside"]["efficiency"] and r["beside"]["step_seconds"] <= r["after"]["step_seconds"] for r in d["ranks"])'
check json 'd["ranks"][2]["after"]["exposed_seconds"] > d["ranks"][1]["after"]["exposed_seconds"] >= 1e-4'
expect 2 'needs --link' "${ranks[@]}" --link 25GB/s,5us
expect 2 'must be a rate, a latency' "${ranks[@]}" --link 25GB,5us --measured "$work/cpu.json"
expect 3 "can't open" "${ranks[@]}" --link 25GB/s,5us --measured "$work/none.json"
expect 3 '24 tokens in a step, and --batch and --seq say 48' "${ranks[@]}" --batch 8 --link 25GB/s,5us --measured "$work/cpu.json"
expect 3 'backward pass has' "${ranks[@]}" --plan unfused --link 25GB/s,5us --measured "$work/cpu.json"
expect 2 'go with --train' "$wherry" analyze --config minilm-l6 --ranks 2

# ---- curves ----
"$python" - "$work" <<'END'
import json, sys
for name, off in (("ours", 0), ("theirs", 0.5)):
    with open(f"{sys.argv[1]}/{name}.jsonl", "w") as file:
        print(json.dumps({"run": {"commit": "x"}, "settings": {}}), file=file)
        print(json.dumps({"step": 0, "evaluation": {"loss": 4.5 + off}}), file=file)
        for step in range(1, 41):
            line = {"step": step, "loss": 4 - step / 20 + off if step != 7 else None, "rate": step / 1e6, "norm": 1,
                    "skipped": step == 7, "tokens": 100, "seconds": 0.5}
            print(json.dumps(line), file=file)
            if step % 20 == 0:
                print(json.dumps({"step": step, "evaluation": {"loss": 3 - step / 40 + off, "recall@1": 0.5}}), file=file)
END
expect 0 '' "$wherry" report "$work/ours.jsonl" "$work/theirs.jsonl"
check has '^ours  *40  *1  *4000  *20.00  *200.0  *3.875  *2.075  *4.500  *2.000$'
check has '^theirs '
expect 0 '' "$wherry" report "$work/ours.jsonl" "$work/theirs.jsonl" -o "$work/curves.svg"
check "$python" -c 'import sys, xml.dom.minidom
picture = xml.dom.minidom.parse(sys.argv[1])
assert len(picture.getElementsByTagName("circle")) == 6
texts = [t.firstChild.data for t in picture.getElementsByTagName("text") if t.firstChild]
assert {"ours", "theirs", "learning rate", "tokens per second"} <= set(texts), texts
lost = [p.getAttribute("d") for p in picture.getElementsByTagName("path") if p.getAttribute("stroke-opacity") == "0.4"
        and p.getAttribute("fill") == "none" and not p.getAttribute("class")]
assert lost[0].count("M") == 2, lost[0]' "$work/curves.svg" # a gap at the step without a loss
check no_nan "$work/curves.svg"
for format in text markdown csv json html svg; do
    expect 0 '' "$wherry" report "$work/ours.jsonl" --format $format
    if [ $format != html ]; then check no_nan "$work/out"; fi
done
check has '<svg xmlns'
expect 0 '' "$wherry" report "$work/ours.jsonl" --format html
check has 'id="curves"'
check has 'class="record"'
expect 0 '' "$wherry" report "$work/cpu.json" "$work/ours.jsonl" --format html
check has 'id="curves"'
expect 0 '' "$wherry" report "$work/cpu.json" "$work/ours.jsonl" --format markdown
check has '^| ours | 40 |'
expect 2 'a picture is of logs' "$wherry" report "$work/cpu.json" -o "$work/no.svg"
expect 2 'give them separately' "$wherry" report "$work/cpu.json" "$work/ours.jsonl" --format csv
echo 'no json' >>"$work/ours.jsonl"
expect 3 'line 45: no object' "$wherry" report "$work/ours.jsonl"
echo '{}' >"$work/empty.jsonl"
expect 3 'no step of a training' "$wherry" report --check "$work/empty.jsonl"

# ---- the table beside PyTorch ----
"$python" -c "import json
row = {'model': 'contrastive', 'batch': 4, 'seq': 6, 'repeats': 3}
for way, ms in (('eager', 20.0), ('graph', 10.0)):
    row.update({f'ms_{way}': ms, f'ms_{way}_p05': ms, f'ms_{way}_p95': ms, f'tokens_per_s_{way}': 24e3 / ms})
ddp = {'model': 'bert-large', 'batch': 8, 'seq': 512, 'processes': 2, 'way': 'eager', 'ms_one': 9.0, 'ms_p2p': 10.0,
       'efficiency_p2p': 0.9, 'error_no_p2p': 'left out'}
json.dump({'run': {}, 'rows': [row], 'ddp': [ddp]}, open('$work/pytorch_train.json', 'w'))"
mkdir "$work/table"
cp "$work/cpu.json" "$work/pytorch_train.json" "$work/table"
expect 0 '' "$python" "$here/../../bench/train_table.py" "$work/table"
check has 'PyTorch graph | 10.00 | 10.00 to 10.00 | 2,400 |  | 2.00 | 1.00 |$'
check has '| Wherry cpu, flash, f32, contrastive |'
check has '| bert-large 8×512 | PyTorch DDP, eager | 2 | 9.00 | 10.00 |  | 90.0 |  |  |$'

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
