#!/usr/bin/env bash
# check.sh
# Builds everything and runs every test on every driver of this machine, and the checkers: Vulkan's validation layers,
# Oclgrind, sanitizers, formatting, builds without backends. Installs what is missing. Ends with where the time went, ctest's
# closing lines and what had to be skipped; the exit status is 0 only when all that ran passed.
#   --all                also the sweeps (ctest's label of that name): fuzzing, faults, kills at random moments, every wrong
#                        type in reports' files, and what drivers run that the host's cores have run already
#   GLSLC                a glslc that can rebuild shaders/spirv, where the system's can't (scripts/spirv.sh)
#   WHERRY_TEST_DEVICES  device ids to test on (default: every usable device)
#   WHERRY_TEST_MODEL    folder of all-MiniLM-L6-v2 (default: scripts/model.sh fetches it)
#   WHERRY_FUZZ_SECONDS  how long each fuzz target runs (default: 5)
# No limit of wall time: a test that hangs is ended by tests/watch.py. ctest starts an entry more than there are cores, because
# some wait for disks, browsers and signals. Everything that takes long is an entry: tests, those of Vulkan under the
# validation layers, and the stages below (check.sh --stage NAME).
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
skip() { # what can't run here, and why: gathered at the end
    printf 'SKIPPED: %s\n' "$*"
    printf '%s\n' "$*" >>build/skipped.log
}
die() {
    printf 'check: %s\n' "$*" >&2
    exit 1
}
quietly() { # NAME COMMAND...: the output goes to build/NAME.log, and what of it tells why here when the command fails
    local log=build/$1.log
    shift
    "$@" >"$log" 2>&1 || {
        grep -A 40 '\*\*\*\(Failed\|Exception\|Timeout\)' "$log" | sed -n 1,120p || true # ctest's entries
        tail -n 60 "$log"
        die "failed: $* (all of it is in $log)"
    }
}
# Ids, on one line, of the usable devices that are tested: those of an API, or with "cpu" the drivers of CPUs.
test_devices() { # API|cpu
    build/release/wherry devices --json | python3 -c '
import json, os, sys
asked = os.environ.get("WHERRY_TEST_DEVICES", "").split()
for device in json.load(sys.stdin)["devices"]:
    api = device["id"].partition(":")[0]
    wanted = ":" in device["id"] and device["type"] == "CPU" if sys.argv[1] == "cpu" else api == sys.argv[1]
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

# ---- stages: check.sh --stage NAME ----

# Without drivers, so that only our code runs and leaks count.
stage_sanitize() {
    quietly configure-sanitize cmake --preset sanitize -DWHERRY_WERROR=ON -DWHERRY_CPU_SETS=avx512
    quietly build-sanitize cmake --build --preset sanitize
    # The pages' own tests have nothing of ours below a browser but what writes them; those of reports and records take
    # long, and their code is fuzzed under the same sanitizers, as that of latencies' records; the server's own test runs by
    # hand below them and below ThreadSanitizer (docs/serving.md); the golden sentences run what
    # test_encode does, and what measures takes its time, whatever the kernels. MPI libraries leak. Tokenizers and weight
    # files are fuzzed below the same sanitizers: their tests, others that take long for what nothing else here runs, and
    # on the reference what the device cpu has by the same code, are left to --all.
    local left_out='^page|^report|^results|^serve$|^quick$|^compilers|^cli_latency|^cli_mpi|^test_golden|^test_.*_(vulkan|opencl)|^test_(measure|roof|timer)_cpu'
    [ "${WHERRY_CHECK_ALL:-no}" = yes ] ||
        left_out="$left_out|^test_(rung_kept|rung_speed|bpe|tokenizer|tokenizer_parts|number|.*onednn)\$|^cli_(texts|words|escapes|train_bad|bench_train|heads|token_heads|kill)\$|^families\$|^test_(shards|async|sharing|trained|trainer|training|architectures)_reference\$"
    UBSAN_OPTIONS=print_stacktrace=1 VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent \
        OCL_ICD_VENDORS=/nonexistent ASAN_OPTIONS=detect_leaks=1 WHERRY_TEST_DEVICES="reference cpu" \
        WHERRY_TEST_SHAPES="tiny odd unaligned-heads" \
        quietly sanitize ctest --preset sanitize -LE sweep -E "$left_out"
    grep 'tests passed' build/sanitize.log
}

# The software drivers below the backends' host code, leaks aside, since these drivers leak (ours are counted by the
# tests' own allocator). Whole sessions above these drivers are check_faults', which has the same build; test_encode runs
# above the reference with the sanitizers, and above the drivers without. PoCL and lavapipe alone: other drivers may do
# what a sanitizer can't follow, as Intel's OpenCL does, which opens a library with RTLD_DEEPBIND.
stage_sanitize_drivers() {
    local vendors=$PWD/build/sanitize-vendors pocl=/etc/OpenCL/vendors/pocl.icd lavapipe devices
    lavapipe=$(find /usr/share/vulkan/icd.d -name 'lvp_icd*.json' 2>/dev/null | sed -n 1p)
    [ -n "$lavapipe" ] || skip "sanitizers above lavapipe: it is not installed"
    mkdir -p "$vendors"
    if [ -f $pocl ]; then cp $pocl "$vendors/"; else skip "sanitizers above PoCL: it is not installed"; fi
    export OCL_ICD_VENDORS=$vendors VK_DRIVER_FILES=${lavapipe:-/nonexistent} VK_ICD_FILENAMES=${lavapipe:-/nonexistent}
    devices=$(test_devices cpu)
    [ -n "$devices" ] || return 0
    UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0 WHERRY_TEST_DEVICES="$devices" \
        quietly sanitize-drivers ctest --preset sanitize -R '^test_(vulkan|opencl)$'
    grep 'tests passed' build/sanitize-drivers.log
}

# Bounds, races, barriers, bytes. Where bytes are counted, the steps of the shape with odd sizes run once, under all checks;
# test_groups then has the shape whose rows begin anywhere. By hand traffic.sh has all shapes.
stage_oclgrind() {
    local status=0 tests=build/release/tests shapes=unaligned
    if ! command -v oclgrind >/dev/null 2>&1; then
        skip "Oclgrind: not in this release"
        return
    fi
    WHERRY_TEST_FEW=1 WHERRY_TEST_SHAPES="odd experts" tests/oclgrind/traffic.sh $tests/test_traffic $tests/libtraffic_plugin.so ||
        status=$?
    case $status in
        0) ;;
        77)
            skip "bytes of kernels: no plugin for Oclgrind (its headers, liboclgrind-dev, were not there)"
            shapes="odd unaligned"
            ;;
        *) return $status ;;
    esac
    WHERRY_TEST_SHAPES=$shapes tests/oclgrind.sh $tests/test_groups
}

