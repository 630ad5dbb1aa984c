#!/usr/bin/env bash
# drivers.sh [DRIVER...]
# Runs an already built Wherry's tests of devices on every software driver that is there, each driver alone, and writes
# tests/drivers.md, a table of drivers by suites with the counts and seconds of its logs. By hand: it takes hours for all.
#   pocl-debian lavapipe-debian oclgrind   this machine's PoCL, lavapipe, Oclgrind
#   intel                                  Intel's OpenCL for CPUs (INTEL)
#   pocl-ROOT lavapipe-ROOT rusticl-ROOT   drivers of other root folders (ROOTS)
#   BUILD    folder of the build (default: build/release)
#   OUT      folder for logs; those of drivers and suites that are not run again stay (default: build/drivers)
#   ROOTS    NAME=FOLDER ...: folders whose `root` is the root of a newer Debian, made by debootstrap with
#            mesa-vulkan-drivers, pocl-opencl-icd, ocl-icd-libopencl1, libvulkan1, and mesa-opencl-icd for rusticl.
#            (rusticl of Mesa 26 needs another libclc than LLVM 22's: docs/vendors.md.)
#            Wherry's own libraries come from this machine. Needs root; nothing is written there (default: newest=DIR
#            where WHERRY_ROOT=DIR is set)
#   INTEL    folder into which Intel's runtime was unpacked (the package intel-opencl-rt, with tbb and umf beside it)
#   SUITES   default: "groups encode training golden verify-minilm verify-bert"
#   GROUPS_NAMES, GROUPS_SHAPES, TRAINING   what is run of test_groups ("" names: all its combinations) and
#            test_training (default: "", "tiny odd head-64", "model-mean post-gelu")
#   LIMIT    seconds that one suite may take; one that takes longer is ended and counts as unfinished (default: 3600)
#   TABLE    where the table goes (default: tests/drivers.md)
#   WHERRY_TEST_MODEL    folder of all-MiniLM-L6-v2; without it golden and verify-minilm are skipped
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release} out=${OUT:-build/drivers} limit=${LIMIT:-3600} table=${TABLE:-tests/drivers.md}
suites=${SUITES:-groups encode training golden verify-minilm verify-bert}
names=${GROUPS_NAMES-} shapes=${GROUPS_SHAPES:-tiny odd head-64} training=${TRAINING:-model-mean post-gelu}
roots=${ROOTS-${WHERRY_ROOT:+newest=$WHERRY_ROOT}} model=${WHERRY_TEST_MODEL:-}
say() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }
die() {
    printf 'drivers: %s\n' "$*" >&2
    exit 1
}

# What runs beside another root's C library; the loaders are that root's, for they know its drivers.
pack_libraries() {
    mkdir -p "$out/lib"
    ldd "$build/wherry" "$build"/tests/test_{groups,encode,training,golden} | awk '$3 ~ /^\// {print $3}' | sort -u |
        grep -vE '/(libc|libm|libgcc_s|libstdc\+\+|libOpenCL|libvulkan)\.' | xargs -I{} cp -Lu {} "$out/lib/"
}

# In a copy of the root that is gone afterwards, with this tree, the build and the model where they are here.
# shellcheck disable=SC2016 # expanded inside
in_root() { # FOLDER COMMAND...
    unshare --mount --fork --kill-child bash -eu -c '
        root=$1 tree=$2; shift 2
        mount -t tmpfs tmpfs /mnt
        mkdir /mnt/upper /mnt/work /mnt/root
        mount -t overlay overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
        for folder in "$tree" $BOUND; do
            [ -d "$folder" ] || continue
            mkdir -p "/mnt/root$folder"
            mount --bind "$folder" "/mnt/root$folder"
        done
        mount -t proc proc /mnt/root/proc; mount -t sysfs sysfs /mnt/root/sys; mount --rbind /dev /mnt/root/dev
        exec chroot /mnt/root sh -c "cd \"\$1\" && shift && exec \"\$@\"" sh "$tree" "$@"' bash "$1/root" "$PWD" "${@:2}"
}

# Sets `run`, the words before a command on that driver, and `device`; or `why` it can't be run.
vulkan_here() { # PATTERN
    local icd
    icd=$(find /usr/share/vulkan/icd.d /etc/vulkan/icd.d -name "$1" 2>/dev/null | sed -n 1p)
    [ -n "$icd" ] || { why="no $1 on this machine" && return; }
    run=(env "VK_DRIVER_FILES=$icd" "VK_ICD_FILENAMES=$icd" OCL_ICD_VENDORS=/nonexistent) device=vulkan:0
}

opencl_here() { # ICD
    [ -f "/etc/OpenCL/vendors/$1" ] || { why="no $1 on this machine" && return; }
    run=(env "OCL_ICD_VENDORS=/etc/OpenCL/vendors/$1" VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent) device=opencl:0
}

