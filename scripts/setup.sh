#!/usr/bin/env bash
# setup.sh [build] [model] [check] [packages] [mpi]
# Installs what is missing for building and running (build, the default), for fetching the demo's model (model), for
# scripts/check.sh (check), for scripts/packages.sh (packages), and for training with many processes (mpi), which the build
# takes where it finds it. Debian 12 or 13, Ubuntu 24.04; as root or through sudo. What is there already is left alone.
set -eu

# "what to look for:package": a command on the PATH, or, for "-", the package itself.
build_needs="
    gcc:gcc -:libc6-dev cmake:cmake ninja:ninja-build pkg-config:pkgconf
    -:libjansson-dev -:libutf8proc-dev -:libpcre2-dev -:zlib1g-dev -:libcmocka-dev
    glslc:glslc -:libvulkan-dev -:mesa-vulkan-drivers
    -:opencl-headers -:ocl-icd-libopencl1 -:libclblast-dev -:pocl-opencl-icd"
model_needs="python3:python3 -:ca-certificates"
check_needs="g++:g++ -:ocl-icd-opencl-dev -:vulkan-validationlayers spirv-val:spirv-tools python3:python3
    -:python3-jsonschema"
mpi_needs="-:libopenmpi-dev mpirun:openmpi-bin"
packages_needs="dpkg-shlibdeps:dpkg-dev lintian:lintian debootstrap:debootstrap"
# Not in every release: check.sh says so where it has to do without.
check_wants="ccache:ccache clang-19:clang-19 spirv-cross:spirv-cross -:rocm-device-libs clang-format-14:clang-format-14 clang-14:clang-14
    -:libclang-rt-14-dev oclgrind:oclgrind -:liboclgrind-dev -:libdnnl-dev
    chromium:chromium chromedriver:chromium-driver -:python3-selenium -:python3-numpy
    x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64-win32 x86_64-w64-mingw32-g++:g++-mingw-w64-x86-64-win32
    -:libz-mingw-w64-dev wine:wine -:wine64 qemu-x86_64:qemu-user"
# The build does without, and leaves wherry-serve out.
build_wants="-:libmicrohttpd-dev"

say() { printf 'setup: %s\n' "$*" >&2; }

installed() { # PACKAGE
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in *' installed') return 0 ;; esac
    return 1
}

available() { # PACKAGE
    [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]
}

# Prints the packages among "what:package" words that are missing.
missing_of() {
    local need what package
    for need in "$@"; do
        what=${need%%:*} package=${need#*:}
        if [ "$what" != - ] && command -v "$what" >/dev/null 2>&1; then continue; fi
        if [ "$have_apt" = yes ] && installed "$package"; then continue; fi
        printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo "$@"
    else
        say "needs root: run as root, or install by hand: $missing"
        exit 1
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        say "apt-get $1 failed (above); still missing: $missing"
        exit 1
    }
}

have_apt=no
if command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; then have_apt=yes; fi

needs='' wants=''
for what in "${@:-build}"; do
    case $what in
    build) needs="$needs $build_needs" wants="$wants $build_wants" ;;
    model)
        needs="$needs $model_needs"
        python3 -m pip --version >/dev/null 2>&1 || needs="$needs -:python3-pip"
        ;;
    packages) needs="$needs $packages_needs" ;;
    mpi) needs="$needs $mpi_needs" ;;
    check) needs="$needs $check_needs" wants="$wants $check_wants" ;;
    *)
        say "unknown part '$what'; parts are build, model, check, packages, mpi"
        exit 2
        ;;
    esac
done

# shellcheck disable=SC2086 # lists of words
missing=$(missing_of $needs)
# shellcheck disable=SC2086
wanted=$(missing_of $wants)
[ -n "$missing$wanted" ] || exit 0
if [ "$have_apt" = no ]; then
    [ -n "$missing" ] || exit 0
    say "this system has no apt; install the equivalents of these Debian packages (libraries can't be looked for here," \
        "some may be there already), then run the build by hand as the README says: $missing"
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT

lists_complete() {
    local package
    for package in $missing; do available "$package" || return 1; done
}

# What is optional and not in this release must not cost an update every time.
if [ -n "$missing" ] || ! available libc6; then
    say "reading package lists"
    apt update
fi
# Most of these are in Ubuntu's component universe, which may be off.
# shellcheck disable=SC1091
if ! lists_complete && [ "$(. /etc/os-release && echo "$ID")" = ubuntu ]; then
    say "enabling Ubuntu's component universe"
    command -v add-apt-repository >/dev/null 2>&1 || apt install -y --no-install-recommends software-properties-common
    as_root add-apt-repository -y universe >"$log" 2>&1
    apt update
fi
for package in $missing; do
    available "$package" || {
        say "no package '$package' here: made for Debian 12, Debian 13 and Ubuntu 24.04. Needed: $missing"
        exit 1
    }
done
for package in $wanted; do
    if available "$package"; then missing="$missing$package "; else say "no package '$package' here, going on without"; fi
done
[ -n "$missing" ] || exit 0
say "installing $missing"
# shellcheck disable=SC2086
apt install -y --no-install-recommends $missing
