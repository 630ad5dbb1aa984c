#!/usr/bin/env bash
# Tests records that are made up: wherry report in every format, its --check, wherry diff, and records that are broken or
# hostile.
# WHERRY: the command. SCHEMA: the schema's file.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
# shellcheck source=tests/cli/records.sh
. "$here/records.sh"
make=$here/../report/make_record.py

record() { # FILE CHANGE...
    check "$python" "$make" "$work/$1" "${@:2}"
}
"$python" -c 'import jsonschema' 2>/dev/null || echo "SKIPPED: records against the schema: no python3-jsonschema"

# ---- records of every kind: the derived numbers are those that Python derived ----
record plain.json
record over.json over=yes drift=-0.05
record timer.json timer=stuck
record warm.json cold=no
record bare.json roof=no
record empty.json drop=layer.0.qkv
for name in plain over timer warm bare empty; do
    expect 0 '' "$wherry" report --check "$work/$name.json"
    check has ' 0 wrong$'
    valid "$work/$name.json"
    for format in text markdown csv json trace html; do
        expect 0 '' "$wherry" report "$work/$name.json" --format $format
        if [ $format != html ]; then check no_nan "$work/out"; fi
    done
    expect 0 '' "$wherry" report "$work/$name.json" --wide
    check no_nan "$work/out"
done
expect 0 '' "$wherry" report --check "$work"/{plain,over,timer,warm,bare}.json
check has '^5 records, '

# ---- text ----
expect 0 '' "$wherry" report "$work/plain.json"
check awk 'length > 80 { exit 1 }' "$work/out"
check has '^bert-large, 1 layer in training, 8 x 512$'
check has '^memory 4.00 TB/s (read), 83 % of 4.80 TB/s by the user, copy 3.80 TB/s$'
check has '^cache 9.00 TB/s to 40.0 MB, launch 2.50 us$'
check has '^f32 60.0 Tflop/s, f16 110 Tflop/s, matrix 800 Tflop/s$'
check has '^plan flash, f16: medians of 50$'
check has '^qkv  *T  400.0 '
check has '^step 1.48 ms, kernels 1.42 ms, gaps 57.0 us (3.8 %)$'
check has '^limit 145 us, headroom 10.2x, 2765774 tokens/s$'
check has '^regimes: compute 97 %, memory 2.8 %, launch 0.3 %$'
check has '^all backward '
check test "$(grep -c '^! ' "$work/out")" -eq 0
expect 0 '' "$wherry" report "$work/over.json"
check has '^norm1 .*!$'
check has '^! layer.0.norm1: warm'
check has '^! it became slower'
expect 0 '' "$wherry" report "$work/timer.json"
check has '^timer: timestamp, stuck'
check has '^! the timer stands still'
check has '^cold caches'
expect 0 '' "$wherry" report "$work/bare.json"
check has '^ceilings were not measured'

# ---- the same work on the host's cores: how many times as fast the other device is ----
"$python" - "$work" <<'END'
import copy, json, sys
work = sys.argv[1]
plain = json.load(open(work + "/plain.json"))
cpu = copy.deepcopy(plain)
cpu["devices"][0].update(id="cpu", backend="cpu", name="host <b>processor</b> (4 threads)")
cpu["workload"]["dtype"] = "f32"
for plan in cpu["plans"]:
    plan["dtype"] = "f32"
    plan["step"]["host"]["median"] *= 30
for c in cpu["ceilings"]:
    if c["id"] == "dram.copy":
        c["value"] /= 100
json.dump(cpu, open(work + "/cpu.json", "w"))
slow = copy.deepcopy(cpu)
for plan in slow["plans"]:
    plan["step"]["host"]["median"] *= 2
json.dump(slow, open(work + "/slow.json", "w"))
other = copy.deepcopy(cpu)
other["workload"]["sequences"] = 9
json.dump(other, open(work + "/otherwork.json", "w"))
forward = copy.deepcopy(cpu)
for plan in forward["plans"]:
    plan["phases"] = {"forward": {"host_seconds": 1e-3, "device_seconds": None}}
json.dump(forward, open(work + "/phase.json", "w"))
reference = copy.deepcopy(plain)
reference["devices"][0].update(id="reference", backend="reference")
json.dump(reference, open(work + "/double.json", "w"))
for name, data in ("roofs", plain), ("rooftop", cpu):
    data = copy.deepcopy(data)
    data.update(plans=[], ops=[], workload={"kind": "roof"})
    json.dump(data, open(f"{work}/{name}.json", "w"))
