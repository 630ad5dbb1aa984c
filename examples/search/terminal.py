"""A program in a terminal of this process: keys go in, and what its screen shows is there to read. Knows the sequences
that screen.c writes, and fails on others."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    """What has been written to it: cells of (character, style)."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cursor, self.style, self.alternate = [0, 0], "", False
        self.cells = self._blank(rows)
        self._left = b""

    def _blank(self, rows):
        return [[(" ", "")] * self.columns for _ in range(rows)]

    def lines(self):
        return ["".join(character for character, _ in row).rstrip() for row in self.cells]

    def feed(self, data):
        data = self._left + data
        # A character or a sequence that is not whole yet waits for the rest.
        whole = len(data)
        for back in range(1, min(32, len(data)) + 1):
            if data[-back] == 0x1b and not SEQUENCE.match(data[-back:].decode("latin-1")):
                whole = len(data) - back
        while whole and whole > len(data) - 4 and not self._decodes(data[:whole]):
            whole -= 1
        self._left = data[whole:]
        text, at = data[:whole].decode(), 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                assert found, repr(text[at:at + 20])
                self._sequence(*found.groups())
                at = found.end()
                continue
            self._character(text[at])
            at += 1

    @staticmethod
    def _decodes(data):
        try:
            data.decode()
            return True
        except UnicodeDecodeError:
            return False

    def _character(self, character):
        row, column = self.cursor
        if character == "\r":
            self.cursor[1] = 0
        elif character == "\n":
            assert row + 1 < self.rows, "it scrolls"
            self.cursor[0] += 1
        else:
            assert ord(character) >= 32, repr(character)
            assert column < self.columns, "a row is longer than the window"
            self.cells[row][column] = (character, self.style)
            self.cursor[1] += 1

    def _sequence(self, private, numbers, kind):
        row, column = self.cursor
        if private:
            assert (numbers, kind) in (("25", "l"), ("25", "h"), ("1049", "l"), ("1049", "h")), (numbers, kind)
            if numbers == "1049":
                self.alternate, self.cells = kind == "h", self._blank(self.rows)
                self.cursor = [0, 0]
        elif kind == "m":
            self.style = "" if numbers in ("", "0") else numbers
        elif kind == "H":
            place = [int(n) - 1 for n in numbers.split(";")] if numbers else [0, 0]
            assert place[0] < self.rows and place[1] < self.columns, place
            self.cursor = place
        elif kind == "K":
            self.cells[row][column:] = [(" ", "")] * (self.columns - column)
        elif kind == "J":
            self.cells[row][column:] = [(" ", "")] * (self.columns - column)
            self.cells[row + 1:] = self._blank(self.rows - row - 1)
        else:
            raise AssertionError((numbers, kind))


class Program:
    def __init__(self, words, rows=24, columns=80):
        self.screen = Screen(rows, columns)
        self.code = None
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
            time.sleep(0.1)  # the window's size is being set
            os.execvp(words[0], words)
        self.resize(rows, columns)

    def resize(self, rows, columns):
        self.screen = Screen(rows, columns)
        fcntl.ioctl(self.handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def modes(self):
        return termios.tcgetattr(self.handle)

    def type(self, text):
        os.write(self.handle, text.encode())

    def look(self, seconds):
        """Reads what comes within so many seconds, at least once. False: it has ended."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.handle], [], [], max(0, end - time.monotonic()))
            if not ready:
                return True
            try:
                data = os.read(self.handle, 1 << 16)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                self._reap()
                return False
            self.screen.feed(data)
            if time.monotonic() >= end:
                return True

    def until(self, wanted, seconds=120):
        """Until wanted(lines of the screen) is true."""
        end = time.monotonic() + seconds
        while not wanted(self.screen.lines()):
            assert time.monotonic() < end, "\n".join(self.screen.lines())
            if not self.look(0.02):
                assert wanted(self.screen.lines()), "\n".join(self.screen.lines())
                return

    def end(self, seconds=120):
        """Its exit code, when it has ended by itself."""
        end = time.monotonic() + seconds
        while self.look(0.05):
            assert time.monotonic() < end, "\n".join(self.screen.lines())
        return self.code

    def _reap(self):
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._reap()
        os.close(self.handle)
