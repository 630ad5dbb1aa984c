#!/usr/bin/env bash
# app.sh [native] [windows]
# Installs the library, moves the folder, and builds and runs an application against it (tests/app): C and C++, through
# find_package and pkg-config, shared and static. "windows" does the same with mingw-w64, and runs it under Wine.
# Prints "SKIPPED: reason" for what can't be done here; the exit status is 0 only when all that ran passed.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD work=$PWD/build/app

die() {
    printf 'app: %s\n' "$*" >&2
    exit 1
}
quietly() { # COMMAND...: the output is shown when it fails
    "$@" >"$work/log" 2>&1 || {
        tail -n 60 "$work/log"
        die "failed: $*"
    }
}

# install_moved BUILD: installs into one folder, moves it to another, $prefix, and looks for traces of this machine.
install_moved() {
    prefix=$work/moved\ here/$(basename "$1")
    rm -rf "$work/installed" "$prefix"
    mkdir -p "$(dirname "$prefix")"
    quietly cmake --install "$1" --prefix "$work/installed"
    mv "$work/installed" "$prefix"
    modules=$prefix/lib/pkgconfig
    if grep -rnE "$source|$work|/usr/" "$prefix/lib/cmake" "$modules"; then die "a path of this machine is installed"; fi
}

# The words of pkg-config, which escapes spaces.
pc_words=()
pc() { # OPTION... MODULE
    local words
    words=$(pkg-config "$@") || die "pkg-config $* failed"
    eval "pc_words=($words)"
}

# build_apps FOLDER PREFIX-OF-TOOLS CMAKE-OPTION...: eight applications, $work/FOLDER/{cmake,pkgconfig}_{shared,static}/app_{c,cpp}
# The shared library's users need no pkg-config, and no module of a library that it was linked with.
build_apps() {
    local folder=$work/$1 tools=$2 kind language compiler module static
    shift 2
    for kind in shared static; do
        static=(-DSTATIC=ON)
        [ $kind = static ] || static=(-DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON)
        quietly cmake -G Ninja -S tests/app -B "$folder/cmake_$kind" -DCMAKE_PREFIX_PATH="$prefix" "${static[@]}" "$@"
        quietly cmake --build "$folder/cmake_$kind"
        mkdir -p "$folder/pkgconfig_$kind"
        module=wherry-static
        [ $kind = static ] || module=wherry
        if [ $kind = shared ]; then
            PKG_CONFIG_LIBDIR=$modules pc --cflags --libs $module
        else
            PKG_CONFIG_PATH=$modules pc --cflags --libs $module
        fi
        for language in c cpp; do
            compiler=${tools}gcc
            [ $language = c ] || compiler=${tools}g++
            quietly "$compiler" -Wall -Wextra -Werror tests/app/app.$language -o "$folder/pkgconfig_$kind/app_$language$suffix" \
                "${pc_words[@]}" -lm "${flags[@]}"
        done
    done
}

# What the applications must compute.
texts=("a boat." "the water, the boat")
make_expected() {
    [ -x build/release/wherry ] || {
        quietly cmake --preset release
        quietly cmake --build --preset release
    }
    quietly python3 tests/cli/make_model.py "$work/model"
    printf '%s\n' "${texts[@]}" >"$work/texts"
    build/release/wherry embed --quiet --device reference --model "$work/model" "$work/texts" >"$work/expected"
}

