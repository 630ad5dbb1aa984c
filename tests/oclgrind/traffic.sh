#!/usr/bin/env bash
# traffic.sh TEST_TRAFFIC PLUGIN
# Runs the program test_traffic under Oclgrind with the plugin that counts bytes (traffic_plugin.cpp), and with the checks of
# oclgrind.sh, of which any message fails.
# WHERRY_TEST_FEW=1 leaves combinations out that others stand for. Exit status 77: there is no plugin.
set -eu

if [ ! -f "$2" ]; then
    echo "SKIPPED: bytes of kernels: no plugin for Oclgrind (its headers, liboclgrind-dev, were not there)"
    exit 77
fi
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
export WHERRY_TEST_DEVICES=opencl:oclgrind VK_DRIVER_FILES=/nonexistent WHERRY_TRAFFIC_LOG="$log/traffic"
touch "$log/messages"
oclgrind --data-races --check-api --log "$log/messages" --plugins "$2" "$1" >"$log/output" 2>&1 || {
    grep -a '^    ' "$log/output" || tail -n 60 "$log/output"
    echo "traffic.sh: $1 failed under Oclgrind" >&2
    exit 1
}
if [ -s "$log/messages" ]; then
    head -n 100 "$log/messages"
    echo "traffic.sh: Oclgrind complains" >&2
    exit 1
fi
tail -n 1 "$log/output"
