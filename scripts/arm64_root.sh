#!/usr/bin/env bash
# arm64_root.sh FOLDER PACKAGE...
# Puts Debian's packages for 64-bit ARM, and what they depend on, into a new folder, once: for a cross compiler, or for
# QEMU to run. None of their scripts is run, and the system is left alone. A package "-NAME" comes without what it
# depends on. Exits with 77 and says why where this can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
case $1 in /*) root=$1 ;; *) root=$PWD/$1 ;; esac
work=$root-packages
shift
[ ! -e "$root/complete" ] || exit 0

unavailable() {
    printf '%s\n' "$*"
    exit 77
}
apt_here() { # with lists, files and architecture of its own
    (cd "$work" && apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists" \
        -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root "$@") \
        >"$work/log" 2>&1 || unavailable "apt-get $1 of arm64 packages failed: $(tail -n 1 "$work/log")"
}

for tool in apt-get dpkg-deb; do command -v $tool >/dev/null 2>&1 || unavailable "no $tool"; done
rm -rf "$root" "$work"
mkdir -p "$root" "$work/lists/partial" "$work/cache/archives/partial"
# shellcheck disable=SC1091
. /etc/os-release
[ "$ID" = debian ] || unavailable "no package sources of arm64 known for $ID"
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' |
    awk -v release="$VERSION_CODENAME" '$1 == release { print $2; exit }')
[ -n "$mirror" ] || unavailable "apt has no package lists of $VERSION_CODENAME"
printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$mirror" "$VERSION_CODENAME" \
    >"$work/sources.list"
: >"$work/status" # nothing is installed there
apt_here update
whole=() alone=()
for package; do case $package in -*) alone+=("${package#-}") ;; *) whole+=("$package") ;; esac; done
apt_here install --download-only --no-install-recommends "${whole[@]}"
[ ${#alone[@]} = 0 ] || apt_here download "${alone[@]}"
for package in "$work"/cache/archives/*.deb "$work"/*.deb; do
    [ ! -e "$package" ] || dpkg-deb -x "$package" "$root"
done
rm -rf "$work"
touch "$root/complete"