intel() {
    local library folders
    [ -n "${INTEL:-}" ] || { why="INTEL is not set" && return; }
    library=$(find "$INTEL" -name 'libintelocl.so' | sed -n 1p)
    [ -n "$library" ] || { why="no libintelocl.so under $INTEL" && return; }
    folders=$(find "$INTEL" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
    mkdir -p "$out/intel"
    readlink -f "$library" >"$out/intel/intel.icd"
    run=(env "OCL_ICD_VENDORS=$out/intel/" "LD_LIBRARY_PATH=$folders" VK_DRIVER_FILES=/nonexistent
        VK_ICD_FILENAMES=/nonexistent) device=opencl:0
}

oclgrind_here() {
    command -v oclgrind >/dev/null 2>&1 || { why="oclgrind is not installed" && return; }
    run=(env VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent WHERRY_TEST_FEW=1 oclgrind) device=opencl:oclgrind
}

of_root() { # DRIVER NAME
    local folder='' one icd=/usr/share/vulkan/icd.d/lvp_icd.json none=/nonexistent
    for one in $roots; do [ "${one%%=*}" != "$2" ] || folder=${one#*=}; done
    [ -n "$folder" ] || { why="no root folder $2 in ROOTS" && return; }
    [ -d "$folder/root/usr" ] || { why="$folder/root is no root folder" && return; }
    run=("$PWD/scripts/drivers.sh" in-root "$folder" env "LD_LIBRARY_PATH=$out/lib" HOME=/tmp XDG_RUNTIME_DIR=/tmp)
    case $1 in
    lavapipe)
        [ -f "$folder/root$icd" ] || icd=$(cd "$folder/root" && find usr/share/vulkan -name 'lvp*.json' | sed 's,^,/,' | sed -n 1p)
        [ -n "$icd" ] || { why="no lavapipe in it" && return; }
        run+=("VK_DRIVER_FILES=$icd" "OCL_ICD_VENDORS=$none") device=vulkan:0
        ;;
    *)
        [ -f "$folder/root/etc/OpenCL/vendors/$1.icd" ] || { why="no $1.icd in it" && return; }
        run+=("OCL_ICD_VENDORS=/etc/OpenCL/vendors/$1.icd" RUSTICL_ENABLE=llvmpipe "VK_DRIVER_FILES=$none") device=opencl:0
        ;;
    esac
}

choose() { # DRIVER
    run=() device='' why=''
    case $1 in
    pocl-debian) opencl_here pocl.icd ;;
    lavapipe-debian) vulkan_here 'lvp_icd*.json' ;;
    oclgrind) oclgrind_here ;;
    intel) intel ;;
    *-*) of_root "${1%%-*}" "${1#*-}" ;;
    *) die "no driver $1" ;;
    esac
}

suite() { # NAME: sets `command`, or `why` it is left out
    command=()
    case $1 in
    groups)
        # shellcheck disable=SC2206 # a list of shapes
        command=(env "WHERRY_TEST_NAMES=$names" "$build/tests/test_groups" $shapes)
        [ -n "$names" ] || command=("$build/tests/test_groups" "${command[@]:3}")
        ;;
    training)
        # shellcheck disable=SC2206 # a list of files
        command=("$build/tests/test_training" $training)
        ;;
    verify-bert) command=("$build/wherry" verify --config bert-base --lengths "17,5" --device "$device") ;;
    verify-minilm | golden)
        if [ -z "$model" ]; then
            why="WHERRY_TEST_MODEL is not set"
        elif [ "$1" = golden ]; then
            command=("$build/tests/test_golden")
        else
            command=("$build/wherry" verify --model "$model" --device "$device")
        fi
        ;;
    *) command=("$build/tests/test_$1") ;;
    esac
}

run_suite() { # DRIVER SUITE
    local log=$out/$1.$2.log status=0 start=$SECONDS
    why=''
    suite "$2"
    if [ -n "$why" ]; then
        printf '%s\n' "$why" >"$log"
        status=77
    else
        timeout "$limit" "${run[@]}" "${command[@]}" >"$log" 2>&1 || status=$?
    fi
    printf '%s %s %s %s\n' "$status" "$((SECONDS - start))" "$(date -u +%Y-%m-%d)" "$commit" >"$out/$1.$2.status"
    printf '%s\n' "$1 $2: status $status, $((SECONDS - start)) s: $(tail -n 1 "$log")"
}

run_driver() { # DRIVER
    local list=$out/$1.devices.json name
    choose "$1"
    if [ -z "$why" ]; then
        export WHERRY_TEST_DEVICES=$device WHERRY_TEST_MODEL=$model WHERRY_TEST_CACHE=$out/cache-$1
        export BOUND="$out $build $model"
        mkdir -p "$WHERRY_TEST_CACHE"
        if ! timeout "$limit" "${run[@]}" "$build/wherry" devices --json >"$list.new" 2>"$out/$1.devices.log"; then
            why="wherry devices failed: $(tail -n 1 "$out/$1.devices.log")"
        elif ! grep -q "\"${device%%:*}:" "$list.new"; then
            why="the loader finds no device of this driver"
        else
            mv "$list.new" "$list"
        fi
    fi
    if [ -n "$why" ]; then
        say "$1: SKIPPED: $why"
        rm -f "$list" "$list.new"
        return
    fi
    say "$1"
    for name in $suites; do run_suite "$1" "$name"; done
}

if [ "${1:-}" = in-root ]; then
    shift
    in_root "$@"
    exit
fi
[ -x "$build/wherry" ] || die "no $build/wherry: build it first, or set BUILD"
mkdir -p "$out"
out=$(cd "$out" && pwd) build=$(cd "$build" && pwd)
pack_libraries
printf '%s\n' "shapes ${shapes}${names:+ (of these, combinations with \"$names\" in their names)}" >"$out/groups.txt"
commit=$("$build/wherry" --version | sed -n 's/.*commit \([^)]*\)).*/\1/p')
printf '%s\n' "$training" >"$out/training.txt"
if [ $# -eq 0 ]; then
    set -- pocl-debian lavapipe-debian oclgrind intel
    for one in $roots; do set -- "$@" "pocl-${one%%=*}" "lavapipe-${one%%=*}" "rusticl-${one%%=*}"; done
fi
for driver in "$@"; do run_driver "$driver"; done
python3 tests/drivers.py "$out" --write "$table"
