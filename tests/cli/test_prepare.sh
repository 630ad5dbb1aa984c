#!/usr/bin/env bash
# wherry prepare: what it writes of programs, with no device at all, and what it tells of a device's kernels.
# WHERRY: the command.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"

# ---- programs of devices that are not here ----
small=(--config minilm-l6 --layers 1 --batch 1 --seq 16)
if "$wherry" prepare "${small[@]}" --target nothing --dump "$work/x" 2>&1 | grep -q intel-bmg; then
    expect 0 '' "$wherry" prepare "${small[@]}" --plan all --dtype all --target intel-bmg --dump "$work/bmg"
    cp "$work/bmg/programs.json" "$work/out"
    check json "len(d['programs']) > 15 and d['device']['compiles_only'] and not d['device']['usable']"
    check "$python" - "$work/bmg" <<'P'
import json, os, sys
folder = sys.argv[1]
programs = json.load(open(os.path.join(folder, "programs.json")))["programs"]
assert len({p["hash"] for p in programs}) == len(programs)
assert {p["dtype"] for p in programs} == {"f32", "f16"}
files = {"programs.json"}
for p in programs:
    files |= {p["file"], p["options"]}
    source, options = (open(os.path.join(folder, p[k])).read() for k in ("file", "options"))
    assert "#include" not in source and p["function"] + "(" in source, p
    assert "-D LOCAL_SIZE=%du" % p["local_size"] in options and options.endswith("\n"), p
    assert "-D F16=%d" % (p["dtype"] == "f16") in options, p
assert files == set(os.listdir(folder)), files ^ set(os.listdir(folder))
P
    expect 5 'is not empty' "$wherry" prepare "${small[@]}" --target intel-bmg --dump "$work/bmg"
    expect 5 "can't make the folder" "$wherry" prepare "${small[@]}" --target intel-bmg --dump "$work/no/such"
    expect 5 "can't make the folder\|can't read the folder" "$wherry" prepare "${small[@]}" --target intel-bmg --dump "$work/out"
    expect 2 'with --dump' "$wherry" prepare "${small[@]}" --target intel-bmg
    expect 2 'not both' "$wherry" prepare "${small[@]}" --target intel-bmg --device cpu --dump "$work/y"
    expect 0 '' "$wherry" prepare "${small[@]}" --train --target amd-gfx1100 --dump "$work/amd"
    check grep -q backward "$work/amd/programs.json"
fi
expect 2 'there is no target' "$wherry" prepare "${small[@]}" --target nothing --dump "$work/x"
check test ! -e "$work/x"
if "$wherry" prepare "${small[@]}" --target nothing --dump "$work/x" 2>&1 | grep -q apple-m1; then
    expect 0 '' "$wherry" prepare "${small[@]}" --dtype f16 --target apple-m1 --dump "$work/m1"
    check "$python" - "$work/m1" <<'P'
import json, os, sys
folder = sys.argv[1]
for p in json.load(open(os.path.join(folder, "programs.json")))["programs"]:
    words = open(os.path.join(folder, p["file"]), "rb").read()
    assert words[:4] == bytes.fromhex("03022307") and len(words) % 4 == 0, p
    constants = dict(map(int, c.split(":")) for c in open(os.path.join(folder, p["constants"])).read().split())
    assert constants[0] == p["local_size"], (p, constants) # LOCAL_SIZE is number 0
P
fi

# ---- trainers: kernels of losses, optimizers, adapters and messages, too ----
trainer=(--config minilm-l6 --layers 1 --batch 2 --seq 16 --plan flash --dtype f16)
if "$wherry" prepare "${small[@]}" --target nothing --dump "$work/x" 2>&1 | grep -q amd-gfx1100; then
    expect 0 '' "$wherry" prepare "${trainer[@]}" --task mlm --wire f16 --target amd-gfx1100 --dump "$work/mlm"
    expect 0 '' "$wherry" prepare "${trainer[@]}" --task contrastive --optimizer lamb --lora 4 --wire f32 \
        --target amd-gfx1100 --dump "$work/contrastive"
    expect 0 '' "$wherry" prepare "${trainer[@]}" --task scored --target amd-gfx1100 --dump "$work/scored"
    check "$python" - "$work/mlm" "$work/contrastive" "$work/scored" <<'P'
import json, os, sys
have = set()
for folder in sys.argv[1:]:
    for p in json.load(open(os.path.join(folder, "programs.json")))["programs"]:
        assert os.path.exists(os.path.join(folder, p["file"])) and p["local_size"] and p["sizes"], p
        have.add(p["kernel"])
kernels = {"entropy", "entropy_sum", "entropy_backward", "pick", "pairs", "take", "loss", "loss_sum", "loss_backward",
           "handover_take", "handover_give", "optimizer_add", "optimizer_step", "optimizer_sum", "adapter_gradient",
           "adapter_merge", "bucket_add", "bucket_scan", "bucket_pack", "bucket_sum", "bucket_unpack"}
assert kernels <= have, kernels - have
P
fi
expect 2 'leave --train' "$wherry" prepare "${trainer[@]}" --task mlm --train --device reference
expect 2 'go with --task' "$wherry" prepare "${trainer[@]}" --optimizer lamb --device reference
expect 4 'no programs' "$wherry" prepare "${trainer[@]}" --task mlm --dtype f32 --device reference

# ---- the host's own devices have no programs, and are prepared all the same ----
expect 4 'no programs' "$wherry" prepare "${small[@]}" --device reference --dump "$work/reference"
expect 0 '' "$wherry" prepare "${small[@]}" --device reference
expect 2 'missing' "$wherry" prepare --device reference

# ---- a driver that is here: the second time everything is in the cache ----
# shellcheck disable=SC2086 # words
for device in ${WHERRY_TEST_DEVICES:-opencl:0 vulkan:0}; do
    case $device in opencl:* | vulkan:*) ;; *) continue ;; esac
    "$wherry" devices --json >"$work/out" 2>/dev/null
    json "any(x['id'] == '$device' and x['usable'] for x in d['devices'])" >/dev/null 2>&1 || continue
    prepare=("$wherry" prepare --quiet "${small[@]}" --dtype f32 --kernels tiled --device "$device" --cache "${WHERRY_TEST_CACHE:-$work}/prepare")
    expect 0 '' "${prepare[@]}" --json
    check json "all(k['local_size'] and k['sizes'] and k['launches'] for s in d['sessions'] for k in s['kernels'])"
    check json "sum(k['launches'] for k in d['sessions'][0]['kernels']) == d['sessions'][0]['session']['launches']"
    expect 0 '' "${prepare[@]}"
    check has '^gemm '
    case $device in opencl:*) check has ', 0 compiled now' ;; esac # lavapipe compiles at the first dispatch
    case $device in # lavapipe tells nothing of its kernels
        opencl:*)
            expect 0 '' "$wherry" prepare --quiet "${trainer[@]}" --dtype f32 --task contrastive --lora 4 --wire f16 --device "$device" \
                --cache "${WHERRY_TEST_CACHE:-$work}/prepare" --json
            check json "{'take', 'optimizer_step', 'adapter_merge', 'bucket_sum', 'handover_give'} <= {k['kernel'] for k in d['sessions'][0]['kernels']}"
            check json "all(k['launches'] and k['local_size'] for k in d['sessions'][0]['kernels'])"
            ;;
    esac
done
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
