#!/usr/bin/env python3
"""The table of what compilers make of kernels (data/compilers.json): made of results of `wherry prepare --json`, and
compared with them.

usage: compilers.py merge TABLE RESULT...      puts the results' devices into the table, in place of what it has of them
       compilers.py compare TABLE RESULT...    what is worse than the table's; exits with 1 when there is any
       compilers.py check TABLE                the table alone: spills that no exception explains

A RESULT is DEVICE=FILE, a file of `wherry prepare --json`, or FILE.rows.json, rows of offline compilers. Exceptions are in
compilers_exceptions.json beside the table: device and kernel (patterns), why, and until when they hold.

A kernel's name in the table is what it is, what it computes and its sizes; of one device it has the COLUMNS below.
Programs that differ in constants which only numbers depend on share a name and have the worst of their figures.
"""
import fnmatch
import json
import os
import sys

COLUMNS = ["registers", "spilled", "shared", "waves", "waves_most", "code"]
REGISTERS, SPILLED, SHARED, WAVES, WAVES_MOST, CODE = range(6)
MORE_REGISTERS = 1.1  # that count as worse


def worst(a, b):
    """Of two programs' figures; None is unknown."""
    if a is None:
        return b
    out = [max((x, y), key=lambda v: -1 if v is None else v) for x, y in zip(a, b)]
    waves = [x for x in (a[WAVES], b[WAVES]) if x is not None]
    out[WAVES] = min(waves) if waves else None
    return out


def name_of(kernel, dtype, work, sizes):
    return "%s %s | %s | %s" % (kernel, dtype, work, sizes)


def parts_of(name):
    """(kernel dtype, work, sizes)"""
    return tuple(name.split(" | "))


def rows_of_prepare(result):
    for session in result["sessions"]:
        dtype = session["session"]["dtype"]
        for k in session["kernels"]:
            figures = [k["registers"], k["spilled_bytes"], k["shared_bytes"], k["waves"], k["waves_most"],
                       k["code_bytes"]]
            yield name_of(k["kernel"], dtype, k["work"], k["sizes"]), figures


