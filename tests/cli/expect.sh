# What the command's tests share: a folder $work that goes at the end, and ways to run and to count. Sourced, after
# $python.
# shellcheck shell=bash disable=SC2154 # set by the script that sources this
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

pass() { passed=$((passed + 1)); }
flunk() {
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$*"
    sed 's/^/    /' "$work/${log:-err}"
}
# expect CODE PATTERN COMMAND...: this exit code, and on standard error a line with PATTERN ('' : nothing at all)
expect() {
    local code=$1 pattern=$2 got=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" || got=$?
    if [ "$got" -ne "$code" ]; then
        flunk "exit $got, $code expected: $*"
        head -n 20 "$work/out" | cut -c1-300 | sed 's/^/    /'
    elif [ -z "$pattern" ] && [ -s "$work/err" ]; then
        flunk "unexpected message: $*"
    elif [ -n "$pattern" ] && ! grep -q -e "$pattern" "$work/err"; then
        flunk "no message with '$pattern': $*"
    else
        pass
    fi
}
# check COMMAND...: it succeeds; leaves what the last command wrote as it is
check() {
    if "$@" >"$work/log" 2>&1; then pass; else log=log flunk "$*"; fi
}
has() { grep -q -e "$1" "$work/out"; }
json() { "$python" -c "import json,sys; d=json.load(open(sys.argv[1])); assert $1, d" "$work/out"; }
