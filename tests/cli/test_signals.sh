#!/usr/bin/env bash
# A signal ends the command soon, also while a driver compiles, and leaves nothing half-written; a cold cache says what
# takes so long.
# WHERRY: the command. WHERRY_DEVICE: one whose driver compiles, by default opencl:0.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
device=${WHERRY_DEVICE:-opencl:0}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
model=$work/model
check "$python" "$here/make_model.py" "$model"
printf 'the boat\nwater, water!\n' >"$work/texts"
"$wherry" devices --json >"$work/out" 2>/dev/null
if ! json "any(x['id'] == '$device' and x['usable'] for x in d['devices'])" >/dev/null 2>&1; then
    printf 'SKIPPED: %s is not usable here\n' "$device"
    exit 77
fi
export POCL_CACHE_DIR=$work/pocl # PoCL's own cache must be cold, too
mkdir "$POCL_CACHE_DIR" "$work/results"
embed=("$wherry" embed --model "$model" --device "$device" -o "$work/results/vectors")
# The exit code of 128 and the signal is bash's for a process that the signal ended; 130 is the command's own, where it
# came to a place between two kernels before.
for signal in TERM INT HUP; do
    number=$(kill -l $signal)
    # Job control, so that the process in the background does not ignore SIGINT.
    set -m
    "${embed[@]}" --cache "$work/cold-$signal" "$work/texts" >"$work/out" 2>"$work/err" &
    process=$!
    set +m
    said="^wherry: compiling [0-9]* kernels for $device (once; kept in $work/cold-$signal)"
    for ((i = 0; i < 600; i++)); do # at most 60 s; the whole sentence, which may be written in parts
        grep -q "$said" "$work/err" 2>/dev/null && break
        kill -0 $process 2>/dev/null || break
        sleep 0.1
    done
    check grep -q "$said" "$work/err"
    kill -$signal $process 2>/dev/null
    begun=$(date +%s)
    wait $process
    code=$?
    case $code in
        130 | $((128 + number))) pass ;;
        0) printf 'all was done before the signal came\n' ;;
        *) flunk "exit $code after SIG$signal" ;;
    esac
    # 2 seconds on a machine that has time.
    [ $(($(date +%s) - begun)) -le 20 ] || flunk "SIG$signal: not ended within 20 s"
    if [ $code -ne 0 ]; then check test -z "$(ls "$work/results")"; fi
    rm -rf "$work/results/vectors" "$POCL_CACHE_DIR"/*
done
expect 0 '^wherry: compiling ' "${embed[@]}" --cache "$work/warm" "$work/texts"
check test "$(grep -c compiling "$work/err")" -eq 1
expect 0 '' "${embed[@]}" --cache "$work/warm" "$work/texts" # all came from the cache
rm -rf "$work/warm"
expect 0 '' "${embed[@]}" --cache "$work/warm" --quiet "$work/texts"
printf '%d checks passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