# build_alone KIND OPTION...: a build without the other library, and with these options, installed: an application finds this
# one, and is told of the other. So each is a build without some backends, too.
build_alone() {
    local kind=$1 folder=$work/alone_$1 static=OFF other=ON launcher=()
    shift
    if command -v ccache >/dev/null 2>&1; then launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache); fi
    quietly cmake -G Ninja -B "$folder" -DWHERRY_CPU_SETS= -DWHERRY_TESTS=OFF -DWHERRY_WERROR=ON -DCMAKE_BUILD_TYPE=Debug \
        -DCMAKE_C_FLAGS_DEBUG=-O0 "$@" "${launcher[@]}"
    quietly cmake --build "$folder"
    rm -rf "$folder/installed"
    quietly cmake --install "$folder" --prefix "$folder/installed"
    [ $kind = shared ] || static=ON other=OFF
    [ -e "$folder/installed/lib/libwherry.so" ] || [ $kind = static ] || die "no shared library in $folder/installed"
    quietly cmake -G Ninja -S tests/app -B "$folder/app" -DCMAKE_PREFIX_PATH="$folder/installed" -DSTATIC=$static
    quietly cmake --build "$folder/app"
    "$folder/app/app_c" "$work/model" "$work/expected" "${texts[@]}" || die "failed: $folder/app/app_c"
    LD_LIBRARY_PATH=$folder/installed/lib "$folder/installed/bin/wherry" devices >/dev/null || die "$kind alone: wherry devices failed"
    if cmake -G Ninja -S tests/app -B "$folder/other" -DCMAKE_PREFIX_PATH="$folder/installed" -DSTATIC=$other >"$work/log" 2>&1; then
        die "the library that was not built was found in $folder/installed"
    fi
    grep -q 'not built' "$work/log" || die "no word of what was not built in $work/log"
    # And goes again, but for what others put there.
    mkdir -p "$folder/installed/include/others"
    touch "$folder/installed/include/others/header.h"
    quietly cmake --build "$folder" --target uninstall
    [ "$(find "$folder/installed" -type f -o -type l)" = "$folder/installed/include/others/header.h" ] ||
        die "uninstalling leaves $(find "$folder/installed" -type f -o -type l)"
    [ ! -e "$folder/installed/include/wherry" ] || die "uninstalling leaves $folder/installed/include/wherry"
}

check_native() {
    local app binary
    suffix=
    make_expected
    install_moved build/release
    flags=("-Wl,-rpath,$prefix/lib")
    build_apps native ''
    cmp "$work/expected" <("$prefix/bin/wherry" embed -q --device reference --model "$work/model" "$work/texts") ||
        die "the installed command prints something else"
    for app in cmake_shared cmake_static pkgconfig_shared pkgconfig_static; do
        for binary in "$work/native/$app"/app_{c,cpp}; do
            "$binary" "$work/model" "$work/expected" "${texts[@]}" || die "failed: $binary"
            if readelf -d "$binary" | grep 'NEEDED.*libwherry' >/dev/null; then linked=shared; else linked=static; fi
            [ "${app#*_}" = $linked ] || die "$binary is linked with the $linked library"
        done
    done

    # An application by itself.
    quietly cmake -G Ninja -S examples/search -B "$work/native/search" -DCMAKE_PREFIX_PATH="$prefix"
    quietly cmake --build "$work/native/search"
    mkdir -p "$work/native/texts"
    printf '%s\n' "${texts[1]}" >"$work/native/texts/one.txt"
    quietly "$work/native/search/search" --device reference --model "$work/model" --query "${texts[1]}" "$work/native/texts"
    grep -q '^1.000 one.txt:1 ' "$work/log" || die "examples/search does not find a text ($work/log)"

    # What static users miss is said, and shared users need nothing of it.
    if PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH='' cmake -G Ninja -S tests/app -B "$work/native/missing" \
        -DCMAKE_PREFIX_PATH="$prefix" -DSTATIC=ON >"$work/log" 2>&1; then
        die "wherry::static was found without jansson"
    fi
    grep -q 'wherry::static needs what was not found: jansson' "$work/log" || die "no word of jansson in $work/log"

    build_alone shared -DWHERRY_STATIC_LIBRARY=OFF -DWHERRY_OPENCL=OFF
    build_alone static -DWHERRY_SHARED_LIBRARY=OFF -DWHERRY_VULKAN=OFF -DWHERRY_CLBLAST=OFF -DWHERRY_CPU=OFF

    # Folders given as absolute paths.
    quietly cmake -G Ninja -B "$work/absolute" -DWHERRY_VULKAN=OFF -DWHERRY_OPENCL=OFF -DWHERRY_TESTS=OFF \
        -DCMAKE_INSTALL_PREFIX=/opt/wherry -DCMAKE_INSTALL_LIBDIR=/opt/libraries -DCMAKE_INSTALL_INCLUDEDIR=/opt/headers
    [ "$(PKG_CONFIG_LIBDIR=$work/absolute pkg-config --cflags --libs wherry | xargs)" = \
        "-I/opt/headers -L/opt/libraries -lwherry" ] || die "absolute folders are wrong in $work/absolute/wherry.pc"
    printf 'app: native passed\n'
}

# Names that a Windows program or library exports.
exports() { x86_64-w64-mingw32-objdump -p "$1" | awk '/Ordinal\/Name Pointer/ { on = 1; next } NF < 2 { on = 0 } on { print $NF }'; }

