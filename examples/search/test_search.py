"""The search example: what it keeps and finds, and its screen, with a tiny model.

usage: test_search.py SEARCH MAKE_MODEL [DEVICE...]
MAKE_MODEL is tests/cli/make_model.py; the devices (default: cpu) are searched with.
"""

import os
import signal
import subprocess
import sys
import tempfile
import termios
import time

from terminal import Program

TEXTS = {
    "boats.txt": "the boat is on the water\n",
    "deep/er/words.md": "# a heading\n\n" + "the water, the boat! " * 15 + "\n\na quiet evening at home\n",
    "letters.txt": "q r s t u v w x y z\n",
    ".hidden": "the boat is hidden\n",
    "binary": "the boat\0is binary\n",
    "empty.txt": "",
}
HOSTILE = "a title \x1b]0;stolen\x07 and \x1b[31mred\x9b31m \u202ebackwards\n"


class Search:
    def __init__(self, program, model, device, folder):
        self.folder = folder
        self.words = [program, "--model", model, "--device", device]
        self.kept = os.path.join(folder, ".search-index")

    def run(self, *words, code=0, folder=None):
        done = subprocess.run([*self.words, *words, folder or self.folder], capture_output=True, timeout=300)
        assert code is None or done.returncode == code, (words, done)
        return done.stdout.decode(), done.stderr.decode()

    def query(self, text):
        out, told = self.run("--query", text)
        return [line.split(" ", 2) for line in out.splitlines()], told

    def ui(self, *words, **size):
        return Program([*self.words, *words, self.folder], **size)


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    return path


def test_index(search):
    """Each file once; again only those that were changed; none that is gone."""
    if os.path.exists(search.kept):
        os.remove(search.kept)
    _, told = search.run("--index")
    assert "4 passages of 4 files, 4 of them read now" in told, told  # the binary one has none
    assert os.listdir(search.folder).count(".search-index") == 1 and not os.stat(search.kept).st_mode & 0o077
    found, told = search.query("the boat is on the water")
    assert " 0 of them read now" in told, told
    assert found[0][0] == "1.000" and found[0][1] == "boats.txt:1" and float(found[1][0]) < 1, found
    found, _ = search.query("a quiet evening at home")
    assert found[0][1] == "deep/er/words.md:5", found  # after the heading and a paragraph that is long enough
    assert not any("hidden" in line[1] or "binary" in line[1] for line in found), found
    write(search.folder, "letters.txt", "the boat is on the water, again\n")
    os.remove(os.path.join(search.folder, "boats.txt"))
    found, told = search.query("the boat is on the water, again")
    assert " of 3 files, 1 of them read now" in told, told
    assert found[0][:2] == ["1.000", "letters.txt:1"] and not any("boats" in line[1] for line in found), found


def test_hostile(search):
    """What files and their names have in them steers no terminal."""
    write(search.folder, "evil\x1b[2J.txt", HOSTILE)
    out, _ = search.run("--query", HOSTILE.strip())
    assert "stolen" in out and not any(c in out for c in "\x1b\x07\x9b\u202e"), repr(out)


def test_damaged(search):
    """A file that was cut, changed or is another's is made anew, and the program says so."""
    search.run("--index")
    with open(search.kept, "rb") as file:
        whole = file.read()
    for damaged, why in ((b"", "too short"), (whole[:-1], "damaged"), (whole + b"x", "damaged"), (b"x" + whole[1:], "another program"),
                         (whole[:12] + b"\xff\xff\xff\x7f" + whole[16:], "another model"),
                         (whole[:144] + b"\xff" * 8 + whole[152:], "damaged"),
                         (whole[:176] + b"\xff" * 8 + whole[184:], "damaged")):
        with open(search.kept, "wb") as file:
            file.write(damaged)
        _, told = search.run("--index")
        assert "is made anew" in told and why in told, (why, told)
        with open(search.kept, "rb") as file:
            assert len(file.read()) == len(whole), why