def read_results(arguments):
    """({device: what it is}, {kernel: {device: figures}}, [what a compiler refused])"""
    devices, kernels, refused = {}, {}, []

    def add(device, name, figures):
        of = kernels.setdefault(name, {})
        of[device] = worst(of.get(device), figures)

    for argument in arguments:
        if argument.endswith(".rows.json"):
            with open(argument, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            for r in rows:
                devices[r["device"]] = {"api": r["api"], "compiler": r["compiler"], "name": r.get("name", r["device"])}
                if r.get("failed"):
                    refused.append("%s: %s %s: %s" % (r["device"], r["kernel"], r["dtype"], r["failed"]))
                    continue
                figures = [r.get(k) for k in ("registers", "spilled", "shared", "waves", "waves_most", "code_bytes")]
                add(r["device"], name_of(r["kernel"], r["dtype"], r["work"], r["sizes"]), figures)
            continue
        device, _, path = argument.partition("=")
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        info = result["device"]
        devices[device] = {"api": info["api"].split()[0].lower(), "compiler": info["driver"], "name": info["name"]}
        for name, figures in rows_of_prepare(result):
            add(device, name, figures)
    return devices, kernels, refused


def read_table(path):
    if not os.path.exists(path):
        return {"columns": COLUMNS, "devices": {}, "kernels": {}}
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    if table["columns"] != COLUMNS:
        sys.exit("%s: its columns are %s, not %s" % (path, table["columns"], COLUMNS))
    return table


def read_exceptions(path):
    path = os.path.join(os.path.dirname(path), "compilers_exceptions.json")
    with open(path, encoding="utf-8") as file:
        exceptions = json.load(file)["exceptions"]
    for e in exceptions:
        if not e.get("why"):
            sys.exit("%s: an exception without a reason: %s" % (path, e))
    return exceptions


def write_table(table, path):
    """A line for each kernel, so that a difference shows which."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write('{\n"columns": %s,\n"devices": {\n' % json.dumps(table["columns"]))
        rows = ["%s: %s" % (json.dumps(d), json.dumps(table["devices"][d], sort_keys=True)) for d in sorted(table["devices"])]
        file.write(",\n".join(rows) + '\n},\n"kernels": {\n')
        rows = ["%s: %s" % (json.dumps(k), json.dumps(table["kernels"][k], sort_keys=True, separators=(",", ":")))
                for k in sorted(table["kernels"])]
        file.write(",\n".join(rows) + "\n}\n}\n")
    os.replace(temporary, path)


def merge(path, arguments):
    table = read_table(path)
    devices, kernels, refused = read_results(arguments)
    for name in list(table["kernels"]):
        table["kernels"][name] = {d: f for d, f in table["kernels"][name].items() if d not in devices}
        if not table["kernels"][name]:
            del table["kernels"][name]
    for name, figures in kernels.items():
        table["kernels"].setdefault(name, {}).update(figures)
    table["devices"].update(devices)
    write_table(table, path)
    print("%s: %d devices, %d kernels with their sizes, %d figures" %
          (path, len(table["devices"]), len(table["kernels"]), sum(map(len, table["kernels"].values()))))
    return report_all(refused)


def excepted(exceptions, device, name):
    for e in exceptions:
        if fnmatch.fnmatch(device, e["device"]) and fnmatch.fnmatch(name, e["kernel"]):
            return e
    return None


def report_all(complaints):
    for line in complaints:
        print(line)
    return 1 if complaints else 0


def spill_line(device, name, figures):
    return ("%s: %s: spills %d bytes of a work-item (%s registers): give it smaller tiles or fewer values at a time on "
            "this class of devices (core/plan), or explain it in data/compilers_exceptions.json" %
            (device, name, figures[SPILLED], figures[REGISTERS]))


def check(path):
    table, exceptions = read_table(path), read_exceptions(path)
    complaints, used = [], set()
    for name, of in sorted(table["kernels"].items()):
        for device, figures in sorted(of.items()):
            if not figures[SPILLED]:
                continue
            e = excepted(exceptions, device, name)
            if e:
                used.add(exceptions.index(e))
            else:
                complaints.append(spill_line(device, name, figures))
    for n, e in enumerate(exceptions):
        if n not in used:
            complaints.append("an exception explains nothing, take it out: %s, %s" % (e["device"], e["kernel"]))
    print("%d devices, %d kernels with their sizes, %d exceptions, %d complaints" %
          (len(table["devices"]), len(table["kernels"]), len(exceptions), len(complaints)))
    return report_all(complaints)


def baseline(table, by_work, device, name):
    """(figures of the table to compare with, what they are of): the same sizes, else the worst of other sizes."""
    figures = table["kernels"].get(name, {}).get(device)
    if figures:
        return figures, "the table has"
    out = None
    for other in by_work.get(parts_of(name)[:2], []):
        figures = table["kernels"][other].get(device)
        if figures:
            out = worst(out, figures)
    return out, "with other sizes the table has"


def compare(path, arguments):
    table, exceptions = read_table(path), read_exceptions(path)
    devices, kernels, complaints = read_results(arguments)
    by_work, compared, other_compilers = {}, 0, []
    for name in table["kernels"]:
        by_work.setdefault(parts_of(name)[:2], []).append(name)
    for device, info in sorted(devices.items()):
        known = table["devices"].get(device)
        if known and known["compiler"] != info["compiler"]:
            other_compilers.append(device)
            print("%s: compiled by %s, the table's figures are by %s: only spills are compared" %
                  (device, info["compiler"], known["compiler"]))
    for name, of in sorted(kernels.items()):
        for device, now in sorted(of.items()):
            compared += 1
            was, which = baseline(table, by_work, device, name)
            if now[SPILLED] and not excepted(exceptions, device, name):
                complaints.append(spill_line(device, name, now))
            if not was or device in other_compilers:
                continue
            if now[SPILLED] and now[SPILLED] > (was[SPILLED] or 0) and excepted(exceptions, device, name):
                complaints.append("%s: %s: spills %d bytes, %s %d" % (device, name, now[SPILLED], which, was[SPILLED] or 0))
            if now[WAVES] is not None and was[WAVES] is not None and now[WAVES] < was[WAVES]:
                complaints.append("%s: %s: %d of %s sub-groups are resident, %s %d: look at its registers (%s, were %s) and "
                                  "shared memory (%s, were %s)" %
                                  (device, name, now[WAVES], now[WAVES_MOST], which, was[WAVES], now[REGISTERS],
                                   was[REGISTERS], now[SHARED], was[SHARED]))
            elif now[REGISTERS] and was[REGISTERS] and now[REGISTERS] > MORE_REGISTERS * was[REGISTERS]:
                complaints.append("%s: %s: %d registers, %s %d: look at what its source keeps at a time" %
                                  (device, name, now[REGISTERS], which, was[REGISTERS]))
    print("%d figures of %d devices compared, %d are worse" % (compared, len(devices), len(complaints)))
    if complaints:
        complaints.append("If this is meant: scripts/compilers.sh --update writes the table anew.")
    return report_all(complaints)


def main(argv):
    if len(argv) < 3 or argv[1] not in ("merge", "compare", "check"):
        sys.exit(__doc__)
    if argv[1] == "check":
        return check(argv[2])
    return merge(argv[2], argv[3:]) if argv[1] == "merge" else compare(argv[2], argv[3:])


if __name__ == "__main__":
    sys.exit(main(sys.argv))
