#!/usr/bin/env bash
# threads.sh [DEVICE...]
# Builds the library with ThreadSanitizer and runs what several threads do with one context and one device (tests/test_threads.c)
# and with shared weights (tests/test_sharing.c), on these devices or on every usable one; and losses and training, masked words too
# (test_loss.c, test_masked.c, test_trainer.c), on `cpu`, whose threads are ours. A race ends it with status 1. Drivers are not compiled with
# the sanitizer: of what they do with their own memory it sees nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/threads
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWHERRY_TESTS=ON -DWHERRY_CPU_SETS=avx512 -DCMAKE_C_FLAGS='-fsanitize=thread -O1 -g1' \
    -DCMAKE_EXE_LINKER_FLAGS=-fsanitize=thread ${CMAKE_C_COMPILER_LAUNCHER:+-DCMAKE_C_COMPILER_LAUNCHER=$CMAKE_C_COMPILER_LAUNCHER} >$build.log 2>&1 ||
    { cat $build.log >&2 && exit 1; }
cmake --build $build --target test_threads test_sharing test_loss test_masked test_trainer >>$build.log 2>&1 || { tail -n 40 $build.log >&2 && exit 1; }
export WHERRY_TEST_CACHE=$PWD/build/kernel-cache TSAN_OPTIONS="halt_on_error=1 exitcode=1 ${TSAN_OPTIONS:-}"
[ $# = 0 ] || export WHERRY_TEST_DEVICES="$*"
for name in threads sharing; do
    $build/tests/test_$name
done
for name in loss masked trainer; do
    WHERRY_TEST_DEVICES=cpu $build/tests/test_$name
done
