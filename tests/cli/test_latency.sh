#!/usr/bin/env bash
# Tests wherry bench --latency and its records: made up, in every format, tampered with, broken; and measured, on the
# reference and the host's cores. No time is held to anything.
# WHERRY: the command. SCHEMA: the schema's file. FAULT_LIBRARY: tests/faults, which makes calls fail.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
# shellcheck source=tests/cli/records.sh
. "$here/records.sh"
model=$work/model
check "$python" "$here/make_model.py" "$model"

record() { # FILE CHANGE...
    check "$python" "$here/../report/make_latency.py" "$work/$1" "${@:2}"
}

# ---- records that are made up: the derived numbers are those that Python derived of all samples ----
record plain.json
record each.json sessions=per-client clients=2 lengths=5,20,250
record few.json requests=40 clients=3,1
record one.json requests=1 clients=1 idle=0
record pauses.json clients=1 requests=3688 idle=1 lengths=1,2,3,4,5,6
for name in plain each few one pauses; do
    expect 0 '' "$wherry" report --check "$work/$name.json"
    check has ' 0 wrong$'
    valid "$work/$name.json"
    for format in text markdown csv json html; do
        expect 0 '' "$wherry" report "$work/$name.json" --format $format
        if [ $format != html ]; then check no_nan "$work/out"; fi
    done
done
expect 0 '' "$wherry" report "$work/plain.json"
check awk 'length > 80 { exit 1 }' "$work/out"
check has '^all-MiniLM-L6-v2, requests of 20 tokens$'
check has '^one session, which clients get in the order in which they came$'
check has '^ *16  *5000 '
check has '^first request after 10 s without any, ms: 2.100, 2.200, 2.300$'
if has few; then flunk 'too few of 5000 requests'; else pass; fi
expect 0 '' "$wherry" report "$work/each.json"
check has '^all-MiniLM-L6-v2, requests of 5, 20 and 250 tokens in turn$'
check has '^a session for each client$'
expect 0 '' "$wherry" report "$work/few.json"
check has '^few: too few requests for p99, which takes 368$'
check has '^few: too few requests for p99.9, which takes 3688$'
expect 0 '' "$wherry" report "$work/pauses.json"
check has 'requests of 6 lengths in turn, 1 to 6 tokens$'
expect 0 '' "$wherry" report "$work/few.json" "$work/plain.json" --format markdown
check has '^| all-MiniLM-L6-v2, requests of 20 tokens | opencl:0 | f16 | shared | 3 | 40 |'
check has '| too few: 40 | too few: 40 |'
expect 0 '' "$wherry" report "$work/plain.json" "$work/few.json" --format csv
check csv 'len(rows) == 11 and [r["clients"] for r in rows[:3]] == ["1", "4", "16"] and rows[0]["idle_seconds"] == ""'
check csv 'float(rows[2]["p999"]) > float(rows[2]["p50"]) and rows[-4]["p99"] == "" and rows[3]["idle_seconds"] == "10"'
expect 0 '' "$wherry" report "$work/plain.json" --json
check "$python" -c 'import json, sys; assert json.load(open(sys.argv[1])) == json.load(open(sys.argv[2]))' \
    "$work/out" "$work/plain.json"
expect 2 'have no trace' "$wherry" report "$work/plain.json" --format trace
check "$python" "$here/../report/make_record.py" "$work/layer.json"
expect 2 'records of one kind' "$wherry" report "$work/plain.json" "$work/layer.json" --format csv
expect 0 '' "$wherry" report "$work/plain.json" "$work/layer.json"
expect 3 'no measured operation' "$wherry" diff "$work/plain.json" "$work/plain.json"

# ---- records that are tampered with, or none ----
check "$python" "$here/../report/tamper.py" "$wherry" "$work/plain.json" "$work"
check "$python" "$here/../report/mistype.py" "$wherry" "$work/few.json" "$work"
damage() { # CODE PATTERN PYTHON: what the program makes of the record d
    "$python" -c "import json, sys
d = json.load(open(sys.argv[1])); h = d['loads'][1]['histogram']; b = h['buckets']
$3
json.dump(d, open(sys.argv[2], 'w'))" "$work/plain.json" "$work/bad"
    if [ "$1" -eq 1 ]; then
        expect 1 '' "$wherry" report --check "$work/bad"
        check has "$2"
    else
        expect "$1" "$2" "$wherry" report --check "$work/bad"
        expect "$1" "$2" "$wherry" report "$work/bad"
    fi
}
damage 1 'load of 4 clients: min and max are not in the first and the last bucket' 'h["min_ns"] //= 2'
damage 1 'load of 4 clients: min and max are not in the first and the last bucket' 'del b[0]'
damage 1 'load of 4 clients: the sum is not that of such buckets' 'h["sum_ns"] *= 1.1'
damage 1 'load of 4 clients: no request was counted' 'b.clear()'
damage 1 'load of 4 clients: it took less time than its longest request' 'd["loads"][1]["seconds"] = 1e-6'
damage 1 'load of 4 clients: requests waited longer than they took' 'd["loads"][1]["waited_seconds"] = 1e6'
damage 1 'load of 0 clients: it has no clients' 'd["loads"][1]["clients"] = 0'
damage 1 'idle: a time that was not measured' 'd["idle"][1]["seconds"] = 0'
damage 3 'loads\[1\].histogram.buckets\[1\] is no bucket' 'b[1] = b[0]'
damage 3 'loads\[1\].histogram.buckets\[2\] is no bucket' 'b[2] = [7424, 1]'
damage 3 'loads\[1\].histogram.buckets\[0\] is no bucket' 'b[0][1] = 0'
damage 3 'loads\[1\].histogram.parts is not 128' 'h["parts"] = 64'
damage 3 'loads is not an array' 'd["loads"] = 7'
damage 3 'loads has 65 entries, and a record has at most 64' 'd["loads"] *= 22; d["loads"].pop()'
damage 3 'loads\[2\].dev is not a device' 'd["loads"][2]["dev"] = 1'
damage 3 'loads\[0\].seconds is missing' 'del d["loads"][0]["seconds"]'

