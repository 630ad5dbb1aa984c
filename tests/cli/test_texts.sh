#!/usr/bin/env bash
# What wherry embed reads and where it writes: ids as they are written, encodings, pairs, outputs that can't be, and .npy
# through a pipe. WHERRY: the command.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
check "$python" "$here/make_model.py" "$model"
embed() { "$wherry" embed --model "$model" --device reference "$@"; }

# ---- ids ----
cat >"$work/ids" <<'END'
1.10
0.1
1e2
-0.0
1E+05
12345678901234567890123
0.10000000000000000000000000000000000000001
true
false
null
"a\"b"
"\u0061\/\n é 🚣"
"1.10"
""
END
"$python" - "$work/ids" "$work/ids.jsonl" "$work/wanted" <<'END'
import sys
ids = open(sys.argv[1], encoding="utf-8").read().splitlines()
shapes = ['{"text": "the boat", "id": %s}', '{ "id" :\t%s ,"text":"the boat"}', '{"\\u0069d":%s,"text":"a \\"id\\": 1}"}',
          '{"other":{"id":[1,{"id":"}"}],"text":3},"text":"x","\\u0069\\u0064":%s}', '  {"text":"id","ID":7,"id":%s}  ']
lines = [(i, shape % i) for i in ids for shape in shapes]
with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.writelines(line + "\n" for _, line in lines)
with open(sys.argv[3], "w", encoding="utf-8") as file:
    file.writelines('{"index":%d,"id":%s,"tokens":' % (n, i) + "\n" for n, (i, _) in enumerate(lines))
END
expect 0 '' embed -q -i jsonl --json "$work/ids.jsonl"
check diff <(sed 's/"tokens":.*/"tokens":/' "$work/out") "$work/wanted"
printf '{"text": "a", "big": 123456789012345678901234567890}\n' >"$work/in"
expect 0 '' embed -q -i jsonl --json "$work/in"
check test "$(grep -c '"id"' "$work/out")" -eq 0
for id in '[1]' '{"a": 1}'; do
    printf '{"text": "a"}\n{"text": "a", "id": %s}\n' "$id" >"$work/in"
    expect 3 'in, line 2: "id" is an object or an array' embed -q -i jsonl --json "$work/in"
done
printf '{"text": "a", "id": 1, "\\u0069d": 2}\n' >"$work/in"
expect 3 'line 1: not valid JSON (column [0-9]*: duplicate' embed -q -i jsonl "$work/in"
for id in 01 1. +1 tru '"' "'a'" 0x10 NaN; do
    printf '{"text": "a", "id": %s}\n' "$id" >"$work/in"
    expect 3 'line 1: not valid JSON\|cut off: not valid JSON' embed -q -i jsonl "$work/in"
done

# ---- half a surrogate pair is no character, escaped or as bytes ----
printf '%s\n' '{"text": "a \ud800 b \udc00\ud83d c \ud83d\udea3 \\ud800", "id": "\udfff"}' >"$work/in"
expect 0 'in, line 1: half of a surrogate pair' embed -i jsonl --json --with-text "$work/in"
check "$python" -c '
import json, sys
row = json.loads(open(sys.argv[1], encoding="utf-8").read())
assert row["text"] == "a \ufffd b \ufffd\ufffd c \U0001f6a3 \\ud800", ascii(row)
assert row["id"] == "\ufffd"' "$work/out"
expect 0 '' embed -q -i jsonl --json "$work/in"
for n in 1 2 3 4 5 6 7 8 9; do printf '{"text": "%s \\ud800"}\n' $n; done >"$work/in"
expect 0 'line 5: .*further lines are not named' embed -i jsonl "$work/in"
check test "$(grep -c surrogate "$work/err")" -eq 5

# ---- encodings ----
printf 'the boat\nwater\n' >"$work/utf8"
expect 0 '' embed -q "$work/utf8"
cp "$work/out" "$work/plain"
for encoding in UTF-16 UTF-16LE UTF-16BE UTF-32; do
    "$python" -c 'import sys; open(sys.argv[1], "wb").write(open(sys.argv[2]).read().encode(sys.argv[3]))' \
        "$work/in" "$work/utf8" $encoding
    case $encoding in UTF-32) says=UTF-32 ;; *) says=$encoding ;; esac
    expect 3 "in is $says, and texts must be UTF-8: convert it, as in iconv -f $says -t UTF-8" embed "$work/in"
    expect 3 "is $says" embed -i jsonl "$work/in"
