#!/usr/bin/env bash
# mingw.sh
# Puts what a build for Windows needs into build/mingw-root, once: jansson, utf8proc and PCRE2 from the distribution's
# sources, compiled with mingw-w64 as static libraries, mingw's zlib, cmocka for the tests, and the headers of Vulkan and OpenCL. Exits with 77 and says
# why where this can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/mingw-root
[ ! -e "$root/complete" ] || exit 0

unavailable() {
    printf '%s\n' "$*"
    exit 77
}
triple=x86_64-w64-mingw32
for tool in gcc g++ windres objcopy; do
    command -v $triple-$tool >/dev/null 2>&1 || unavailable "no $triple-$tool (gcc-mingw-w64-x86-64, g++-mingw-w64-x86-64)"
done
[ -e /usr/$triple/lib/libz.a ] || unavailable "no zlib for mingw (libz-mingw-w64-dev)"
[ -e /usr/include/vulkan/vulkan.h ] || unavailable "no headers of Vulkan (libvulkan-dev)"
[ -e /usr/include/CL/cl.h ] || unavailable "no headers of OpenCL (opencl-headers)"
command -v apt-get >/dev/null 2>&1 || unavailable "no apt-get to fetch the sources of jansson, utf8proc and PCRE2 with"

# The sources' package lists and files stay in this folder, the system's own are left alone.
work=$PWD/build/mingw-source
rm -rf "$root" "$work"
mkdir -p "$root/include" "$root/lib/pkgconfig" "$work/lists/partial" "$work/cache/archives/partial"
# shellcheck disable=SC1091
. /etc/os-release
case $ID in
debian | ubuntu) ;;
*) unavailable "no package sources known for $ID" ;;
esac
# From where this system has its packages, which has their sources, too.
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 2>/dev/null |
    awk -v release="$VERSION_CODENAME" '$1 == release { print $2; exit }')
[ -n "$mirror" ] || unavailable "apt has no package lists of $VERSION_CODENAME"
components=main
[ "$ID" = debian ] || components='main universe'
printf 'deb-src [signed-by=/usr/share/keyrings/%s-archive-keyring.gpg] %s %s %s\n' "$ID" "$mirror" "$VERSION_CODENAME" \
    "$components" >"$work/sources.list"
apt_source() {
    (cd "$work" && apt-get -q -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@") >"$work/log" 2>&1 ||
        unavailable "apt-get $1 of sources failed: $(tail -n 1 "$work/log")"
}
apt_source update
apt_source source --download-only --tar-only jansson utf8proc pcre2 cmocka
for archive in "$work"/*.orig.tar.*; do tar -xf "$archive" -C "$work"; done

build() { # FOLDER OPTION...
    local source=$1
    shift
    cmake -G Ninja -S "$source" -B "$source/build" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/mingw-w64.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$root" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@" &&
        cmake --build "$source/build" && cmake --install "$source/build"
}
{
    build "$work"/jansson-* -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    build "$work"/utf8proc-*
    build "$work"/pcre2-* -DPCRE2_BUILD_TESTS=OFF -DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_SUPPORT_JIT=ON -DPCRE2_STATIC_PIC=ON
    build "$work"/cmocka-* -DCMAKE_SHARED_LINKER_FLAGS=-static-libgcc -DWITH_EXAMPLES=OFF -DUNIT_TESTING=OFF
} >"$work/log" 2>&1 || {
    tail -n 40 "$work/log"
    exit 1
}
# Their .pc files are those of shared libraries.
sed -i 's/-DUTF8PROC_EXPORTS/-DUTF8PROC_STATIC/' "$root/lib/pkgconfig/libutf8proc.pc"
grep -q DPCRE2_STATIC "$root/lib/pkgconfig/libpcre2-8.pc" ||
    sed -i 's/^Cflags:.*/& -DPCRE2_STATIC/' "$root/lib/pkgconfig/libpcre2-8.pc"
ln -s /usr/$triple/lib/libz.a "$root/lib/libz.a" # without the import library beside it
printf 'Name: zlib\nDescription: static\nVersion: 1\nLibs: -L%s/lib -lz\n' "$root" >"$root/lib/pkgconfig/zlib.pc"
ln -s /usr/include/vulkan "$root/include/vulkan"
ln -s /usr/include/CL "$root/include/CL"
[ ! -d /usr/include/vk_video ] || ln -s /usr/include/vk_video "$root/include/vk_video"
rm -rf "$work"
touch "$root/complete"
