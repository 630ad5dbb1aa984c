#!/usr/bin/env bash
# Tests the wherry command from outside: options, exit codes, every output format, bad input, full disks, closed pipes.
# WHERRY: the command. WHERRY_DEVICE: the device it runs on, by default the reference.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
device=${WHERRY_DEVICE:-reference}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
embed() { "$wherry" embed --model "$model" --device "$device" "$@"; }

check "$python" "$here/make_model.py" "$model"
printf 'the boat\nwater, water!\n\na long text of many letters\n' >"$work/texts"

# ---- options ----
expect 2 'command is missing' "$wherry"
expect 2 'did you mean "embed"' "$wherry" embd
expect 2 'no command "qqqqqqqq"' "$wherry" qqqqqqqq
expect 0 '' "$wherry" --help
check has 'wherry help embed'
expect 0 '' "$wherry" help
expect 0 '' "$wherry" --version
check has '^wherry [0-9]*\.[0-9]*\.[0-9]* '
expect 2 'did you mean --model' "$wherry" embed --modle x
expect 2 'did you mean --max-tokens' "$wherry" embed --max=3
expect 2 'no option --zzzzzzzz' "$wherry" embed --zzzzzzzz
expect 2 'no option -Z' "$wherry" embed -Z
expect 2 '--replays is an option of wherry verify' "$wherry" embed --replays 3
expect 2 'must be K/N' "$wherry" tune --config minilm-l6 --device reference --compile-share 3/2
expect 2 'reference is no OpenCL device' "$wherry" tune --config minilm-l6 --device reference --jobs 2
expect 2 '--model needs a value' "$wherry" embed --model
expect 2 '--quiet takes no value' "$wherry" embed --quiet=yes
expect 2 'must be one of: flash paper unfused' "$wherry" embed --plan all
expect 2 'must be one of: flash paper unfused' "$wherry" embed --plan FILE
expect 2 'must be one of: f32 f16' "$wherry" embed --dtype=f64
expect 2 'must be a whole number from 2' "$wherry" embed --max-tokens 1
expect 2 'must be a whole number' "$wherry" embed --max-tokens 12x
expect 2 'must be a whole number' "$wherry" embed --max-tokens -5
expect 2 'must be a whole number' "$wherry" embed --max-tokens 99999999999999999999999
expect 2 'must be seconds' "$wherry" bench --warm soon
expect 2 'with commas between' "$wherry" bench --lengths 5,,7
expect 2 'with commas between' "$wherry" bench --lengths 5,0
expect 2 'not a size' "$wherry" bench --memory-budget 5Q
for threads in 0 -1 10000 257 two 1x ''; do
    expect 2 'must be a whole number from 1 to 256' "$wherry" bench --threads "$threads"
done
expect 2 '--threads is an option of wherry embed, not of wherry devices' "$wherry" devices --threads 2
for command in embed bench 'bench layer' 'bench gemm' 'bench attention' 'bench norm' verify 'verify layer' demo roof; do
    # shellcheck disable=SC2086 # two words
    expect 0 '' "$wherry" $command --help
    check has '--threads N'
