#!/usr/bin/env bash
# flat.sh [BATCHES] [DEVICE...]
# Encodes so many batches of random lengths (10000) on these devices, or on every usable one, and fails where the host's or
# the device's memory grows: the library's own allocations and buffers not at all, the process by less than 4 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
export WHERRY_TEST_BATCHES=${1:-10000}
shift || true
[ $# = 0 ] || export WHERRY_TEST_DEVICES="$*"
export WHERRY_TEST_CACHE=$PWD/build/kernel-cache
cmake --build build/release --target test_sharing >/dev/null
exec build/release/tests/test_sharing test_flat
