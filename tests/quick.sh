#!/usr/bin/env bash
# quick.sh WHERRY FOLDER
# Tests scripts/gpu.sh --quick with the least of shapes on the host's cores: one folder that wherry report takes, what no time
# is left for is named, and the power that a driver tells (an nvidia-smi that is made up) stands beside the records.
set -euo pipefail
wherry=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") work=$2
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$work"
mkdir -p "$work/bin" "$work/build"
work=$(cd "$work" && pwd)
ln -s "$wherry" "$work/build/wherry"
printf '#!/bin/sh\necho 42.5\n' >"$work/bin/nvidia-smi"
chmod +x "$work/bin/nvidia-smi"
fail() {
    cat "$work/log" >&2
    printf 'quick: %s\n' "$*" >&2
    exit 1
}
export BUILD="$work/build" OUT="$work/out" ENCODES="minilm-l6:1x8" LAYER=1x16

# ---- all of it; power is sampled of what is no CPU: here it is told of none ----
DEVICES=cpu PATH="$work/bin:$PATH" "$root/scripts/gpu.sh" --quick >"$work/log" 2>&1 || fail "it failed"
for file in README.md index.html devices.json verify-cpu.txt roof-cpu.json bench-minilm-l6-1x8-cpu.json layer-1x16-cpu.json; do
    [ -s "$work/out/$file" ] || fail "no $file"
done
[ ! -f "$work/out/power.json" ] || fail "a GPU's power beside what the host's cores did"
grep -q '^passed: .* 0 failed' "$work/out/verify-cpu.txt" || fail "verify did not pass"
grep -q '^Ranking: minilm-l6, encoding 1 x 8$' "$work/log" || fail "no ranking"
"$wherry" report --check "$work/out" >"$work/check" 2>/dev/null || fail "its records do not derive again"

# ---- no time: nothing is measured, all is named ----
DEVICES=cpu SECONDS_MOST=1 "$root/scripts/gpu.sh" --quick >"$work/log" 2>&1 || fail "it failed without time"
grep -q '^left out, for want of time: verify-cpu.txt roof-cpu.json ' "$work/log" || fail "what was left out is not named"

# ---- a device that is not there ----
if DEVICES=vulkan:77 "$root/scripts/gpu.sh" --quick >"$work/log" 2>&1; then fail "a device that is not there"; fi
grep -q 'no usable device vulkan:77' "$work/log" || fail "the device is not named"
echo "passed"
