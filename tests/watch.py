#!/usr/bin/env python3
"""watch.py [--stalled SECONDS] [--processor SECONDS] [--name NAME] COMMAND...

Runs a test and ends it when it hangs, however slow or busy the machine is: a limit of wall time would be reached by load
alone. Its progress is the processor time of the command and of all its descendants. Stalled: less than one second of it
went by in SECONDS (600) of wall time, so everything waits for something that does not come. Endless: it took SECONDS
(3600) of processor time, where the longest takes a few minutes. Both are said and end with 124; else the status is the
command's. WHERRY_TEST_TIMES names a file to which a line is added at the end: processor time, wall time, and NAME.
Descendants that lost their parents count, as most of a browser's do (Linux). Where there is no /proc, the command runs
unwatched."""
import ctypes
import os
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


def adopt():
    """Descendants that lose their parents become children of this process, and not of the system's first one."""
    PR_SET_CHILD_SUBREAPER = 36
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: they are neither counted nor ended


def reap(root):
    """Takes the status of every child that has ended; returns that of `root` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == root:
            found = os.waitstatus_to_exitcode(status)


def wait(root, stalled, limit):
    """Waits for the end of `root`: its status and None, or None and why it is to be ended before."""
    progress, since, looked = 0.0, time.monotonic(), time.monotonic()
    while (status := reap(root)) is None:
        time.sleep(0.02)
        if time.monotonic() - looked < POLL:
            continue
        looked = time.monotonic()
        used = tree(os.getpid())[1]
        if used > progress + 1:
            progress, since = used, looked
        if used > limit:
            return None, f"it took {used:.0f} s of processor time, and {limit:.0f} are the most: an endless loop"
        if looked - since > stalled:
            return None, f"in {stalled:.0f} s it took less than 1 s of processor time (of {used:.1f} in all): it waits for good"
    return status, None


def times(name, began):
    """What all descendants took, this process aside."""
    used = tree(os.getpid())[1] - time.process_time()
    with open(os.environ["WHERRY_TEST_TIMES"], "a", encoding="utf-8") as file:
        file.write(f"{used:8.1f} {time.monotonic() - began:8.1f} {name}\n")


def main(arguments):
    options = {"--stalled": "600", "--processor": "3600", "--name": ""}
    while len(arguments) > 2 and arguments[0] in options:
        options[arguments[0]] = arguments[1]
        arguments = arguments[2:]
    if not arguments or arguments[0].startswith("--"):
        sys.exit(__doc__)
    if not os.path.exists("/proc/self/stat"):
        os.execvp(arguments[0], arguments)
    adopt()
    began = time.monotonic()
    child = subprocess.Popen(arguments)
    signal.signal(signal.SIGTERM, lambda *_: (child.terminate(), sys.exit(143)))
    try:
        status, why = wait(child.pid, float(options["--stalled"]), float(options["--processor"]))
    except KeyboardInterrupt:
        child.wait()
        return 130
    if why is None:
        if "WHERRY_TEST_TIMES" in os.environ:
            times(options["--name"], began)
        return status if status >= 0 else 128 - status
    print(f"watch: {' '.join(arguments)}: ended: {why}", flush=True)
    for pid in tree(os.getpid())[0] - {os.getpid()}:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    child.wait()
    return 124


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
