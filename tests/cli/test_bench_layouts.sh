#!/usr/bin/env bash
# Tests wherry bench layouts: its record, its log (a run that was killed, a log that is not its own or damaged), and what
# wherry report makes of the record, the page in Chromium where that is there. WHERRY: the command.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
device=$("$wherry" devices --json | "$python" -c 'import json, sys
for device in json.load(sys.stdin)["devices"]:
    if device["usable"] and ":" in device["id"]:
        print(device["id"])
        break')
if [ -z "$device" ]; then
    echo "skipped: no device of OpenCL or Vulkan"
    exit 77
fi
options=(-d "$device" --hidden 64 --heads 8 --feed-forward 128 --seq 16 --dtype f32 --no-shipped --repeats 1)
measure() { "$wherry" bench layouts "${options[@]}" "$@"; } # OPTION...

# ---- the record ----
expect 0 '' measure --only BAOB,dWlin2 --sample 5 -o "$work/record.json"
check "$python" - "$work/record.json" <<'SCRIPT'
import json, sys
record = json.load(open(sys.argv[1]))
works = {work["name"]: work for work in record["works"]}
assert record["schema"] == "layouts-1" and list(works) == ["BAOB", "dWlin2"], list(works)
assert works["BAOB"]["space"] == 36 and works["dWlin2"]["space"] == 16
for work in works.values():
    times = [time["us"] for time in work["times"] if "us" in time]
    assert work["wrong"] == 0 and work["measured"] == len(times) >= 5, work
    assert len({time["number"] for time in work["times"]}) == len(times)
    assert sum(time["drawn"] for time in work["times"]) <= 5 and work["shipped_us"] is None
    assert min(times) == work["best_us"] <= work["default_us"] <= work["worst_us"] == max(times)
    assert sum(time.get("default", False) for time in work["times"]) == 1
assert works["BAOB"]["paper"]["best_us"] == 14 and works["dWlin2"]["paper"]["half_worst_us"] == 3300
SCRIPT
if "$python" -c 'import jsonschema' 2>/dev/null; then
    check "$python" "$here/../report/check_schema.py" "$here/../../docs/layouts.schema.json" "$work/record.json"
fi

# ---- the log: a killed run goes on ----
"$wherry" bench layouts "${options[@]}" --only BAOB --log "$work/kept" -o "$work/whole.json" 2>"$work/err" &
pid=$!
for _ in $(seq 600); do
    [ "$(wc -l 2>/dev/null <"$work/kept")" -gt 10 ] 2>/dev/null && break
    kill -0 $pid 2>/dev/null || break
    sleep 0.1
done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
head -n 11 "$work/kept" >"$work/before"
check test "$(wc -l <"$work/before")" -eq 11
{ cat "$work/before"; printf 'BAOB\t1\t0\t1e-9'; } >"$work/kept" # and the last line half written
expect 0 '' measure --only BAOB --log "$work/kept" -o "$work/whole.json"
head -n 11 "$work/kept" >"$work/begins"
check cmp "$work/begins" "$work/before"
check test "$(grep -c '^BAOB' "$work/kept")" -eq 37 # the ten, the torn one, and the other 26
check "$python" - "$work/whole.json" "$work/before" <<'SCRIPT'
import json, sys
work = json.load(open(sys.argv[1]))["works"][0]
kept = {int(line.split("\t")[1]): float(line.split("\t")[3]) * 1e6 for line in open(sys.argv[2]) if line.startswith("BAOB")}
assert sorted(time["number"] for time in work["times"]) == list(range(36))
assert all(abs(time["us"] - kept[time["number"]]) < 1e-6 for time in work["times"] if time["number"] in kept)
SCRIPT
cp "$work/kept" "$work/copy"
expect 0 '' measure --only BAOB --log "$work/kept" -o "$work/again.json" # nothing is left to measure
check cmp "$work/kept" "$work/copy"

# ---- compiled by other processes first ----
if "$wherry" devices --json | grep -q '"opencl:0"'; then
    measure_there() { measure --device opencl:0 --only BAOB --sample 5 "$@"; }
    expect 0 '' measure_there --quiet --compile-share 1/2 --cache "$work/share" -o "$work/shared.json"
    check test ! -e "$work/shared.json"
    check test -n "$(find "$work/share" -name 'opencl-layout_rows-*')"
    expect 0 '' measure_there --jobs 2 -o "$work/jobs.json"
    check test ! -e "$work/jobs.json.log.kernels"
    check test "$(grep -c '^BAOB' "$work/jobs.json.log")" -ge 5
    expect 0 'one process compiles' measure_there --jobs 2
fi
if [ "${device%%:*}" = vulkan ]; then expect 2 'is no OpenCL device' measure --only BAOB --sample 1 --jobs 2; fi
expect 2 'must be K/N' measure --only BAOB --sample 1 --compile-share 3/2

# ---- logs that are not its own, or damaged ----
expect 3 'is no log of these measurements' measure --only BAOB --repeats 2 --log "$work/kept"
check cmp "$work/kept" "$work/copy"
echo "a list of mine" >"$work/mine"
expect 3 'is no log of these measurements' measure --only BAOB --log "$work/mine"
check test "$(cat "$work/mine")" = "a list of mine"
"$python" - "$work/copy" "$work/hostile" <<'SCRIPT'
import sys
lines = open(sys.argv[1], "rb").read().split(b"\n")
with open(sys.argv[2], "wb") as out:
    out.write(lines[0] + b"\n")
    out.write(lines[1].replace(b"e-", b"e+", 1) + b"\n")  # another time than its hash says
    out.write(b"BAOB\t" * 100000 + b"\n" + bytes(range(256)) * 64 + b"\n\n\t\t\t\t\t\t\t\t\t\n")
    out.write(b"BAOB\t99999999999999999999\t0\tnan\t-1\tinf\t5\t\t0000000000000000\n")
    out.write(b"\n".join(lines[5:9]))  # without an end
SCRIPT
expect 0 '' measure --only BAOB --log "$work/hostile" -o "$work/hostile.json"
check "$python" - "$work/hostile.json" <<'SCRIPT'
import json, sys
work = json.load(open(sys.argv[1]))["works"][0]
assert sorted(time["number"] for time in work["times"]) == list(range(36)) and work["worst_us"] < 1e6
SCRIPT

# ---- the command line ----
expect 2 'there is no "XYZ"' measure --only BAOB,XYZ
expect 4 'has no kernels for measuring layouts' "$wherry" bench layouts -d reference --hidden 64 --heads 8 \
    --feed-forward 128 --seq 16 --no-shipped --only BAOB --sample 2

# ---- the report ----
for format in text markdown csv json html; do
    expect 0 '' "$wherry" report "$work/record.json" --format $format
    check test -s "$work/out"
done
expect 0 '' "$wherry" report "$work/record.json"
check has '^BAOB  *36 '
expect 2 'have no trace' "$wherry" report "$work/record.json" --format trace
check "$python" "$here/../report/make_record.py" "$work/other.json"
expect 3 'a report shows one kind' "$wherry" report "$work/record.json" "$work/other.json"
for broken in 's/"space": 36/"space": "x"/' 's/"works": \[/"works": [1,/' 's/"drawn": true/"drawn": 7/'; do
    sed "$broken" "$work/record.json" >"$work/broken.json"
    expect 3 'broken.json' "$wherry" report "$work/broken.json"
done
# ---- what is derived, derived again ----
expect 0 '' "$wherry" report --check "$work/record.json" "$work/other.json"
check has '^2 records, .* 0 wrong$'
doctored() { # PATTERN CODE: what --check says of a record that Python changed
    "$python" - "$work/record.json" "$work/doctored.json" "$2" <<'SCRIPT'
import json, sys
record = json.load(open(sys.argv[1]))
work = record["works"][0]
times = work["times"]
exec(sys.argv[3])
json.dump(record, open(sys.argv[2], "w"))
SCRIPT
    expect 1 '' "$wherry" report --check "$work/doctored.json"
    check has "$1"
}
doctored 'layouts of BAOB: best_us: stored' 'work["best_us"] *= 2'
doctored 'layouts of BAOB: worst_us: stored' 'times.remove(max(times, key=lambda time: time["us"])); work["measured"] -= 1'
doctored 'layouts of BAOB: default_us: stored' 'del next(time for time in times if time.get("default"))["default"]'
doctored 'layouts of BAOB: measured: stored' 'work["measured"] += 1'
doctored 'layouts of BAOB: wrong: stored 1' 'work["wrong"] = 1'
doctored 'layouts of BAOB: paper: best_us: stored 15, derived 14' 'work["paper"]["best_us"] = 15'
doctored 'no such kernel or contraction' 'work["name"] = "BOAB"'
doctored 'a configuration is there twice' 'times[1]["number"] = times[0]["number"]'
doctored 'the space has no such number' 'times[1]["number"] = 36'
doctored 'outside its interval' 'times[1]["low_us"] = times[1]["us"] * 1.5'
doctored 'more are drawn than the sample has' 'record["sample"] = 1; [time.update(drawn=True) for time in times]'
doctored 'more were looked at than the space has' 'work["refused"] = 35'
doctored 'neither a time nor what is wrong' 'times[1]["wrong"] = "x"'
"$python" - "$work/record.json" "$work/small.json" <<'SCRIPT'
import json, sys
record = json.load(open(sys.argv[1]))
record["works"] = record["works"][:1]
record["works"][0]["times"] = record["works"][0]["times"][:1]
json.dump(record, open(sys.argv[2], "w"))
SCRIPT
check env WHERRY_TEST_SAMPLE=5 "$python" "$here/../report/mistype.py" "$wherry" "$work/small.json" "$work"
if command -v chromium >/dev/null; then
    expect 0 '' "$wherry" report "$work/record.json" -o "$work/page.html"
    timeout 60 chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=8000 --user-data-dir="$work/browser" \
        --dump-dom "file://$work/page.html" >"$work/dom" 2>/dev/null
    check test "$(grep -o 'class="panel"' "$work/dom" | wc -l)" -eq 2
    check grep -q 'data-mark="worst"' "$work/dom"
    check grep -q 'data-ready' "$work/dom"
    check test "$(grep -c 'class="problem"' "$work/dom")" -eq 0
else
    echo "SKIPPED: the page in a browser: no chromium"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
