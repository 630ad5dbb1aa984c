#!/usr/bin/env bash
# Tests wherry analyze --device-spec from outside: known devices, files of peaks and of measured ceilings, good and bad.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
cd "$work" || exit 1
narrow() { awk 'length > 80 { print; bad = 1 } END { exit bad }' "$work/out"; }
predict() { "$wherry" analyze --config bert-large --device-spec "$@"; }
# refused CODE PATTERN TEXT: a file with this text is refused with such a message
refused() {
    printf '%s' "$3" >"$work/spec.json"
    expect "$1" "$2" predict spec.json
}

# ---- known devices ----
expect 0 '' predict h100
check has 'Ridge point: 295.5 flop/byte for products in f16, 20.0 for all else'
check has '990 Tflop/s'
check has '^ *4  softmax .* memory'
check has '^attention '
check narrow
for words in '--plan all' '--inference --encoder --plan all' '--fuse auto --explain' '--batch 256 --dtype f32' '--all'; do
    # shellcheck disable=SC2086
    expect 0 '' predict H200 $words
    check narrow
done
expect 0 '' predict v100,a100,h100,h200
for line in 'v100 .* 138.9 ' 'a100 .* 153.0 ' 'h100 .* 295.5 ' 'h200 .* 206.0 '; do check has "$line"; done
check narrow
expect 0 '' predict v100,a100,h100 --json
check json '[round(p["spec"]["ridge"]["contraction"]) for p in d["predictions"]] == [139, 153, 296]'
check json 'all(p["spec"]["launch_seconds"] is None and p["spec"]["source"] for p in d["predictions"])'

# ---- what there is ----
expect 0 '' predict list
for line in '^v100 .* 900 ' '^rx-580 .* 8 GB' '^rx-9070-xt .* 640 .* 97.3 .* 195 ' '^m1 .* system'; do check has "$line"; done
check narrow
expect 0 '' predict list --json
check json 'len(d) >= 30 and all(one["source"] and one["bandwidth"] > 0 for one in d)'
check json 'next(one for one in d if one["name"] == "rx-580")["matrix_flops"] == 6.17e12'
expect 0 '' predict rx-7900-xtx,arc-b580,m1,adreno-x1-85,mali-g610-mp4,bxm-4-64
for line in 'rx-7900-xtx .* 122.8 ' 'bxm-4-64 .* 0.1014 '; do check has "$line"; done

# ---- a GELU of [32, 2048, 4096] on an H100 ----
expect 0 '' predict h100 --inference --batch 32 --seq 2048 --plan unfused
check has '^ *13  activation  *E  *2.50  memory  *320.52 .* 0.85$'
expect 0 '' predict h100 --inference --batch 32 --seq 2048 --plan unfused --json
gelu='[o for o in d["predictions"][0]["operators"] if o["name"] == "layer.0.activation"][0]'
check json "$gelu[\"flop_per_byte\"] == 2.5 and 0.0084 < $gelu[\"peak_share\"] < 0.0085 and $gelu[\"bound\"] == \"memory\""
check json "abs($gelu[\"limit_seconds\"] - 2 * 536870912 / 3.35e12) < 1e-9"

# ---- shares, gains, sums ----
expect 0 '' predict h100 --json
check json 'all(abs(sum(g["limit_seconds"] for g in q["groups"]) - q["limit_seconds"]) < 1e-9 for q in d["predictions"][0]["plans"])'
check json 'all(abs(sum(g["share"] for g in q["groups"]) - 1) < 1e-6 for q in d["predictions"][0]["plans"])'
check json 'all(g["gain"] >= 0.999999 for q in d["predictions"][0]["plans"] for g in q["groups"])'
check json 'abs(d["predictions"][0]["plans"][2]["gain"] - 1) < 1e-9 and d["predictions"][0]["plans"][0]["gain"] > 2'
check json '[q["plan"] for q in d["predictions"][0]["plans"]] == ["flash", "paper", "unfused"]'
expect 0 '' "$wherry" analyze --config bert-large --json
check json '"predictions" not in d'

# ---- what if: a layer of width 4096, three trips out and three back less ----
wide='--inference --batch 32 --seq 2048 --hidden 4096 --heads 64 --plan unfused'
# shellcheck disable=SC2086
expect 0 '' predict h100 $wide --fuse out+out_bias+out_residual+norm1 --json
check json 'sum(f["bytes_saved"] for f in d["decisions"]) == 6 * 536870912'
check json 'abs(d["before"]["limit_seconds"] - d["after"]["limit_seconds"] - sum(f["seconds_saved"] for f in d["decisions"])) < 1e-9'
check json 'd["spec"]["name"] == "h100"'
expect 0 '' predict h100 --fuse auto --explain
check has 'fused (bji, map to map): 1 launch and 16.78 MB, 5.01 us less'
check has 'limit ms'
expect 0 '' predict h100 --plan paper --split ebsb
check has 'limit ms'

# ---- files of peaks ----
cat >good.json <<'END'
{"name": "My GPU", "bandwidth": 1.5e12, "matrix_flops": 312e12, "f32_flops": 19.5e12, "cache_bytes": 41943040,
 "cache_bandwidth": 5e12, "launch_seconds": 6e-6, "source": "made up"}
