#!/usr/bin/env bash
# windows.sh [TEST...|--build]
# Builds the library, the command and the tests for 64-bit Windows with mingw-w64 (after scripts/mingw.sh), and runs tests under
# Wine: all of $tests below on the devices reference and cpu, and $on_drivers on OpenCL, too, where Wine's OpenCL.dll, which
# passes calls on to this system's, finds a driver; or only those that are named, or (--build) none. scripts/app.sh windows runs two of them.
# Minutes. Prints "SKIPPED: reason" for what can't be done here, and exits with 77 where that is all.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD build=$PWD/build/mingw
tests="classes cpu cpu_bf16 device_sheets dropout encode fusion gradients graph heads histogram json json_words layout_bench layouts
    matrix_units messages model number orders paper parts pieces predict processor quirks roofline rung_speed rungs selection
    statistics text torch_file traffic_model verify vulkan weights wgmma bpe tokenizer tokenizer_parts"
measured=" bpe tokenizer tokenizer_parts " # which hold processor time against a bound, as Wine tells it on a busy machine: tried again
on_drivers=" encode heads dropout pieces rungs "

die() {
    printf 'windows: %s\n' "$*" >&2
    exit 1
}
unavailable() {
    printf 'SKIPPED: tests on Windows: %s\n' "$*"
    exit 77
}
quietly() { # COMMAND...: the output is shown when it fails
    "$@" >build/windows.log 2>&1 || {
        tail -n 60 build/windows.log
        die "failed: $*"
    }
}

build_all() { # TEST...
    local reason status=0 launcher=() name targets=()
    reason=$(scripts/mingw.sh) || status=$?
    [ $status != 77 ] || unavailable "$reason"
    [ $status = 0 ] || die "scripts/mingw.sh: $reason"
    if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
    quietly cmake -G Ninja -B "$build" -DCMAKE_TOOLCHAIN_FILE="$source/cmake/toolchains/mingw-w64.cmake" \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE='-O1 -DNDEBUG' -DWHERRY_CPU_SETS=avx2 -DWHERRY_WERROR=ON "${launcher[@]}"
    for name in "$@"; do targets+=("test_$name"); done
    quietly cmake --build "$build" --target wherry_tool wherry wherry_static "${targets[@]}"
}

start_wine() {
    command -v wine >/dev/null 2>&1 || unavailable "no wine (wine64)"
    export WINEPREFIX=$source/build/mingw-wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml=' LC_ALL=C.UTF-8
    unset DISPLAY
    timeout 1800 wine cmd /c exit 0 >build/windows.log 2>&1 || unavailable "wine does not start ($(tail -n 1 build/windows.log))"
    cp build/mingw-root/bin/cmocka.dll "$build/tests/"
    rm -rf "$build/temporary"
    mkdir -p "$build/temporary"
    unset TMPDIR
    export WHERRY_TEST_FEW=1 WHERRY_TEST_SHAPES="tiny odd unaligned-heads"
}

run_test() { # NAME DEVICES
    local log=$build/test_$1.log status tries
    printf 'test_%s on %s: ' "$1" "$2"
    for tries in 1 2 3; do
        status=0
        (cd "$build/temporary" && WHERRY_TEST_DEVICES=$2 timeout 900 wine "../tests/test_$1.exe") >"$log" 2>&1 || status=$?
        case $measured in
        *" $1 "*) [ $status != 0 ] && grep -q 'FAILED.*test_linear_time' "$log" || break ;;
        *) break ;;
        esac
        [ $tries = 3 ] || printf 'again, for its times: '
    done
    case $status in
    0) tr -d '\r' <"$log" | grep '^\[  PASSED' | tail -n 1 ;;
    77) printf 'SKIPPED: %s\n' "$(tail -n 1 "$log" | tr -d '\r')" ;;
    *)
        tail -n 40 "$log"
        die "test_$1 failed, exit $status ($log)"
        ;;
    esac
}

if [ "${1:-}" = --build ]; then
    build_all
    exit
fi
# shellcheck disable=SC2086 # a list of words
[ $# != 0 ] || set -- $tests
build_all "$@"
start_wine
opencl=no
if (cd "$build" && wine wherry.exe devices) >build/windows.log && grep -q '^opencl:0' build/windows.log &&
    ! grep -q "^opencl:0 can't" build/windows.log; then opencl=yes; fi
for name in "$@"; do
    run_test "$name" "reference cpu"
    case $opencl:$on_drivers in
    yes:*" $name "*) run_test "$name" opencl:0 ;;
    esac
done
[ $opencl = yes ] || printf 'SKIPPED: OpenCL on Windows: no driver behind OpenCL.dll of Wine\n'
printf 'windows: passed, under %s\n' "$(wine --version)"
