#!/usr/bin/env bash
# spirv.sh [--check]
# Builds shaders/spirv, the committed modules of the shaders with cooperative matrices, which Debian 12's and Ubuntu
# 24.04's glslc can't build. With --check it changes nothing and compares: hashes always, and the modules themselves
# where this glslc is the one that they were built with (exit status 77: it can't compile them at all).
#   GLSLC      the compiler, with its arguments (default: glslc); needs GL_KHR_cooperative_matrix,
#              GL_NV_cooperative_matrix2 and GL_EXT_bfloat16: shaderc 2026 or newer
#   SPIRV_VAL  the validator of the same age (default: none)
set -euo pipefail
cd "$(dirname "$0")/.."

check=no
[ "${1:-}" != --check ] || check=yes
read -ra glslc <<<"${GLSLC:-glslc}"
read -ra validator <<<"${SPIRV_VAL:-}"
say() { printf 'spirv: %s\n' "$*" >&2; }

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
if [ $check = yes ]; then cmake -DMODE=check -P cmake/spirv.cmake; fi

version=$("${glslc[@]}" --version)
version=${version%%$'\n'*}
printf '#version 450\n#extension GL_KHR_cooperative_matrix : require\n#extension GL_NV_cooperative_matrix2 : require\n#extension GL_EXT_bfloat16 : require\nvoid main() {}\n' \
    >"$built/test.comp"
if ! "${glslc[@]}" --target-env=vulkan1.3 "$built/test.comp" -o "$built/test.spv" 2>/dev/null; then
    say "${glslc[*]} ($version) lacks the extensions of cooperative matrices, or that of bf16"
    [ $check = no ] && exit 1
    exit 77
fi

for module in $(cmake -DMODE=list -P cmake/spirv.cmake); do
    types=(-DF16=1)
    [ "${module##*_}" != bf16 ] || types+=(-DBF16=1)
    "${glslc[@]}" --target-env=vulkan1.3 -O "${types[@]}" -I core/interface "shaders/${module%_*}.comp" -o "$built/$module.spv"
    if [ ${#validator[@]} -gt 0 ]; then "${validator[@]}" --target-env vulkan1.3 "$built/$module.spv"; fi
done
rm "$built/test.comp" "$built/test.spv"
{
    printf '# Which source each module was built from (cmake/spirv.cmake), and by what: scripts/spirv.sh writes this file.\n'
    printf '# %s\n' "$version"
    cmake -DMODE=hash -P cmake/spirv.cmake
} >"$built/manifest"

if [ $check = no ]; then
    mkdir -p shaders/spirv
    rm -f shaders/spirv/*
    cp "$built"/* shaders/spirv/
elif ! grep -qxF "# $version" shaders/spirv/manifest; then
    say "the modules were built with another compiler than $version: they compile, and are not compared"
else
    diff -r "$built" shaders/spirv || {
        say "shaders/spirv is not what this source gives: run scripts/spirv.sh and commit the result"
        exit 1
    }
fi