END
expect 0 '' predict good.json
check has '^My GPU$'
check has 'Ridge point: 208.0 '
check has '6 us a launch'
check narrow
expect 0 '' predict good.json --batch 1 --seq 64
check has '^norm1 .*  launch  *6.00 '
check narrow
expect 0 '' predict good.json,h100 --batch 1 --seq 64 --json
check json 'd["predictions"][0]["plans"][0]["cached_seconds"] <= d["predictions"][0]["plans"][0]["limit_seconds"]'
check json 'abs(min(g["limit_seconds"] for g in d["predictions"][0]["plans"][0]["groups"]) - 6e-6) < 1e-12'
refused 3 '"f32_flops" is missing' '{"bandwidth": 1e12, "matrix_flops": 1e14}'
refused 3 '"bandwidth" is missing' '{}'
refused 3 'unknown key "bandwith"' '{"bandwith": 1e12, "matrix_flops": 1e14, "f32_flops": 1e13}'
refused 3 '"bandwidth" must be a number above 0' '{"bandwidth": -1e12, "matrix_flops": 1e14, "f32_flops": 1e13}'
refused 3 '"matrix_flops" must be a number above 0' '{"bandwidth": 1e12, "matrix_flops": 0, "f32_flops": 1e13}'
refused 3 '"f32_flops" must be a number above 0' '{"bandwidth": 1e12, "matrix_flops": 1e14, "f32_flops": "fast"}'
refused 3 '"launch_seconds" must be' '{"bandwidth": 1e12, "matrix_flops": 1e14, "f32_flops": 1e13, "launch_seconds": null}'
refused 3 '"cache_bytes" is 0.5' '{"bandwidth": 1e12, "matrix_flops": 1e14, "f32_flops": 1e13, "cache_bytes": 0.5}'
refused 3 'without prefixes' '{"bandwidth": 3350, "matrix_flops": 1e14, "f32_flops": 1e13}'
refused 3 '"name" must be a text' '{"name": 3, "bandwidth": 1e12, "matrix_flops": 1e14, "f32_flops": 1e13}'
refused 3 'column 31: duplicate object key' '{"bandwidth": 1e12, "bandwidth": 1e12}'
refused 3 'column 17: .*NaN' '{"bandwidth": NaN}'
refused 3 'column 19: real number overflow' '{"bandwidth": 1e999}'
refused 3 'line 1' '{"bandwidth": 1e12'
refused 3 'line 1' ''
refused 3 'an object' '[1, 2]'
refused 3 '"schema" is not "rl-1"' '{"schema": "rl-2"}'

# ---- records of measured ceilings ----
"$python" - <<'END'
import json
def ceiling(dev, id, value, unit='B/s'): return {'id': id, 'dev': dev, 'value': value, 'unit': unit, 'best': True}
devices = [{'dev': 0, 'id': 'vulkan:0', 'name': 'First', 'cache': {'bytes': 50000000}},
           {'dev': 1, 'id': 'opencl:0', 'name': 'Second', 'cache': {'bytes': None}}]
first = [ceiling(0, 'dram.copy', 2e12), ceiling(0, 'dram.read', 2.5e12), ceiling(0, 'dram.read', 2.1e12),
         ceiling(0, 'compute.f32', 5e13, 'flop/s'), ceiling(0, 'compute.matrix', 5e14, 'flop/s'),
         ceiling(0, 'cache.read', 6e12), ceiling(0, 'launch.seconds', 3e-6, 's'), ceiling(0, 'launch.bandwidth', 1e12),
         ceiling(0, 'compute.f16', None, 'flop/s')]
second = [ceiling(1, 'dram.copy', 1e10), ceiling(1, 'compute.f32', 1e11, 'flop/s')]
def record(devices, ceilings): return {'schema': 'rl-1', 'run': {'utc': '2026-01-02T03:04:05Z'}, 'devices': devices, 'ceilings': ceilings}
json.dump(record(devices[:1], first), open('one.json', 'w'))
json.dump([record(devices, first + second)], open('two.json', 'w'))
json.dump(record(devices[:1], first[3:]), open('bare.json', 'w'))
json.dump(record(devices[:1], first[:2]), open('slow.json', 'w'))
json.dump(record([], []), open('none.json', 'w'))
END
expect 0 '' predict one.json
check has '^First$'
check has 'ceilings measured through vulkan:0, 2026-01-02T03:04:05Z'
check has 'Ridge point: 200.0 .* 20.0 '
check has '6 TB/s from the cache, 3 us a launch'
expect 0 '' predict 'two.json#1,two.json#0' --json
check json '[p["spec"]["name"] for p in d["predictions"]] == ["Second", "First"]'
check json 'd["predictions"][0]["spec"]["matrix_flops"] == 1e11 and d["predictions"][0]["spec"]["launch_seconds"] is None'
expect 2 'two.json has 2 devices' predict two.json
expect 2 'no device number 7' predict 'two.json#7'
expect 3 'no ceiling "dram' predict bare.json
expect 3 'no ceiling "compute.f32"' predict slow.json
expect 3 'no device' predict none.json
expect 2 'no #1' predict 'good.json#1'

# ---- what does not go together ----
expect 2 'none of those that wherry analyze --device-spec list names' predict b100
expect 2 'name is missing' predict h100,
expect 2 'name is missing' predict ''
expect 2 'at most 8' predict h100,h100,h100,h100,h100,h100,h100,h100,h100
expect 2 'for one device' predict h100,h200 --fuse auto
expect 2 'without --device-spec' predict h100 --dot
expect 2 'shapes of its own' "$wherry" analyze --paper --device-spec h100
expect 2 'option of wherry analyze' "$wherry" devices --device-spec h100
expect 2 'change a --config' "$wherry" analyze --model x --hidden 64
expect 2 'heads must divide' predict h100 --hidden 100 --heads 3
expect 5 . sh -c '"$1" analyze --config bert-large --device-spec h100 >/dev/full' - "$wherry"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
