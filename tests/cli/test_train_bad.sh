#!/usr/bin/env bash
# Bad input of wherry train: what is said, and that nothing is lost by it. What is wrong in single lines of data, a rate
# that makes the model break down, files that can't be written, checkpoints of something else, too little memory; and
# signals that come twice.
# WHERRY: the command.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
cd "$work" || exit 1
check "$python" "$here/make_model.py" model
check "$python" "$here/make_model.py" other encoder.layer.1.output.LayerNorm.bias 3 0.75
for letter in a b c d e f g h i j k l m n o p q r s t; do
    printf '{"query": "the %s", "answer": "boat %s %s water"}\n' $letter $letter $letter
done >data.jsonl
train=("$wherry" train --model model --device cpu --quiet --dropout 0.1)
pairs=(--task contrastive --data data.jsonl --batch 8)

# ---- lines ----
check "$python" -c '
import sys
sys.path.insert(0, sys.argv[1])
sys.argv = ["test_train_tasks.py", "-"]
import test_train_tasks as tasks
tasks.write_model("classes", "Sequence", tasks.LABELS)
tasks.write_model("tokens", "Token", tasks.LABELS)' "$here"
line() { # MODEL TASK CODE PATTERN LINE OPTION...: the second line is wrong, and the first one right
    case $2 in
        tokens) good='{"tokens": ["the", "a"], "labels": [1, "north"]}' ;;
        scored) good='{"one": "the a", "two": "boat", "score": 0.5}' ;;
        *) good='{"text": "the a", "label": "north"}' ;;
    esac
    printf '%s\n%s\n' "$good" "$5" >line.jsonl
    expect "$3" "line.jsonl, line 2: $4" "$wherry" train --model "$1" --device cpu --quiet --task "$2" --data line.jsonl --out bad \
        --batch 2 "${@:6}"
    check test ! -e bad
    rm -rf bad.checkpoints
}
line classes classify 3 'the field "label" is missing' '{"text": "the a"}'
line classes classify 3 'the field "text" is missing' '{"label": 1}'
line classes classify 3 '"text" is empty' '{"text": " ", "label": 1}'
line classes classify 3 'the label 3 is out of range: the model has 3, 0 to 2' '{"text": "the a", "label": 3}'
line classes classify 3 'the label -1 is out of range' '{"text": "the a", "label": -1}'
line classes classify 3 'the model has no label "west"' '{"text": "the a", "label": "west"}'
line classes classify 3 '10 tokens, more than --batch-tokens 8: give more of them, or --truncate' \
    '{"text": "the a b c d e f g", "label": 1}' --batch-tokens 8
line tokens tokens 3 'the label 7 is out of range' '{"tokens": ["the", "a"], "labels": [1, 7]}'
line tokens tokens 3 'all words are empty' '{"tokens": ["", ""], "labels": [1, 1]}'
line tokens tokens 3 '2 words and 1 labels' '{"tokens": ["the", "a"], "labels": [1]}'
line model scored 3 'the field "score" is missing' '{"one": "the a", "two": "boat"}'
line model scored 3 'the score is a string, not a number' '{"one": "the a", "two": "boat", "score": "high"}'
line model scored 3 '"two" is empty' '{"one": "the a", "two": "", "score": 1}'

# ---- a model that breaks down: checkpoints stay as they are ----
broken=("${train[@]}" "${pairs[@]}" --steps 20 --save-every 1 --lr 1000 --warmup 4 --weight-decay 10)
expect 4 'step [3-9] ([48] examples.*the last checkpoint is of step [2-9]: .*not finite.*a loss scale of 1: no weight was changed' \
    "${broken[@]}" --out nan
check test ! -e nan
check test "$(find nan.checkpoints -maxdepth 1 -name 'step-*' ! -name '*.unfinished' | wc -l)" -eq 2
find nan.checkpoints -type f -exec cksum {} + | sort >before
expect 4 'no weight was changed' "${broken[@]}" --out nan # the last one goes on to the same end
find nan.checkpoints -type f -exec cksum {} + | sort >after
check cmp before after