END
versus() { # NUMBER FILE...: how many lines compare
    expect 0 '' "$wherry" report "${@:2}"
    check test "$(grep -c ' times as fast as ' "$work/out")" -eq "$1"
}
versus 1 "$work"/{plain,slow,cpu,double}.json
check has '^vulkan:0 (.*) is 30.00 times as fast as cpu (host'
tr '\n' ' ' <"$work/out" | tr -s ' ' >"$work/one" && cp "$work/one" "$work/out"
check has 'tokens/s (flash, f16) against [0-9]* (flash, f32); a copy 3.80 TB/s against 38.0 GB/s, 100.0 times'
for others in otherwork phase double plain; do versus 0 "$work/plain.json" "$work/$others.json"; done
versus 0 "$work/cpu.json"
expect 0 '' "$wherry" report "$work"/roofs.json "$work"/rooftop.json
check has 'is 100.0 times as fast as cpu (host'
expect 0 '' "$wherry" report "$work"/{plain,cpu}.json --format markdown
check has 'is 30.00 times as fast as cpu (host &lt;b>processor&lt;/b> (4 threads)): bert-large, 1 layer in training, 8 x 512, '
expect 0 '' "$wherry" report "$work"/{plain,cpu}.json --format html
check has '^<p class="versus">.* is 30.00 times as fast as cpu (host &#60;b&#62;processor&#60;/b&#62; (4 threads)): .*</p>$'
expect 0 '' "$wherry" report "$work/plain.json" --format html
check test "$(grep -c 'class="versus"' "$work/out")" -eq 0

# ---- names that differ at their ends alone ----
"$python" - "$work" <<'END'
import json, sys
text = open(sys.argv[1] + "/plain.json").read()
for name in ("layer.0.qkv", "layer.0.norm1"):
    text = text.replace(f'"{name}"', '"layer.0.' + 100 * "n" + name + '"')
open(sys.argv[1] + "/long.json", "w").write(text)
record = json.loads(text)
record["ops"][1]["id"] = record["ops"][0]["id"]
open(sys.argv[1] + "/twice.json", "w").write(json.dumps(record))
END
expect 0 '' "$wherry" report --check "$work/long.json"
expect 3 'ops\[1\] is the second of its name' "$wherry" report "$work/twice.json"

# ---- the other formats ----
expect 0 '' "$wherry" report "$work/plain.json" --format csv
check csv 'len(rows) == 10 and rows[0]["device_name"] == "Card \"one\", 80 GB"'
check csv 'float(rows[0]["warm_median"]) == 400e-6 and rows[0]["d_counter"] == rows[0]["paper_row"] == ""'
check csv 'rows[0]["warm_regime"] == "unknown" or float(rows[0]["warm_bandwidth"]) > 0'
check "$python" -c '
import sys
data = open(sys.argv[1], "rb").read()
assert data.endswith(b"\r\n") and data.count(b"\n") == data.count(b"\r\n") == 11' "$work/out"
expect 0 '' "$wherry" report "$work/warm.json" --format csv
check csv 'all(r["cold_median"] == r["cold_regime"] == "" for r in rows)'
expect 0 '' "$wherry" report "$work/plain.json" "$work/over.json" --format markdown
check test "$(grep -c '^## ' "$work/out")" -eq 4
check has '^| bert-large, 1 layer in training, 8 x 512 | vulkan:0 | unfused | f16 |'
check has '(over its ceiling)'
expect 0 '' "$wherry" report "$work/plain.json" "$work/bare.json" --format trace
check json '{e["ph"] for e in d["traceEvents"]} == {"X", "M", "C"} and {e["pid"] for e in d["traceEvents"]} == {1, 2}'
check json 'all(set(e) >= {"ph", "pid", "tid", "name"} for e in d["traceEvents"])'
check json 'sum(e["ph"] == "X" for e in d["traceEvents"]) == 20'
check "$python" -c '
import json, sys
steps = {}
for e in json.load(open(sys.argv[1]))["traceEvents"]:
    if e["ph"] == "X":
        at = steps.get((e["pid"], e["tid"]), 0)
        assert abs(e["ts"] - at) < 1e-3, e
        steps[e["pid"], e["tid"]] = e["ts"] + e["dur"]' "$work/out"
