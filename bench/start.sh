#!/usr/bin/env bash
# start.sh [DEVICE...]
# Measures what a process needs until its first embedding, part by part (`wherry embed --timings`), with warm caches and
# with cold ones, beside what the driver alone takes to open its device (bench/start/open_device.c), in turns, and prints a
# table in Markdown. Caches are folders of its own, the drivers' too. Needs an already built Wherry with tests.
#   DEVICE  ids (default: cpu, and the first usable device of each API)
#   BUILD   folder of the build (default: build/release)
#   MODEL   model folder (default: what scripts/model.sh fetches)
#   WARM    warm starts of each device (default: 11)
#   COLD    cold starts of each device (default: 3)
#   BIG     "yes": also a model of the size of XLM-R large, 1.1 GB of random f16, in BIG_MODEL (default: no)
#   BIG_MODEL  its folder, made where it is missing (default: build/xlm-r-large-sized)
#   OUT     file for the table (default: standard output)
# A machine with a driver and nothing else: DEBS=FOLDER scripts/gpu.sh brings the loaders; then this.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} big=${BIG_MODEL:-build/xlm-r-large-sized}
[ -x "$build/wherry" ] || {
    echo "start: there is no $build/wherry: build it first, or set BUILD" >&2
    exit 1
}
model=${MODEL:-$(scripts/model.sh)}
if [ $# -eq 0 ]; then
    mapfile -t devices < <("$build/wherry" devices --json | python3 -c '
import json, sys
listed = json.load(sys.stdin)
listed = listed["devices"] if isinstance(listed, dict) else listed
seen = set()
for device in listed:
    api = device["id"].split(":")[0]
    if device["usable"] and api != "reference" and api not in seen:
        seen.add(api)
        print(device["id"])')
    set -- "${devices[@]}"
fi
options=(--wherry "$build/wherry" --model "$model" --warm "${WARM:-11}" --cold "${COLD:-3}")
[ -x "$build/tests/open_device" ] && options+=(--open "$build/tests/open_device")
if [ "${BIG:-no}" = yes ]; then
    [ -e "$big/model.safetensors" ] || python3 bench/start/make_model.py "$big"
    options+=(--big "$big")
fi
[ -n "${OUT:-}" ] && options+=(--output "$OUT")
exec python3 bench/start/measure.py "${options[@]}" "$@"