# ---- options ----
latency=("$wherry" bench --latency -q --model "$model" --idle 0 --warm 0)
expect 2 'with commas between' "${latency[@]}" --clients 0
expect 2 'with commas between' "${latency[@]}" --clients 1,1025
expect 2 'takes at most 64 numbers' "${latency[@]}" --clients "$(seq -s, 65)"
expect 2 'not both' "${latency[@]}" --seconds 1 --requests 5
expect 2 'must be seconds' "${latency[@]}" --seconds 0
expect 2 'shared per-client' "${latency[@]}" --sessions each
expect 2 'a model is missing' "$wherry" bench --latency
expect 2 '--clients is an option of wherry bench --latency' "$wherry" bench --clients 4
expect 2 '--batch is an option of wherry' "${latency[@]}" --batch 4
expect 2 'at least 2 tokens' "${latency[@]}" --lengths 1 --device reference
expect 2 'too long' "${latency[@]}" --lengths 49 --device reference
expect 2 '--latency is an option of wherry bench,' "$wherry" bench layer --latency
expect 2 'takes no operand' "${latency[@]}" texts.txt
expect 3 'has no config.json' "$wherry" bench --latency --model "$work/none"
expect 4 'no device' "${latency[@]}" --device nonsuch

# ---- measured: what is counted, and that it derives again ----
measure() { # OPTION...
    expect 0 '' "${latency[@]}" -o "$work/measured.json" "$@"
    expect 0 '' "$wherry" report --check "$work/measured.json"
    check has ' 0 wrong$'
    valid "$work/measured.json"
    expect 0 '' "$wherry" report "$work/measured.json"
    check awk 'NR > 1 && length > 80 { exit 1 }' "$work/out"
    cp "$work/measured.json" "$work/out"
}
measure --device reference --requests 7 --clients 1,3,9 --lengths 5,2,17
check json '[(l["clients"], l["requests"]) for l in d["loads"]] == [(1, 7), (3, 7), (9, 7)] and d["idle"] == []'
check json 'd["workload"]["lengths"] == [5, 2, 17] and d["workload"]["requests"] == {"tokenized": True, "sessions": "shared"}'
check json 'all(l["p50"] and l["p90"] is None and l["min"] <= l["p50"] <= l["max"] for l in d["loads"])'
check json 'd["session"]["plan"] == "flash" and d["workload"]["dtype"] == "f32"'
measure --device reference --requests 4 --clients 4 --sessions per-client --idle 0.01
check json 'd["loads"][0]["requests"] == 4 and d["workload"]["requests"]["sessions"] == "per-client"'
check json '[i["idle_seconds"] for i in d["idle"]] == [0.01] * 3 and all(i["seconds"] > 0 for i in d["idle"])'
# Where seconds are given each client has a request at least.
measure --device reference --seconds 0.001 --clients 5 --warm 0.001
check json 'd["loads"][0]["requests"] >= 5 and d["loads"][0]["waited_seconds"] >= 0'
expect 0 '' "$wherry" bench -q --requests 3 --clients 2 --config minilm-l6 --lengths 3 --idle 0 --latency --device reference
check has '^a request: token ids are encoded, the vector read back; there is no tokenizer$'
"$wherry" devices --json -q >"$work/out"
if json 'any(x["id"] == "cpu" and x["usable"] for x in d["devices"])' 2>/dev/null; then
    for sessions in shared per-client; do
        measure --device cpu --requests 400 --clients 1,16 --sessions $sessions
        check json 'all(l["requests"] == 400 and l["p99"] <= l["max"] for l in d["loads"])'
    done
fi

# ---- ended in the middle ----
set -m # so that the process in the background does not ignore SIGINT
for signal in INT TERM; do
    : >"$work/none"
    "${latency[@]}" --device reference --seconds 600 -o "$work/none" >"$work/out" 2>"$work/err" &
    process=$!
    sleep 1
    kill -$signal $process
    wait $process
    code=$?
    case $code in 130 | $((128 + $(kill -l $signal)))) pass ;; *) flunk "exit $code after SIG$signal" ;; esac
    check test ! -s "$work/none"
done
set +m
expect 5 "can't" "${latency[@]}" --device reference --requests 1 -o "$work/nowhere/x.json"
# Weights that give no finite vector: the device's fault, told once, by whichever client came first.
check "$python" "$here/make_model.py" "$work/wild" encoder.layer.1.output.LayerNorm.weight all 3e38
expect 4 'is not finite' "$wherry" bench --latency -q --model "$work/wild" --device reference --clients 8 --idle 0 --seconds 60
check test "$(wc -l <"$work/err")" -eq 1

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
