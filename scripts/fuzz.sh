#!/usr/bin/env bash
# fuzz.sh [TARGET|all] [SECONDS]
# Builds the fuzz targets (tests/fuzz) with libFuzzer and the sanitizers, and runs one or all of them, each so many seconds
# (20). What is found is named, and the exit status is then 1; 77 where clang or libFuzzer is missing. Corpora grow in
# build/fuzz/corpus and go on from there the next time; inputs that found something are in build/fuzz/findings, and
# `build/fuzz/tests/fuzz/fuzz_TARGET FILE` runs one again.
#   CLANG      the compiler (default: clang-14, or clang)
#   FUZZ_JOBS  targets that run at a time (default: 1)
set -euo pipefail
cd "$(dirname "$0")/.."

# Name, longest input, seconds that one input may take (with the sanitizers, on a busy machine), dictionary.
targets="safetensors:4096:20:json model:12288:20:json heads:12288:20:json tokenizer:8192:20:json sentencepiece:8192:20:json merges:4096:20:json
    tuning:8192:20:tuning report:49152:25:json texts:4096:20:json torch_file:4096:20:torch_file
    chat_template:4096:20:jinja"
memory=2048 # MiB that one input may take

die() {
    printf 'fuzz: %s\n' "$*" >&2
    exit 1
}
skip() {
    printf 'SKIPPED: fuzzing: %s\n' "$*"
    exit 77
}

asked=${1:-all} seconds=${2:-20}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "SECONDS is a whole number from 1 on, and not '$seconds'"
chosen=''
for target in $targets; do
    case $asked in all | "${target%%:*}") chosen="$chosen $target" ;; esac
done
# shellcheck disable=SC2086 # a list
[ -n "$chosen" ] || die "no target '$asked'; there are$(printf ' %s' $targets | sed 's/:[^ ]*//g'), and all"

build=build/fuzz
mkdir -p $build
clang=${CLANG:-$(command -v clang-14 || command -v clang || true)}
[ -n "$clang" ] || skip "needs clang, which is not installed"
printf '#include <stddef.h>\n#include <stdint.h>\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t n);\nint LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return (int)(n && *d > 255); }\n' >$build/empty.c
"$clang" -fsanitize=fuzzer,address,undefined $build/empty.c -o $build/empty >$build/empty.log 2>&1 ||
    skip "$clang has no libFuzzer or no sanitizers (Debian: libclang-rt-14-dev); see $build/empty.log"

quietly() { # NAME COMMAND...
    local log=$build/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        die "failed: $* (all of it is in $log)"
    }
}
quietly configure cmake --preset fuzz -DCMAKE_C_COMPILER="$clang"
quietly build cmake --build --preset fuzz
python3 tests/fuzz/seeds.py $build/seeds

folder=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/wherry-fuzz-XXXXXX")
trap 'rm -rf "$folder"' EXIT

# "name runs seconds corpus features peak-MiB status" into $folder/NAME.result
fuzz() { # NAME:LENGTH:SECONDS:DICTIONARY
    local name length timeout dictionary findings log status=0
    IFS=: read -r name length timeout dictionary <<<"$1"
    log=$build/$name.log findings=$build/findings/$name
    mkdir -p "$build/corpus/$name" "$findings"
    touch "$folder/$name.start"
    # Output of the command's parts goes nowhere; libFuzzer's and the sanitizers' own comes here.
    FUZZ_FOLDER=$folder UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
        "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len="$length" -timeout="$timeout" \
        -rss_limit_mb=$memory -dict="tests/fuzz/$dictionary.dict" -artifact_prefix="$findings/" -close_fd_mask=3 \
        -print_final_stats=1 -verbosity=1 "$build/corpus/$name" "$build/seeds/$name" >"$log" 2>&1 || status=$?
    awk -v name="$name" -v status=$status '
        /cov: [0-9]+ ft: [0-9]+ corp: / {
            for (i = 1; i < NF; i++) if ($i == "ft:") features = $(i + 1); else if ($i == "corp:") corpus = $(i + 1)
        }
        /^Done / { seconds = $5 }
        /^stat::number_of_executed_units:/ { runs = $2 }
        /^stat::peak_rss_mb:/ { peak = $2 }
        /^#[0-9]/ { last = substr($1, 2) + 0 }
        END {
            sub("/.*", "", corpus)
            print name, runs ? runs : last + 0, seconds + 0, corpus + 0, features + 0, peak + 0, status
        }' "$log" >"$folder/$name.result"
}

# shellcheck disable=SC2086 # a list
for target in $chosen; do
    while [ "$(jobs -rp | wc -l)" -ge "${FUZZ_JOBS:-1}" ]; do wait -n || true; done
    fuzz "$target" &
done
wait

failed=0 all_runs=0 count=0
printf '%-12s %10s %8s %8s %9s %6s  %s\n' target runs seconds corpus features MiB found
for target in $chosen; do
    name=${target%%:*}
    [ -s "$folder/$name.result" ] || die "fuzz_$name could not be run: see $build/$name.log"
    read -r _ runs took corpus features peak status <"$folder/$name.result"
    found=$(find "$build/findings/$name" -type f -newer "$folder/$name.start" ! -name 'slow-unit-*' | sort | tr '\n' ' ')
    [ "$status" = 0 ] || [ -n "$found" ] || found="ended with status $status: see $build/$name.log"
    printf '%-12s %10s %8s %8s %9s %6s  %s\n' "$name" "$runs" "$took" "$corpus" "$features" "$peak" "${found:-nothing}"
    if [ -n "$found" ]; then
        failed=$((failed + 1))
        grep -m 3 -E 'ERROR: |SUMMARY: |runtime error: |does not hold: ' "$build/$name.log" | sed 's/^/    /'
    fi
    all_runs=$((all_runs + runs)) count=$((count + 1))
done
printf 'fuzz: %d targets, %d runs, %d with findings (crashes, hangs, leaks, memory)\n' "$count" "$all_runs" "$failed"
[ "$failed" = 0 ]
