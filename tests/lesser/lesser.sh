#!/usr/bin/env bash
# The device cpu on lesser processors than this one, as QEMU emulates them: the set of instructions that is chosen, the same
# bits as that set gives here, and no instruction that the processor lacks, in the library or before main().
# WHERRY: the command. TEST_CPU, INSTRUCTIONS: programs of the tests. PYTHON.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
test_cpu=${TEST_CPU:?} instructions=${INSTRUCTIONS:?}
# No drivers: they are not what is tested, and their compilers take long here.
export OCL_ICD_VENDORS=/nonexistent VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent
unset WHERRY_CPU_ISA
command -v qemu-x86_64 >/dev/null 2>&1 || {
    printf 'SKIPPED: the device cpu on lesser processors: no qemu-x86_64 (qemu-user)\n'
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
failed=0
fail() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}
on() { # PROCESSOR COMMAND...; what it says has been said when it returns
    local processor=$1 status=0
    shift
    qemu-x86_64 -cpu "$processor" "$@" 2>"$work/said" || status=$?
    grep -v 'TCG doesn.t support' "$work/said" >&2
    return $status
}

"${PYTHON:-python3}" "$here/../cli/make_model.py" "$work/model" || exit 1
printf 'the boat\nwater, water!\na long text of many letters\n' >"$work/texts"
embed=("$wherry" embed --quiet --model "$work/model" "$work/texts")

# Processor, the set that it has, one that it lacks.
while read -r processor set lacking; do
    on "$processor" "$instructions" "$lacking" >/dev/null 2>&1
    [ $? = 132 ] || fail "$processor: the emulator runs $lacking, so nothing is proved"
    chosen=$(on "$processor" "$wherry" devices --json | sed -n 's/.*"name": "host processor (\([^,)]*\).*".*/\1/p')
    [ "$chosen" = "$set" ] || fail "$processor: $chosen was chosen, not $set"
    on "$processor" "${embed[@]}" >"$work/emulated" || fail "$processor: embed"
    if [ "$set" = baseline ] || "$instructions" "$set" >/dev/null 2>&1; then
        WHERRY_CPU_ISA=$set "${embed[@]}" --device cpu >"$work/here" || fail "embed with $set"
        cmp "$work/emulated" "$work/here" || fail "$processor: other bits than $set gives here"
    else
        printf '%s: bits were compared with nothing: this processor lacks %s\n' "$processor" "$set"
    fi
    if on "$processor" "${embed[@]}" --dtype bf16 >/dev/null 2>"$work/log" || ! grep -q "AVX512-BF16 or AMX: use f32" "$work/log"; then
        fail "$processor: bf16 is not refused by a sentence: $(head -n 3 "$work/log")"
    fi
    on "$processor" "$test_cpu" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log"
        fail "$processor: test_cpu"
    }
    printf '%s: %s\n' "$processor" "$chosen"
done <<'PROCESSORS'
Nehalem baseline avx2
Haswell avx2 avx512
PROCESSORS
exit $failed