done
expect 2 'takes one file' "$wherry" rerank one two
expect 2 'takes no operand' "$wherry" devices here
expect 2 'takes no operand' "$wherry" bench layers
expect 2 'an option of wherry bench layer' "$wherry" bench --phase both
expect 2 'must be a number from 0 to 0.99' "$wherry" bench layer --dropout 1
expect 2 'must be one of: paper all least' "$wherry" verify layer --save most
expect 2 'must be one of: forward backward both' "$wherry" bench layer --phase all
expect 2 'a model is missing' "$wherry" embed "$work/texts"
expect 2 'a model is missing' "$wherry" bench
expect 2 'random zeros' "$wherry" roof --data ones
expect 4 'the reference has no kernels' "$wherry" roof --device reference
expect 2 'a size is missing: wherry bench gemm MxNxK' "$wherry" bench gemm
expect 2 'no size of this piece: it is MxNxK' "$wherry" bench gemm 64x64x64 64x64
expect 2 'no size of this piece: it is BxHxLxD' "$wherry" bench attention 1x2x0x64
expect 2 'no size of this piece: it is RxN' "$wherry" bench norm 64x64x
expect 2 'measures forward, dx, dw and epilogue' "$wherry" bench gemm --only forward,dz 8x8x8
expect 4 'the reference has no kernels' "$wherry" bench norm --device reference 8x8
# The same as --kernels, from before that took its name.
expect 4 'products by wgmma are not of f32: use dtype f16' "$wherry" verify layer --gemm wgmma --device reference --config minilm-l6 --batch 1 --seq 8
expect 2 'not both' "$wherry" bench --model "$model" --config bert-base
expect 2 'not both' embed --normalize --no-normalize "$work/texts"
expect 2 'only --format jsonl' embed --pool none --format npy "$work/texts"
expect 2 'needs --format jsonl' embed --with-text "$work/texts"
expect 2 'another format' embed --json --format npy "$work/texts"
expect 2 'JSONL has "pair"' embed --pairs --input jsonl "$work/texts"
expect 2 'minilm-l6.*xlmr-large.*electra-small' "$wherry" analyze --config bert-giant
for name in xlmr-large distilbert-base electra-small mpnet-base; do expect 0 '' "$wherry" analyze --config $name --encoder --inference; done
check has 'scores_bias'
for command in devices models embed analyze roof bench 'bench --latency' 'bench layer' 'bench train' 'bench gemm' 'bench attention' 'bench norm' 'bench layouts' tune 'tune layer' report \
    diff verify 'verify layer' demo merge; do
    # shellcheck disable=SC2086 # one word or two
    expect 0 '' "$wherry" help $command
    cp "$work/out" "$work/help"
    check grep -q '^Exit codes:' "$work/help"
    check grep -q '^Examples:' "$work/help"
    check awk 'length > 90 { exit 1 }' "$work/help"
    # shellcheck disable=SC2086
    expect 0 '' "$wherry" $command --help
    check cmp "$work/out" "$work/help"
    if [ -f "$here/../../docs/wherry.1" ]; then # the manual names every option
        sed 's|\\||g' <"$here/../../docs/wherry.1" >"$work/manual"
        while read -r option; do
            check grep -q -w -e "$option" "$work/manual"
        done < <(grep -o -e '^  [ -][a-z ][, ] --[a-z-]*' "$work/help" | grep -o -e '--[a-z-]*')
    fi
done

# ---- devices ----
expect 0 '' "$wherry" devices --quiet
check has '^reference '
expect 0 '' "$wherry" devices --quiet --json
check json 'any(x["id"] == "reference" and x["usable"] for x in d["devices"])'
check json 'all(x["usable"] or x["reason"] for x in d["devices"])'
expect 0 '' "$wherry" devices --quiet --json -o "$work/devices.json"
check "$python" -m json.tool "$work/devices.json"

# ---- embed: formats ----
expect 0 '' embed -q "$work/texts"
cp "$work/out" "$work/text"
check "$python" "$here/check_output.py" shape "$work/text" 4 32
expect 0 '' embed -q --format jsonl "$work/texts"
cp "$work/out" "$work/jsonl"
expect 0 '' embed -q --json "$work/texts"
check cmp "$work/out" "$work/jsonl"
expect 0 '' embed -q --format=npy "$work/texts"
cp "$work/out" "$work/npy-pipe"
expect 0 '' embed -q -fnpy -o "$work/npy" "$work/texts"
check cmp "$work/npy" "$work/npy-pipe"
check "$python" "$here/check_output.py" shape "$work/npy" 4 32
check "$python" "$here/check_output.py" same "$work/text" "$work/jsonl" "$work/npy"
expect 0 '' embed -q - <"$work/texts"
check cmp "$work/out" "$work/text"
expect 0 '' embed -q -- "$work/texts"
check cmp "$work/out" "$work/text"
expect 0 '' embed -q -o "$work/copy" "$work/texts"
check cmp "$work/copy" "$work/text"
ln -s copy "$work/link"
expect 0 '' embed -q --json -o "$work/link" "$work/texts"
check test -L "$work/link"
check cmp "$work/copy" "$work/jsonl"
expect 0 '' embed -q --pool none --json "$work/texts"
check "$python" -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == 4 and rows[2]["tokens"] == 2
assert all(len(r["embedding"]) == r["tokens"] and all(len(v) == 32 for v in r["embedding"]) for r in rows)' "$work/out"
for pool in mean cls max pooler; do
    expect 0 '' embed -q --pool $pool --normalize --json "$work/texts"
    check "$python" -c '
import json, sys
for line in open(sys.argv[1]):
    assert abs(sum(v * v for v in json.loads(line)["embedding"]) - 1) < 1e-2' "$work/out"
