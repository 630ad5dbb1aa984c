#!/usr/bin/env bash
# Tests what wherry report makes of tunings (wherry tune --json): every format, its numbers, and files that are broken.
# WHERRY: the command. SCHEMA: the schema's file.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
schema=${SCHEMA:-$here/../../docs/tuning.schema.json}
check "$python" "$here/../page/make_tunings.py" "$work"
check "$python" "$here/../report/make_record.py" "$work/record.json"
schema_fits() { # [--refuse] FILE...
    if "$python" -c 'import jsonschema' 2>/dev/null; then
        check "$python" "$here/../report/check_schema.py" "$schema" "$@"
    fi
}
"$python" -c 'import jsonschema' 2>/dev/null || echo "SKIPPED: tunings against the schema: no python3-jsonschema"

# ---- every format ----
for name in layouts layouts-vulkan sizes plain step empty hostile; do
    file=$work/tuning-$name.json
    schema_fits "$file"
    for format in text markdown csv json html; do
        expect 0 '' "$wherry" report "$file" --format $format
        check test -s "$work/out"
        if [ $format != html ]; then check test "$(grep -c -i -w -e nan -e inf "$work/out")" -eq 0; fi
    done
    expect 0 '' "$wherry" report "$file" --format csv
    if [ $name != hostile ]; then check "$python" "$here/../report/check_tuning.py" "$file" "$work/out"; fi
    expect 0 '' "$wherry" report "$file" --json
    if [ $name != hostile ]; then # whose control characters are written out
        check "$python" -c 'import json, sys; assert json.load(open(sys.argv[1])) == json.load(open(sys.argv[2]))' \
            "$work/out" "$file"
    fi
done
expect 2 'a tuning has no trace' "$wherry" report "$work/tuning-layouts.json" --format trace

# ---- what the text says ----
expect 0 '' "$wherry" report "$work/tuning-layouts.json"
check has '^bert-large on opencl:0 (NVIDIA H200): plan flash$'
check has '^chosen is [0-9.]* % faster than the default$'
check has '^measured is within 1.2 % of the predicted sum$'
check has '^[0-9.]* % above the sum of per-operator bests$'
check has '^256 random choices: 5 % '
check has '^lin1_dx  *backward  *T  *280 '
"$python" - "$work" <<'SCRIPT'
import json, sys
tuning = json.load(open(sys.argv[1] + "/tuning-layouts.json"))
least, count, lost = 2.0, 0, 0
for work in tuning["works"]:
    right = [one for one in work["candidates"] if one["verdict"] == "right"]
    cut = [one["us"] for one in right if one.get("cut")]
    ratio = min(cut) / min([one["us"] for one in right if not one.get("cut")] + [work["default_us"]])
    least, count, lost = min(least, ratio), count + len(cut), lost + (ratio < 1)
    for one in right:
        one["us"] *= 4 if one.get("cut") else 1
assert lost
open(sys.argv[1] + "/cut", "w").write(
    f"^{count} candidates of {len(tuning['works'])} kernel calls are measured that the bound would have cut: "
    f"in {lost} of the calls one is the fastest, by up to {100 * (1 - least):.1f} %$")
json.dump(tuning, open(sys.argv[1] + "/slow-cut.json", "w"))
SCRIPT
check has "$(cat "$work/cut")"
expect 0 '' "$wherry" report "$work/slow-cut.json"
check has "would have cut: none is its call's fastest, which is faster by [0-9.]* % or more$"
expect 0 '' "$wherry" report "$work/tuning-plain.json"
check has '^layer.0.attention attention  *2 '
expect 0 '' "$wherry" report "$work/tuning-layouts.json" "$work/tuning-sizes.json" --format markdown
check test "$(grep -c '^## ' "$work/out")" -eq 3
expect 0 '' "$wherry" report "$work/tuning-layouts.json" "$work/tuning-sizes.json" -o "$work/page.html"
check test "$(grep -c 'class="record">' "$work/page.html")" -eq 2
check grep -q '<title>Wherry tuning</title>' "$work/page.html"
expect 0 '' "$wherry" report - <"$work/tuning-step.json"
check has '^chosen: '

