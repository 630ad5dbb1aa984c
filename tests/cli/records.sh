# What the tests of records share besides expect.sh. Sourced, after $here and $python.
# shellcheck shell=bash disable=SC2154 # set by the script that sources this
schema=${SCHEMA:-$here/../../docs/report.schema.json}

if "$python" -c 'import jsonschema' 2>/dev/null; then have_jsonschema=yes; else have_jsonschema=no; fi
valid() { # FILE...: they fit the schema
    if [ $have_jsonschema = yes ]; then check "$python" "$here/../report/check_schema.py" "$schema" "$@"; fi
}
no_nan() { ! grep -q -i -w -e nan -e inf -e infinity "$1"; }
csv() { # CONDITION: of the rows of the last output
    "$python" -c 'import csv,sys; rows=list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8")))
assert '"$1"', rows[:2]' "$work/out"
}
