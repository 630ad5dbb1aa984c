#!/usr/bin/env bash
# large_table.sh [DEVICE...]
# A table of words of 1 GB on devices that bind, or allocate, 128 MiB at most (tests/limits/limits.h): an already built
# Wherry embeds texts with the words around the borders of its eight blocks, and checks every group against the
# reference in double precision. The embeddings have the bits that the device gives without the limit, where it can.
# Needs 1.1 GB in TMPDIR and 4 GB of memory; two minutes. Exit status 77: no device.
#   BUILD   folder of the build (default: build/release)
#   DEVICE  default: vulkan:0 and opencl:0, where they are
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD:-build/release}") wherry=${WHERRY:-$build/wherry}
devices=("$@")
[ ${#devices[@]} -gt 0 ] || mapfile -t devices < <("$wherry" devices --json | python3 -c 'import json, sys
for device in json.load(sys.stdin)["devices"]:
    if device["usable"] and device["id"] in ("vulkan:0", "opencl:0"):
        print(device["id"])')
[ ${#devices[@]} -gt 0 ] || { echo "large_table: no device of OpenCL or Vulkan" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 tests/limits/make_large_table.py "$work/model" "$work/texts"
say() { printf '%s: %s\n' "$device" "$*"; }

failed=0
for device in "${devices[@]}"; do
    embed=("$wherry" embed --quiet --model "$work/model" --device "$device" --dtype f32 --pool none --input lines
        --format jsonl --cache "$work/cache" "$work/texts")
    verify=("$wherry" verify --model "$work/model" --device "$device" --dtype f32 --lengths 64,63,1 --replays 1
        --cache "$work/cache")
    case $device in
    vulkan:*) limits=(env "VK_LAYER_PATH=$build/tests/limits" VK_INSTANCE_LAYERS=VK_LAYER_WHERRY_limits
        WHERRY_LIMITS=binding=134217728) ;;
    *) limits=(env "OPENCL_LAYERS=$build/tests/liblimits_opencl.so" WHERRY_LIMITS=buffer=134217728) ;;
    esac
    "${limits[@]}" "${embed[@]}" --output "$work/pieces" || { say "embeds no text under the limit"; failed=1; continue; }
    "${limits[@]}" "${verify[@]}" | tee "$work/verify" || { say "differs from the reference"; failed=1; }
    if "${embed[@]}" --output "$work/whole" 2>"$work/log"; then
        if cmp "$work/pieces" "$work/whole"; then
            say "$(wc -l <"$work/pieces") texts have the bits of a table in one piece"
        else
            say "differs from a table in one piece" && failed=1
        fi
    else
        say "can't hold it in one piece: $(tail -n 1 "$work/log")"
    fi
done
exit $failed
