#!/usr/bin/env bash
# Tests what the wherry command makes of files that are not as they should be: of a model, of the cache, of results.
# WHERRY: the command. It runs on the reference.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
embed() { "$wherry" embed -q --model "$model" --device reference "$@"; }

check "$python" "$here/make_model.py" "$model"
printf 'the boat\nwater, water!\n' >"$work/texts"

# ---- a model's optional files: only one that is certainly absent counts as absent ----
expect 0 '' embed "$work/texts"
for name in modules.json sentence_bert_config.json tokenizer_config.json tokenizer.json; do
    [ ! -e "$model/$name" ] || mv "$model/$name" "$work/kept"
    ln -s ../../blobs/0123 "$model/$name"
    expect 3 "$name is a link to ../../blobs/0123, which is missing: fetch the file again" embed "$work/texts"
    ln -sf "$name" "$model/$name"
    expect 3 "looking for .*$name failed" embed "$work/texts"
    rm "$model/$name"
    mkdir "$model/$name"
    expect 3 "$name is a folder, where a file is expected" embed "$work/texts"
    rmdir "$model/$name"
    [ ! -e "$work/kept" ] || mv "$work/kept" "$model/$name"
done
for name in config.json model.safetensors vocab.txt; do
    mv "$model/$name" "$work/kept"
    ln -s missing "$model/$name"
    expect 3 "$name is a link to missing, which is missing" embed "$work/texts"
    rm "$model/$name"
    mkdir "$model/$name"
    expect 3 "$name is a folder, where a file is expected" embed "$work/texts"
    rmdir "$model/$name"
    mv "$work/kept" "$model/$name"
done
expect 0 '' embed "$work/texts"

# A folder that may be listed but not looked into: root may, so another user asks.
other() { "$@"; }
[ "$(id -u)" -ne 0 ] || other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
chmod 755 "$work"
if other true 2>/dev/null && other test -x "$wherry"; then
    chmod 644 "$model"
    expect 3 'looking for .*modules.json failed: .*check the permissions\|config.json failed: .*check the permissions' \
        other "$wherry" embed -q --model "$model" --device reference "$work/texts"
    chmod 755 "$model"
else
    echo "skipped: a folder without permission (no other user can be taken on here)"
fi

# ---- values of weights that can't be computed with, and what becomes of large ones: in which file, in which line ----
bad=$work/bad
check "$python" "$here/make_model.py" "$bad" encoder.layer.1.output.dense.weight 70 nan
says='model.safetensors: tensor encoder.layer.1.output.dense.weight has the value nan at element 70 \[1, 6\]'
expect 3 "$says.*get it again" embed --model "$bad" "$work/texts"
expect 3 "$says.*get it again" embed --model "$bad" --dtype f16 "$work/texts"
expect 3 "$says.*get it again" "$wherry" verify -q --model "$bad" --device reference
check "$python" "$here/make_model.py" "$bad" encoder.layer.0.intermediate.dense.bias 5 1e5
says='tensor encoder.layer.0.intermediate.dense.bias has the value 100000 at element 5, beyond the range of 16-bit floats'
expect 0 '' embed --model "$bad" "$work/texts"
expect 4 "$says.*use bf16, or use f32" embed --model "$bad" --dtype f16 "$work/texts"
expect 4 "$says.*use bf16, or use f32" "$wherry" verify -q --model "$bad" --device reference --dtype f16
# Good weights, and an activation that is too large: of the third line's last token alone.
check "$python" "$here/make_model.py" "$bad" encoder.layer.1.output.LayerNorm.weight 10 25000
printf 'the boat\n\nwater, water!\n' >"$work/lines"
expect 0 '' embed --model "$bad" "$work/lines"
# The plan unfused stores what is pooled; a kernel that pools it in registers may find a mean that is in range.
for how in "none flash" "mean unfused"; do
    to=(--model "$bad" --pool "${how% *}" --plan "${how#* }" --format jsonl --dtype f16)
    says='the result of sequence 2 of the batch.* is not finite: .*so use bf16 or f32'
    expect 4 "lines, line 3: $says" embed "${to[@]}" "$work/lines"
    expect 4 "standard input, line 3: $says" embed "${to[@]}" <"$work/lines"
    # A batch of its own: the sequence is another one, the line is not.
    expect 4 "lines, line 3: ${says/2/0}" embed "${to[@]}" --batch-tokens 6 --max-tokens 6 "$work/lines"
done

# ---- what folders are ----
expect 0 '' "$wherry" models "$model"
check has 'BertModel .*WordPiece'
expect 0 '' "$wherry" models --json "$model"
check json "d['models'][0]['runs'] and d['models'][0]['layers'] == 2 and d['models'][0]['tokenizer'] == 'WordPiece'"
check json "d['models'][0]['f32']['device_bytes'] > d['models'][0]['f16']['device_bytes'] > 0"
expect 3 '' "$wherry" models "$model" "$work" "$work/nowhere"
check has 'BertModel'
check has "^$work does not run: .*has no config.json"
expect 3 '' "$wherry" models --json "$work"
check json "not d['models'][0]['runs'] and 'has no config.json' in d['models'][0]['reason']"
expect 2 'a folder is missing' "$wherry" models
expect 4 'no device' "$wherry" models --device nonesuch "$model"

