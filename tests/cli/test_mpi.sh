#!/usr/bin/env bash
# Tests wherry train below mpirun: the same bits with any number of processes as with one, also after one was killed in the
# middle; and what ends a job: other data, a bad line, a process that is gone.
# WHERRY: the command. DEVICES: further devices, one is enough. Exits with 77 where there is no mpirun, or WHERRY has no MPI.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
cd "$work" || exit 1
# shellcheck source=tests/cli/mpirun.sh
. "$here/mpirun.sh"
check "$python" "$here/make_model.py" model
for letter in a b c d e f g h i j k l m n o p q r s t u v w x; do
    printf '{"query": "the %s", "answer": "boat %s %s water"}\n' $letter $letter $letter
done >data.jsonl
head -n 4 data.jsonl >dev.jsonl
train=("$wherry" train --model model --quiet --no-check --dropout 0.1 --lr 3e-3)
pairs=(--task contrastive --data data.jsonl --batch 16)
if "${mpirun[@]}" -n 1 "${train[@]}" "${pairs[@]}" --steps 1 --device cpu --out none 2>err; then pass; else
    if grep -q 'without MPI' err; then
        echo "built without MPI: skipped"
        exit 77
    fi
    flunk "mpirun -n 1"
fi

# ---- the same bits ----
same=("${train[@]}" "${pairs[@]}" --steps 5 --save-every 2 --dev dev.jsonl)
losses() { "$python" -c '
import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    step = json.loads(line)
    if "loss" in step: print(step["step"], step["loss"], step["norm"])
    if "evaluation" in step: print(step["step"], step["evaluation"])' "$1"; }
for device in cpu ${DEVICES:-}; do
    expect 0 '' "${same[@]}" --device "$device" --shards 8 --out alone --log alone.jsonl
    losses alone.jsonl >losses
    check test "$(wc -l <losses)" -ge 7
    counts='1 2 3 4'
    if [ "$device" != cpu ]; then counts=2; fi
    for n in $counts; do
        expect 0 '' "${mpirun[@]}" -n "$n" "${same[@]}" --device "$device" --out "with_$n" --log "log_$n.jsonl"
        check cmp alone/model.safetensors "with_$n"/model.safetensors
        losses "log_$n.jsonl" >"losses_$n"
        check cmp losses "losses_$n"
    done
    check "$python" -c '
import json
steps = [json.loads(line) for line in open("log_2.jsonl", encoding="utf-8")]
assert all(step["exchange"]["bytes_sent"] > 0 for step in steps if "loss" in step)
assert all(step["exchange"][name] <= step["seconds"] for step in steps if "loss" in step
           for name in ("device_seconds", "others_seconds")), steps'
    rm -rf alone with_*
done
# Rounded on the wire: another result, near it, and the same one again.
for run in a b; do
    expect 0 '' "${mpirun[@]}" -n 2 "${same[@]}" --device cpu --wire f16 --out half_$run --log half_$run.jsonl
done
check cmp half_a/model.safetensors half_b/model.safetensors
check "$python" -c '
import json
last = [[json.loads(line) for line in open(name, encoding="utf-8")][-2] for name in ("alone.jsonl", "half_a.jsonl")]
assert last[0]["loss"] != last[1]["loss"] and abs(last[0]["loss"] / last[1]["loss"] - 1) < 0.05, last'

# ---- what steps of two processes take ----
models=$(cd "$here/../golden/trainer" && pwd)
for task in classify contrastive; do
    case $task in classify) model=classes ;; *) model=contrastive ;; esac
    expect 0 '' "${mpirun[@]}" -n 2 "$wherry" bench train --model "$models/$model" --task $task --batch 4 --seq 6 \
        --steps 3 --roof no --quiet --device cpu --wire f16 --json -o "$task.json"
    check "$python" -c '
import json, sys
plan, = json.load(open(sys.argv[1], encoding="utf-8"))["plans"]
exchange = plan["exchange"]
assert exchange["processes"] == 2 and exchange["wire"] == "f16" and exchange["bytes_sent"] > 0, exchange
assert plan["step"]["host"]["n"] == 3 and 0 <= exchange["hidden"] <= 1, plan' "$task.json"
    expect 0 '' "$wherry" report "$task.json"
    check has '^2 processes, each with this batch: a step sends '
done

# ---- what ends a job: one message of this command's, soon, with nothing half written ----
fails() { # PATTERN COMMAND...
    local pattern=$1 got=0 begin=$SECONDS
    shift
    "$@" >out 2>err || got=$?
    check test "$got" -ne 0
    check test $((SECONDS - begin)) -lt 30
    check test "$(grep -c '^wherry: ' err)" -eq 1
    [ "$(grep -c '^wherry: ' err)" -eq 1 ] || sed 's/^/    /' err # which of them should not have been
    check grep -q -e "$pattern" err
    check test ! -e bad
    rm -rf bad.checkpoints
}
own=("${train[@]}" --task contrastive --batch 16 --device cpu --steps 3 --out bad)
sed 's/boat x/boat q/' data.jsonl >other.jsonl
fails 'process 1 has other data' "${mpirun[@]}" -n 2 bash -c \
    'if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ]; then data=other.jsonl; else data=data.jsonl; fi; exec "$@" --data $data' \
    bash "${own[@]}"
fails 'process 2 has other options' "${mpirun[@]}" -n 3 bash -c \
    'if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 2 ]; then set -- "$@" --lr 1; fi; exec "$@" --data data.jsonl' \
    bash "${own[@]}"
{ head -n 20 data.jsonl && printf '{"query": "the b"}\n'; } >broken.jsonl
fails 'broken.jsonl.*21' "${mpirun[@]}" -n 2 "${own[@]}" --data broken.jsonl
fails '.--shards 2' "${mpirun[@]}" -n 3 "${own[@]}" --data data.jsonl --shards 2
fails '.--shards 1.*2 processes' "${mpirun[@]}" -n 2 "$wherry" bench train --model "$models/classes" --task classify \
    --batch 4 --seq 6 --steps 3 --roof no --quiet --device cpu --shards 1

# A process that is killed: the job ends, and goes on later with the same bits, with another number of processes.
long=("${train[@]}" "${pairs[@]}" --device cpu --steps 200 --save-every 10)
expect 0 '' "${long[@]}" --shards 8 --out whole
kept() { [ -n "$(find "$1" -maxdepth 1 -name 'step-*' ! -name '*.unfinished' 2>/dev/null)" ]; }
set -m
"${mpirun[@]}" -n 2 bash -c 'echo $$ >pid_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$@"' bash "${long[@]}" --out cut \
    >out 2>err &
job=$!
for ((tries = 0; tries < 3000; tries++)); do
    if kept cut.checkpoints || ! kill -0 $job 2>/dev/null; then break; fi
    sleep 0.02
done
check kill -KILL "$(cat pid_1)"
begin=$SECONDS
if wait $job; then flunk "the job goes on without a process"; else pass; fi
set +m
check test $((SECONDS - begin)) -lt 30
check test ! -e cut
check kept cut.checkpoints
expect 0 '' "${mpirun[@]}" -n 4 "${long[@]}" --out cut
check cmp whole/model.safetensors cut/model.safetensors
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
