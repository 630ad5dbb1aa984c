#!/usr/bin/env bash
# packages.sh [build] [root]
# build: makes Debian's packages, a .tar.gz and a .zip in build/packages/out, and looks at what they say that they need; lintian
# looks, too. root: makes a clean root folder of Debian 12 (build/packages/minbase.tar, once), where
# there is no driver and no loader, installs the packages there, lists devices, compiles the example of libwherry-dev and runs
# it; likewise from the .tar.gz. Both without a part. As root, on Debian 12: a root folder is changed to, nothing is mounted.
# Prints "SKIPPED: reason" and exits with 77 where this can't be done.
#   WHERRY_TEST_MODEL  folder of a model for the example (default: a made-up one)
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD work=$PWD/build/packages out=$PWD/build/packages/out

die() {
    printf 'packages: %s\n' "$*" >&2
    exit 1
}
unavailable() {
    printf 'SKIPPED: packages: %s\n' "$*"
    exit 77
}
quietly() { # COMMAND...: the output is shown when it fails
    "$@" >"$work/log" 2>&1 || {
        tail -n 60 "$work/log"
        die "failed: $*"
    }
}

# ---- build ----

build() {
    local launcher=() tool
    for tool in dpkg-deb dpkg-shlibdeps dpkg-buildflags gzip; do
        command -v $tool >/dev/null 2>&1 || unavailable "no $tool (dpkg-dev)"
    done
    if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
    export SOURCE_DATE_EPOCH
    # The distribution's hardening, without debugging information, which the packages would not keep.
    quietly cmake -G Ninja -B "$work/tree" -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr -DWHERRY_TESTS=OFF "${launcher[@]}" \
        -DCMAKE_C_FLAGS="$(dpkg-buildflags --get CFLAGS | sed 's/-g //') $(dpkg-buildflags --get CPPFLAGS) -DNDEBUG" \
        -DCMAKE_SHARED_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS) -Wl,-z,now" \
        -DCMAKE_EXE_LINKER_FLAGS="$(dpkg-buildflags --get LDFLAGS) -Wl,-z,now"
    quietly cmake --build "$work/tree"
    rm -rf "$out"
    mkdir -p "$out"
    quietly cpack --config "$work/tree/CPackConfig.cmake" -G DEB -B "$out"
    quietly cpack --config "$work/tree/CPackConfig.cmake" -G TGZ -B "$out"
    quietly cpack --config "$work/tree/CPackConfig.cmake" -G ZIP -B "$out"
    rm -rf "$out/_CPack_Packages"
    ls -s --block-size=1k "$out"
    look
}

package() { # NAME: its file
    local found
    found=$(find "$out" -name "$1_*.deb")
    [ -n "$found" ] || die "no package $1 in $out"
    printf '%s' "$found"
}