# ---- tunings and records ----
expect 3 'record.json has records and .*tuning-plain.json has tunings: .*separately' \
    "$wherry" report "$work/record.json" "$work/tuning-plain.json"
expect 3 'tuning-plain.json has tunings and .*record.json has records' \
    "$wherry" report "$work/tuning-plain.json" "$work/record.json" --format html
expect 3 'a tuning, .*and no record' "$wherry" diff "$work/record.json" "$work/tuning-plain.json"
expect 3 'a tuning, .*and no record' "$wherry" report --check "$work/tuning-plain.json"

# ---- tunings that are none ----
bad() { # PATTERN CHANGE: Python, of the tuning "d" with the operator "o", its first time "t" and that one's candidate "c"
    check "$python" -c '
import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
layouts = d["plans"][0]["layouts"]
o = layouts["operators"][0]
t = o["times"][0]
c = t["candidates"][0]
exec(sys.argv[3])
json.dump(d, open(sys.argv[2], "w", encoding="utf-8"))' "$work/tuning-layouts.json" "$work/bad" "$2"
    expect 3 "bad: .*$1" "$wherry" report "$work/bad" --format html
}
refused() { # as bad, of what the schema knows, too
    bad "$@"
    schema_fits --refuse "$work/bad"
}
refused 'plans is missing' 'del d["plans"]'
refused 'run.command_line is not an array' 'd["run"]["command_line"] = "wherry tune"'
refused 'plans\[0\].default_us is not a number from 0' 'd["plans"][0]["default_us"] = -1'
refused 'plans\[0\].layouts is not an object' 'd["plans"][0]["layouts"] = []'
refused 'plans\[0\].layouts.chosen_ms is not a number' 'layouts["chosen_ms"] = "fast"'
refused 'plans\[0\].layouts.operators\[0\].pass is missing' 'del o["pass"]'
refused 'operators\[0\].times\[0\].us is missing' 'del t["us"]'
refused 'times\[0\].candidates\[0\].verdict is "good", not right, wrong or failed' 'c["verdict"] = "good"'
refused 'times\[0\].candidates\[0\] is right and has no time' 'c["us"] = None'
refused 'works\[1\].layouts is not a text' 'd["works"][1]["layouts"] = None'
refused 'works\[0\].candidates is not an array' 'd["works"][0]["candidates"] = "none"'
bad 'plans\[0\].layouts.tensors\[1\].chosen, "pih", is none of its orders' 'layouts["tensors"][1]["chosen"] = "pih"'
bad 'operators\[0\].tensors\[0\], "w_none", is no tensor of this plan' 'o["tensors"][0] = "w_none"'
bad 'operators\[0\].times\[0\] has 1 orders of 2 tensors' 't["orders"].pop()'
bad "operators\[0\] has 4 times that are the default's" 'for one in o["times"]: one["default"] = True'
bad 'works\[0\].plan, "paper", is no plan of this tuning' 'd["works"][0]["plan"] = "paper"'
head -c 100000 "$work/tuning-layouts.json" >"$work/bad"
expect 3 'bad: cut off: .* in line [0-9]' "$wherry" report "$work/bad"
"$python" -c 'import json, sys
json.dump([json.load(open(name, encoding="utf-8")) for name in sys.argv[2:]], open(sys.argv[1], "w"))' \
    "$work/bad" "$work/tuning-plain.json" "$work/record.json"
expect 3 'bad: tuning 1: not a tuning' "$wherry" report "$work/bad"
check "$python" -c 'import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
layouts = d["plans"][0]["layouts"]
layouts["operators"] = layouts["operators"][:1]
layouts["tensors"] = [one for one in layouts["tensors"] if one["name"] in layouts["operators"][0]["tensors"]]
for one in [*layouts["operators"][0]["times"], *d["works"]]:
    one["candidates"] = one["candidates"][:2]
json.dump(d, open(sys.argv[2], "w", encoding="utf-8"))' "$work/tuning-layouts.json" "$work/small.json"
check "$python" "$here/../report/mistype.py" "$wherry" "$work/small.json" "$work"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
