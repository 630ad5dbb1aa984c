"""Makes every call of a class fail, one a run, in small runs of the command, and looks at how each run ends.

A run must end with the bytes that it ends with when nothing fails, or with an exit code and a sentence on standard error
that say what failed. Never by a signal or a sanitizer's report, with a leak, an object left on the device, another
result, a torn or a temporary file, nor not at all.

usage: sweep.py --wherry COMMAND --library LIBRARY [--gradients PROGRAM] [--scratch FOLDER] [--sample RUNS]
                [--devices IDS] [--runs NAMES] [--classes NAMES] [--jobs N] [--every] [--at CLASS:N[:ERROR[:sticky]]]
"""

import argparse
import collections
import concurrent.futures
import errno
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRESS_SECONDS = 600  # of one run, which takes a second on a quiet machine
OLD = b"what was there before\n"

# How the calls of a class fail: (error, whether all later ones do, too). Drivers' errors are counted from 0.
E = errno
KINDS = {
    "memory": [(E.ENOMEM, False), (E.ENOMEM, True)],
    "thread": [(E.EAGAIN, False), (E.EAGAIN, True)],
    "open": [(E.EACCES, False), (E.EIO, False), (E.EMFILE, False), (E.EINTR, False), (E.ENOSPC, True)],
    "read": [(E.EIO, False), (E.EINTR, False), ("short", False), ("short", True), (E.EIO, True)],
    "write": [(E.ENOSPC, False), (E.EIO, False), (E.EINTR, False), ("short", False), ("short", True), (E.ENOSPC, True)],
    "sync": [(E.EIO, False), (E.ENOSPC, True)],
    "rename": [(E.EIO, False), (E.EACCES, False), (E.ENOSPC, True)],
    "stat": [(E.EIO, False), (E.EACCES, False), (E.EIO, True)],
    "close": [(E.EIO, False), (E.EIO, True)],
    "map": [(E.ENOMEM, False), (E.ENOMEM, True)],
    "folder": [(E.EACCES, False), (E.ENOSPC, True)],
    "other": [(E.EIO, False)],
    "opencl": [("turn", False), ("turn", True)],
    "vulkan": [("turn", False), ("turn", True)],
}
DRIVER_CLASSES = ("opencl", "vulkan")

# What a sample runs on drivers: the others take long.
SAMPLED_ON_DRIVERS = ("embed", "gradients", "cold")

# On drivers' runs but these, what fails of files is as on the reference.
FILES_ON_DRIVERS = ("cold", "tune")

Run = collections.namedtuple("Run", "name program arguments outputs stdin cold compared")
Site = collections.namedtuple("Site", "device run class_ at error sticky")
End = collections.namedtuple("End", "code out err files report seconds")


# Without drivers: nothing is compiled or tuned there, and what leaks is ours.
HOST = ("reference", "cpu")


def runs_of(device, options):
    """The runs on a device: {model} and {work} stand for folders; outputs are replaced files."""
    layer = ["layer", "--config", "bert-base", "--hidden", "16", "--heads", "2", "--feed-forward", "24"]
    short = ["--lengths", "3,1", "--replays", "2"]
    found = [
        Run("embed", "wherry", ["embed", "--model", "{model}", "-o", "{work}/out", "{work}/texts"], ["out"], None, False, True),
        Run("verify", "wherry", ["verify", "--model", "{model}", *short, "-o", "{work}/out"], ["out"], None, False, True),
        # Times differ; and of two clients it is chance which makes a call.
        Run("latency", "wherry", ["bench", "--latency", "--model", "{model}", "--lengths", "3,5", "--clients", "1,2", "--requests", "3",
                                  "--warm", "0", "--idle", "0.01"], [], None, False, False),
        Run("verify-layer", "wherry", ["verify", *layer, *short, "-o", "{work}/out"], ["out"], None, False, True),
    ]
    if device in HOST:
        found.append(Run("npy", "wherry", ["embed", "--model", "{model}", "--input", "jsonl", "--format", "npy"], [],
                         b'{"text": "the boat", "id": 1.10}\n{"text": "water"}\n', False, True))
    if options.gradients:
        found.append(Run("gradients", "gradients", ["{device}"], [], None, False, True))
    if device not in HOST:
        found.append(Run("cold", "wherry", ["embed", "--model", "{model}", "-o", "{work}/out", "{work}/texts"],
                         ["out"], None, True, True))
        # Times differ, and what is chosen by them; tuned sessions are compared after it.
        found.append(Run("tune", "wherry", ["tune", "--model", "{model}", "--batch", "1", "--seq", "3", "--candidates", "2",
                                            "--rounds", "7", "--no-layouts"],
                         [], None, False, False))
    if options.sample and device not in HOST:
        found = [run for run in found if run.name in SAMPLED_ON_DRIVERS]
    return found