def test_refusals(search):
    assert "no-such" in search.run("--index", folder=search.folder + "/no-such", code=1)[1]
    assert "usage" in search.run("--index", "--query", "a", code=2)[1]
    assert "usage" in search.run("--what", code=2)[1]
    assert "terminal" in search.run(code=2)[1]
    search.words[2:3] = ["/no-such-model"]
    assert "no-such-model" in search.run("--index", code=1)[1]
    ui = search.ui()  # what is wrong is seen when the screen is the terminal's own again
    try:
        assert ui.end() == 1 and not ui.screen.alternate
        assert "no-such-model" in "".join(ui.screen.lines()), ui.screen.lines()
    finally:
        ui.close()


def test_ui(search):
    for name, text in {**TEXTS, "evil\x1b[2J.txt": HOSTILE}.items():
        write(search.folder, name, text)
    search.run("--index")
    ui = search.ui()
    try:
        ui.until(lambda lines: lines[0].startswith(" search") and "passages of 5 files" in lines[0])
        assert ui.screen.alternate and not ui.modes()[3] & termios.ECHO
        ui.type("the boat is on the watex\x7fr")
        ui.until(lambda lines: lines[1] == "> the boat is on the water" and "answered in" in lines[2]
                 and lines[3].startswith("> 1.000  boats.txt:1") and lines[4] == "    the boat is on the water")
        ui.type("\x1b[B")
        ui.until(lambda lines: lines[3].startswith("  1.000") and lines[6].startswith("> "))
        ui.type("\x1b[A\x1b[A")
        ui.until(lambda lines: lines[3].startswith("> 1.000"))
        ui.type("\x15\u00e9\u8a9e\x7fa\x1b[Zb")  # characters of two and three bytes, and a key that it does not know
        ui.until(lambda lines: lines[1] == "> \u00e9ab")
        ui.type("\x15")
        ui.until(lambda lines: lines[1] == ">" and lines[3] == "")
        ui.resize(10, 40)
        ui.type("a quiet evening at home")
        ui.until(lambda lines: "deep/er/words.md:5" in lines[3] and len(lines) == 10)
        ui.type("\r")
        ui.until(lambda lines: not ui.screen.alternate)
        assert ui.end() == 0
        assert ui.screen.lines()[0].endswith("deep/er/words.md:5"), ui.screen.lines()
        assert ui.modes()[3] & termios.ECHO
    finally:
        ui.close()


def test_ui_while_reading(search):
    """Typing goes on while files are read, and what was read is kept when somebody leaves, or the program is told to."""
    for i in range(400):
        write(search.folder, f"many/{i}.txt", f"{i} " + "the boat is on the water, and on it " * 20)
    for leave in ("\x1b", signal.SIGTERM):
        ui = search.ui()
        try:
            ui.until(lambda lines: "passages of" in lines[0])
            slowest = 0
            for i, letter in enumerate("quick"):
                start = time.monotonic()
                ui.type(letter)
                ui.until(lambda lines: lines[1] == "> " + "quick"[:i + 1])
                slowest = max(slowest, time.monotonic() - start)
            assert slowest < 5, slowest  # far more than it takes, far less than the files do on a busy machine
            if isinstance(leave, str):
                ui.type(leave)
            else:
                os.kill(ui.pid, leave)
            assert ui.end() == 130 and not ui.screen.alternate and ui.modes()[3] & termios.ECHO
        finally:
            ui.close()
        assert os.path.exists(search.kept)
    _, told = search.run("--index")
    assert "of 405 files" in told, told


def main():
    program, maker, devices = sys.argv[1], sys.argv[2], sys.argv[3:] or ["cpu"]
    with tempfile.TemporaryDirectory() as work:
        model = os.path.join(work, "model")
        subprocess.run([sys.executable, maker, model], check=True)
        os.environ["XDG_CACHE_HOME"] = work
        for device in devices:
            folder = os.path.join(work, device.replace(":", ""))
            for name, text in TEXTS.items():
                write(folder, name, text)
            if device == "lent" and "no Vulkan device to lend" in Search(program, model, device, folder).run("--index", code=None)[1]:
                print("lent: skipped, there is no Vulkan device to lend")
                continue
            # Each start takes a second and more on a CPU driver.
            tests = (test_index, test_ui) if device == "lent" else (test_index, test_hostile, test_damaged, test_ui,
                                                                    test_ui_while_reading, test_refusals)
            for test in tests:
                start = time.monotonic()
                test(Search(program, model, device, folder))
                print(f"{device}: {test.__name__} passed in {time.monotonic() - start:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
