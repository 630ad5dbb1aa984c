#!/usr/bin/env bash
# classes.sh WHERRY DEVICE CLASS...
# Runs a layer's forward and backward pass on a device of the machine as if it were of each class, against the double
# reference: every class's sizes compute right. The shape has heads of 64 channels, and a product with enough tiles for
# the classes' largest. Exit status 77 where the device is not here.
set -euo pipefail
wherry=$1 device=$2
shift 2
"$wherry" devices --json | grep "\"id\": \"$device\"" >/dev/null || { echo "SKIPPED: there is no device $device"; exit 77; }
for class; do
    told=$(WHERRY_DEVICE_CLASS=$class "$wherry" devices --json | grep -A 14 "\"id\": \"$device\"" | grep -c "\"class\": \"$class\"" || true)
    [ "$told" -eq 1 ] || { echo "FAILED: $device does not become one of the class $class"; exit 1; }
    WHERRY_DEVICE_CLASS=$class "$wherry" verify layer --config bert-base --hidden 64 --heads 1 --feed-forward 8448 \
        --batch 1 --seq 64 --dtype f16 --plan flash --kernels tiled --device "$device" --quiet ||
        { echo "FAILED: sizes of the class $class on $device"; exit 1; }
done
