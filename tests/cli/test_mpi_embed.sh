#!/usr/bin/env bash
# Tests wherry embed below mpirun: the bytes of one process with any number of them, also after one was killed in the middle
# and the job goes on with another number; and what ends a job: a bad line, another model, texts that can't be read twice.
# WHERRY: the command. Exits with 77 where there is no mpirun, or WHERRY has no MPI.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wherry=${WHERRY:?set WHERRY to the command}
python=${PYTHON:-python3}
# shellcheck source=tests/cli/expect.sh
. "$here/expect.sh"
cd "$work" || exit 1
# shellcheck source=tests/cli/mpirun.sh
. "$here/mpirun.sh"
check "$python" "$here/make_model.py" model
# Several parts: the first file ends without a line's end, the JSON has blank lines, an object in a hundred of them an id.
check "$python" -c '
import random
random.seed(1)
words = ["the", "boat", "water", "a", "b", "c", "boat boat", "x y z"]
texts = [" ".join(random.choice(words) for _ in range(random.randint(0, 12))) for _ in range(9000)]
open("a.txt", "w").write("\n".join(texts[:6000]))
open("b.txt", "w").write("\n".join(texts[6000:]) + "\n")
with open("texts.jsonl", "w") as f:
    for n, text in enumerate(texts[:4000]):
        f.write("{\"text\": \"%s\"%s}\n%s" % (text, ", \"id\": %d" % n if n % 100 == 0 else "", "\n \n" if n % 7 == 0 else ""))
open("many.txt", "w").write("\n".join(texts * 5))'
embed=("$wherry" embed --quiet --model model)
if "${mpirun[@]}" -n 1 "${embed[@]}" --device cpu --output one b.txt 2>err; then pass; else
    if grep -q 'without MPI' err; then
        echo "built without MPI: skipped"
        exit 77
    fi
    flunk "mpirun -n 1"
fi

# ---- the same bytes ----
same() { # DEVICE PROCESSES ARGUMENT...
    local device=$1 processes=$2
    shift 2
    expect 0 '' "${embed[@]}" --device "$device" --output alone "$@"
    expect 0 '' "${mpirun[@]}" -n "$processes" "${embed[@]}" --device "$device" --output together "$@"
    check cmp alone together
    check test ! -e together.parts
    rm -f alone together
}
same cpu 2 a.txt b.txt
same cpu 3 --format npy --output-type binary a.txt b.txt
same cpu 2 --input jsonl --json --with-text texts.jsonl
same cpu 2 --format jsonl --output-type tokens b.txt

# ---- killed in the middle, it goes on with what is done, with another number of processes ----
expect 0 '' "${embed[@]}" --device cpu --format npy --output whole many.txt
many=("$wherry" embed --model model --device cpu --threads 1 --format npy --output cut many.txt)
some() { [ "$(find cut.parts -name 'part-*[0-9]' ! -name '*.part' 2>/dev/null | wc -l)" -ge 3 ]; }
set -m
"${mpirun[@]}" -n 2 bash -c 'echo $$ >pid_${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exec "$@"' bash "${many[@]}" >out 2>err &
job=$!
for ((tries = 0; tries < 3000; tries++)); do
    if some || ! kill -0 $job 2>/dev/null; then break; fi
    sleep 0.005
done
check kill -KILL "$(cat pid_1)"
if wait $job; then flunk "the job goes on without a process"; else pass; fi
set +m
check test ! -e cut
check some
expect 0 'parts were done before' "${mpirun[@]}" -n 3 "${many[@]}"
check cmp whole cut
check test ! -e cut.parts
# What is kept of other texts, or of another model, is not taken.
"${mpirun[@]}" -n 1 timeout -s INT 0.6 "${many[@]}" >out 2>err
check test -e cut.parts
sed 's/boat/water/' many.txt >other.txt
expect 0 '' "${embed[@]}" --device cpu --format npy --output whole other.txt
expect 0 '' "${mpirun[@]}" -n 2 "${many[@]/many.txt/other.txt}" --quiet
check cmp whole cut

# ---- what ends a job: one message of this command's, and no output ----
fails() { # PATTERN COMMAND...
    local pattern=$1 got=0 begin=$SECONDS
    shift
    "$@" >out 2>err || got=$?
    check test "$got" -ne 0
    check test $((SECONDS - begin)) -lt 30
    check test "$(grep -c '^wherry: ' err)" -eq 1
    check grep -q -e "$pattern" err
    check test ! -e bad
}
own=("${embed[@]}" --device cpu --output bad)
{ cat texts.jsonl && printf '{"txt": "the b"}\n'; } >broken.jsonl
fails "broken.jsonl, line $(wc -l <broken.jsonl)" "${mpirun[@]}" -n 2 "${own[@]}" --input jsonl texts.jsonl broken.jsonl
fails 'can.t be read twice' "${mpirun[@]}" -n 2 "${own[@]}" a.txt -
fails '.--output FILE is needed' "${mpirun[@]}" -n 1 "${embed[@]}" a.txt
check cp -r model second
check "$python" "$here/make_model.py" second embeddings.LayerNorm.bias all 0.5
fails 'process 1 has other embeddings' "${mpirun[@]}" -n 2 bash -c \
    'if [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" = 1 ]; then set -- "$@" --model second; fi; exec "$@"' bash "${own[@]}" a.txt
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
