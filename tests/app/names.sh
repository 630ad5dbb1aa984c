#!/usr/bin/env bash
# names.sh NM HEADERS ARCHIVE [SHARED]
# An application may have any name of its own that does not begin with wherry_: what the libraries define for others is
# what the public headers declare, and nothing else.
set -euo pipefail
nm=$1 headers=$2 archive=$3 shared=${4:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Comments name functions too, and some wrap a declaration's line: what is declared ends with its name and a bracket.
sed -n '/^WHERRY_API/s/^WHERRY_API [^(]*[ *]\(wherry_[a-z0-9_]*\)(.*/\1/p' "$headers"/*.h | sort -u >"$work/declared"
[ "$(wc -l <"$work/declared")" -gt 50 ] || {
    printf 'names: found few declarations in %s\n' "$headers"
    exit 1
}
status=0
compare() { # WHAT NM-OPTION...
    local what=$1
    shift
    "$nm" "$@" | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
    if ! diff "$work/declared" "$work/defined" >"$work/diff"; then
        printf 'names: %s does not define what the headers declare (<), or more (>), %d differences:\n' "$what" \
            "$(grep -c '^[<>]' "$work/diff")"
        grep '^[<>]' "$work/diff" | head -n 20
        status=1
    fi
}
compare "$archive" -g --defined-only "$archive"
if [ -n "$shared" ]; then compare "$shared" -D --defined-only "$shared"; fi
exit $status
