#!/usr/bin/env bash
# faults.sh [sample|all] [OPTION...]
# Builds the command with the sanitizers and the fault library (tests/faults), and makes calls fail: of the C library, of
# OpenCL, of Vulkan, one a run, in small runs of embed, verify, tune and a training step, on the reference and the software
# drivers. sample (the default): 120 of them, always the same, a minute on two cores; all: of the calls with the same callers
# the first two and the last, an hour or two. What is found is named with how to see it again (--at), and the exit status is
# then 1; 77 where it can't run.
#   FAULT_DEVICES  device ids (default: the reference and every usable driver of a CPU)
# Options go to tests/faults/sweep.py: --runs, --classes, --sample N, --minutes N, --jobs N, --every, --verbose.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    printf 'SKIPPED: faults: %s\n' "$*"
    exit 77
}
quietly() { # NAME COMMAND...
    local log=build/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        printf 'faults: failed: %s (all of it is in %s)\n' "$*" "$log" >&2
        exit 1
    }
}

mode=${1:-sample}
[ $# = 0 ] || shift
case $mode in
    sample) chosen=(--sample 120) ;;
    all) chosen=() ;;
    *)
        printf 'faults: sample or all, and not %s\n' "$mode" >&2
        exit 2
        ;;
esac
[ "$(uname -sm)" = "Linux x86_64" ] || skip "the fault library is for Linux on x86-64"
mkdir -p build/faults
quietly configure-sanitize cmake --preset sanitize
quietly build-faults cmake --build --preset sanitize --target wherry_tool example_gradients faults
tests=build/sanitize/tests
if ! FAULT_UNDER=/nonexistent FAULT_REPORT=build/faults/report LD_PRELOAD=$PWD/$tests/libfaults.so /bin/true \
    2>build/faults/seccomp; then
    skip "$(cat build/faults/seccomp)"
fi

# Those that the build finds by itself; a driver that the sanitizers don't bear has no usable device here.
devices=${FAULT_DEVICES:-}
if [ -z "$devices" ]; then
    devices=$(ASAN_OPTIONS=detect_leaks=0 build/sanitize/wherry devices --quiet --json | python3 -c '
import json, sys
for device in json.load(sys.stdin)["devices"]:
    if device["id"] == "reference" or (device["usable"] and device["type"] == "CPU"):
        print(device["id"], end=" ")')
fi
exec python3 tests/faults/sweep.py --wherry build/sanitize/wherry --gradients build/sanitize/example_gradients \
    --library $tests/libfaults.so --scratch "build/faults/scratch-$$" --drivers-cache build/faults/drivers \
    --devices "$devices" "${chosen[@]}" "$@"
