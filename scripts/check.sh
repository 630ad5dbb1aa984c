#!/usr/bin/env bash
# check.sh
# Builds everything and runs every test on every driver of this machine, then the checkers: Vulkan's validation layers,
# Oclgrind, sanitizers, formatting, builds without backends. Installs what is missing. Ends with ctest's closing lines
# and with what had to be skipped; the exit status is 0 only when all that ran passed.
#   GLSLC                a glslc that can rebuild shaders/spirv, where the system's can't (scripts/spirv.sh)
#   WHERRY_TEST_DEVICES  device ids to test on (default: every usable device)
#   WHERRY_TEST_MODEL    folder of all-MiniLM-L6-v2 (default: scripts/model.sh fetches it)
set -euo pipefail
cd "$(dirname "$0")/.."

skipped=''
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
skip() {
    printf 'SKIPPED: %s\n' "$*"
    skipped="$skipped$*
"
}
die() {
    printf 'check: %s\n' "$*" >&2
    exit 1
}
quietly() { # NAME COMMAND...: the output goes to build/NAME.log, and here when the command fails
    local log=build/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        tail -n 60 "$log"
        die "failed: $* (all of it is in $log)"
    }
}
# Ids, on one line, of the usable devices that are tested: those of an API, or with "cpu" the software drivers.
test_devices() { # API|cpu
    build/release/wherry devices --json | python3 -c '
import json, os, sys
asked = os.environ.get("WHERRY_TEST_DEVICES", "").split()
for device in json.load(sys.stdin)["devices"]:
    api = device["id"].partition(":")[0]
    wanted = api != "reference" and device["type"] == "CPU" if sys.argv[1] == "cpu" else api == sys.argv[1]
    if device["usable"] and wanted and (not asked or device["id"] in asked):
        print(device["id"], end=" ")' "$1"
}

check_format() {
    local files tool=clang-format-14
    if ! command -v $tool >/dev/null 2>&1; then
        skip "formatting: needs clang-format 14, other versions format differently"
        return
    fi
    files=$(find core backends tools tests examples -name '*.[ch]')
    # shellcheck disable=SC2086 # no name has a space
    $tool --dry-run -Werror $files
}