done
for plan in paper unfused; do
    expect 0 '' embed -q --plan $plan --dtype f32 "$work/texts"
    check "$python" "$here/check_output.py" shape "$work/out" 4 32
done
expect 0 '' embed -q --dtype f16 "$work/texts"

# ---- embed: batches do not matter ----
for n in $(seq 60); do echo "water boat number $n, the letters $n$n"; done >"$work/many"
expect 0 '' embed -q "$work/many"
cp "$work/out" "$work/many-text"
check "$python" "$here/check_output.py" shape "$work/many-text" 60 32
expect 0 '' embed -q --batch-tokens 48 "$work/many"
check cmp "$work/out" "$work/many-text"
expect 0 '' embed -q --batch-tokens 333 --format npy "$work/many"
check "$python" "$here/check_output.py" same "$work/out" "$work/many-text"
head -n 1 "$work/many" >"$work/one"
expect 0 '' embed -q "$work/one"
head -n 1 "$work/many-text" >"$work/one-text"
check cmp "$work/out" "$work/one-text"

# ---- embed: input ----
printf 'the boat\r\nwater, water!\r\n\r\na long text of many letters' >"$work/crlf"
expect 0 '' embed -q "$work/crlf"
check cmp "$work/out" "$work/text"
printf '\357\273\277the boat\n' >"$work/bom"
expect 0 '' embed -q "$work/bom"
check "$python" "$here/check_output.py" shape "$work/out" 1 32
printf '{"text": "the boat", "id": "a\\"b"}\n\n{"text": "the", "pair": "boat", "id": 7}\n{"text": ""}\n' >"$work/in.jsonl"
expect 0 '' embed -q --input jsonl --json --with-text "$work/in.jsonl"
check "$python" -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert [r.get("id") for r in rows] == ["a\"b", 7, None]
assert [r["text"] for r in rows] == ["the boat", "the", ""]
assert [r["tokens"] for r in rows] == [4, 5, 2]' "$work/out"
cp "$work/out" "$work/pair.jsonl"
printf 'the\tboat\n' >"$work/pairs"
expect 0 '' embed -q --pairs --json "$work/pairs"
check "$python" -c '
import json, sys
pair = json.loads(open(sys.argv[1]).read())["embedding"]
assert json.loads(open(sys.argv[2]).read().splitlines()[1])["embedding"] == pair' "$work/out" "$work/pair.jsonl"
expect 3 'line 1: no tab' embed --pairs "$work/texts"
expect 3 'line 1: not valid JSON' embed --input jsonl "$work/texts"
echo '{"pair": "x"}' >"$work/bad.jsonl"
expect 3 'line 1: .*"text"' embed --input jsonl "$work/bad.jsonl"
printf '{"text": "a"}\n{"text": "a", "text": "b"}\n' >"$work/bad.jsonl"
expect 3 'line 2: not valid JSON (column [0-9]*: duplicate' embed --input jsonl "$work/bad.jsonl"
echo '{"text": "a", "pair": 3}' >"$work/bad.jsonl"
expect 3 '"pair" is not a string' embed --input jsonl "$work/bad.jsonl"
echo '["text"]' >"$work/bad.jsonl"
expect 3 'an object with' embed --input jsonl "$work/bad.jsonl"
: >"$work/empty"
expect 3 'has no texts' embed "$work/empty"
expect 3 'standard input has no texts' embed </dev/null
expect 3 "can't open .*missing: No such file" embed "$work/missing"
expect 3 "can't read .*directory" embed "$work"
printf 'bad \377\376 bytes \303( and \355\240\200 here\n' >"$work/invalid"
expect 0 '' embed -q --json --with-text "$work/invalid"
check "$python" -c '
import json, sys
text = json.loads(open(sys.argv[1], encoding="utf-8").read())["text"]
assert text == "bad \ufffd\ufffd bytes \ufffd( and \ufffd\ufffd\ufffd here", text' "$work/out"
printf 'bad \357\277\275\357\277\275 bytes \357\277\275( and \357\277\275\357\277\275\357\277\275 here\n' >"$work/replaced"
embed -q "$work/invalid" >"$work/a" 2>"$work/err"
embed -q "$work/replaced" >"$work/b" 2>>"$work/err"
check cmp "$work/a" "$work/b"
printf 'the \0 boat\n' >"$work/nul"
expect 0 '' embed -q "$work/nul"
check "$python" "$here/check_output.py" shape "$work/out" 1 32
head -c 100000 /dev/zero | tr '\0' 'a' >"$work/huge" # one word, one unknown token
expect 0 '' embed -q "$work/huge"