# A script that has its own words for what can't run here (a line "SKIPPED: ...", exit status 77 where that is all).
script_stage() { # COMMAND...
    local status=0 log=build/stage-${1##*/}.log
    "$@" >"$log" 2>&1 || status=$?
    sed -n 's/^SKIPPED: //p' "$log" >>build/skipped.log
    [ $status = 77 ] && status=0
    if [ $status = 0 ]; then tail -n 20 "$log"; else cat "$log"; fi
    return $status
}
stage_fuzz() { script_stage scripts/fuzz.sh all "${WHERRY_FUZZ_SECONDS:-5}"; }
stage_faults() {
    POCL_CACHE_DIR=$PWD/build/faults-pocl script_stage scripts/faults.sh sample --sample 60 --jobs 1 --runs "embed npy verify"
}
stage_app() { script_stage scripts/app.sh native windows; }

sweeps=no
case ${1:-} in
    --all) sweeps=yes ;;
    --stage | '') ;;
    *) die "usage: check.sh [--all]" ;;
esac
if [ "${1:-}" = --stage ]; then
    export WHERRY_TEST_TIMES=$PWD/build/times-$2.log # of its own entries
    export CMAKE_BUILD_PARALLEL_LEVEL=1              # the other cores have entries of their own
    "stage_$2"
    exit
fi

# ---- all of it ----

mkdir -p build
: >build/skipped.log
export WHERRY_SHADER_CACHE=$PWD/build/shader-cache # the trees below have the same shaders
say "installing what is missing"
scripts/setup.sh build model check
model=${WHERRY_TEST_MODEL:-}
[ -n "$model" ] || model=$(scripts/model.sh) || skip "golden vectors: all-MiniLM-L6-v2 could not be fetched"
if [ -n "$model" ]; then export WHERRY_TEST_MODEL="$model"; fi

say "formatting, public headers as C99 and C++11"
check_format
check_headers

say "build"
quietly configure cmake --preset release -DWHERRY_WERROR=ON -DWHERRY_TESTS=ON -DWHERRY_CHECKS=ON
quietly build cmake --build --preset release
check_spirv
build/release/wherry devices

say "tests on ${WHERRY_TEST_DEVICES:-every usable device}, and the checkers"
# A core for each entry: CPU drivers' own threads would be more. test_training has them (tests/CMakeLists.txt).
export POCL_MAX_PTHREAD_COUNT=1 LP_NUM_THREADS=1
export WHERRY_TEST_TIMES=$PWD/build/times.log
: >build/times.log
failed=no
without_sweeps=(-LE sweep)
export WHERRY_CHECK_ALL=$sweeps
if [ "$sweeps" = yes ]; then without_sweeps=(); else export WHERRY_TEST_SAMPLE=11; fi
ctest --preset release "${without_sweeps[@]}" -j "$(($(nproc) + 1))" 2>&1 | tee build/ctest.log || failed=yes
say "where the time went: processor time and wall time, s"
sort -rn build/times.log | sed -n 1,16p # not head, which ends sort with SIGPIPE
awk '{ processor += $1 } END { printf "%8.1f in all\n", processor }' build/times.log
[ "$failed" = no ] || die "tests failed (all of it is in build/ctest.log)"
command -v chromedriver >/dev/null 2>&1 || skip "the report's page: no Chromium with its driver in this release"

say "passed; ctest's closing lines"
sed -n '/tests passed/,$p' build/ctest.log
if [ -s build/skipped.log ]; then
    printf '\nSKIPPED:\n'
    cat build/skipped.log
fi