# What the packages say that they need, and what is in them.
look() {
    local needs name file
    needs=$(dpkg-deb -f "$(package libwherry0)" Depends)
    for name in libc6 libjansson4 libutf8proc2; do
        grep -q "\b$name\b" <<<"$needs" || die "libwherry0 does not depend on $name: $needs"
    done
    if grep -qE 'opencl|clblast|pcre|vulkan' <<<"$needs"; then die "libwherry0 depends on what is opened at run time: $needs"; fi
    grep -q 'libwherry0 (= ' <<<"$(dpkg-deb -f "$(package libwherry-dev)" Depends)" || die "libwherry-dev is of no libwherry0"
    dpkg-deb --ctrl-tarfile "$(package libwherry0)" | tar -xO ./shlibs | grep '^libwherry 0 ' >/dev/null || die "libwherry0 has no shlibs"
    for file in "$out"/*.deb; do
        printf '%s: %s\n' "$(basename "$file")" "$(dpkg-deb -f "$file" Depends)"
    done
    if command -v lintian >/dev/null 2>&1; then
        lintian --fail-on error,warning "$out"/*.deb || die "lintian complains"
        printf 'lintian: nothing to say\n'
    else
        printf 'SKIPPED: lintian: it is not installed\n'
    fi
}

# ---- a clean root ----

root=$work/root
inside() { # COMMAND...
    chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

make_root() {
    local mirror
    [ "$(id -u)" = 0 ] || unavailable "a clean root: not root"
    command -v debootstrap >/dev/null 2>&1 || unavailable "a clean root: no debootstrap"
    mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk '$1 == "bookworm" { print $2; exit }')
    [ -n "$mirror" ] || unavailable "a clean root: apt has no package lists of bookworm"
    if [ ! -e "$work/minbase.tar" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=gcc,libc6-dev,pkgconf bookworm "$root" "$mirror" >"$work/log" 2>&1 || {
            tail -n 5 "$work/log"
            unavailable "a clean root: debootstrap failed"
        }
        tar -C "$root" -cf "$work/minbase.tar.new" . && mv "$work/minbase.tar.new" "$work/minbase.tar"
    fi
    rm -rf "$root"
    mkdir -p "$root"
    tar -C "$root" -xf "$work/minbase.tar"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# Lists devices and runs the example; $1: how it is compiled there.
try() { # WHAT COMPILE...
    local what=$1 said
    shift
    inside wherry devices >"$work/devices" 2>&1 || die "$what: wherry devices failed: $(cat "$work/devices")"
    grep -q '^cpu ' "$work/devices" || die "$what: no device cpu: $(cat "$work/devices")"
    for said in 'opencl:0.*libOpenCL.so.1: cannot open shared object file' 'vulkan:0.*libvulkan.so.1: cannot open shared object file'; do
        grep -q "$said" "$work/devices" || die "$what: no word of '$said': $(cat "$work/devices")"
    done
    quietly inside "$@"
    inside /root/embed /root/model 'a boat' 'the water' >"$work/similar" 2>&1 || die "$what: the example failed: $(cat "$work/similar")"
    grep -q '1.000' "$work/similar" || die "$what: the example prints: $(cat "$work/similar")"
    printf 'packages: %s: devices listed, the example compiled and run\n' "$what"
}

clean_root() {
    local model=${WHERRY_TEST_MODEL:-} archive
    [ -n "$(find "$out" -name '*.deb' 2>/dev/null)" ] || build
    make_root
    if [ -z "$model" ]; then
        model=$work/model
        quietly python3 tests/cli/make_model.py "$model"
    fi
    cp -rL "$model" "$root/root/model"
    cp "$out"/*.deb "$root/root/"
    quietly inside apt-get -q update
    # shellcheck disable=SC2046 # names without spaces
    quietly inside apt-get -q -y --no-install-recommends install $(cd "$root" && printf './%s ' root/*.deb)
    # shellcheck disable=SC2016 # for the shell there
    try 'Debian packages' sh -c \
        'cc -Wall -o /root/embed $(find /usr/share/doc/libwherry-dev -name "embed.c") $(pkg-config --cflags --libs wherry) -lm'
    inside ldd /root/embed | grep 'libwherry.so.0 => /' >/dev/null || die "the example is not linked with the installed library"
    quietly inside apt-get -q -y purge wherry libwherry-dev libwherry0
    [ -z "$(find "$root/usr" -iname '*wherry*')" ] || die "purging leaves $(find "$root/usr" -iname '*wherry*')"

    archive=$(find "$out" -name '*.tar.gz')
    tar -C "$root/opt" -xzf "$archive"
    mv "$root"/opt/wherry-* "$root/opt/moved"
    ln -sf /opt/moved/bin/wherry "$root/usr/bin/wherry"
    # shellcheck disable=SC2016
    try 'tar.gz' sh -c 'export PKG_CONFIG_PATH=$(dirname $(find /opt -name wherry.pc)); lib=$(dirname $PKG_CONFIG_PATH)
        cc -Wall -o /root/embed $(find /opt -name embed.c) $(pkg-config --cflags --libs wherry) -Wl,-rpath,$lib -lm'
    rm -rf "$root"
}

mkdir -p "$work"
for part in "${@:-all}"; do
    case $part in
    build) build ;;
    root) clean_root ;;
    all)
        build
        clean_root
        ;;
    *) die "unknown part '$part'; parts are build, root" ;;
    esac
done
