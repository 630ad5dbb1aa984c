#!/usr/bin/env bash
# quick.sh: what `scripts/gpu.sh --quick` runs. In ten minutes at most, for each device: verify, roof, three encodes, one
# layer in training; one folder is the result, for `wherry report FOLDER...`. Needs bash and a build or an unpacked release;
# builds where there is neither and there is cmake. What no time is left for is left out and named.
#   BUILD    folder of the build, or of an unpacked release (default: build/release)
#   OUT      the folder of results, made anew (default: build/quick)
#   SECONDS_MOST   (default: 600)
#   DEVICES  device ids (default: GPUs that can be used; without one, CPU drivers and the host's cores)
#   ENCODES, LAYER   shapes, as MODEL:BATCHxSEQ and BATCHxSEQ (default: three of bench/results and 8x512 on a GPU, smaller
#            ones on a CPU, where ceilings are measured with less as well)
# Power is that of the one GPU that nvidia-smi or the kernel's hwmon tells of, sampled while a command runs; several GPUs,
# or none that tells: no power.json.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} out=${OUT:-build/quick} most=${SECONDS_MOST:-600}
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'quick: %s\n' "$*" >&2
    exit 1
}

# Sets `wherry`.
find_wherry() {
    local one
    for one in "$build/wherry" "$build/bin/wherry"; do
        if [ -x "$one" ]; then wherry=$one && return; fi
    done
    command -v cmake >/dev/null 2>&1 || die "no wherry in $build, and no cmake to build it: set BUILD to a build or an unpacked release"
    say "building"
    cmake --preset release -DWHERRY_TESTS=OFF >/dev/null
    cmake --build --preset release --target wherry_tool
    wherry=build/release/wherry
}

# "id type" of each usable device but the reference.
list_devices() {
    "$wherry" devices --json | tr -d '\n' | sed 's/{ *"id"/\n&/g' | grep '"usable": *true' |
        sed -n 's/.*"id": *"\([^"]*\)".*"type": *"\([^"]*\)".*/\1 \2/p' | grep -v '^reference '
}

# ---- power ----
watts_nvidia() { nvidia-smi --query-gpu=power.draw --format=csv,noheader,nounits 2>/dev/null; }
watts_hwmon() {
    local file
    for file in /sys/class/drm/card[0-9]/device/hwmon/hwmon*/power1_{average,input}; do
        [ ! -r "$file" ] || awk '{ printf "%.3f\n", $1 / 1e6 }' "$file" 2>/dev/null
    done
}

# Sets `power`: the function that prints the watts of the one GPU; "": nothing tells.
find_power() {
    local one value
    power=''
    for one in watts_nvidia watts_hwmon; do
        value=$("$one" || true)
        if [[ $value =~ ^[0-9]+([.][0-9]+)?$ ]]; then power=$one && return; fi
    done
}

sample_power() { # FILE
    while :; do
        "$power" >>"$1" || true
        sleep 0.2
    done
}

note_power() { # NAME SAMPLES
    awk -v name="$1" -v source="${power#watts_}" '/^[0-9.]+$/ { sum += $1; n++ }
        END { if (n) printf "\"%s\": {\"watts\": %.2f, \"samples\": %d, \"source\": \"%s\"}\n", name, sum / n, n, source }' \
        "$2" >>"$out/power.parts"
}

write_power() {
    [ -s "$out/power.parts" ] || return 0
    { printf '{"schema": "power-1", "files": {\n' && paste -sd, "$out/power.parts" && printf '}}\n'; } >"$out/power.json"
}

