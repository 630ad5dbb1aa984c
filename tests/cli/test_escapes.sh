#!/usr/bin/env bash
# Names from files that nobody vouches for: on a terminal, in Markdown, in CSV and on the page they are shown, never obeyed.
# WHERRY: the command. EMULATOR_VENDORS: the folder that names the emulated GPU's driver.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
check "$python" "$here/make_model.py" "$model"

# harmless FILE...: no control characters but line ends, none that turn or hide text, UTF-8 throughout
harmless() {
    check "$python" -c '
import sys, unicodedata
for name in sys.argv[1:]:
    text = open(name, "rb").read().decode("utf-8").replace("\r\n", "\n")
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
    assert not bad, (name, bad[:5], text[:300])' "$@"
}
# hostile CODE COMMAND...: this exit code, and both streams are harmless, with the name shown in one
hostile() {
    local code=$1 got=0
    shift
    "$@" >"$work/out" 2>"$work/err" || got=$?
    check test "$got" -eq "$code"
    harmless "$work/out" "$work/err"
    check grep -q 'owned' "$work/out" "$work/err"
}
name=$(printf '\033]0;owned\a\302\233\342\200\256\377') # a title for the window, CSI, right to left, no UTF-8
embed() { "$wherry" embed --device reference "$@"; }

