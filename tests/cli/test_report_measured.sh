#!/usr/bin/env bash
# Tests records that wherry bench measures on every device, in every format, and wherry report of them.
# WHERRY: the command. WHERRY_TEST_DEVICES: the devices that are measured, by default every usable one. SCHEMA: the
# schema's file. FAULT_LIBRARY: tests/faults, which to PoCL says not to optimize; ceilings are measured without.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
# shellcheck source=tests/cli/records.sh
. "$here/records.sh"

"$wherry" devices --json -q >"$work/devices.json"
devices=${WHERRY_TEST_DEVICES:-$("$python" -c '
import json, sys
print(*[d["id"] for d in json.load(open(sys.argv[1]))["devices"] if d["usable"]])' "$work/devices.json")}
preload() { # DEVICE COMMAND...
    case $1 in opencl:*) LD_PRELOAD=${FAULT_LIBRARY:-} "${@:2}" ;; *) "${@:2}" ;; esac
}
bench() { # DEVICE OPTION...
    "$wherry" bench layer -q --device "$1" --config bert-base --hidden 32 --heads 2 --feed-forward 32 --lengths 5,3 \
        --repeats 5 --warm 0 --cache "${WHERRY_TEST_CACHE:-$work/kernels}" "${@:2}"
}
# Ceilings, cold caches, and pieces of each kind are more kernels, which CPU drivers compile for seconds: besides GPUs one
# device has them, the host's cores where they are there.
gpus=$("$python" -c '
import json, sys
print(*[d["id"] for d in json.load(open(sys.argv[1]))["devices"] if d["type"] != "CPU"])' "$work/devices.json")
roof=''
for device in $devices; do
    case $device in reference) ;; opencl:*) roof=${roof:-$device} ;; *) roof=$device ;; esac
done
is_gpu() { case " $gpus " in *" $1 "*) ;; *) return 1 ;; esac; }
for device in $devices; do
    file=$work/measured.json
    caches=warm
    if [ "$device" = reference ] || is_gpu "$device"; then caches=both; fi
    expect 0 '' preload "$device" bench "$device" --roof no --phase backward --caches $caches -o "$file"
    expect 0 '' "$wherry" report --check "$file"
    valid "$file"
    cp "$file" "$work/out"
    check json 'not d["ceilings"] and all(o["derived"] == {"warm": None, "cold": None} for o in d["ops"])'
    check json '{o["phase"] for o in d["ops"]} == {"backward"} and d["run"]["sentinel"] is None'
    [ "$device" = reference ] || [ $caches = warm ] ||
        check json 'all(o["cold"] and o["cold_sets"] > 1 for o in d["ops"])'
    if [ "$device" != reference ] && [ $caches = both -o "$device" = "$roof" ]; then
        piece() {
            preload "$device" "$wherry" bench "$@" -q --device "$device" --warm 0 --repeats 1 --json \
                --cache "${WHERRY_TEST_CACHE:-$work/kernels}"
        }
        expect 0 '' piece gemm 70x40x64 --only forward,dw
        check json 'd["schema"] == "wherry-pieces-1" and [r["form"] for r in d["rows"]] == ["forward", "dw"]'
        check json 'all(r["seconds"] > 0 and r["flops"] == 2 * 70 * 40 * 64 for r in d["rows"])'
        expect 0 '' piece norm 70x64 --only bdrln,brln
        check json 'd["rows"][0]["bytes"] >= 4 * 70 * 64 * 2 and [len(r["groups"]) for r in d["rows"]] == [1, 1]'
        check json 'd["rows"][0]["groups"][0]["kernels"][0]["kernel"] == "layernorm"'
        # What one size fails at leaves the others'.
        expect 2 'has no group "attention": attention, 3 operators, does not run as one' piece attention 1x1x16x12 1x2x16x64 --only forward
        check json '[(r["shape"], r["form"]) for r in d["rows"] if r["form"] != "memory"] == [("1x2x16x64", "forward")]'
    fi
    if [ "$device" = "$roof" ]; then
        expect 0 '' bench "$device" --phase forward -o "$file"
        expect 0 '' "$wherry" report --check "$file"
        valid "$file"
        cp "$file" "$work/out"
        check json '{o["phase"] for o in d["ops"]} == {"forward"} and list(d["plans"][0]["phases"]) == ["forward"]'
        check json 'd["devices"][0]["timer"]["status"] != "ok" or d["plans"][0]["limit_seconds"] > 0'
        check json '{"dram.copy", "compute.f32", "launch.seconds"} <= {c["id"] for c in d["ceilings"] if c["best"]}'
        check json 'all(o["cold"] and o["cold_sets"] > 1 for o in d["ops"])'
        check json 'd["run"]["sentinel"]["last_seconds"] > 0 and d["run"]["cache_modes"] == ["warm", "cold"]'
    fi
    for format in text markdown csv trace html; do
        expect 0 '' "$wherry" report "$file" --format $format -o "$work/stored"
        if [ $format != html ]; then check no_nan "$work/stored"; fi
    done
    cp "$file" "$work/out"
    if [ "$device" = reference ]; then
        check json 'all(o["bytes"]["d_model"] == {"r": None, "w": None} == o["bytes"]["requested"] for o in d["ops"])'
        check json 'all(c["bytes"] is None for p in d["plans"] for c in p["by_class"] if c["flops"])'
        for format in markdown text; do
            expect 0 '' "$wherry" report "$file" --format $format
            check has 'nobody has counted'
        done
    else
        check json 'all(o["bytes"]["d_model"]["r"] >= o["bytes"]["q"]["r"] and o["bytes"]["requested"]["w"] for o in d["ops"])'
    fi
    expect 0 '' "$wherry" report "$file"
    check awk 'length > 80 && !/^(note|!)/ { exit 1 }' "$work/out"
done
expect 0 '' bench reference --caches warm --format csv
check csv 'len(rows) == 20 and float(rows[0]["warm_median"]) > 0 and rows[0]["device"] == "reference" and rows[0]["warm_bandwidth"] == ""'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
