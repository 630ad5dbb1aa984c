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

printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