# ---- embed: where the time goes ----
expect 0 '^to the first result  ' embed -q --timings "$work/texts"
check grep -q '^run  ' "$work/err"
expect 0 'first result' embed --timings --device cpu "$work/texts"
check "$python" -c 'import sys; assert not any(l.startswith(("list vulkan", "list opencl")) for l in open(sys.argv[1]))' "$work/err"
expect 0 '"parts"' embed -q --timings --json "$work/texts"
check "$python" -c '
import json, sys
whole = json.loads(open(sys.argv[1], encoding="utf-8").read())
for key in ("seconds", "processor_seconds"):
    parts = [part[key] for part in whole["parts"]]
    assert min(parts) >= 0 and abs(sum(parts) - whole[key]) < 1e-6, whole
assert {part["part"] for part in whole["parts"]} >= {"weights", "run", "rest"}, whole
beside = {part["part"]: part["seconds"] for part in whole["beside"]}
assert set(beside) == {"model files", "tokenizer"} and min(beside.values()) > 0, whole' "$work/err"
# Of a model and a device that are both not there, the model is told.
expect 3 'no config.json' embed -q --model "$work/nowhere" --device nothing "$work/texts"
check test "$(wc -l <"$work/err")" = 1

# ---- embed: limits ----
for n in $(seq 60); do printf 'water '; done >"$work/long"
printf 'the boat\n' | cat - "$work/long" >"$work/long2"
expect 3 'line 2: 62 tokens, and the limit is 48.*--truncate' embed "$work/long2"
expect 0 '' embed -q --truncate --json "$work/long2"
check grep -q '"tokens":48,' "$work/out"
expect 0 '' embed -q --truncate --max-tokens 10 --json "$work/long2"
check grep -q '"tokens":10,' "$work/out"
expect 3 'line 2: 62 tokens, and the limit is 10' embed --max-tokens 10 "$work/long2"
expect 2 'takes at most 48' embed --max-tokens 49 "$work/texts"
expect 2 'less than the longest text' embed --batch-tokens 20 "$work/texts"
expect 0 '' embed -q --batch-tokens 20 --max-tokens 20 --truncate "$work/texts"

# ---- embed: output that can't be written ----
echo precious >"$work/kept"
expect 3 'line 2: 62 tokens' embed -o "$work/kept" --batch-tokens 48 "$work/long2"
check grep -q precious "$work/kept"
check test -z "$(find "$work" -name '*.part')"
expect 5 "can't create .*No such file" embed -o "$work/nowhere/out" "$work/texts"
if [ -w /dev/full ]; then
    expect 5 "can't write /dev/full: No space left" embed -o /dev/full "$work/texts"
    expect 5 "can't write /dev/full: No space left" embed --format npy -o /dev/full "$work/texts"
    embed "$work/texts" >/dev/full 2>"$work/err"
    check test $? -eq 5
    check grep -q "can't write standard output: No space left" "$work/err"
    for words in 'devices' 'analyze --config bert-base' '--help' 'help embed'; do
        # shellcheck disable=SC2086 # the words are the arguments
        "$wherry" $words >/dev/full 2>"$work/err"
        check test $? -eq 5
    done
fi
for n in $(seq 40); do cat "$work/many"; done >"$work/lots"
embed "$work/lots" 2>"$work/err" | head -n 1 >"$work/out"
check test "${PIPESTATUS[0]}" -eq 5
check grep -q 'its reader closed it' "$work/err"
(ulimit -f 8 && trap '' XFSZ && embed --format npy -o "$work/kept" "$work/lots") >"$work/out" 2>"$work/err"
check test $? -eq 5
check grep -q "can't write .*kept: File too large; nothing was replaced" "$work/err"
check grep -q precious "$work/kept"
check test -z "$(find "$work" -name '*.part')"
mkfifo "$work/fifo"
cat "$work/fifo" >"$work/from-fifo" &
expect 0 '' embed -q --format npy -o "$work/fifo" "$work/texts"
wait
check cmp "$work/from-fifo" "$work/npy"