expect 0 '' "$wherry" report "$work/plain.json" --json
check "$python" -c 'import json, sys; assert json.load(open(sys.argv[1])) == json.load(open(sys.argv[2]))' \
    "$work/out" "$work/plain.json"
expect 0 '' "$wherry" report "$work/plain.json" "$work/warm.json" --json -o "$work/both.json"
check "$python" -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) == 2' "$work/both.json"
expect 0 '' "$wherry" report --check "$work/both.json"
valid "$work/both.json"
for ending in csv md html json trace.json; do
    expect 0 '' "$wherry" report "$work/plain.json" -o "$work/ending.$ending"
done
check grep -q '^run,utc,device,' "$work/ending.csv"
check grep -q '^## ' "$work/ending.md"
check grep -q -i '<html' "$work/ending.html"
check grep -q '"schema": "rl-1"' "$work/ending.json"
check grep -q traceEvents "$work/ending.trace.json"
expect 0 '' "$wherry" report "$work/plain.json" -o "$work/ending.json" --format csv
check grep -q '^run,utc,device,' "$work/ending.json"
expect 0 '' "$wherry" report - <"$work/plain.json"
check has '^plan flash'
expect 5 "can't create" "$wherry" report "$work/plain.json" -o "$work/nowhere/x.html"

# ---- check finds every change ----
check "$python" "$here/../report/tamper.py" "$wherry" "$work/over.json" "$work"
sed 's/"dropout": 0.1/"dropout": 0.1, "more": {"later": [1]}/; s/"uuid": null/"uuid": null, "new": 1/' "$work/plain.json" \
    >"$work/later.json"
expect 0 '' "$wherry" report --check "$work/later.json"
valid "$work/later.json"
sed 's/"p95": 0.000408/"p95": 0.000308/' "$work/plain.json" >"$work/order.json"
expect 1 '' "$wherry" report --check "$work/order.json"
check has 'op layer.0.qkv of flash: warm: min, p05, median, p95 and the interval are not in order'
sed 's/"status": "ok"/"status": "backwards"/' "$work/plain.json" >"$work/lying.json"
expect 1 '' "$wherry" report --check "$work/lying.json"
check has 'has a warm time, and the timer is not to be trusted'

# ---- diff ----
expect 0 '' "$wherry" diff "$work/plain.json" "$work/plain.json"
check has '^0 slower by more than 3 %'
record slower.json slower=1.2
expect 1 '' "$wherry" diff "$work/plain.json" "$work/slower.json"
check awk 'length > 80 { exit 1 }' "$work/out"
check has '^layer.0.lin1 *flash *warm *500.0 *600.0 *100.0  1.200 .* slower$'
check has '^step *flash .* slower$'
check test "$(grep -c ' slower$' "$work/out")" -eq 4
cp "$work/out" "$work/first"
check "$python" -c '
import sys
lost = [line.split()[5] for line in open(sys.argv[1]) if line.startswith("layer.")]
assert [float(v) for v in lost] == sorted(map(float, lost), reverse=True), lost' "$work/first"
expect 0 '' "$wherry" diff "$work/slower.json" "$work/plain.json"
check has '^layer.0.lin1 .* faster$'
expect 0 '' "$wherry" diff --threshold 25 "$work/plain.json" "$work/slower.json"
record little.json slower=1.02
expect 0 '' "$wherry" diff "$work/plain.json" "$work/little.json"
expect 1 '' "$wherry" diff --threshold 1 "$work/plain.json" "$work/little.json" # intervals of ±0.5 % do not touch
record noise.json slower=1.008
expect 0 '' "$wherry" diff --threshold 0 "$work/plain.json" "$work/noise.json" # these do
expect 0 '' "$wherry" diff --all "$work/plain.json" "$work/plain.json"
check test "$(grep -c '^layer\.' "$work/out")" -eq 20
record other.json 'name=Another card'
expect 0 '' "$wherry" diff "$work/plain.json" "$work/other.json"
check has '^note: another device: Card "one", 80 GB, then Another card'
sed 's/"dropout": 0.1/"dropout": 0/' "$work/plain.json" >"$work/dropout.json"
expect 0 '' "$wherry" diff "$work/plain.json" "$work/dropout.json"
check has '^note: another training'
expect 0 '' "$wherry" diff "$work/plain.json" "$work/empty.json"
check has '^only in the first: layer.0.qkv of flash'
expect 0 '' "$wherry" diff "$work/plain.json" "$work/over.json"
check has "second record's status is \"drift\""
expect 1 '' "$wherry" diff --json "$work/plain.json" "$work/slower.json"
check json 'd["slower"] == 4 and d["changes"][0]["verdict"] == "slower" and d["threshold"] == 0.03'
expect 2 'two files are needed' "$wherry" diff "$work/plain.json"
expect 2 'takes two files' "$wherry" diff "$work/plain.json" "$work/plain.json" "$work/plain.json"
expect 3 'several records' "$wherry" diff "$work/plain.json" "$work/both.json"