done
printf '\376\377\0a\0\n' >"$work/in"
expect 3 'is UTF-16,' embed "$work/in"
printf '\357\273\277the boat\r\nwater\r\n' >"$work/in" # a mark, and line ends of Windows
expect 0 '' embed -q "$work/in"
check cmp "$work/out" "$work/plain"
printf '\357\273\277{"text": "the boat"}\r\n\r\n{"text": "water"}\r\n' >"$work/in.jsonl"
expect 0 '' embed -q -i jsonl "$work/in.jsonl"
check cmp "$work/out" "$work/plain"
printf 'the \0 boat\n' >"$work/in" # a NUL alone is no encoding
expect 0 '' embed "$work/in"

# ---- JSONL that was not said to be ----
expect 0 'in.jsonl look like JSON.*--input jsonl' embed "$work/in.jsonl"
check test "$(wc -l <"$work/err")" -eq 1
expect 0 '' embed -q "$work/in.jsonl"
expect 0 '' embed -i lines "$work/in.jsonl"
printf '{"text": "the boat"}\nwater\n' >"$work/in"
expect 0 '' embed "$work/in"

# ---- pairs ----
printf 'the\tboat\nthe\tboat\twater\n' >"$work/in"
expect 3 'in, line 2: more than one tab' embed --pairs "$work/in"
printf 'the\tboat\t\n' >"$work/in"
expect 3 'in, line 1: more than one tab' embed --pairs "$work/in"
cp -r "$model" "$work/single"
"$python" - "$work/single" <<'END'
import json, struct, sys
folder = sys.argv[1]
config = json.load(open(folder + "/config.json"))
config["type_vocab_size"] = 1
json.dump(config, open(folder + "/config.json", "w"))
data = open(folder + "/model.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, values = json.loads(data[8:8 + size]), data[8 + size:]
out = b""
for name, tensor in header.items():
    begin, end = tensor["data_offsets"]
    if "token_type" in name:
        tensor["shape"][0] = 1
        end = (begin + end) // 2
    tensor["data_offsets"] = [len(out), len(out) + end - begin]
    out += values[begin:end]
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open(folder + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)
END
single() { "$wherry" embed --model "$work/single" --device reference "$@"; }
expect 0 '' single -q "$work/utf8"
printf 'the\tboat\n' >"$work/in"
expect 3 'in, line 1: a pair, and this model has 1 token type' single --pairs "$work/in"
printf '{"text": "a"}\n\n{"text": "a", "pair": "b"}\n' >"$work/in"
expect 3 'in, line 3: a pair, and this model has 1 token type' single -i jsonl "$work/in"

# ---- outputs that can't be: seen before anything else, here a model that is not there ----
none() { "$wherry" embed --model "$work/none" --device reference "$@" "$work/utf8"; }
expect 3 'none' none
expect 2 '"": a file.s name is missing' none -o ''
expect 5 "can't create $work: it is a folder" none -o "$work"
expect 5 "can't create $work/model/: it is a folder" none -o "$work/model/"
expect 5 "can't create $work/a/b: No such file" none -o "$work/a/b"
expect 5 "can't create $work/utf8/b: Not a directory" none -o "$work/utf8/b"
expect 5 "can't create $work/new/: it is a folder" none -o "$work/new/"
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$work/locked" && chmod 500 "$work/locked"
    expect 5 'Permission denied' none -o "$work/locked/b"
fi
if [ -d /proc/self ]; then expect 5 "can't create /proc/b:" embed -o /proc/b "$work/utf8"; fi
for command in devices 'bench --config minilm-l6' 'verify --config minilm-l6' roof 'analyze --config bert-base' 'report -'; do
    # shellcheck disable=SC2086 # words
    expect 5 'it is a folder' timeout 20 "$wherry" $command -o "$work"
done
cd "$work" || exit 1
expect 0 '' embed -q -o here utf8
check cmp here plain
cd "$OLDPWD" || exit 1
expect 0 '' embed -q -o "$work/here" "$work/utf8"
check cmp "$work/here" "$work/plain"

# ---- a tuning for a device without kernels ----
printf 'x\n' >"$work/tuned.txt"
for option in --plan --tuning; do
    expect 2 'tuned.txt is what wherry tune chose for kernels, and those of the device reference take no sizes' embed $option "$work/tuned.txt" "$work/utf8"
done
expect 2 'those of the device reference take no sizes' "$wherry" verify --model "$model" --device reference --plan "$work/tuned.txt"
expect 2 'those of the device reference take no sizes' "$wherry" demo --model "$model" --device reference --plan "$work/tuned.txt" "$work/utf8"
expect 0 '' embed -q --tuning '' "$work/utf8"
check cmp "$work/out" "$work/plain"

# ---- texts are tokenized by several threads while the device has others: order and bits stay ----
cores=$("$python" -c 'import os; print(min(2, len(os.sched_getaffinity(0))))' 2>/dev/null || echo 1)
words=(the boat rows slowly on a river to bremen the boat rows on)
for n in $(seq 400); do echo "boat $n ${words[*]:0:$((n % 13))}"; done >"$work/long"
for n in $(seq 1 20 400); do # too few for a second thread
    sed -n "$n,$((n + 19))p" "$work/long" | embed -q
done >"$work/few"
for tokens in 48 300 16384; do
    expect 0 'it waited for tokens, by [0-9]* threads\{0,1\}, in [0-9.]* % of' embed -v --batch-tokens $tokens --max-tokens 48 "$work/long"
    check cmp "$work/out" "$work/few"
done
[ "$cores" -lt 2 ] || check grep -q 'for tokens, by \([2-9]\|[1-9][0-9]*\) threads' "$work/err"
expect 0 'it waited for tokens, by 1 thread, in' embed -v --threads 1 --max-tokens 48 "$work/long"
check cmp "$work/out" "$work/few"
expect 0 '' embed -q --batch-tokens 48 --max-tokens 48 --json "$work/long"
check cmp <(grep -o '^{"index":[0-9]*' "$work/out" | cut -d: -f2) <(seq 0 399)
# An error is that of the first text that has one, once the batches before its own are written.
"$python" - "$work/long" "$work/bad" <<'END'
import sys
lines = open(sys.argv[1], encoding="utf-8").readlines()
lines[350] = "boat " * 200 + "\n"
lines[390] = "boat " * 300 + "\n"
open(sys.argv[2], "w", encoding="utf-8").writelines(lines)
END
expect 3 'bad, line 351: 202 tokens, and the limit is 48' embed -q --batch-tokens 48 --max-tokens 48 "$work/bad"
check test "$(wc -l <"$work/err")" -eq 1
check test "$(wc -l <"$work/out")" -gt 300
check cmp "$work/out" <(head -n "$(wc -l <"$work/out")" "$work/few")

# ---- .npy through a pipe ----
mkdir "$work/tmp"
export TMPDIR=$work/tmp
expect 0 '' embed -q -fnpy -o "$work/npy" "$work/utf8"
expect 0 "standard output can't be written twice.* in $work/tmp (TMPDIR): 256 B$" embed -fnpy "$work/utf8"
check cmp "$work/out" "$work/npy"
check test -z "$(ls "$work/tmp")"
for n in $(seq 200); do echo "water $n"; done >"$work/many"
expect 0 "in $work/tmp (TMPDIR): 128 B for each text$" embed --batch-tokens 48 -fnpy "$work/many"
check "$python" "$here/check_output.py" shape "$work/out" 200 32
expect 0 '' embed -q --batch-tokens 48 -fnpy "$work/many"
(ulimit -f 8 && trap '' XFSZ && embed --batch-tokens 48 -fnpy "$work/many" | cat >"$work/out") 2>"$work/err" # no room
check grep -q "can't write .npy rows to a temporary file in $work/tmp: .*TMPDIR" "$work/err"
check test ! -s "$work/out"
check test -z "$(ls "$work/tmp")"
TMPDIR=$work/nowhere expect 5 "can't create a temporary file in $work/nowhere.*No such file.*TMPDIR" embed -fnpy "$work/utf8"

# ---- what a storage type costs ----
unset TMPDIR
quality() { "$wherry" quality --model "$model" --device reference --quiet --truncate "$@"; }
expect 0 '' quality --dtype f16 --json
check json 'd["texts"] == d["compared"] == 200 and d["top"] == 10 and d["session"]["dtype"] == "f16"'
check json '0.9999 < d["least_cosine"] <= d["cosine"] <= 1.000001 and d["rank_correlation"] > 0.999 and d["top_overlap"] > 0.9'
cosine=$("$python" -c 'import json,sys; print(json.load(open(sys.argv[1]))["cosine"])' "$work/out")
expect 0 '' quality --dtype f32 --weights int8 --json
check json "d['session']['weights'] == 'int8' and 0.99 < d['cosine'] < $cosine"
expect 0 '' quality --dtype f32 --weights int8
check has 'f32, int8 weights  *200  *0\.99'
expect 2 'f32 is what others are compared with' quality --dtype f32
head -n 2 "$work/many" >"$work/two"
expect 3 'two has 2 texts: a rank correlation wants 3 at least' quality --weights int8 "$work/two"
expect 0 '' quality --weights int8 --json "$work/many"
check json 'd["texts"] == 200'
expect 2 'weights' "$wherry" quality --model "$model" --weights int4

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