check_windows() {
    local reason status=0 app binary imports exported
    reason=$(scripts/mingw.sh) || status=$?
    case $status in
    0) ;;
    77)
        printf 'SKIPPED: build for Windows: %s\n' "$reason"
        return
        ;;
    *) die "scripts/mingw.sh: $reason" ;;
    esac
    scripts/windows.sh --build || die "the build for Windows failed"
    suffix=.exe
    install_moved build/mingw
    tests/app/names.sh x86_64-w64-mingw32-nm core/include/wherry "$prefix/lib/libwherry.a"
    exports "$prefix/bin/libwherry.dll" | sort >"$work/exports"
    x86_64-w64-mingw32-nm -g --defined-only "$prefix/lib/libwherry.a" | awk 'NF == 3 { print $3 }' | sort |
        diff "$work/exports" - || die "libwherry.dll exports something else than libwherry.a has"
    imports=$(x86_64-w64-mingw32-objdump -p "$prefix/bin/libwherry.dll" | sed -n 's/.*DLL Name: \(lib.*\)/\1/p')
    [ -z "$imports" ] || die "libwherry.dll loads $imports, which Windows lacks"
    exported=$(exports "$prefix/bin/wherry.exe")
    [ -z "$exported" ] || die "wherry.exe exports $exported"
    if strings "$prefix/lib/libwherry.dll.a" | grep 'wherry\.exe' >/dev/null; then die "the import library is the command's"; fi

    flags=(-static-libgcc -static-libstdc++)
    export PKG_CONFIG_LIBDIR=$source/build/mingw-root/lib/pkgconfig
    build_apps windows x86_64-w64-mingw32- -DCMAKE_TOOLCHAIN_FILE="$source/cmake/toolchains/mingw-w64.cmake" \
        -DCMAKE_FIND_ROOT_PATH="$prefix" -DCMAKE_EXE_LINKER_FLAGS="${flags[*]}"
    unset PKG_CONFIG_LIBDIR
    for binary in "$work"/windows/*/app_*.exe; do
        app=$(basename "$(dirname "$binary")")
        imports=$(x86_64-w64-mingw32-objdump -p "$binary" | sed -n 's/.*DLL Name: \(.*wherry.*\)/\1/p')
        case $app:$imports in
        *_shared:libwherry.dll | *_static:) ;;
        *) die "$binary loads '$imports'" ;;
        esac
    done
    printf 'app: windows built\n'
    run_windows
}

run_windows() {
    local binary number=0
    export WINEPREFIX=$source/build/mingw-wine WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml=' LC_ALL=C.UTF-8
    unset DISPLAY
    command -v wine >/dev/null 2>&1 || {
        printf 'SKIPPED: running the programs built for Windows: no wine\n'
        return
    }
    timeout 1800 wine cmd /c exit 0 >"$work/log" 2>&1 || {
        printf 'SKIPPED: running the programs built for Windows: wine does not start (%s)\n' "$(tail -n 1 "$work/log")"
        return
    }
    make_expected
    cp "$prefix/bin/libwherry.dll" "$work/windows"
    for binary in "$work"/windows/*/app_*.exe; do # beside the DLL, which Windows looks for there
        number=$((number + 1))
        cp "$binary" "$work/windows/$number.exe"
        (cd "$work" && timeout 1800 wine "windows/$number.exe" model expected "${texts[@]}") || die "failed: $binary"
    done
    # Arguments are UTF-8: a name of letters of several code pages, and a model's folder.
    cp "$work/texts" "$work/é-ш-語.txt"
    rm -rf "$work/модель"
    cp -r "$work/model" "$work/модель"
    (cd "$work" && timeout 1800 wine "$prefix/bin/wherry.exe" embed --quiet --device reference --model модель -o ж-é.out é-ш-語.txt) ||
        die "wherry.exe failed with names in UTF-8"
    diff <(tr -d '\r' <"$work/ж-é.out" | tr ' ' '\n') <(tr ' ' '\n' <"$work/expected") >/dev/null ||
        die "wherry.exe's embeddings are not those of the native build"
    scripts/windows.sh cpu heads || die "tests on Windows failed"
    printf 'app: windows passed, under %s\n' "$(wine --version)"
}

mkdir -p "$work"
for part in "${@:-native}"; do
    case $part in
    native) check_native ;;
    windows) (check_windows) ;;
    *) die "unknown part '$part'; parts are native, windows" ;;
    esac
done
