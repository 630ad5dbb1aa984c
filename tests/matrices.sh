#!/usr/bin/env bash
# matrices.sh [SHAPE...]
# Products and attention on cooperative matrices by a software driver: test_groups of an already built Wherry, f16 in
# the plan flash, forward and backward, once with what VK_NV_cooperative_matrix2 adds and once with
# VK_KHR_cooperative_matrix alone. Mesa's lavapipe has both from 25.2 on, of 8x8x8 in sub-groups of 8, which is newer
# than Debian 12: so it runs in a root folder with a newer distribution. Minutes: lavapipe compiles matrices to plain
# code. Exit status 77: there is no such folder.
#   WHERRY_ROOT  the folder: WHERRY_ROOT/run COMMAND... runs a command in it, the folder that it is called from being
#                the command's own (unpack Debian's newest suite with debootstrap, with mesa-vulkan-drivers and
#                libcmocka0, and bind the folder by a script that calls chroot)
#   BUILD        folder of the build (default: build/release)
#   SHAPE        shapes of test_groups (default: heads of 32, 64, 80 and 128 channels, one with odd sizes, and two with a
#                bias by distance)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release} root=${WHERRY_ROOT:-}
shapes=("$@")
[ ${#shapes[@]} -gt 0 ] || shapes=(head-32 head-64 head-80 head-128 distances distances-64)

if [ ! -x "$root/run" ]; then
    echo "matrices: WHERRY_ROOT is no folder with a newer distribution (see above)" >&2
    exit 77
fi
# The test's library, where the root lacks it.
libraries=$(mktemp -d "$build/libraries-XXXXXX")
trap 'rm -rf "$libraries"' EXIT
cp -L "$(ldd "$build/tests/test_groups" | awk '/libcmocka/ {print $3}')" "$libraries"

failed=0
for more in on off; do
    for shape in "${shapes[@]}"; do
        printf '== %s, VK_NV_cooperative_matrix2 %s\n' "$shape" "$more"
        "$root/run" env LD_LIBRARY_PATH="$libraries" WHERRY_COOPMAT2=$more WHERRY_TEST_DEVICES=vulkan:0 \
            WHERRY_TEST_NAMES="${NAMES:-coopmat}" "$build/tests/test_groups" "$shape" || failed=1
    done
done
exit $failed
