#!/usr/bin/env bash
# serve_bench.sh [OUT]
# Measures an already built wherry-serve on loopback with hey (Debian's package of that name): 64 clients of one sentence
# each, and a query with 100 texts to rank. A table, hey's own output and the server's metrics go to OUT (default:
# build/serve). Installs nothing, compiles nothing.
#   BUILD      folder of the build (default: build/release)
#   DEVICES    one after the other (default: the one that wherry takes)
#   MODEL      folder of the model (default: one of all-MiniLM-L6-v2's shape with random weights, made in OUT of VOCABULARY)
#   RERANKER   the same of a reranker
#   VOCABULARY vocab.txt of BERT's uncased models (default: MODEL's)
#   CLIENTS    of one sentence each (default: 64)
#   SECONDS_EACH  that each measuring takes (default: 10)
#   HEY        the program (default: hey)
#   PYTHON     a Python with sentence-transformers, which then answers the same requests on the host's cores, behind the
#              smallest server there is (tests/serve/python_server.py), in the same run; needs MODEL (default: none)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/build/serve} build=${BUILD:-$root/build/release} hey=${HEY:-hey} clients=${CLIENTS:-64} each=${SECONDS_EACH:-10}
mkdir -p "$out"
die() {
    printf 'serve_bench: %s\n' "$*" >&2
    exit 1
}
command -v "$hey" >/dev/null 2>&1 || die "needs hey: apt-get install hey"
[ -x "$build/wherry-serve" ] || die "$build/wherry-serve is not built (libmicrohttpd-dev)"

vocabulary=${VOCABULARY:-${MODEL:+$MODEL/vocab.txt}}
made() { # NAME [rerank]
    [ -f "$out/$1/model.safetensors" ] || {
        [ -f "$vocabulary" ] || die "needs MODEL and RERANKER, or VOCABULARY, of which it makes them with random weights"
        python3 "$root/tests/serve/make_minilm.py" "$out/$1" "$vocabulary" "${@:2}"
    }
    printf '%s' "$out/$1"
}
model=${MODEL:-$(made minilm-random)} reranker=${RERANKER:-$(made minilm-random-reranker rerank)}
python3 - "$out" <<'MAKE'
import json, random, sys
words = "a boat carries goods and people over the river while water runs below its light hull and wind fills small sails".split()
generator = random.Random(1)
def text(count): return " ".join(generator.choice(words) for _ in range(count))
for name, value in (("sentence", {"inputs": text(12)}),
                    ("pairs", {"query": text(8), "texts": [text(24) for _ in range(100)]})):
    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
        json.dump(value, file)
MAKE

server='' table=$out/serve.txt
finish() {
    [ -z "$server" ] || {
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    }
    server=''
}
trap finish EXIT
address() { # LOG: waits until it listens
    local found=''
    for _ in $(seq 3000); do
        found=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$1")
        [ -z "$found" ] || break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    [ -n "$found" ] || {
        cat "$1" >&2
        die "it did not start"
    }
    printf '%s' "$found"
}
row() { # WHO WHAT CLIENTS LOG
    awk -v who="$1" -v what="$2" -v clients="$3" '
        /Requests\/sec:/ { rate = $2 }
        /% in / { at[$1] = 1000 * $3 }
        /^ *\[[0-9]+\]/ { status = status " " $1 $2 }
        END { printf "%-26s %-22s %7s %12.1f %9.1f %9.1f %s\n", who, what, clients, rate, at["50%"], at["99%"], status }' "$4" |
        tee -a "$table"
}
load() { # WHO NAME WHAT CLIENTS URL BODY
    local log=$out/$2.txt
    "$hey" -z 2s -c "$4" -m POST -T application/json -D "$out/$6" "$5" >/dev/null # warm
    "$hey" -z "${each}s" -c "$4" -m POST -T application/json -D "$out/$6" "$5" >"$log"
    row "$1" "$3" "$4" "$log"
}

printf '%-26s %-22s %7s %12s %9s %9s %s\n' server what clients requests/s 'p50 ms' 'p99 ms' statuses | tee "$table"
for device in ${DEVICES:-default}; do
    option=()
    [ "$device" = default ] || option=(--device "$device")
    name=${device//:/-}
    "$build/wherry-serve" --model "embed=$model" --model "rank=$reranker" "${option[@]}" --port 0 --max-client-batch-size 128 \
        2>"$out/server-$name.txt" &
    server=$!
    url=$(address "$out/server-$name.txt")
    load "wherry-serve $device" "embed-$name" "1 sentence" "$clients" "$url/embed" sentence.json
    load "wherry-serve $device" "embed-one-$name" "1 sentence" 1 "$url/embed" sentence.json
    load "wherry-serve $device" "rerank-$name" "100 pairs" 1 "$url/rerank" pairs.json
    python3 -c 'import sys, urllib.request as r
for page in "metrics", "info": open(f"{sys.argv[2]}-{page}.txt", "wb").write(r.urlopen(f"{sys.argv[1]}/{page}").read())' \
        "$url" "$out/$name"
    finish
done
if [ -n "${PYTHON:-}" ]; then
    [ -n "${MODEL:-}" ] || die "PYTHON needs MODEL, the folder that both read"
    "$PYTHON" "$root/tests/serve/python_server.py" "$model" 2>"$out/server-python.txt" &
    server=$!
    url=$(address "$out/server-python.txt")
    load "sentence-transformers cpu" embed-python "1 sentence" "$clients" "$url/embed" sentence.json
    load "sentence-transformers cpu" embed-one-python "1 sentence" 1 "$url/embed" sentence.json
    finish
fi
{
    printf 'host: %s, %s cores; %s; hey on the same host\n' "$(uname -sr)" "$(nproc)" "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | sed -n 1p)"
    "$build/wherry-serve" --version
} | tee -a "$table"
