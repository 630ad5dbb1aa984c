#!/usr/bin/env bash
# compare_stream.sh [DEVICE...]
# `wherry roof` on CPU drivers beside plain loops with the same threads (stream.c), in turns, on a machine that should
# have nothing else to do. Prints for each kind the best rate of each and their ratio.
#   WHERRY  the command (default: build/release/wherry)
#   ROUNDS  turns (default 3)
set -euo pipefail
cd "$(dirname "$0")/../.."

wherry=${WHERRY:-build/release/wherry}
rounds=${ROUNDS:-3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# -eq 0 ]; then set -- vulkan opencl; fi

# Without the compiler's turning loops into memcpy, which writes around the cache.
cc -O3 -march=native -fno-tree-loop-distribute-patterns -pthread bench/peers/stream.c -o "$folder/stream"

for device in "$@"; do
    for round in $(seq "$rounds"); do
        "$folder/stream" >"$folder/stream.$round" 2>/dev/null
        "$wherry" roof --device "$device" --only dram --repeats 21 --json >"$folder/roof.$round.json"
    done
    python3 - "$device" "$folder" "$rounds" <<'PYTHON'
import json, sys

device, folder, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
ours, theirs = {}, {}
for n in range(1, rounds + 1):
    for line in open(f"{folder}/stream.{n}"):
        kind, _, best = line.split()[:3]
        theirs[kind] = max(theirs.get(kind, 0), float(best))
    for c in json.load(open(f"{folder}/roof.{n}.json"))["ceilings"]:
        kind = c["id"].partition(".")[2]
        ours[kind] = max(ours.get(kind, 0), c["amount"] / c["time"]["min"] / 1e9)
theirs.pop("past", None)  # no driver's kernel does that
for kind, rate in theirs.items():
    print(f"{device} {kind:6} wherry {ours[kind]:7.2f} GB/s, loop {rate:7.2f} GB/s, ratio {ours[kind] / rate:.2f}")
PYTHON
done
