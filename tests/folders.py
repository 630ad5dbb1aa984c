"""Holds the folders to their order: a file includes, and an object is linked with, what is in its own folder or a lower
one. Inside a folder objects use each other one way: none needs one that needs it, directly or through others. Fails with
each line or symbol that points up, and with a circle of each folder that has one.

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
    ["core/tokenizer"],
    ["core/interface"],
    ["core/graph"],
    ["core/model", "core/plan"],
    ["backends"],
    ["backends/opencl", "backends/vulkan", "backends/cpu", "backends/reference", "backends/target"],
    ["core/runtime"],
    ["core/train"],
    ["core/analysis"],
    ["core/measure"],
    ["core/tune"],
    ["tools"],
    ["tools/serve"],
]
RANK = {folder: rank for rank, folders in enumerate(ORDER) for folder in folders}
# The one list of backends names those that this build has.
ABOVE = {"backends/backends.c"}
# What is left of circles: the first file uses the second, which needs it; the reason.
CIRCLES = {}


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


def circle(uses):
    """A shortest one of {file: files that it uses}, as the list of its files, None: there is none."""
    best = None
    for start in sorted(uses):
        paths, reached = [[start]], {start}
        while paths:
            path = paths.pop(0)
            others = uses.get(path[-1], ())
            if start in others:
                best = path if not best or len(path) < len(best) else best
                break
            paths += [path + [other] for other in sorted(others) if other not in reached]
            reached.update(others)
    return best


def needed_by(uses, file):
    """All that it uses, directly or through others."""
    found, wave = set(), [file]
    while wave:
        wave = [other for other in uses.get(wave.pop(), ()) if other not in found] + wave
        found.update(wave)
    return found


def check_circles(table, where, known):
    """Of files of one folder (not of those below it)."""
    everything, folders = {}, {}
    for source, (_, wanted) in table.items():
        for symbol in wanted & where.keys():
            other = where[symbol]
            if other != source and os.path.dirname(other) == os.path.dirname(source):
                everything.setdefault(source, set()).add(other)
                if (source, other) not in known:
                    folders.setdefault(os.path.dirname(source), {}).setdefault(source, set()).add(other)
    wrong = []
    for folder, uses in sorted(folders.items()):
        files = circle(uses)
        if files:
            steps = []
            for file, other in zip(files, files[1:] + files[:1]):
                symbols = sorted(symbol for symbol in table[file][1] if where.get(symbol) == other)
                steps.append("%s of %s" % (symbols[0], os.path.basename(other)))
            wrong.append("%s: a circle: %s uses %s" % (folder, os.path.basename(files[0]), ", which uses ".join(steps)))
    for user, used in sorted(known):
        built = all(table.get(file, (None,))[0] for file in (user, used))
        if built and not (used in everything.get(user, ()) and user in needed_by(everything, used)):
            wrong.append("%s and %s are no circle any more: take the pair out of CIRCLES" % (user, used))
    return wrong


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
    return wrong + check_circles(table, where, CIRCLES), count


def check_itself():
    """What must be found is."""
    assert upward("core/base/text.c", "core/plan/tiles.h") and not upward("core/plan/tiles.c", "core/base/text.h")
    assert upward("core/plan/tiles.c", "backends/backend.h") and upward("backends/vulkan/a.c", "backends/opencl/b.h")
    assert not upward("backends/opencl/a.c", "backends/backend.h") and not upward("tools/a.c", "tools/report/b.h")
    table = {"f/a.c": ({"a"}, {"b", "g"}), "f/b.c": ({"b"}, {"c"}), "f/c.c": ({"c"}, set()), "g/g.c": ({"g"}, {"a"})}
    where = {symbol: file for file, (defined, _) in table.items() for symbol in defined}
    assert not check_circles(table, where, {})
    table["f/c.c"] = ({"c"}, {"a"})
    assert check_circles(table, where, {}) == ["f: a circle: a.c uses b of b.c, which uses c of c.c, which uses a of a.c"]
    assert not check_circles(table, where, {("f/c.c", "f/a.c")})
    table["f/c.c"] = ({"c"}, {"b"})
    assert len(check_circles(table, where, {})) == 1 and len(check_circles(table, where, {("f/c.c", "f/a.c")})) == 2
    assert len(check_circles(table, where, {("f/a.c", "f/b.c")})) == 2


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
    print("%d includes and %d symbols, %d point up or in a circle" % (includes, linked, len(wrong)))
    return 1 if wrong or not includes else 0


sys.exit(main())