# ---- embed: interrupted ----
mkfifo "$work/slow"
"$wherry" embed --model "$model" --device "$device" -o "$work/kept" "$work/slow" 2>"$work/err" &
child=$!
exec 9>"$work/slow"
echo 'the boat' >&9
sleep 1
kill -TERM "$child"
wait "$child"
check test $? -eq 130
exec 9>&-
check grep -q interrupted "$work/err"
check grep -q precious "$work/kept"

# ---- devices and models that are not there ----
expect 4 'nonesuch' "$wherry" embed --model "$model" --device nonesuch "$work/texts"
expect 4 'vulkan:99' "$wherry" bench --model "$model" --device vulkan:99
expect 3 'nowhere' "$wherry" embed --model "$work/nowhere" "$work/texts"
expect 3 . "$wherry" analyze --model "$work/empty"
breaking() { # NAME COMMAND...: a copy of the model, broken by the command in its folder
    local name=$1
    shift
    cp -r "$model" "$work/$name"
    (cd "$work/$name" && "$@")
    expect 3 "$name" "$wherry" embed --model "$work/$name" --device "$device" "$work/texts"
}
breaking truncated truncate -s 1000 model.safetensors
breaking no-weights rm model.safetensors
breaking no-config rm config.json
breaking no-tokenizer rm vocab.txt
breaking wrong-size sed -i 's/"hidden_size": 32/"hidden_size": 64/' config.json
breaking other-kind sed -i 's/"bert"/"llama"/; s/BertModel/LlamaModel/' config.json
breaking no-json sed -i 's/{/{{/' config.json
expect 4 . embed --memory-budget 1K "$work/texts"

# ---- analyze ----
expect 0 '' "$wherry" analyze --config bert-large --batch 8 --seq 512
check "$python" -c '
import sys
paper = """24 0.012 4 0.188 4 8 0.004 0.004 0.004 0.027 32 0.016 - 0.016 32 0.004 0.004 0.004 0.027
    0.016 0.035 0.004 32 32 0.004 0.016 - 0.016 32 32 0.004 0.016 0.035
    0.004 0.004 8 8 4 4 0.156 4 4 24 24 0.012 0.004""".split()
rows = [line.split() for line in open(sys.argv[1])]
rows = [r for r in rows if len(r) == 9 and r[0].isdigit()]
assert [int(r[0]) for r in rows] == list(range(1, 47)), rows
assert [r[2] for r in rows] == ["fwd"] * 19 + ["bwd"] * 27, rows
assert [r[5] for r in rows] == paper, [r[5] for r in rows]' "$work/out"
check awk 'length > 84 { exit 1 }' "$work/out"
expect 0 '' "$wherry" analyze --config bert-large --batch 8 --seq 512 --plan all --json
check json '[o["paper_gflop"] for o in d["rows"]][:4] == ["24", "0.012", "4", "0.188"]'
check json 'len(d["rows"]) == 46 and len(d["operators"]) == 48'
check json '[p["plan"] for p in d["plans"]] == ["flash", "paper", "unfused"] and d["plans"][2]["saved"] == 0'
check json 'd["plans"][0]["saved"] > d["plans"][1]["saved"] > 0.15'
check json 'all(sum(g["flops"] for g in p["groups"]) == p["flops"] >= d["flops"] for p in d["plans"])'
check json 'sorted(m for g in d["plans"][1]["groups"] for m in g["members"]) == sorted(o["name"] for o in d["operators"])'
expect 0 '' "$wherry" analyze --config bert-large --save least --json
cp "$work/out" "$work/least"
expect 0 '' "$wherry" analyze --config bert-large --json
check "$python" -c '
import json, sys
kept = [json.load(open(f))["plans"][0]["bytes_kept"] for f in sys.argv[1:]]
assert kept[0] < kept[1], kept' "$work/least" "$work/out"
expect 2 'for training' "$wherry" analyze --config bert-large --save all --inference
expect 0 '' "$wherry" analyze --model "$model"
check has 'whole encoder'
expect 0 '' "$wherry" analyze --model "$model" --all --training
check has 'layer.1.norm2'
expect 0 '' "$wherry" analyze --config bert-base --dot
check has '^digraph'

