"""Ends the command at random moments (SIGKILL), starts two at the same time on one cold cache, and cuts off a weight file
that is open: files are then as they were or whole, the same command ends with the same bytes, none dies by itself, and
a tuning goes on with all that it had measured.

usage: test_kill.py WHERRY [DEVICE ...]   (default: the reference and every usable driver of a CPU)
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WHERRY = os.path.abspath(sys.argv[1])
FAULT_LIBRARY = os.environ.get("FAULT_LIBRARY", "")
OLD = b"what was there before\n"
chooser = random.Random(20)


class Place:
    """A folder with a model, texts, and caches of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.model = os.path.join(folder, "model")
        self.out = os.path.join(folder, "out")
        self.texts = os.path.join(folder, "texts")
        self.cache = os.path.join(folder, "cache")
        # Drivers' own caches are not what is tested: they are kept, and no two processes have the same one.
        self.drivers = os.path.join(os.environ.get("WHERRY_TEST_CACHE") or folder, "pocl-kill")
        os.makedirs(self.drivers, exist_ok=True)
        self.copies = 0
        self.opencl = False
        subprocess.run([sys.executable, os.path.join(HERE, "make_model.py"), self.model], check=True)
        with open(self.texts, "w", encoding="utf-8") as file:
            file.writelines("water boat number %d, the letters of %d\n" % (n, n * n) for n in range(100))

    def start(self, *words, drivers=None):
        # The fault library, to which nothing says what to make fail, has OpenCL compile without optimization.
        env = dict(os.environ, POCL_CACHE_DIR=drivers or self.drivers, LD_PRELOAD=FAULT_LIBRARY if self.opencl else "")
        return subprocess.Popen([WHERRY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=env)

    def embed(self, device, *more):
        return self.start("embed", "--model", self.model, "--device", device, "--cache", self.cache, "-o", self.out,
                          *more, self.texts)

    def tune(self, device):
        return self.start("tune", "--model", self.model, "--device", device, "--cache", self.cache, "--batch", "1",
                          "--seq", "3", "--candidates", "2", "--rounds", "7", "--no-layouts", "--verbose")

    def measured(self):
        """Candidates in the tuning log, whole lines of it."""
        names = [name for name in os.listdir(self.cache) if name.startswith("tuning-")]
        found = 0
        for name in names:
            with open(os.path.join(self.cache, name), "rb") as file:
                found += sum(line.endswith(b"\n") and b"\tmeasured\ttried\t" in line for line in file)
        return found

    def copy_drivers(self):
        """What was compiled once, for processes that are killed: who knows how a driver writes."""
        self.copies += 1
        copy = os.path.join(self.folder, "drivers%d" % self.copies)
        shutil.copytree(self.drivers, copy)
        return copy

    def write_old(self):
        with open(self.out, "wb") as file:
            file.write(OLD)

    def read(self):
        with open(self.out, "rb") as file:
            return file.read()

    def leftovers(self, where):
        """Temporary files: those of a process that was killed may stay, others not."""
        return [name for name in os.listdir(where) if name.endswith((".part", ".tmp"))] if os.path.isdir(where) else []


def finish(process, what):
    out, err = process.communicate()
    if process.returncode:
        sys.exit("%s: exit code %d: %s" % (what, process.returncode, err.decode(errors="replace")))
    return out, err.decode(errors="replace")


def kill_after(process, seconds):
    """Whether it was still running."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_output(place, device, times):
    """embed -o, killed: the file is the old one or the new one. How it is written is the same on all devices."""
    finish(place.embed(device), "embed on " + device)
    place.drivers = place.copy_drivers()
    if not times:
        return place.read()
    begun = time.monotonic()
    finish(place.embed(device), "embed on " + device)
    took = time.monotonic() - begun
    new, killed = place.read(), 0
    for _ in range(times):
        place.write_old()
        killed += kill_after(place.embed(device), chooser.uniform(0, 1.2) * took)
        if place.read() not in (OLD, new):
            sys.exit("%s: a killed embed left a torn output of %d bytes" % (device, len(place.read())))
    for name in place.leftovers(place.folder):
        os.remove(os.path.join(place.folder, name))
    finish(place.embed(device), "embed on %s after kills" % device)
    assert place.read() == new, device
    assert not place.leftovers(place.folder)
    print("%s: embed -o: %d of %d killed in %.2f s" % (device, killed, times, took))
    return new


def test_cache(place, device, expected, times):
    """Killed while kernels are compiled and stored: what is stored is whole, and the next run goes on from there."""
    shutil.rmtree(place.cache, ignore_errors=True)
    begun = time.monotonic()
    finish(place.embed(device), "embed on " + device)
    took, killed = time.monotonic() - begun, 0
    shutil.rmtree(place.cache)
    for n in range(times):
        if n % 3 == 0:
            shutil.rmtree(place.cache, ignore_errors=True)
        place.write_old()
        killed += kill_after(place.embed(device), chooser.uniform(0.3, 1.05) * took)
    _, said = finish(place.embed(device, "--verbose"), "embed on %s with the cache of killed ones" % device)
    assert place.read() == expected, device
    for word in ("not used", "damaged", "checksum"):
        if word in said:
            sys.exit("%s: a killed embed left a damaged cache: %s" % (device, said))
    _, said = finish(place.embed(device, "--verbose"), "embed on %s, warm" % device)
    assert place.read() == expected, device
    print("%s: cold cache: %d of %d killed in %.2f s" % (device, killed, times, took))


def test_two(place, device, expected):
    """Two processes fill one cache."""
    shutil.rmtree(place.cache, ignore_errors=True)
    other, drivers = os.path.join(place.folder, "out2"), place.copy_drivers()
    both = [place.embed(device),
            place.start("embed", "--model", place.model, "--device", device, "--cache", place.cache, "-o", other,
                        place.texts, drivers=drivers)]
    for process in both:
        finish(process, "one of two on %s" % device)
    with open(other, "rb") as file:
        assert file.read() == expected, device
    assert place.read() == expected, device
    stored = sorted(os.listdir(place.cache))
    assert stored and not place.leftovers(place.cache), stored
    _, said = finish(place.embed(device, "--verbose"), "embed on %s after two" % device)
    assert place.read() == expected and "not used" not in said, said
    assert sorted(os.listdir(place.cache)) == stored, device
    print("%s: two on one cold cache of %d files" % (device, len(stored)))


def test_tune(place, device, expected, times):
    """tune, killed as soon as it has measured some more: it goes on with them, and what it chooses computes the same."""
    shutil.rmtree(place.cache, ignore_errors=True)
    finish(place.tune(device), "tune on " + device)  # compile
    whole, killed = place.measured(), 0
    for name in os.listdir(place.cache):
        if name.startswith("tun"):
            os.remove(os.path.join(place.cache, name))
    for n in range(times):
        process = place.tune(device)
        while process.poll() is None and place.measured() * (times + 1) < whole * (n + 1):
            time.sleep(chooser.uniform(0, 0.02))
        killed += kill_after(process, chooser.uniform(0, 0.05))
    kept = place.measured()
    out, said = finish(place.tune(device), "tune on %s after kills" % device)
    for word in ("not used", "damaged", "checksum"):
        if word in said:
            sys.exit("%s: a killed tune left a damaged log: %s" % (device, said))
    wanted = b"%d candidates in " % whole, b", %d of them measured before" % kept
    if not all(words in out for words in wanted):
        sys.exit("%s: of %d candidates %d were kept: %s" % (device, whole, kept, out.decode()))
    place.write_old()
    finish(place.embed(device), "embed on %s, tuned" % device)
    assert place.read() == expected, device
    print("%s: tune: %d of %d killed, %d of %d candidates kept" % (device, killed, times, kept, whole))


def wait_for_open(process, path):
    """Until the process has the file open; where there is no /proc, for a while."""
    files = "/proc/%d/fd" % process.pid
    if not os.path.isdir(files):
        time.sleep(2)
        return
    while process.poll() is None:
        for name in os.listdir(files):
            try:
                if os.readlink(os.path.join(files, name)) == path:
                    return
            except OSError:
                continue  # closed meanwhile
        time.sleep(0.01)


def test_truncated(place, device):
    """The weights get shorter between opening and reading them: an error that names the file."""
    path = os.path.realpath(os.path.join(place.model, "model.safetensors"))
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        whole = file.read()
    for kept in (size - 4, size // 2, 4096, 0):
        place.write_old()
        process = subprocess.Popen([WHERRY, "embed", "--model", place.model, "--device", device, "-o", place.out, "-"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for_open(process, path)
        os.truncate(path, kept)
        _, err = process.communicate(b"the boat\n")
        if process.returncode != 3 or b"model.safetensors" not in err:
            sys.exit("weights of %d bytes cut to %d: exit code %d: %s" % (size, kept, process.returncode, err.decode()))
        assert place.read() == OLD and not place.leftovers(place.folder)
        with open(path, "wb") as file:
            file.write(whole)
    print("%s: weights that are cut while they are open" % device)


def devices():
    asked = sys.argv[2:] or os.environ.get("WHERRY_TEST_DEVICES", "").split()
    if asked:
        return asked
    listed = subprocess.run([WHERRY, "devices", "--quiet", "--json"], check=True, capture_output=True).stdout
    return [d["id"] for d in json.loads(listed)["devices"] if d["usable"] and d["type"] == "CPU"]


def main():
    with tempfile.TemporaryDirectory(prefix="wherry-kill-") as folder:
        place = Place(folder)
        kept, tuned, first_host = place.drivers, "", ""
        for device in devices():
            host = device in ("reference", "cpu")  # they compile nothing
            first_host = first_host or (device if host else "")
            place.drivers, place.opencl = kept, device.startswith("opencl")
            expected = test_output(place, device, 12 if device == first_host else 0)
            if device == first_host:
                test_truncated(place, device)
            if host:
                continue
            test_cache(place, device, expected, 3)
            test_two(place, device, expected)
            tuned = tuned or device
            if device == tuned:  # the log is the same for all
                test_tune(place, device, expected, 3)


main()