# ---- files that can't be written ----
# A checkpoint is there, and then no more room; then there is.
long=("${train[@]}" "${pairs[@]}" --steps 200 --save-every 10 --lr 1e-3)
expect 0 '' "${long[@]}" --out whole
kept() { find "$1.checkpoints" -maxdepth 1 -name 'step-*' ! -name '*.unfinished' 2>/dev/null | sort | tail -n 1; }
# begun OUT SIGNAL...: these come at once when a checkpoint is there; the exit code
begun() {
    local out=$1 process tries signal
    set -m
    "${long[@]}" --out "$out" >out 2>err &
    process=$!
    for ((tries = 0; tries < 3000; tries++)); do
        if [ -n "$(kept "$out")" ] || ! kill -0 $process 2>/dev/null; then break; fi
        sleep 0.02
    done
    for signal in "${@:2}"; do kill -"$signal" $process 2>/dev/null; done
    wait $process
    code=$?
    set +m
}
begun full TERM
check test $code -eq 130
first=$(kept full)
check test -n "$first"
limited() { (ulimit -f "$1" && shift && "$@"); }
expect 5 'no checkpoint was written; the one before it is whole.*training_state.safetensors failed' \
    limited 100 "${long[@]}" --out full
check test "$(kept full)" = "$first"
check test -z "$(find full.checkpoints -name '*.unfinished')"
expect 5 'the model can.t be written; its checkpoint is kept' limited 80 "${long[@]}" --save-every 1000 --out full
check test "$(kept full)" = "$first"
check test ! -e full
expect 0 '' "${long[@]}" --out full
check cmp whole/model.safetensors full/model.safetensors

# ---- a signal that comes twice, as timeout sends it, is one; another one ends it at once ----
begun twice TERM TERM
check test $code -eq 130
check grep -q 'interrupted after step' err
begun apart TERM HUP
check test $code -eq $((128 + 1)) -o $code -eq $((128 + 15)) # whichever was the second
# One that comes later than two seconds is another: nobody waits for a step that takes for ever.
"$python" - <<'LINES' >slow.jsonl
import json
for n in range(800):
    print(json.dumps({"query": "the %d" % n, "answer": "boat %d" % n + " water" * 36}))
LINES
set -m
"${train[@]}" --device reference --no-check --task contrastive --data slow.jsonl --batch 800 --steps 1 --log slow.log --out slow 2>err &
process=$!
for ((tries = 0; tries < 3000; tries++)); do
    if [ -s slow.log ] || ! kill -0 $process 2>/dev/null; then break; fi
    sleep 0.02
done
kill -TERM $process
sleep 3.2
check kill -0 $process
kill -TERM $process
wait $process
check test $? -eq $((128 + 15))
set +m
expect 0 '' "${long[@]}" --out twice
check cmp whole/model.safetensors twice/model.safetensors

# ---- checkpoints of something else ----
begun kept INT
first=$(kept kept)
expect 3 'was written with the optimizer adamw, and this trainer has sgd' "${long[@]}" --optimizer sgd --out kept
expect 3 '"model" was' "$wherry" train --model other "${long[@]:4}" --out kept
sed 's/the t/the u/' data.jsonl >changed.jsonl
expect 3 '"data" was' "${train[@]}" --task contrastive --data changed.jsonl --batch 8 "${long[@]:15}" --out kept
expect 3 '"dtype" was "f32" and is "f16" now' "${long[@]}" --device reference --dtype f16 --out kept
check test "$(kept kept)" = "$first"
"$python" - "$first" <<'CUT'
import os, sys
os.truncate(os.path.join(sys.argv[1], "training_state.safetensors"), 5000)
CUT
expect 3 'training_state.safetensors' "${long[@]}" --out kept

# ---- memory ----
expect 4 'the largest batch that fits has [0-9]* tokens' "${train[@]}" "${pairs[@]}" --steps 1 --memory-budget 700k --out small
check grep -q 'give fewer --run-tokens than 768 (at least --max-tokens, now 48): a step.s batch is taken apart' err
expect 0 '' "${train[@]}" "${pairs[@]}" --steps 1 --memory-budget 700k --max-tokens 20 --run-tokens 100 --out small
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