# ---- analyze: the paper's figures, its rule, what if ----
expect 0 '' "$wherry" analyze --paper
check test "$(grep -c '^ *[0-9]* .* [TSE] ' "$work/out")" -eq 92
check has '1216.39'
check has '939.52  *22.76 %'
check has '^BEI .* 83$'
check awk 'length > 90 { exit 1 }' "$work/out"
expect 0 '' "$wherry" analyze --paper --json
check json 'all(r["paper"]["same_flop"] for r in d["rows"])'
check json '[r["row"] for r in d["rows"] if not r["paper"]["same_words"]] == [19, 36, 39, 40, 44]'
check json 'all(k["mue_low"] - 0.5 < k["mue_printed"] <= k["mue_high"] + 0.5 for k in d["kernels"])'
check json 'len(d["kernels"]) == 14 and len(d["rows_96x128"]) == 46'
expect 2 'shapes of its own' "$wherry" analyze --paper --batch 4
expect 0 '' "$wherry" analyze --layouts
check has '^QKV  *qphi,ibj->qphbj  *3072  *4096  *1024  *1  *17280  *96  *8  *8  *48  *-$'
check has '^scores+context_dx1  *bjhp,bkhp->bhjk  *512  *512  *64  *128  *13824  *128  *-  *32  *8  *96$'
check has '^BDRLN .* 1679616  *1679616  *1679616'
check test "$(grep -c '\*$' "$work/out")" -eq 0
check awk 'length > 110 { exit 1 }' "$work/out"
expect 0 '' "$wherry" analyze --layouts --plan paper --json
check json 'len(d["paper"]["contractions"]) == 24 and all(x["same"] for x in d["paper"]["contractions"])'
check json 'len(d["paper"]["kernels"]) == 12 and all(x["same"] for x in d["paper"]["kernels"])'
check json '{g["name"]: g["configurations"] for g in d["plans"][0]["groups"]}["bei"] == 1944'
check json 'all(o["packed"] or o["by_sequence"] for o in d["contractions"])'
expect 0 '' "$wherry" analyze --model "$model" --layouts --plan all --training --qkv-products 2 --json
check json '"paper" not in d and [p["plan"] for p in d["plans"]] == ["flash", "paper", "unfused"]'
check json '[o["stack_first"] for o in d["contractions"] if o["operators"] == ["qk"]] == [8]'
expect 2 'shapes of its own' "$wherry" analyze --paper --layouts
expect 2 'goes without' "$wherry" analyze --layouts --dot
expect 0 '' "$wherry" analyze --config bert-large --fuse auto
check has '12 of the 14 uses'
check has '^lin2_bias_dw+ff_residual_dx+norm1_dw  *bwd  *EBSB'
check test "$(grep -c '^Decisions' "$work/out")" -eq 0
expect 0 '' "$wherry" analyze --config bert-large --fuse auto --explain
check has 'fused (bji, map to map): 1 launch and 16.78 MB less'
check has 'apart, a contraction takes in nothing but a scale'
expect 0 '' "$wherry" analyze --model "$model" --training --fuse auto --explain --json
check json 'd["after"]["launches"] == d["before"]["launches"] - sum(x["accepted"] for x in d["decisions"])'
expect 0 '' "$wherry" analyze --config bert-large --plan unfused --fuse lin2_dropout+lin2_residual --json
check json 'd["legal"] and d["decisions"][0]["bytes_saved"] == 16777216 and d["after"]["launches"] == 47'
expect 0 '' "$wherry" analyze --config bert-large --plan paper --fuse bsb+blnrd2
check has 'other reductions: over bj and over i'
check has '^Not legal'
expect 0 '' "$wherry" analyze --config bert-large --plan paper --split ebsb
check has '^after  *34 '
expect 2 'no group "nonsuch"' "$wherry" analyze --config bert-large --split nonsuch
expect 2 'one plan' "$wherry" analyze --config bert-large --fuse lin1+lin2 --plan all
expect 2 'single operators' "$wherry" analyze --config bert-large --fuse auto --plan paper
expect 2 'what --fuse does' "$wherry" analyze --config bert-large --explain
expect 2 'not both' "$wherry" analyze --config bert-base --dot --json
expect 2 'draws one plan' "$wherry" analyze --config bert-base --dot --plan all
expect 2 'takes at most 48' "$wherry" analyze --model "$model" --seq 49