# ---- large records: time grows with their entries, not with the product of two lists ----
limited() { (ulimit -t 20 && exec "$@"); } # seconds of the processor: ten times what is needed
record plans.json plans=1500
record ops.json ops=5000 roof=no
for name in plans ops; do
    expect 0 '' limited "$wherry" report --check "$work/$name.json"
    check has ' 0 wrong$'
    expect 0 '' limited "$wherry" report "$work/$name.json"
    expect 0 '' limited "$wherry" report "$work/$name.json" --format markdown
    check has "$([ $name = plans ] && echo '^## .*: plan plan1499, ' || echo '^| more4999 | ')"
    expect 0 '' limited "$wherry" diff "$work/$name.json" "$work/$name.json"
done
record most.json devices=64 ceilings=512
expect 0 '' limited "$wherry" report --check "$work/most.json"
valid "$work/most.json"

# ---- records that are none ----
expect 2 'a file is missing' "$wherry" report
expect 2 'give it alone' "$wherry" report --check --json "$work/plain.json"
expect 2 'format json, and' "$wherry" report --json --format csv "$work/plain.json"
expect 3 "can't open .*missing" "$wherry" report "$work/missing"
mkdir "$work/empty"
expect 3 "can't read" "$wherry" report "$work/empty"
bad() { # PATTERN: of what is in $work/bad
    for command in 'report' 'report --check' "diff $work/plain.json"; do
        # shellcheck disable=SC2086 # several words
        expect 3 "$1" "$wherry" $command "$work/bad"
    done
}
: >"$work/bad"
bad 'bad: cut off'
for size in 1 100 5000 20000; do
    head -c $size "$work/plain.json" >"$work/bad"
    bad 'bad: cut off: .* in line [0-9]'
done
echo 'no JSON at all' >"$work/bad"
bad 'bad: not valid JSON'
echo '{"schema": "rl-1", "schema": "rl-1"}' >"$work/bad"
bad 'duplicate'
echo '[]' >"$work/bad"
bad 'an empty array'
echo '{"results": []}' >"$work/bad"
bad 'not a record of wherry'
echo '7' >"$work/bad"
bad 'not a record of wherry'
echo '{"schema": "rl-2"}' >"$work/bad"
bad 'schema rl-2, and this version reads rl-1'
sed 's/"headroom"/"headrom"/' "$work/plain.json" >"$work/bad"
bad 'plans\[0\].headroom is missing'
sed '0,/"flops": 26000000000.0/s//"flops": "many"/' "$work/plain.json" >"$work/bad"
bad 'ops\[0\].flops is not a number from 0'
sed 's/"plan": "unfused"/"plan": "flash"/' "$work/plain.json" >"$work/bad"
bad 'is the second of its name'
sed '0,/"dev": 0/s//"dev": 3/' "$work/plain.json" >"$work/bad"
bad 'dev is not a device of this record'
sed 's/"ci95": \[/"ci95": [0, /' "$work/plain.json" >"$work/bad"
bad 'ci95 is not two numbers'
printf '{"schema": "rl-1", "x": "a\\u0000b"}' >"$work/bad"
bad 'not valid JSON'
head -c 200000 /dev/zero | tr '\0' '[' >"$work/bad"
bad 'more than 64 levels of nesting'
printf '{"schema": "rl-1", "x": 1e999}' >"$work/bad"
bad 'not valid JSON'
for list in devices=65 ceilings=513; do
    record bad "$list"
    bad "${list%=*} has ${list#*=} entries, and a record has at most $((${list#*=} - 1))"
    if "$python" -c 'import jsonschema' 2>/dev/null; then
        check "$python" "$here/../report/check_schema.py" "$schema" --refuse "$work/bad"
    fi
done
check "$python" "$here/../report/mistype.py" "$wherry" "$work/plain.json" "$work"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