check_headers() {
    local header
    for header in core/include/wherry/*.h; do
        cc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Icore/include -x c "$header"
        c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Icore/include -x c++ "$header"
    done
}

check_spirv() {
    local module
    for module in build/release/kernels/*.spv; do
        spirv-val --target-env vulkan1.1 "$module" || die "$module is not valid"
    done
    local status=0
    scripts/spirv.sh --check || status=$?
    case $status in
        0) ;;
        77) skip "rebuilding shaders/spirv: this glslc lacks GL_KHR_cooperative_matrix" ;;
        *) die "shaders/spirv" ;;
    esac
}

# Runs the tests under the layers, whose messages come to standard output: the one that says that they are active must
# be there, and no other.
check_validation() {
    local devices log=build/validation.log
    devices=$(test_devices vulkan)
    if [ -z "$devices" ]; then
        skip "validation layers: no Vulkan device to test"
        return
    fi
    cat >build/vk_layer_settings.txt <<'SETTINGS'
khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG
khronos_validation.report_flags = info,warn,perf,error
khronos_validation.log_filename = stdout
khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT
khronos_validation.validate_sync = true
SETTINGS
    # Not the command's tests, which read its standard output, nor the golden vectors: test_groups has MiniLM's shapes.
    VK_LAYER_SETTINGS_PATH=$PWD/build/vk_layer_settings.txt VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation \
        WHERRY_TEST_MODEL='' WHERRY_TEST_DEVICES="$devices" \
        quietly validation ctest --preset release --verbose --timeout 900 -R '^test_' -E emulated
    grep -q 'Khronos Validation Layer Active' $log || die "the validation layers were not active"
    grep -qi 'enables:.*sync' $log || die "synchronization validation was not active"
    if grep -E 'Validation (Error|Warning|Performance)' $log; then die "the validation layers complain"; fi
    grep 'tests passed' $log
}

# Without drivers, so that only our code runs and leaks count.
check_sanitize() {
    quietly configure-sanitize cmake --preset sanitize -DWHERRY_WERROR=ON
    quietly build-sanitize cmake --build --preset sanitize
    # The pages' own tests have nothing of ours below a browser but what writes them.
    UBSAN_OPTIONS=print_stacktrace=1 VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent \
        OCL_ICD_VENDORS=/nonexistent ASAN_OPTIONS=detect_leaks=1 WHERRY_TEST_DEVICES=reference \
        WHERRY_TEST_SHAPES="tiny odd unaligned-heads" \
        quietly sanitize ctest --preset sanitize --timeout 900 -j 2 -E '^page'
    grep 'tests passed' build/sanitize.log
}

# The software drivers below the backends' host code, leaks aside, since these drivers leak (ours are counted by the
# tests' own allocator).
check_sanitize_drivers() {
    local cpu
    cpu=$(test_devices cpu)
    if [ -z "$cpu" ]; then
        skip "sanitizers below a driver: no software driver to test"
        return
    fi
    UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0 WHERRY_TEST_DEVICES="$cpu" \
        quietly sanitize-drivers ctest --preset sanitize --timeout 900 -R 'test_(vulkan|opencl|encode)'
    grep 'tests passed' build/sanitize-drivers.log
}

check_oclgrind() {
    quietly configure-oclgrind cmake -G Ninja -B build/oclgrind -DCMAKE_BUILD_TYPE=Release -DWHERRY_VULKAN=OFF \
        -DWHERRY_CLBLAST=OFF -DWHERRY_WERROR=ON
    local status=0 targets="test_groups test_traffic"
    grep -q traffic_plugin build/oclgrind/build.ninja && targets="$targets traffic_plugin"
    # shellcheck disable=SC2086 # a list
    quietly build-oclgrind cmake --build build/oclgrind --target $targets
    tests/oclgrind.sh build/oclgrind/tests/test_groups
    WHERRY_TEST_FEW=1 tests/oclgrind/traffic.sh build/oclgrind/tests/test_traffic \
        build/oclgrind/tests/libtraffic_plugin.so || status=$?
    [ $status = 77 ] || return $status
}

check_options() {
    local options name
    for options in "-DWHERRY_VULKAN=OFF -DWHERRY_OPENCL=OFF" "-DWHERRY_VULKAN=OFF" "-DWHERRY_OPENCL=OFF"; do
        name=options$(printf '%s' "$options" | tr -cd '[:upper:]')
        # shellcheck disable=SC2086 # two words
        quietly "configure-$name" cmake -G Ninja -B "build/$name" -DCMAKE_BUILD_TYPE=Debug -DWHERRY_TESTS=OFF \
            -DWHERRY_WERROR=ON $options
        quietly "build-$name" cmake --build "build/$name"
        "build/$name/wherry" devices >"build/$name.log" || die "$options: wherry devices failed"
    done
}

mkdir -p build
say "installing what is missing"
scripts/setup.sh build model check
model=${WHERRY_TEST_MODEL:-}
[ -n "$model" ] || model=$(scripts/model.sh) || skip "golden vectors: all-MiniLM-L6-v2 could not be fetched"
if [ -n "$model" ]; then export WHERRY_TEST_MODEL="$model"; fi

say "formatting, public headers as C99 and C++11"
check_format
check_headers

say "build"
quietly configure cmake --preset release -DWHERRY_WERROR=ON -DWHERRY_TESTS=ON
quietly build cmake --build --preset release
check_spirv
build/release/wherry devices

# What needs no driver runs beside the tests, on another core, and is looked at behind them: PoCL's and lavapipe's
# compilers use one.
check_beside() {
    say "builds without Vulkan, without OpenCL, without both"
    check_options
    say "Oclgrind: bounds, races, barriers, bytes"
    if command -v oclgrind >/dev/null 2>&1; then
        check_oclgrind
    else
        skip "Oclgrind: not in this release"
    fi
    say "address and undefined-behaviour sanitizers, host code"
    check_sanitize
}
check_beside >build/beside.log 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true' EXIT

say "tests on ${WHERRY_TEST_DEVICES:-every usable device}"
failed=no
ctest --preset release --timeout 900 -j 2 2>&1 | tee build/ctest.log || failed=yes
[ "$failed" = no ] || die "tests failed (all of it is in build/ctest.log)"
command -v chromedriver >/dev/null 2>&1 || skip "the report's page: no Chromium with its driver in this release"

say "validation layers: core and synchronization"
check_validation

say "what ran beside the tests"
wait "$beside" || {
    cat build/beside.log
    die "a stage beside the tests failed"
}
trap - EXIT # the number may be another process's from here on
cat build/beside.log
while read -r line; do skipped="$skipped${line#SKIPPED: }
"; done < <(grep '^SKIPPED: ' build/beside.log)

say "sanitizers above the software drivers"
check_sanitize_drivers

say "passed; ctest's closing lines"
sed -n '/tests passed/,$p' build/ctest.log
if [ -n "$skipped" ]; then printf '\nSKIPPED:\n%s' "$skipped"; fi