# ---- files of a model ----
change() { # FILE KEY JSON
    "$python" -c '
import json, sys
data = json.load(open(sys.argv[1]))
data[sys.argv[2]] = json.loads(sys.argv[3])
json.dump(data, open(sys.argv[1], "w"))' "$work/bad/$1" "$2" "$3"
}
broken() { # FILE KEY JSON: a copy of the model with this in it
    rm -rf "$work/bad"
    cp -r "$model" "$work/bad"
    change "$@"
}
broken config.json model_type '"\u001b]0;owned\u0007\u009b\u202e"'
hostile 3 embed --model "$work/bad" /dev/null
check grep -q '\\x1b]0;owned\\x07\\u{9b}\\u{202e}' "$work/err"
broken config.json architectures '["BertModel\u001b]0;owned\u0007"]'
expect 0 '' "$wherry" bench -q --model "$work/bad" --device reference --batch 1 --seq 4 --repeats 1 --warm 0 --roof no
harmless "$work/out"
broken config.json hidden_act '"owned\u2028\u001b[2J"'
hostile 3 embed --model "$work/bad" /dev/null
"$python" - "$model" "$work/bad" <<'END'
import json, struct, sys
data = open(sys.argv[1] + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
header["owned\u001b[31m\u202e"] = {"dtype": "\u001b[5m", "shape": [1], "data_offsets": [0, 4]}
text = json.dumps(header).encode()
open(sys.argv[2] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
json.dump(json.load(open(sys.argv[1] + "/config.json")), open(sys.argv[2] + "/config.json", "w"))
END
hostile 3 embed --model "$work/bad" /dev/null
mkdir "$work/$name"
hostile 3 embed --model "$work/$name" /dev/null

# ---- a driver's names ----
if [ -n "${EMULATOR_VENDORS:-}" ]; then
    export OCL_ICD_VENDORS=$EMULATOR_VENDORS WHERRY_EMULATOR_NAME=$name
    "$wherry" devices >"$work/out" 2>"$work/err" # too narrow for the whole name
    harmless "$work/out" "$work/err"
    check has '\\x1b\]0;'
    hostile 4 "$wherry" roof --device opencl:none
    expect 0 '' "$wherry" devices -q --json
    check json 'any(x["name"].startswith("\\x1b]0;owned\\x07\\u{9b}") for x in d["devices"])'
    unset OCL_ICD_VENDORS WHERRY_EMULATOR_NAME
else
    echo 'SKIPPED: names of drivers: no emulated GPU was built (EMULATOR_VENDORS)'
fi

# ---- what stands on the command line ----
hostile 2 "$wherry" "$name"
hostile 2 "$wherry" embed "--$name"
hostile 3 embed --model "$model" "$work/$name.txt"
hostile 4 "$wherry" embed --model "$model" --device "$name" /dev/null
hostile 5 embed --model "$model" -o "$work/$name/none/owned" <<<'the boat'
hostile 2 "$wherry" analyze --config bert-base --fuse "$name"
hostile 2 "$wherry" analyze --config bert-base --device-spec "$name"
printf '{"text": "the boat", "text": 1, "owned\\u001b[2J": 2}\n' >"$work/$name.jsonl"
hostile 3 embed --model "$model" -i jsonl "$work/$name.jsonl"
mkdir "$work/$name.d" && cp "$model"/* "$work/$name.d"
hostile 0 "$wherry" analyze --model "$work/$name.d"

# ---- what people read of the texts themselves ----
printf 'the boat \033]0;owned\007\302\233\342\200\256\nwater owned\n' >"$work/sentences"
hostile 0 "$wherry" demo -q --model "$model" --device reference "$work/sentences"
printf '{"bandwidth": 1e12, "matrix_flops": 1e14, "f32_flops": 1e13, "name": "owned\\u001b[2J", "source": "\\u202e"}' >"$work/spec.json"
hostile 0 "$wherry" analyze --config bert-base --device-spec "$work/spec.json"
printf '{"owned\\u001b[2J": 1e12}' >"$work/spec.json"
hostile 3 "$wherry" analyze --config bert-base --device-spec "$work/spec.json"

# ---- records ----
check "$python" "$here/../report/make_record.py" "$work/plain.json"
"$python" - "$work/plain.json" "$work/hostile.json" <<'END'
import json, sys
EVIL = "=owned|`*_x_*`<b>[a](http://evil/)&lt;\u001b]0;owned\u0007\u202e\u2028</script><!--\n@1"
record = json.load(open(sys.argv[1]))
for device in record["devices"]:
    device["name"] = EVIL
    device["driver"] = "=HYPERLINK(\"http://evil/\")"
record["workload"]["model"]["source"] = EVIL
record["warnings"].append({"code": "note", "plan": None, "op": None, "text": EVIL})
old = record["ops"][0]["id"]
for op in record["ops"]:
    if op["id"] == old:
        op["id"] = "-" + EVIL
        op["share"] = 0.5
json.dump(record, open(sys.argv[2], "w"))
END
hostile 0 "$wherry" report "$work/hostile.json"
hostile 0 "$wherry" report --wide "$work/hostile.json"
hostile 1 "$wherry" report --check "$work/hostile.json"
"$wherry" diff "$work/plain.json" "$work/hostile.json" >"$work/out" 2>"$work/err"
harmless "$work/out" "$work/err"
check grep -q owned "$work/out"
hostile 0 "$wherry" report --format markdown "$work/hostile.json"
check "$python" - "$work/out" <<'END'
import re, sys
text = open(sys.argv[1], encoding="utf-8").read()
seen = 0
columns = 0
for line in text.splitlines():
    plain = re.sub(r"\\[\\`*_\[\]|~$:.]", "", line)  # what is escaped is no markup
    if line.startswith("|"):
        count = plain.count("|")
        columns = count if re.fullmatch(r"\|(-+:?\|)+", line) else columns
        assert columns == 0 or count == columns, line
    else:
        columns = 0
    if "owned" not in line:
        continue
    seen += 1
    assert not re.search(r"[`*\[\]<\\]", plain), line
    assert not re.search(r"https?://|&lt;b>|_x_", plain) or "&lt;b>" in plain and "://" not in plain, line
    assert "&amp;lt;" in plain or "\\" not in plain, line
assert seen >= 4, seen
END
hostile 0 "$wherry" report --format csv "$work/hostile.json"
check "$python" - "$work/out" <<'END'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8")))
assert rows and all(len(row) == len(rows[0]) and None not in row for row in rows)
numbers = 0
for row in rows:
    for value in row.values():
        try:
            float(value)
            numbers += 1
        except ValueError:
            assert not value or value[0] not in "=+-@\t\r", value
assert numbers > 100, numbers
assert rows[0]["driver"] == "'=HYPERLINK(\"http://evil/\")", rows[0]["driver"]
assert rows[0]["op"].startswith("'-=owned|`*_x_*`<b>"), rows[0]["op"]
END
expect 0 '' "$wherry" report --format html "$work/hostile.json"
check "$python" - "$work/out" <<'END'
import base64, gzip, json, re, sys
page = open(sys.argv[1], encoding="utf-8").read()
assert "evil" not in page and "owned" not in page  # within a <script> only base64, which can't end it
data = re.findall(r'<script type="application/gzip" class="record">([A-Za-z0-9+/=]*)</script>', page)
record = json.loads(gzip.decompress(base64.b64decode(data[0])))
assert len(data) == 1 and "</script><!--" in record["devices"][0]["name"]
END
expect 0 '' "$wherry" report --format trace "$work/hostile.json"
check json 'len(str(d)) > 100'

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