# ---- bench, verify ----
expect 0 '' "$wherry" bench -q --model "$model" --device "$device" --lengths 5,1,30 --repeats 3 --warm 0 --plan all
check has 'plan unfused'
expect 0 '' "$wherry" bench -q --model "$model" --device "$device" --batch 2 --seq 9 --repeats 3 --warm 0 --json
check json 'd["workload"]["tokens"] == 18 and d["plans"][0]["step"]["host"]["median"] > 0'
check json 'len(d["ops"]) == d["plans"][0]["groups"] and {o["phase"] for o in d["ops"]} == {"encode"}'
check json 'd["run"]["command_line"][1] == "bench" and d["run"]["utc"].endswith("Z")'
expect 2 '--caches says which caches' "$wherry" bench --model "$model" --cache cold
expect 2 'too long' "$wherry" bench --model "$model" --device "$device" --lengths 5,49
expect 0 '' "$wherry" verify -q --model "$model" --device "$device" --lengths 3,20,1 --replays 3 --plan all --dtype f32
check has '^passed: '
expect 0 '' "$wherry" verify -q --model "$model" --device "$device" --replays 2 --json
check json 'd["passed"] and d["results"][0]["failed"] == 0 and d["results"][0]["groups"]'

# ---- bench layer, verify layer: on the reference, which trains without any driver ----
layer() { # COMMAND OPTION...: a layer as small as it gets
    local command=$1
    shift
    "$wherry" "$command" layer -q --device reference --config bert-base --hidden 16 --heads 2 --feed-forward 24 "$@"
}
expect 0 '' layer bench --batch 2 --seq 5 --repeats 2 --warm 0 --plan all
check has '^plan flash, f32: medians of 2'
check has '^plan unfused'
check has '1 layer, post-LN, relu, dropout 0.1, saved: default'
check has '^attention_dx '
check has '^all backward '
check awk 'length > 80 { exit 1 }' "$work/out"
expect 0 '' layer bench --lengths 7,1,4 --repeats 2 --warm 0 --dtype f16 --save least --dropout 0 --layers 2 \
    --pre-layernorm --activation gelu --json
check json 'd["workload"]["lengths"] == [7, 1, 4] and d["workload"]["tokens"] == 12 and not d["ceilings"]'
check json 'd["workload"]["training"] == {"qkv_products": 1, "layers": 2, "pre_layernorm": True, "activation": "gelu", "dropout": 0.0, "save": "least"}'
check json '[d["workload"]["model"][k] for k in ("hidden", "heads", "feed_forward")] == [16, 2, 24]'
check json 'all(p["host_seconds"] > 0 and p["device_seconds"] > 0 for p in d["plans"][0]["phases"].values())'
check json 'sorted(d["plans"][0]["phases"]) == ["backward", "both", "forward"]'
check json 'len(d["ops"]) == d["plans"][0]["groups"] < d["plans"][0]["launches"]'
check json 'all(o["warm"]["p05"] <= o["warm"]["median"] <= o["warm"]["p95"] for o in d["ops"])'
check json 'not any("dropout" in o["id"] for o in d["ops"])'
for phase in forward backward; do
    expect 0 '' layer bench --batch 1 --seq 3 --repeats 1 --warm 0 --phase $phase --json
    check json 'list(d["plans"][0]["phases"]) == ["'$phase'"] and {o["phase"] for o in d["ops"]} == {"'$phase'"}'
done
saved() { # SAVE: prints the bytes
    layer bench --batch 1 --seq 9 --repeats 1 --warm 0 --save "$1" --plan paper --json |
        "$python" -c 'import json,sys; print(json.load(sys.stdin)["plans"][0]["saved_bytes"])'
}
check test "$(saved least)" -lt "$(saved paper)"
check test "$(saved paper)" -lt "$(saved all)"
expect 0 '' "$wherry" bench layer -q --model "$model" --device reference --batch 1 --repeats 1 --warm 0
check has '2 layers in training, 1 x 48'
check has '^2 layers, post-LN, gelu'
expect 2 'a --model has its own' "$wherry" bench layer --model "$model" --layers 3
expect 2 'a model is missing' "$wherry" bench layer
expect 2 'not a multiple of the number of heads' "$wherry" bench layer --config bert-base --heads 5
expect 2 'not both' "$wherry" bench layer --config bert-base --batch 2 --lengths 3
expect 2 'too long' "$wherry" bench layer --model "$model" --seq 49
expect 0 '' layer verify --replays 2 --plan all --dtype all --lengths 3,7,1
check has '1 layer, post-LN, relu, dropout 0.1, saved: default'
check has '^passed: '
check awk 'length > 80 && NR > 1 { exit 1 }' "$work/out"
for save in paper all least; do
    expect 0 '' layer verify --replays 1 --save $save --batch 2 --seq 4 --layers 2 --pre-layernorm --json
    check json 'd["passed"] and d["training"]["save"] == "'$save'" and d["lengths"] == [4, 4]'
