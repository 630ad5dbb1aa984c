"""Records the search example at work, in a terminal of this script, as an animated picture: docs/search.svg.

usage: record_search.py SEARCH MODEL DIR OUT.svg [DEVICE]

Every row is what the program wrote at that time; only the typing is the script's. Nothing in the picture is loaded from
elsewhere. DIR is indexed first, and then some of its files are touched, so that the start shows how these are read.
"""

import html
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "examples", "search"))
from terminal import Program  # noqa: E402

ROWS, COLUMNS = 15, 92
CELL, LINE, MARGIN = 8.0, 18, 12
KEY_SECONDS, READ_SECONDS = 0.11, 2.2
TOUCHED = ("training.md", "security.md")
QUERIES = ("can it run without a graphics card?", "who may write to the cache")
STYLES = {"": "p", "1": "b", "2": "f", "7": "t", "1;36": "c"}
SHEET = ("text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"
         ".p{fill:#d5d9e0}.b{fill:#fff;font-weight:bold}.f{fill:#8b93a1}.t{fill:#10151c}.c{fill:#5fd7d7;font-weight:bold}")


def runs(cells):
    """[(column, style, text)] of a row."""
    found = []
    for column, (character, style) in enumerate(cells):
        if found and found[-1][1] == style:
            found[-1][2] += character
        else:
            found.append([column, style, character])
    kept = [(column, style, text if style == "7" else text.rstrip()) for column, style, text in found]
    return tuple(run for run in kept if run[2])


class Recording:
    def __init__(self, program):
        self.program, self.start, self.frames = program, time.monotonic(), []

    def watch(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.program.look(0.02):
            screen = self.program.screen
            frame = (tuple(runs(row) for row in screen.cells), tuple(screen.cursor))
            if screen.alternate and (not self.frames or self.frames[-1][1] != frame):
                if not self.frames:
                    self.start = time.monotonic()
                self.frames.append((time.monotonic() - self.start, frame))

    def type(self, text):
        for letter in text:
            self.program.type(letter)
            self.watch(KEY_SECONDS)


def record(words):
    program = Program(words, ROWS, COLUMNS)
    recording = Recording(program)
    try:
        while not recording.frames or "passages of" not in program.screen.lines()[0]:
            recording.watch(0.05)
        recording.frames, recording.start = recording.frames[-1:], time.monotonic()
        recording.frames[0] = (0.0, recording.frames[0][1])
        recording.watch(0.6)
        for number, query in enumerate(QUERIES):
            if number:
                recording.type("\x15")
            recording.type(query)
            recording.watch(READ_SECONDS)
        recording.type("\x1b[B")
        recording.watch(READ_SECONDS)
        length = time.monotonic() - recording.start
        program.type("\x1b")
        assert program.end() == 130
    finally:
        program.close()
    return recording.frames, length


def animation(attribute, times, values, length):
    """An attribute that jumps from value to value."""
    keys = ";".join(f"{min(t / length, 1):.4f}".rstrip("0").rstrip(".") for t in times)
    return (f'<animate attributeName="{attribute}" dur="{length:.2f}s" repeatCount="indefinite" calcMode="discrete" '
            f'keyTimes="{keys}" values="{";".join(values)}"/>')


def row_texts(frames, row, length):
    """A group for each text that the row ever has, which is seen when it has it."""
    seen = {}  # text: [(time, visible)]
    last = None
    for at, (rows, _) in frames:
        if rows[row] == last:
            continue
        for text, visible in ((last, False), (rows[row], True)):
            if text:
                seen.setdefault(text, []).append((at, visible))
        last = rows[row]
    y = MARGIN + row * LINE
    for text, changes in seen.items():
        if changes[0][0] > 0:
            changes.insert(0, (0.0, False))
        parts = []
        for column, style, letters in text:
            x = MARGIN + column * CELL
            if style == "7":
                parts.append(f'<rect x="{x:g}" y="{y}" width="{len(letters) * CELL:g}" height="{LINE}" fill="#d5d9e0"/>')
            shown = letters.rstrip()
            bare = shown.lstrip()
            x += (len(shown) - len(bare)) * CELL
            parts.append(f'<text class="{STYLES[style]}" x="{x:g}" y="{y + 14}" textLength="{len(bare) * CELL:g}" '
                         f'lengthAdjust="spacingAndGlyphs">{html.escape(bare, quote=False)}</text>')
        whole = len(changes) == 1
        move = "" if whole else animation("visibility", [t for t, _ in changes],
                                          ["visible" if v else "hidden" for _, v in changes], length)
        yield f'<g{"" if changes[0][1] else " visibility=" + chr(34) + "hidden" + chr(34)}>{move}{"".join(parts)}</g>'


def picture(frames, length):
    width, height = 2 * MARGIN + COLUMNS * CELL, 2 * MARGIN + ROWS * LINE
    body = [text for row in range(ROWS) for text in row_texts(frames, row, length)]
    places = [frames[0]] + [b for a, b in zip(frames, frames[1:]) if a[1][1] != b[1][1]]
    times = [at for at, _ in places]
    columns = [f"{MARGIN + cursor[1] * CELL:g}" for _, (_, cursor) in places]
    cursor = (f'<rect y="{MARGIN + LINE + 2}" x="{columns[0]}" width="{CELL:g}" height="15" fill="#5fd7d7" opacity=".6">'
              f'{animation("x", times, columns, length)}</rect>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
            f'role="img"><title>The search example, at work on this project\'s documents</title><style>{SHEET}</style>'
            f'<rect width="100%" height="100%" rx="8" fill="#10151c"/>' + "\n".join(body) + cursor + "</svg>\n")


def main():
    program, model, folder, out = map(os.path.abspath, sys.argv[1:5])
    device = ["--device", sys.argv[5]] if len(sys.argv) > 5 else []
    with tempfile.TemporaryDirectory() as work:
        docs = os.path.join(work, "docs")
        shutil.copytree(folder, docs, ignore=lambda _, names: [n for n in names if not n.endswith(".md")])
        words = [program, "--model", model, *device]
        subprocess.run([*words, "--index", docs], check=True)
        for name in TOUCHED:
            os.utime(os.path.join(docs, name))
        os.chdir(work)
        frames, length = record([*words, "docs"])
    text = picture(frames, length)
    with open(out, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{out}: {len(frames)} frames, {length:.1f} s, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
