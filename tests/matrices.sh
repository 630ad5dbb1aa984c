#!/usr/bin/env bash
# matrices.sh [SHAPE...]
# Products and attention on cooperative matrices: test_groups of an already built Wherry, f16 in the plan flash, forward
# and backward with dropout, once with what VK_NV_cooperative_matrix2 adds and once with VK_KHR_cooperative_matrix alone.
# Prints a line for each case and how many groups were checked, and what a case that failed said.
#
# By a software driver: Mesa's lavapipe has both from 25.2 on, of 8x8x8 in sub-groups of 8, which is newer than Debian
# 12: so it runs in a root folder with a newer distribution. Minutes: lavapipe compiles matrices to plain code. On this
# machine's GPU: DEVICE=vulkan:0. Exit status 77: there is neither.
#   WHERRY_ROOT  the folder: WHERRY_ROOT/run COMMAND... runs a command in it, the folder that it is called from being
#                the command's own (unpack Debian's newest suite with debootstrap, with mesa-vulkan-drivers and
#                libcmocka0, and bind the folder by a script that calls chroot)
#   DEVICE       a device of this machine, which then needs no folder
#   COOPMAT2     "on", "off" (default: both, where the device has VK_NV_cooperative_matrix2)
#   JOBS         cases at the same time (default: 1)
#   BUILD        folder of the build (default: build/release)
#   SHAPE        shapes of test_groups (default: heads of 32, 64, 80, 96 and 128 channels, on a GPU also in sessions of
#                as many tokens as fill it, two with a bias by distance, and a mixture of experts)
set -euo pipefail
cd "$(dirname "$0")/.."
export build=${BUILD:-build/release} root=${WHERRY_ROOT:-} device=${DEVICE:-}
shapes=("$@")
[ ${#shapes[@]} -gt 0 ] || shapes=(head-128 head-96 distances-64 head-80 head-64 head-32 distances mixture-tiles)
[ $# -gt 0 ] || [ -z "${DEVICE:-}" ] || shapes+=(roomy roomy-32)

if [ -z "$device" ] && [ ! -x "$root/run" ]; then
    echo "matrices: WHERRY_ROOT is no folder with a newer distribution, and DEVICE is not set (see above)" >&2
    exit 77
fi
export work
work=$(mktemp -d "$build/matrices-XXXXXX")
trap 'rm -rf "$work"' EXIT
# The test's libraries, which the root lacks; the C library and the loader are the root's, whose driver needs them.
[ -n "$device" ] || ldd "$build/tests/test_groups" | awk '$3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libOpenCL|libvulkan)\.' | xargs -I{} cp -L {} "$work"

# one COOPMAT2 SHAPE CASE...: runs it and prints what came of it.
one() {
    local more=$1 shape=$2 names=" $2 ${*:3}." log begin=$SECONDS status=0
    local command=(env "WHERRY_COOPMAT2=$more" WHERRY_TEST_RUNG=coopmat "WHERRY_TEST_NAMES=$names" "$build/tests/test_groups" "$shape")
    log=$work/$more-${*// /-}
    if [ -n "$device" ]; then
        env "WHERRY_TEST_DEVICES=$device" "${command[@]}" >"$log" 2>&1 || status=1
    else
        "$root/run" env "LD_LIBRARY_PATH=$work" WHERRY_TEST_DEVICES=vulkan:0 "${command[@]}" >"$log" 2>&1 || status=1
    fi
    if grep -q 'no such shape' "$log" && grep -q ' on 1 devices' "$log"; then
        echo "left out:$names: the shape has no such case"
        return 0
    fi
    groups=$(sed -n 's/^\([0-9]*\) groups checked.*/\1/p' "$log")
    [ "${groups:-0}" -gt 0 ] || status=1
    printf '%s VK_NV_cooperative_matrix2 %s:%s %s groups, %s s\n' "$([ $status = 0 ] && echo passed || echo FAILED)" \
        "$more" "$names" "${groups:-0}" "$((SECONDS - begin))"
    [ $status = 0 ] || sed 's/^/    /' "$log"
    return $status
}
export -f one

failed=0
for more in ${COOPMAT2:-on off}; do
    for shape in "${shapes[@]}"; do
        for kind in '' ' training'; do
            last=' int8'
            [ -z "$kind" ] || last=' copied'
            for order in '' ' transposed' ' channel-major' "$last"; do
                printf '%s %s flash f16%s coopmat%s\n' "$more" "$shape" "$kind" "$order"
            done
        done
    done
done >"$work/cases"
# shellcheck disable=SC2016
xargs -P "${JOBS:-1}" -I CASE bash -c 'one $1' one CASE <"$work/cases" | tee "$work/lines" || failed=1
awk '/^(passed|FAILED)/ {n++; if ($1 == "passed") ok++; for (i = 2; i <= NF; i++) if ($i == "groups,") g += $(i - 1)}
     END {printf "%d of %d cases passed, %d groups checked\n", ok, n, g}' "$work/lines"
exit $failed