done
expect 0 '' layer verify --replays 1 --dropout 0 --activation gelu_tanh
check has 'gelu_tanh, dropout 0,'
expect 0 '' layer verify --replays 1 --lengths 3,7 --layouts w_lin1=iu,w_qkv=iqhp --json
check json 'd["passed"] and d["results"][0]["session"]["layouts"] == "w_qkv=iqhp,w_lin1=iu"'
expect 0 '' layer verify --replays 1 --lengths 3,7 --layouts qkv=bjhqp --plan all
expect 2 'as one product, not for 3' layer verify --layouts qkv=bjhqp --qkv-products 3
expect 2 'no order of the letters of w_lin1' layer verify --layouts w_lin1=ix
expect 2 'its orders are qhpi, iqhp, hqpi, ihqp' layer verify --layouts w_qkv=hpqi
expect 2 'not used here' layer verify --layouts w_pooler=io
expect 0 '' layer verify --replays 1 --lengths 3,7 --layouts w_lin2=ui+iu,w_lin1=ui+iu --plan all --json
check json '[r["session"]["layouts"] for r in d["results"]] == ["w_lin1=ui+iu,w_lin2=ui+iu"] * 3 and d["passed"]'
expect 0 '' layer bench --batch 2 --seq 5 --repeats 1 --warm 0 --layouts w_lin1=ui+iu
check has '^layouts: w_lin1=ui+iu'
check has '^w_lin1_transpose  E '
expect 2 'after the "+": w_lin1=ui+iu' layer verify --layouts w_lin1=ui+ui
expect 2 'no order of the letters of w_lin1' layer verify --layouts w_lin1=ui+
expect 2 'qkv is no weight: give it one order' layer verify --layouts qkv=bjhqp+bjqhp
expect 2 'as one product, not for 3: give it one order' layer verify --layouts w_qkv=qhpi+iqhp --qkv-products 3
expect 2 'in inference give each one order' "$wherry" verify --model "$model" --device reference --layouts w_lin1=ui+iu
expect 0 '' "$wherry" verify layer -q --model "$model" --device reference --replays 1 --lengths 4,2
check has '^passed: '

# ---- demo ----
expect 2 'a file with sentences' "$wherry" demo --model "$model"
expect 0 '' "$wherry" demo -q --model "$model" --device "$device" "$work/texts"
check has '^Nearest sentences'
check has 'tokens/s'
check awk 'length > 80 { exit 1 }' "$work/out"
# Without a GPU the host's cores are first; of several CPU drivers the one that draws is the last choice.
best=$("$wherry" devices --json -q | "$python" -c '
import json, sys
def rank(d):
    if d["id"] == "reference":
        return 5
    if d["id"] == "cpu":
        return 2
    return {"CPU": 4 if "llvmpipe" in d["driver"] else 3, "other": 1}.get(d["type"], 0)
print(min((d for d in json.load(sys.stdin)["devices"] if d["usable"]), key=rank)["id"])')
expect 0 '' "$wherry" demo -q --model "$model" "$work/texts"
check has "^Using $best (\*)"
# Threads are the host's cores'; results have the same bits with any number, and the record says how many there were.
expect 2 "--threads is the device cpu's, and this is reference: leave it out, or give --device cpu" "$wherry" bench \
    --model "$model" --device reference --threads 1
"$wherry" devices --json -q >"$work/devices"
if grep -q '"id": "cpu"' "$work/devices"; then
    for threads in 1 2 256; do
        expect 0 '' "$wherry" embed --model "$model" --device cpu --threads $threads "$work/texts"
        [ $threads != 1 ] || cp "$work/out" "$work/one_thread"
        check cmp "$work/one_thread" "$work/out"
    done
    expect 0 '' "$wherry" bench -q --model "$model" --device cpu --threads=1 --batch 1 --seq 4 --repeats 1 --warm 0 --roof no --json
    check json 'd["devices"][0]["name"].endswith(", 1 thread)")'
    expect 0 '' "$wherry" bench -q --model "$model" --device cpu --threads 256 --batch 1 --seq 4 --repeats 1 --warm 0 --roof no --json
    check json 'd["devices"][0]["name"] in open(sys.argv[1][:-3] + "devices").read()' # as without the option
fi
expect 3 'has no sentences' "$wherry" demo --model "$model" --device "$device" "$work/empty"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
