#!/usr/bin/env bash
# oclgrind.sh TEST_GROUPS
# Runs every OpenCL kernel under Oclgrind, at shapes small enough for an interpreter: out-of-bounds accesses, data
# races, diverging barriers and wrong API calls. Any message fails. The matrix products are ours, not CLBlast's: so
# test_groups chooses for interpreters (WHERRY_TEST_FEW).
#
# Not with --uninitialized: in Oclgrind 21.10 a host write that does not begin at a buffer's start makes the rest of the
# buffer count as uninitialised. test_groups fills all activations with NaN before it runs, which finds such reads too.
set -eu

log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
export WHERRY_TEST_DEVICES=opencl:oclgrind WHERRY_TEST_CACHE= VK_DRIVER_FILES=/nonexistent
export WHERRY_TEST_SHAPES=${WHERRY_TEST_SHAPES:-"odd unaligned"} WHERRY_TEST_FEW=1
touch "$log/messages"
oclgrind --data-races --check-api --log "$log/messages" "$1" >"$log/output" 2>&1 || {
    tail -n 60 "$log/output" "$log/messages"
    echo "oclgrind.sh: $1 failed under Oclgrind" >&2
    exit 1
}
if [ -s "$log/messages" ]; then
    head -n 100 "$log/messages"
    echo "oclgrind.sh: Oclgrind complains" >&2
    exit 1
fi
tail -n 1 "$log/output"
