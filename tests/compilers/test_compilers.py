#!/usr/bin/env python3
"""The table of what compilers make of kernels, and the comparison with it: doctored tables must fail.

usage: test_compilers.py PROJECT_FOLDER [WHERRY]     (the command: its reports of the table, too)
"""
import copy
import json
import os
import subprocess
import sys
import tempfile

root, wherry = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
script = os.path.join(root, "scripts", "compilers.py")
table_path = os.path.join(root, "data", "compilers.json")
failed = 0


def expect(what, condition, said=""):
    global failed
    if not condition:
        failed += 1
        print("FAILED: %s\n%s" % (what, said))


def run(*arguments):
    done = subprocess.run([sys.executable, script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def result(kernels, compiler="radv Mesa 1"):
    entries = [{"kernel": k, "work": w, "sizes": s, "registers": f[0], "spilled_bytes": f[1], "shared_bytes": f[2],
                "waves": f[3], "waves_most": f[4], "code_bytes": f[5]} for k, w, s, f in kernels]
    return {"device": {"api": "Vulkan 1.3", "driver": compiler, "name": "A GPU"},
            "sessions": [{"session": {"dtype": "f16"}, "kernels": entries}]}


def made_up(folder):
    table, now = os.path.join(folder, "compilers.json"), os.path.join(folder, "now.json")
    exceptions = os.path.join(folder, "compilers_exceptions.json")

    def write(path, value):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)

    usual = [("gemm", "N=768", "TILE_M=64", [100, 0, 4096, 8, 16, 2000]), ("map", "N=1", "TILE_M=1", [20, None, None, None, None, 9])]
    write(exceptions, {"exceptions": []})
    write(now, result(usual))
    code, said = run("merge", table, "amd:a=" + now)
    expect("a table is made", code == 0 and "1 devices, 2 kernels" in said, said)
    first = open(table, "rb").read()
    run("merge", table, "amd:a=" + now)
    expect("the same results make the same table", first == open(table, "rb").read())
    code, said = run("compare", table, "amd:a=" + now)
    expect("nothing is worse than itself", code == 0 and "2 figures of 1 devices compared, 0" in said, said)

    def worse(what, figures, words, sizes="TILE_M=64", compiler="radv Mesa 1"):
        write(now, result([("gemm", "N=768", sizes, figures)], compiler))
        code, said = run("compare", table, "amd:a=" + now)
        if words:
            expect(what, code == 1 and all(w in said for w in ["amd:a", "gemm f16", "TILE_M", *words]), said)
        else:
            expect(what, code == 0, said)

    worse("a spill fails", [100, 16, 4096, 8, 16, 2000], ["spills 16 bytes", "core/plan"])
    worse("fewer waves fail", [100, 0, 4096, 7, 16, 2000], ["7 of 16 sub-groups", "has 8", "shared memory"])
    worse("registers fail", [111, 0, 4096, 8, 16, 2000], ["111 registers", "has 100"])
    worse("a few registers more do not", [110, 0, 4096, 8, 16, 9000], [])
    worse("nor does what is better", [50, 0, 0, 16, 16, 100], [])
    worse("other sizes are compared with those of the table", [100, 0, 4096, 4, 16, 2000], ["with other sizes"], "TILE_M=32")
    worse("another compiler's registers are not compared", [200, 0, 4096, 4, 16, 2000], [], compiler="radv Mesa 2")
    worse("but its spills are", [200, 8, 4096, 4, 16, 2000], ["spills 8 bytes"], compiler="radv Mesa 2")
    write(exceptions, {"exceptions": [{"device": "amd:*", "kernel": "gemm f16 *", "why": "it is only a test"}]})
    worse("an exception explains a spill", [100, 16, 4096, 8, 16, 2000], ["spills 16 bytes, the table has 0"])
    write(now, result([("gemm", "N=768", "TILE_M=64", [100, 16, 4096, 8, 16, 2000])]))
    expect("which the table then has", run("merge", table, "amd:a=" + now)[0] == 0)
    expect("and is not worse any more", run("compare", table, "amd:a=" + now)[0] == 0)
    expect("nor does the table complain", run("check", table)[0] == 0, run("check", table)[1])
    write(exceptions, {"exceptions": []})
    expect("without it the table does", run("check", table)[0] == 1)
    write(exceptions, {"exceptions": [{"device": "amd:*", "kernel": "gemm f16 *", "why": "it is only a test"},
                                      {"device": "apple", "kernel": "*", "why": "nothing"}]})
    expect("an exception that explains nothing fails", "explains nothing" in run("check", table)[1])
    write(exceptions, {"exceptions": [{"device": "amd:*", "kernel": "*"}]})
    expect("an exception needs a reason", "without a reason" in run("check", table)[1])
    rows = os.path.join(folder, "clang.rows.json")
    write(rows, {"rows": [{"device": "amd-x", "api": "opencl", "compiler": "clang 1", "kernel": "gemm", "dtype": "f32",
                           "work": "N=1", "sizes": "TILE_M=8", "registers": 9, "spilled": 0, "shared": 0, "waves": 1,
                           "waves_most": 2, "code_bytes": 3, "failed": None},
                          {"device": "amd-x", "api": "opencl", "compiler": "clang 1", "kernel": "map", "dtype": "f32",
                           "work": "", "sizes": "", "failed": "error: no"}]})
    code, said = run("merge", table, rows)
    expect("rows of offline compilers are merged, refusals told", code == 1 and "amd-x: map f32: error: no" in said, said)
    expect("beside the others", set(json.load(open(table))["devices"]) == {"amd:a", "amd-x"})


def committed(folder):
    """The table of the project: every device has kernels, a doctored one fails."""
    table = json.load(open(table_path, encoding="utf-8"))
    code, said = run("check", table_path)
    expect("no spill without a reason", code == 0, said)
    expect("it is small", os.path.getsize(table_path) < 2 << 20, str(os.path.getsize(table_path)))
    used = {d: 0 for d in table["devices"]}
    for of in table["kernels"].values():
        for device in of:
            used[device] += 1
    expect("it has 12 devices at least", len(used) >= 12, str(used))
    expect("each with kernels", min(used.values()) > 20, str(used))
    expect("12 GPUs with all of them", sum(n > 100 for n in used.values()) >= 12, str(used))
    targets = {d for d in used if used[d] > 50 and d.startswith(("amd-", "intel-"))}
    expect("six of AMD's and six of Intel's without a driver", len(targets) >= 12, str(sorted(targets)))
    expect("whose compilers tell spills", all(f[1] is not None for of in table["kernels"].values() for d, f in of.items()
                                              if d in targets))
    expect("Metal translates them", used.get("apple-m1", 0) > 100, str(used.get("apple-m1")))
    doctored = copy.deepcopy(table)
    name = next(n for n, of in doctored["kernels"].items() if n.startswith("gemm f16") and "null:gfx1100" in of)
    doctored["kernels"][name]["null:gfx1100"][1] = 64
    path = os.path.join(folder, "doctored.json")
    json.dump(doctored, open(path, "w", encoding="utf-8"))
    exceptions = os.path.join(root, "data", "compilers_exceptions.json")
    with open(os.path.join(folder, "compilers_exceptions.json"), "w", encoding="utf-8") as file:
        file.write(open(exceptions, encoding="utf-8").read())
    code, said = run("check", path)
    expect("a doctored table fails, and says what", code == 1 and name in said and "null:gfx1100" in said, said)


def reports(folder):
    def report(*arguments):
        return subprocess.run([wherry, "report", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    page = os.path.join(folder, "page.html")
    done = report(table_path, "-o", page)
    text = open(page, encoding="utf-8").read()
    expect("the page is written", done.returncode == 0, done.stderr)
    expect("and loads nothing", "http:" not in text and "https:" not in text and "<script" not in text and "src=" not in text)
    table = json.load(open(table_path, encoding="utf-8"))
    expect("a kernel of which nothing else is known compiles", ">compiles</td>" in text)
    expect("it has all devices", all('">%s</th>' % d in text for d in table["devices"]))
    spills = sum(f[1] not in (None, 0) for of in table["kernels"].values() for f in of.values())
    expect("it marks every spill", text.count(' spill"') >= spills or not spills, "%d" % spills)
    expect("Markdown has them, too", all(d in report(table_path, "--format", "markdown").stdout.replace("\\", "") for d in table["devices"]))
    expect("text, too", "gemm f16\n" in report(table_path).stdout)
    expect("no other format", report(table_path, "--format", "csv").returncode == 2)
    hostile = os.path.join(folder, "hostile.json")
    figures = {"columns": table["columns"], "devices": {"<b>&": {"api": "vulkan", "compiler": '"\'>', "name": "<script>"}},
               "kernels": {"<i> f16 | a | b": {"<b>&": [1, 2, 3, 4, 5, 6]}}}
    json.dump(figures, open(hostile, "w"))
    done = report(hostile, "--format", "html")
    expect("texts are no markup", done.returncode == 0 and "<b>" not in done.stdout and "<script>" not in done.stdout, done.stderr)
    for what, change in [("columns", lambda t: t.update(columns=["x"])),
                         ("figures", lambda t: t["kernels"].update({"a f16 | b | c": {"x": [1, 2]}})),
                         ("numbers", lambda t: t["kernels"].update({"a f16 | b | c": {"x": [1, 2, 3, 4, 5, -6]}})),
                         ("a device", lambda t: t["devices"].update({"x": 3}))]:
        wrong = copy.deepcopy(figures)
        change(wrong)
        json.dump(wrong, open(hostile, "w"))
        done = report(hostile)
        expect("wrong %s are an error" % what, done.returncode == 3 and "hostile.json" in done.stderr, done.stderr)


with tempfile.TemporaryDirectory() as here:
    made_up(here)
with tempfile.TemporaryDirectory() as here:
    committed(here)
    if wherry:
        reports(here)
print("failed: %d" % failed)
sys.exit(failed > 0)
