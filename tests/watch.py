#!/usr/bin/env python3
"""watch.py [--stalled SECONDS] [--processor SECONDS] [--name NAME] COMMAND...

Runs a test and ends it when it hangs, however slow or busy the machine is: a limit of wall time would be reached by load
alone. Its progress is the processor time of the command and of all its descendants. Stalled: less than one second of it
went by in SECONDS (600) of wall time, so everything waits for something that does not come. Endless: it took SECONDS
(3600) of processor time, where the longest takes a few minutes. Both are said and end with 124; else the status is the
command's. WHERRY_TEST_TIMES names a file to which a line is added at the end: processor time, wall time, and NAME.
Where there is no /proc, the command runs unwatched."""
import os
import resource
import signal
import subprocess
import sys
import time

POLL = 5


def processes():
    """{pid: (parent, ticks)} of all processes; ticks: of it and of its children that have ended."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        table[int(name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return table


def tree(root):
    """The pids of `root` and its descendants, and their processor time in seconds."""
    table = processes()
    family = {root}
    grown = True
    while grown:
        new = {pid for pid, (parent, _) in table.items() if parent in family} - family
        family |= new
        grown = bool(new)
    ticks = sum(table[pid][1] for pid in family if pid in table)
    return family, ticks / os.sysconf("SC_CLK_TCK")


def hung(child, stalled, limit):
    """Waits for the child's end; returns why it is to be ended before, if it is."""
    progress, since = 0.0, time.monotonic()
    while True:
        try:
            child.wait(POLL)
            return None
        except subprocess.TimeoutExpired:
            pass
        used = tree(child.pid)[1]
        if used > progress + 1:
            progress, since = used, time.monotonic()
        if used > limit:
            return f"it took {used:.0f} s of processor time, and {limit:.0f} are the most: an endless loop"
        if time.monotonic() - since > stalled:
            return f"in {stalled:.0f} s it took less than 1 s of processor time (of {used:.1f} in all): it waits for good"


def times(name, began):
    """What the children took, who have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.environ["WHERRY_TEST_TIMES"], "a", encoding="utf-8") as file:
        file.write(f"{used.ru_utime + used.ru_stime:8.1f} {time.monotonic() - began:8.1f} {name}\n")


def main(arguments):
    options = {"--stalled": "600", "--processor": "3600", "--name": ""}
    while len(arguments) > 2 and arguments[0] in options:
        options[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    if not arguments or arguments[0].startswith("--"):
        sys.exit(__doc__)
    if not os.path.exists("/proc/self/stat"):
        os.execvp(arguments[0], arguments)
    began = time.monotonic()
    child = subprocess.Popen(arguments)
    signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), sys.exit(143)))
    try:
        why = hung(child, float(options["--stalled"]), float(options["--processor"]))
    except KeyboardInterrupt:
        child.wait()
        return 130
    if why is None:
        if "WHERRY_TEST_TIMES" in os.environ:
            times(options["--name"], began)
        return child.returncode if child.returncode >= 0 else 128 - child.returncode
    print(f"watch: {' '.join(arguments)}: ended: {why}", flush=True)
    for pid in tree(child.pid)[0]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    child.wait()
    return 124


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
