"""Runs the command for tests, and compares numbers; counts what was checked."""

import subprocess
import sys

WHERRY = sys.argv[1]
CLOSE = 1e-4
checks = 0


def result(*words, text=""):
    return subprocess.run([WHERRY, *words], input=text.encode(), capture_output=True, check=False)


def run(*words, text="", code=0, says=None):
    """Standard output; `says`: what standard error must have."""
    global checks
    done = result(*words, text=text)
    error = done.stderr.decode("utf-8", "replace")
    assert done.returncode == code, (words, done.returncode, error)
    assert says is None or says in error, (words, error)
    checks += 1
    return done.stdout.decode()


def close(found, wanted, what):
    global checks
    checks += 1
    if isinstance(wanted, list):
        assert len(found) == len(wanted), (what, len(found), len(wanted))
        for f, w in zip(found, wanted):
            close(f, w, what)
    elif isinstance(wanted, dict):
        # A weight that is almost 0 may be there in one of the two alone.
        for token in {*found, *wanted}:
            close(found.get(token, 0), wanted.get(token, 0), (what, token))
        assert all(weight > 0 for weight in found.values()), (what, found)
    else:
        assert abs(found - wanted) < CLOSE, (what, found, wanted)
