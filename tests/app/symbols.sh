#!/usr/bin/env bash
# symbols.sh [--update] LIBRARY LIST
# What the shared library exports, and the number in its name, are those of a committed list: a name that goes, or one that is
# new, is seen when it happens (docs/abi.md). --update adds new names to the list; one that went needs a new number first.
set -euo pipefail
update=no
if [ "$1" = --update ]; then
    update=yes
    shift
fi
library=$1 list=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C
export LC_ALL
nm -D --defined-only "$library" | awk 'NF == 3 { print $3 }' | sort -u >"$work/now"
soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ -s "$work/now" ] && [ -n "$soname" ] || {
    printf 'symbols: %s exports nothing, or has no SONAME\n' "$library"
    exit 1
}
sed -n '1s/^soname //p' "$list" >"$work/soname"
sed "1d" "$list" | sort -u >"$work/listed"
gone=$(comm -23 "$work/listed" "$work/now") new=$(comm -13 "$work/listed" "$work/now")
status=0
if [ "$soname" = "$(cat "$work/soname")" ] && [ -n "$gone" ]; then
    printf 'symbols: %s no longer has what programs linked with %s call:\n%s\n' "$library" "$soname" "$gone"
    printf 'Give it back, or raise WHERRY_ABI in CMakeLists.txt (docs/abi.md) and update the list.\n'
    exit 1
fi
if [ "$soname" != "$(cat "$work/soname")" ] || [ -n "$new" ]; then
    if [ $update = yes ]; then
        { printf 'soname %s\n' "$soname" && cat "$work/now"; } >"$list.new" && mv "$list.new" "$list"
        printf 'symbols: %s: %d names\n' "$list" "$(wc -l <"$work/now")"
    else
        printf 'symbols: %s is %s, with names that %s (%s) does not list:\n%s\n' "$library" "$soname" "$list" \
            "$(cat "$work/soname")" "$new"
        printf 'Meant so? tests/app/symbols.sh --update %s %s\n' "$library" "$list"
        status=1
    fi
fi
exit $status