# ---- what is measured ----
left_out='' failed=''
# In what is left of the time; writes FILE. The host's cores have no sensor here.
measure() { # FILE DEVICE COMMAND...
    local left=$((most - SECONDS)) status=0 sampler=''
    if [ "$left" -lt 5 ]; then
        left_out="$left_out $1"
        return 0
    fi
    say "$1"
    if [ -n "$power" ] && [ "$2" != cpu ]; then
        sample_power "$out/samples" &
        sampler=$!
    fi
    timeout "$left" "${@:3}" -o "$out/$1" || status=$?
    if [ -n "$sampler" ]; then
        kill "$sampler" 2>/dev/null || true
        wait "$sampler" 2>/dev/null || true
        [ "$status" != 0 ] || [ ! -f "$out/samples" ] || note_power "$1" "$out/samples"
        rm -f "$out/samples"
    fi
    case $status in
    0) ;;
    124 | 137) left_out="$left_out $1" ;;
    *) failed="$failed $1" ;;
    esac
}

measure_device() { # ID TYPE
    local name=${1/:/-} encodes layer options=() shape
    encodes=${ENCODES:-minilm-l6:1x32 minilm-l6:8x128 bert-base:32x128} layer=${LAYER:-8x512}
    if [ "$2" = CPU ]; then
        encodes=${ENCODES:-minilm-l6:1x32 minilm-l6:8x128 bert-base:1x128} layer=${LAYER:-1x128}
        options=(--repeats 5 --warm 0.2)
    fi
    measure "verify-$name.txt" "$1" "$wherry" verify --config minilm-l6 --device "$1"
    measure "roof-$name.json" "$1" "$wherry" roof --device "$1" "${options[@]}" --json
    options+=(--roof no --caches warm)
    for shape in $encodes; do
        measure "bench-${shape/:/-}-$name.json" "$1" "$wherry" bench --config "${shape%%:*}" \
            --batch "$(cut -d: -f2 <<<"$shape" | cut -dx -f1)" --seq "${shape##*x}" --device "$1" "${options[@]}" --json
    done
    measure "layer-$layer-$name.json" "$1" "$wherry" bench layer --config bert-large --batch "${layer%x*}" \
        --seq "${layer#*x}" --device "$1" --plan flash --phase both --activation relu --dropout 0.1 "${options[@]}" --json
}

find_wherry
find_power
rm -rf "$out"
mkdir -p "$out"
"$wherry" devices --json -o "$out/devices.json"
list_devices >"$out/list" || die "no usable device: $("$wherry" devices 2>&1 | tail -n 3)"
if [ -n "${DEVICES:-}" ]; then
    for device in $DEVICES; do grep "^$device " "$out/list" || die "no usable device $device"; done >"$out/chosen"
elif grep -v ' CPU$' "$out/list" >"$out/chosen"; then
    grep '^cpu ' "$out/list" >>"$out/chosen" || true
else
    cp "$out/list" "$out/chosen"
fi
while read -r id type; do measure_device "$id" "$type"; done <"$out/chosen"
write_power

say "results"
{
    printf '# %s\n\n' "$(uname -m): $(cut -d' ' -f1 "$out/chosen" | paste -sd' ')"
    # shellcheck disable=SC2016 # Markdown
    printf 'By `scripts/gpu.sh --quick`, %s, %s, commit `%s`, %d s.\n\n' "$("$wherry" --version | sed -n 1p)" \
        "$(date -u +%Y-%m-%d)" "$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" "$SECONDS"
    printf '```\n' && "$wherry" devices && printf '```\n'
    [ -z "$left_out" ] || printf '\nLeft out, for want of time:%s\n' "$left_out"
    [ -z "$failed" ] || printf '\nFailed:%s\n' "$failed"
    [ -f "$out/power.json" ] || printf '\nNo driver told the power.\n'
} >"$out/README.md"
rm -f "$out"/{list,chosen,power.parts}
if compgen -G "$out/roof-*.json" >/dev/null || compgen -G "$out/bench-*.json" >/dev/null; then
    "$wherry" report "$out" -o "$out/index.html"
    "$wherry" report "$out" | sed -n '/^Ranking/,$p'
fi
printf '%s\n' "results: $out (index.html; wherry report $out OTHER... compares devices)"
[ -z "$left_out" ] || printf '%s\n' "left out, for want of time:$left_out"
[ -z "$failed" ] || die "failed:$failed"