# ---- the cache: nothing in it is used that others could have written ----
kernels=$("$wherry" devices -q --json 2>/dev/null | "$python" -c 'import json, sys
ids = [x["id"] for x in json.load(sys.stdin)["devices"] if x["usable"]]
print(next((i for i in ids if i.startswith("vulkan")), next((i for i in ids if ":" in i), "")))')
if [ -n "$kernels" ]; then
    short=(--model "$model" --device "$kernels" --batch 1 --seq 8 --roof no --repeats 5 --warm 0)
    mkdir "$work/shared"
    chmod 1777 "$work/shared"
    refused="others may write to $work/shared (mode 1777): chmod go-w it, or use another cache folder (--cache, cache_dir)"
    expect 0 "warning: no cache is used: $refused" "$wherry" bench -q -v "${short[@]}" --cache "$work/shared" --json
    check json "any('no cache is used: $refused' in n for n in str(d).split('\\n'))"
    check test -z "$(ls -A "$work/shared")"
    check test 1 -eq "$(grep -c 'no cache is used' "$work/err")"
    expect 3 "needs a cache folder; no cache is used: $refused" "$wherry" tune -q --model "$model" \
        --device "$kernels" --batch 1 --seq 8 --cache "$work/shared"
    (
        umask 0
        "$wherry" bench -q "${short[@]}" --cache "$work/made/kernels" >/dev/null
    )
    check test 700 = "$(stat -c %a "$work/made/kernels")"
    check test "$(stat -c %a "$work"/made/kernels/* | sort -u)" = 600
    : >"$work/precious"
    for file in "$work"/made/kernels/*; do ln -sf "$work/precious" "$file"; done
    expect 0 'is a link, which is not followed in a cache' "$wherry" bench -q -v "${short[@]}" --cache "$work/made/kernels"
    check test ! -s "$work/precious"
    for file in "$work"/made/kernels/*; do check test ! -L "$file"; done
else
    echo "skipped: the cache (no device with kernels)"
fi

# ---- results: the file that is replaced keeps its mode and owner, and is none that is read ----
for kept in 600 640 604; do
    rm -f "$work/result"
    : >"$work/result"
    chmod "$kept" "$work/result"
    expect 0 '' embed -o "$work/result" "$work/texts"
    check test "$kept" = "$(stat -c %a "$work/result")"
    check test -s "$work/result"
done
if [ "$(id -u)" -eq 0 ]; then
    chown 65534:65533 "$work/result"
    expect 0 '' embed -o "$work/result" "$work/texts"
    check test 65534:65533:604 = "$(stat -c %u:%g:%a "$work/result")"
fi
(
    umask 027
    embed -o "$work/fresh" "$work/texts"
)
check test 640 = "$(stat -c %a "$work/fresh")"
ln -s result "$work/link"
: >"$work/result"
expect 0 '' embed -o "$work/link" "$work/texts"
check test -L "$work/link"
check cmp "$work/result" "$work/fresh"
ln -s missing "$work/dangling"
expect 5 'dangling: it is a link whose target is missing' embed -o "$work/dangling" "$work/texts"
check test ! -e "$work/missing"
check test -L "$work/dangling"
# Before any work, so before the model is looked for.
expect 5 'dangling: it is a link whose target is missing' embed --model "$work/no model" -o "$work/dangling" "$work/texts"

cp "$work/texts" "$work/texts.kept"
ln -s texts "$work/texts-link"
ln "$work/texts" "$work/texts-twin"
for name in texts texts-link texts-twin; do
    expect 2 "is the same file as .*$name, which is read" embed -o "$work/texts" "$work/$name"
    expect 2 "is the same file as .*texts, which is read" embed -o "$work/$name" "$work/texts"
    expect 2 'is the same file as standard input, which is read' embed -o "$work/$name" <"$work/texts"
    expect 2 'is the same file as standard input, which is read' embed -o "$work/$name" - <"$work/texts"
done
check cmp "$work/texts" "$work/texts.kept"
cp -R "$model" "$work/model.kept"
ln -s model/model.safetensors "$work/weights"
for name in config.json model.safetensors vocab.txt; do
    expect 2 "is the same file as .*$name, which is read" embed -o "$model/$name" "$work/texts"
done
expect 2 'is the same file as .*model.safetensors, which is read' embed -o "$work/weights" "$work/texts"
check diff -r "$model" "$work/model.kept"
expect 0 '' embed -o "$model/embeddings.txt" "$work/texts" # what is not read may lie there
expect 0 '' embed -o "$model/embeddings.txt" "$work/texts"
printf '{}\n' >"$work/record.json"
cp "$work/record.json" "$work/record.kept"
for command in report 'report --check' "diff $work/texts"; do
    # shellcheck disable=SC2086 # several words
    expect 2 'record.json is the same file as .*record.json, which is read' "$wherry" $command "$work/record.json" -o "$work/record.json"
done
expect 2 'is the same file as .*record.json, which is read' "$wherry" analyze --config bert-base --device-spec "h200,$work/record.json#1" \
    -o "$work/record.json"
check cmp "$work/record.json" "$work/record.kept"

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
