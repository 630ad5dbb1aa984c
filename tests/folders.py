"""Holds the folders to their order: a file includes, and an object is linked with, what is in its own folder or a lower
one. Fails with each line or symbol that points up.

usage: folders.py SOURCE_FOLDER [OBJECTS_FOLDER ...]   (without objects, or without nm, only the includes are read)
"""

import os
import re
import shutil
import subprocess
import sys

# From the lowest to the highest; folders of one line don't use each other.
ORDER = [
    ["core/include"],
    ["core/base"],
    ["core/interface"],
    ["core/graph"],
    ["core/model", "core/plan"],
    ["backends"],
    ["backends/opencl", "backends/vulkan", "backends/reference"],
    ["core/runtime"],
    ["core/analysis"],
    ["core/measure"],
    ["core/tune"],
    ["tools"],
]
RANK = {folder: rank for rank, folders in enumerate(ORDER) for folder in folders}
# The one list of backends names those that this build has.
ABOVE = {"backends/backends.c"}


def folder_of(path):
    """The folder of ORDER that a file is in, by the longest name that fits."""
    while path and path not in RANK:
        path = os.path.dirname(path)
    return path


def upward(user, used):
    """Whether a file may not use the other."""
    mine, its = folder_of(user), folder_of(used)
    if user in ABOVE or not mine or not its or mine == its:
        return False
    return RANK[its] >= RANK[mine]


def sources(root):
    for top in ("core", "backends", "tools"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def included(root, path, name):
    """The file of the project that the line means, None: it is somebody else's, or generated."""
    for base in (os.path.dirname(path), "core", "core/include", "", "tools"):
        found = os.path.normpath(os.path.join(base, name))
        if os.path.exists(os.path.join(root, found)):
            return found
    return None


def check_includes(root):
    wrong, count = [], 0
    for path in sources(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                match = re.match(r'#include ["<]([^">]+)[">]', line)
                found = match and included(root, path, match[1])
                count += bool(found)
                if found and upward(path, found):
                    wrong.append("%s:%d includes %s, which is above it" % (path, number, found))
    return wrong, count


def objects(folder, root):
    """{source: (symbols that it defines for others, symbols that it wants)}"""
    table = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            source = os.path.relpath(path, folder).removesuffix(".o")
            if name.endswith(".c.o") and os.path.exists(os.path.join(root, source)):  # else generated
                table[source] = (set(), set())
    files = [os.path.join(folder, source + ".o") for source in table]
    listed = subprocess.run(["nm", "-A", *files], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        path, _, rest = line.partition(":")
        *_, kind, symbol = rest.split()
        defined, wanted = table[os.path.relpath(path, folder)[: -len(".o")]]
        if kind == "U":
            wanted.add(symbol)
        elif kind.isupper() or kind in "wv":
            defined.add(symbol)
    return table


def check_objects(folders, root):
    table = {}
    for folder in folders:
        table.update(objects(folder, root))
    where = {symbol: source for source, (defined, _) in table.items() for symbol in defined}
    wrong, count = [], 0
    for source, (_, wanted) in sorted(table.items()):
        for symbol in sorted(wanted & where.keys()):
            count += 1
            if upward(source, where[symbol]):
                wrong.append("%s uses %s of %s, which is above it" % (source, symbol, where[symbol]))
    return wrong, count


def check_itself():
    """What must be found is."""
    assert upward("core/base/text.c", "core/plan/tiles.h") and not upward("core/plan/tiles.c", "core/base/text.h")
    assert upward("core/plan/tiles.c", "backends/backend.h") and upward("backends/vulkan/a.c", "backends/opencl/b.h")
    assert not upward("backends/opencl/a.c", "backends/backend.h") and not upward("tools/a.c", "tools/report/b.h")


def main():
    root, folders = sys.argv[1], sys.argv[2:]
    check_itself()
    wrong, includes = check_includes(root)
    linked = 0
    if folders and shutil.which("nm"):  # objects as on Linux and macOS
        more, linked = check_objects(folders, root)
        wrong += more
        if not linked:
            wrong.append("no objects in %s" % ", ".join(folders))
    for line in wrong:
        print(line)
    print("%d includes and %d symbols, %d point up" % (includes, linked, len(wrong)))
    return 1 if wrong or not includes else 0


sys.exit(main())
