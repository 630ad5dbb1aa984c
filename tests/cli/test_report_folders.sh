#!/usr/bin/env bash
# Tests wherry report FOLDER...: committed records of several devices, merged and ranked; the predictions are those of
# wherry analyze; folders that are bad.
# WHERRY: the command. RESULTS: the folder of committed records.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
results=${RESULTS:-$here/../../bench/results}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
: "${work:?}"

lacks() { ! has "$1"; }
# What the ranking of a workload says of a device: "ranked TITLE DEVICE" prints the line.
ranked() { awk -v title="Ranking: $1" -v device="$2" '$0 == title { on = 1; next } /^$/ { on = 0 } on && $0 ~ device' "$work/out"; }
field() { # CONDITION: of the fields of the last ranked line, from the end: x, predicted, tokens/J, roof, per GB, rate, ms
    "$python" -c 'import sys
x, predicted, joule, roof, gigabyte, rate, ms = (None if w == "-" else float(w) for w in reversed(sys.argv[1].split()[-7:]))
assert '"$1"', sys.argv[1]' "$line"
}

# ---- three devices ----
expect 0 '[0-9]* JSON files that are no records passed over' "$wherry" report "$results/nvidia-h200" "$results/pocl" "$results/lavapipe"
line=$(ranked 'minilm-l6, encoding 8 x 128' 'NVIDIA H200.* opencl')
check field 'joule is None and abs(x - ms / predicted) < 0.01 * x and abs(rate - 1024 / ms * 1e3) < 0.01 * rate and 10 < roof < 100'
line=$(ranked 'minilm-l6, encoding 8 x 128' '^pthread')
check field 'ms > predicted > 1 and x > 1'
line=$(ranked 'bert-large, 1 layer in training, 64 x 512' '^llvmpipe')
check field 'ms is None and rate is None and predicted > 1000' # it never ran it
# the fastest first
check "$python" - "$work/out" <<'END'
import sys
times, on = [], False
for text in open(sys.argv[1]):
    on = on and text.strip() != "" or text.startswith("Ranking: minilm-l6, encoding 8 x 128")
    if on and not text.startswith(("Ranking", "device")):
        times.append(float(text.split()[-7]))
assert len(times) == 4 and times == sorted(times), times
END

# ---- the prediction is that of the library, by the same roof and counts ----
check cp "$results/pocl/layer-1x128-opencl-0.json" "$work/layer.json"
check mkdir "$work/one" && cp "$work/layer.json" "$work/one/"
expect 0 '' "$wherry" report "$work/one"
line=$(ranked 'bert-large, 1 layer in training, 1 x 128' '^pthread')
predicted=$(echo "$line" | awk '{ print $(NF - 1) }')
expect 0 '' "$wherry" analyze --config bert-large --activation relu --batch 1 --seq 128 --device-spec "$work/layer.json" --json
check "$python" -c 'import json, sys
plans = json.load(open(sys.argv[1]))["predictions"][0]["plans"]
flash = 1e3 * next(p for p in plans if p["plan"] == "flash")["limit_seconds"]
assert abs(flash / float(sys.argv[2]) - 1) < 0.03, (flash, sys.argv[2])' "$work/out" "$predicted"

# ---- power beside the records ----
echo '{"schema": "power-1", "files": {"layer.json": {"watts": 50, "samples": 9, "source": "made up"}}}' >"$work/one/power.json"
expect 0 '' "$wherry" report "$work/one"
line=$(ranked 'bert-large, 1 layer in training, 1 x 128' '^pthread')
check field 'abs(joule - rate / 50) < 0.01 * joule'
echo '{"schema": "power-1", "files": {"layer.json": {"watts": "many"}}}' >"$work/one/power.json"
expect 0 '' "$wherry" report "$work/one"
line=$(ranked 'bert-large, 1 layer in training, 1 x 128' '^pthread')
check field 'joule is None'

# ---- other formats ----
expect 0 '' "$wherry" report "$results/pocl" "$results/lavapipe" --format markdown
check has '^## Ranking$'
expect 0 '' "$wherry" report "$results/pocl" "$results/lavapipe" --format html
check has '<section id="ranking">'
check has '<td>llvmpipe .*</td>'
expect 0 '' "$wherry" report "$work/layer.json" --format html # a file alone has no ranking
check lacks '<section id="ranking">'
expect 0 '' "$wherry" report --check "$results/pocl"
check has ' 0 wrong$'

# ---- duplicates and what is no record ----
check mkdir "$work/again" && cp "$work/layer.json" "$work/again/same.json" && echo '{"a": 1}' >"$work/again/other.json"
check cp "$results/lavapipe/layer-1x128-vulkan-0.json" "$work/again/"
expect 0 'same.json: left out: the same record as .*layer.json' "$wherry" report "$work/one" "$work/again"
expect 0 '1 JSON files that are no records passed over' "$wherry" report "$work/one" "$work/again"

# ---- bad folders ----
check mkdir "$work/none" "$work/broken" "$work/wrong" && echo hello >"$work/none/readme.txt"
expect 3 'no record that is not there already' "$wherry" report "$work/none"
expect 3 'No such file' "$wherry" report "$work/missing"
check cp "$work/layer.json" "$work/broken/a.json" && head -c 900 "$work/layer.json" >"$work/broken/b.json"
expect 3 'b.json' "$wherry" report "$work/broken"
echo '{"schema": "rl-1", "status": 7}' >"$work/wrong/a.json"
expect 3 'a.json' "$wherry" report "$work/wrong"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