def kinds_of(device, run, class_):
    """How its calls fail. What follows a failure is the library's, and the same on all devices but for drivers' calls."""
    kinds = KINDS[class_]
    if device in HOST or len(kinds) == 1:
        return kinds
    if class_ in DRIVER_CLASSES + ("memory", "thread"):
        return kinds[:1] if class_ == "memory" or run == "tune" else kinds
    return [kinds[0], kinds[-1]] if run in FILES_ON_DRIVERS else []


class Sweep:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.free = list(range(options.jobs))
        self.base = os.path.abspath(options.scratch)
        self.model = os.path.join(self.base, "model")
        self.programs = {}
        self.baselines, self.findings, self.done = {}, [], 0
        shutil.rmtree(self.base, ignore_errors=True)
        os.makedirs(self.base)
        subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "make_model.py"), self.model], check=True)
        for name in ("wherry", "gradients", "library"):  # what is built again meanwhile does not matter
            if getattr(options, name):
                self.programs[name] = shutil.copy2(getattr(options, name), os.path.join(self.base, name))
        loader = re.search(r"libvulkan\.so\.1 .*x86-64.* => (\S+)",
                           subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout)
        self.vulkan = loader.group(1) if loader else "/nonexistent"

    # ---- one run ----

    def environment(self, device, work, site):
        """`site` "places": none, but it is told from where calls come. Kernels are compiled in the process itself:
        another one begins without the handler of SIGSYS, and its first call that is watched would end it."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("FAULT_")}
        env.update(LD_PRELOAD=self.programs["library"], FAULT_REPORT=work + ".report", FAULT_UNDER=self.base,
                   FAULT_VULKAN=self.vulkan, XDG_CACHE_HOME=os.path.join(work, "cache"), HOME="/nonexistent",
                   TMPDIR=work, WHERRY_COMPILER="none",
                   POCL_CACHE_DIR=os.path.join(self.options.drivers_cache, "pocl"),
                   MESA_SHADER_CACHE_DIR=os.path.join(self.options.drivers_cache, "mesa"),
                   UBSAN_OPTIONS="print_stacktrace=1",
                   ASAN_OPTIONS="verify_asan_link_order=0:allocator_may_return_null=1:exitcode=86:use_sigaltstack=0:detect_leaks=%d"
                                % (device in HOST),
                   LSAN_OPTIONS="exitcode=87:suppressions=%s:print_suppressions=0" % os.path.join(HERE, "leaks.supp"))
        if device in HOST:
            env["FAULT_ALONE"] = "1"
        if not device.startswith("vulkan"):
            env["VK_DRIVER_FILES"] = env["VK_ICD_FILENAMES"] = "/nonexistent"
        if not device.startswith("opencl"):
            env["OCL_ICD_VENDORS"] = "/nonexistent"
        if site == "places":
            env["FAULT_PLACES"] = "1"
        elif site:
            error = site.at if site.error == "turn" else site.error
            env.update(FAULT_CLASS=site.class_, FAULT_AT=str(site.at), FAULT_ERROR=str(error))
            if site.sticky:
                env["FAULT_STICKY"] = "1"
        return env

    def command(self, run, device, work):
        fill = {"model": self.model, "work": work, "device": device}
        words = [word.format(**fill) for word in run.arguments]
        return [self.programs[run.program], *words, *(["--device", device] if run.program == "wherry" else [])]

    def lay_out(self, work, cache):
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        if cache:
            shutil.copytree(cache, os.path.join(work, "cache"))
        with open(os.path.join(work, "out"), "wb") as file:
            file.write(OLD)
        with open(os.path.join(work, "texts"), "wb") as file:
            file.write(b"the boat\nwater, water!\n")

    def start(self, run, device, work, site):
        report = work + ".report"
        if os.path.exists(report):
            os.remove(report)
        begun = time.monotonic()
        try:
            ended = subprocess.run(self.command(run, device, work), input=run.stdin or b"", capture_output=True,
                                   env=self.environment(device, work, site), cwd=self.base, check=False,
                                   timeout=PROGRESS_SECONDS)
            code, out, err = ended.returncode, ended.stdout, ended.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, out, err = None, b"", ""
        files = {}
        for folder, _, names in os.walk(work):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    files[os.path.relpath(path, work)] = file.read()
        told = open(report, encoding="utf-8").read().splitlines() if os.path.exists(report) else None
        return End(code, out, err, files, told, time.monotonic() - begun)

    def execute(self, run, device, site):
        with self.lock:
            slot = self.free.pop()
        work = os.path.join(self.base, "work%d" % slot)
        try:
            while True:
                self.lay_out(work, None if run.cold else self.warm(device))
                end = self.start(run, device, work, site)
                if end.code != 99:  # the library could not begin
                    break
            follow = None
            if site and site != "places" and device not in HOST and self.cache_changed(run, device, end):
                follow = self.start(self.baselines[device, "embed"][0], device, work, None)
            return end, follow
        finally:
            with self.lock:
                self.free.append(slot)

    def warm(self, device):
        folder = os.path.join(self.base, "warm-" + device.replace(":", "-"))
        return folder if os.path.isdir(folder) else None

    def cache_changed(self, run, device, end):
        """Whether the caches are not as the same run leaves them without a fault."""
        usual = self.baselines[device, run.name][1].files
        mine, theirs = ({name: data for name, data in files.items() if name.startswith("cache")}
                        for files in (end.files, usual))
        return mine != theirs

    # ---- what a run does when nothing fails ----

    def baseline(self, run, device):
        if run.name == "embed" and device not in HOST:  # compile, and keep what was compiled
            work = os.path.join(self.base, "warming")
            for other in filter(self.asked, runs_of(device, self.options)):
                self.lay_out(work, self.warm(device))
                end = self.start(other, device, work, None)
                if end.code:
                    sys.exit("%s on %s fails by itself (%s): %s" % (other.name, device, end.code, end.err))
                warm = os.path.join(self.base, "warm-" + device.replace(":", "-"))
                shutil.rmtree(warm, ignore_errors=True)
                shutil.copytree(os.path.join(work, "cache"), warm)
                for folder, _, names in os.walk(warm):  # a tuning would change sessions
                    for name in names:
                        if not name.endswith((".bin", ".cache")):
                            os.remove(os.path.join(folder, name))
            shutil.rmtree(work)
        end, _ = self.execute(run, device, None)
        if end.code or not end.report:
            sys.exit("%s on %s fails by itself (%s): %s" % (run.name, device, end.code, end.err))
        calls = {words[1]: int(words[2]) for words in map(str.split, end.report) if words[0] == "calls"}
        left = {words[1]: int(words[2]) for words in map(str.split, end.report) if words[0] == "left"}
        self.baselines[device, run.name] = (run, end, calls, left)
        if self.options.every or self.options.sample:
            return {class_: range(1, n + 1) for class_, n in calls.items()}
        return self.places(run, device, calls)

    def asked(self, run):
        """embed always: by it is seen what a cache is worth."""
        return not self.options.runs or run.name in self.options.runs or run.name == "embed"

    def places(self, run, device, calls):
        """Of calls with the same callers all the way up, the first two and the last."""
        end, _ = self.execute(run, device, "places")
        found = collections.defaultdict(set)
        for words in map(str.split, end.report):
            if words[0] == "place":
                three = map(int, words[2:] if device in HOST else words[2:5:2])
                found[words[1]].update(n for n in three if 0 < n <= calls[words[1]])
        return {class_: sorted(numbers) for class_, numbers in found.items()}

    # ---- judging ----

    def judge(self, site, end, follow):
        """"same", "failed", "unreached", or what is wrong."""
        run, usual, _, left = self.baselines[site.device, site.run]
        if end.code is None:
            return "hang: no end after %d s" % PROGRESS_SECONDS
        for sign, name in (("LeakSanitizer", "leak"), ("AddressSanitizer", "crash"), ("runtime error:", "crash")):
            if sign in end.err:
                return name + ": " + sign
        if end.code < 0 or end.report is None:
            return "crash: exit code %d" % end.code
        strange = sorted(name for name in end.files if name not in usual.files and not self.cache_name(name))
        if strange:
            return "left behind: " + ", ".join(strange)
        exits = "wherry: out of host memory\n" in end.err  # the command ends at once, and the process with it
        # A wait that fails, and not because the device is lost, leaves open whether work still runs: its objects stay.
        unknown = any(line in ("hit vkWaitForFences", "hit vkGetFenceStatus") for line in end.report)
        for words in map(str.split, end.report):
            if words[0] == "left" and int(words[2]) > left[words[1]] and not exits and not unknown:
                return "object left: %s %s" % (words[2], words[1])
        torn = self.torn(run, usual, end)
        if torn:
            return torn
        if follow and (follow.code or follow.files.get("out") != self.baselines[site.device, "embed"][1].files["out"]):
            return "cache: the next run ends with %s %s" % (follow.code, follow.err.strip()[:300])
        if not end.code:
            return "same" if any(line.startswith("hit") for line in end.report) else "unreached"
        return self.judge_failure(site, end)

    @staticmethod
    def cache_name(name):
        return name.startswith("cache") and name.endswith((".bin", ".cache", ".tuning", ".log", ".txt"))

    @staticmethod
    def result(text):
        """Without notes: of a cache that failed, say."""
        return re.sub(rb"(?m)^note: .*\n", b"", text or b"")

    def torn(self, run, usual, end):
        for name in run.outputs:
            if end.files.get(name) == OLD and end.code:
                continue
            # Replaced, and where there is an exit code, what followed failed.
            if self.result(end.files.get(name)) != self.result(usual.files[name]):
                return "silent: another output" if not end.code else "torn: the output is neither old nor new"
        if not end.code and run.compared and self.result(end.out) != self.result(usual.out):
            return "silent: another output"
        return None

    @staticmethod
    def judge_failure(site, end):
        sentences = end.err.strip()
        if not sentences:
            return "mute: exit code %d without a sentence" % end.code
        if end.code in (2, 130) or (end.code == 1 and "gradients:" not in end.err):
            return "wrong exit code %d: %s" % (end.code, sentences[:300])
        if end.code not in (1, 3, 4, 5):
            return "exit code %d: %s" % (end.code, sentences[:300])
        if site.class_ == "memory" and "memory" not in sentences:
            return "wrong cause: %s" % sentences[:300]
        return "failed"

    # ---- the whole ----

    def sites(self, devices):
        everything = []
        for device in devices:
            for run in runs_of(device, self.options):
                if not self.asked(run):
                    continue
                begun = time.monotonic()
                numbers = self.baseline(run, device)
                if self.options.verbose:
                    print(device, run.name, "%.1f s" % (time.monotonic() - begun),
                          {class_: len(of) for class_, of in numbers.items()}, flush=True)
                if self.options.runs and run.name not in self.options.runs:
                    continue
                for class_ in KINDS:
                    if self.options.classes and class_ not in self.options.classes:
                        continue
                    for error, sticky in kinds_of(device, run.name, class_):
                        everything += [Site(device, run.name, class_, n, error, sticky) for n in numbers.get(class_, ())]
        return everything

    def sample(self, everything, count):
        """Of each device, run, class and kind some, with the same seed always."""
        chooser = random.Random(17)
        parts = collections.defaultdict(list)
        for site in everything:
            parts[site.device, site.run, site.class_, site.error, site.sticky].append(site)
        for part in parts.values():
            chooser.shuffle(part)
        order = list(parts.values())
        chooser.shuffle(order)
        chosen = []
        while len(chosen) < count and any(order):
            for part in order:
                if part and len(chosen) < count:
                    chosen.append(part.pop())
        return chosen

    def one(self, site):
        if self.options.deadline and time.monotonic() > self.options.deadline:
            return site, "not run", None
        run = self.baselines[site.device, site.run][0]
        end, follow = self.execute(run, site.device, site)
        return site, self.judge(site, end, follow), end

    def sweep(self, chosen):
        table = collections.defaultdict(collections.Counter)
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for site, verdict, end in pool.map(self.one, chosen):
                known = verdict in ("same", "failed", "unreached", "not run")
                table[site.device, site.run, site.class_][verdict if known else "finding"] += 1
                self.done += verdict != "not run"
                if known:
                    if self.options.verbose and end:
                        print(site, verdict, end.err.strip())
                    continue
                self.findings.append((site, verdict))
                hit = next((line for line in end.report or [] if line.startswith("hit")), "")
                print("FINDING %s %s %s:%d:%s%s  %s  [%s]" % (
                    site.device, site.run, site.class_, site.at, site.error, ":sticky" if site.sticky else "", verdict,
                    hit), flush=True)
                if self.options.verbose:
                    usual = self.baselines[site.device, site.run][1]
                    print(end.err, end.out, end.files.get("out"), usual.out, usual.files.get("out"), sep="\n", flush=True)
        return table


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wherry", required=True)
    parser.add_argument("--gradients")
    parser.add_argument("--library", required=True)
    parser.add_argument("--scratch", default="/tmp/wherry-faults-%d" % os.getpid())
    parser.add_argument("--drivers-cache", default="/tmp/wherry-faults-drivers")
    parser.add_argument("--devices", default="reference")
    parser.add_argument("--runs", default="")
    parser.add_argument("--classes", default="")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=0, help="sites in the order of a sample until then")
    parser.add_argument("--at", default="", help="CLASS:N[:ERROR[:sticky]]: one site, of --runs, with what it prints")
    parser.add_argument("--every", action="store_true", help="every call, not three of those with the same callers")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    options.runs, options.classes = options.runs.split(), options.classes.split()
    options.deadline = time.monotonic() + 60 * options.minutes if options.minutes else 0
    for name in ("wherry", "gradients", "library", "drivers_cache"):
        if getattr(options, name):
            setattr(options, name, os.path.abspath(getattr(options, name)))
    os.makedirs(options.drivers_cache, exist_ok=True)  # Mesa makes one folder, and not those above it
    return options


def main():
    options = parse()
    sweep = Sweep(options)
    try:
        devices = options.devices.split()
        if options.at:
            class_, n, *rest = options.at.split(":")
            error = rest[0] if rest else KINDS[class_][0][0]
            everything = [Site(devices[0], options.runs[0], class_, int(n), int(error) if str(error).isdigit() else error,
                               len(rest) > 1)]
            options.verbose = True
            for run in runs_of(devices[0], options):
                if run.name in ("embed", options.runs[0]):
                    sweep.baseline(run, devices[0])
            chosen = everything
        else:
            everything = sweep.sites(devices)
            chosen = everything
            if options.sample or options.minutes:
                chosen = sweep.sample(everything, options.sample or len(everything))
        table = sweep.sweep(chosen)
    finally:
        shutil.rmtree(sweep.base, ignore_errors=True)
    for (device, run, class_), counts in sorted(table.items()):
        print("%-10s %-13s %-7s %s" % (device, run, class_, json.dumps(dict(sorted(counts.items())))))
    kinds = collections.Counter(verdict.split(":")[0] for _, verdict in sweep.findings)
    print("%d of %d places made to fail, %d findings %s" % (sweep.done, len(everything), len(sweep.findings), dict(kinds)))
    return 1 if sweep.findings else 0


sys.exit(main())
