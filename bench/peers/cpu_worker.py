"""What the Python peers of the comparison on the host's cores share: requests come in, times go out, as in cpu_wherry.c."""
import json
import sys
import time
import traceback


def repeat(function, count):
    """Seconds and seconds of processor time of each call, and what the last one gave."""
    seconds, cpu, result = [], [], None
    for _ in range(count):
        used, begin = time.process_time(), time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - used)
    return {"seconds": seconds, "cpu": cpu}, result


class Texts:
    """A task of many texts: before the first time is taken it is done with the first WARM of them."""

    WARM = 128

    def __init__(self, run, texts):
        self.run, self.texts = run, texts

    def __call__(self):
        return self.run(self.texts)

    def warm(self):
        self.run(self.texts[: self.WARM])


def serve(facts, tasks):
    """`tasks`: name: a function of the setting that returns a function, which does the task once and returns an array
    of floats or None. Before the first time is taken it is called once, or its `warm`."""
    made = {}
    out = sys.stdout
    sys.stdout = sys.stderr  # libraries print
    print(json.dumps(facts), file=out, flush=True)
    for line in sys.stdin:
        name, setting, count, path = line.split()
        try:
            if (name, setting) not in made:
                made[name, setting] = tasks[name](setting)
                getattr(made[name, setting], "warm", made[name, setting])()
            answer, result = repeat(made[name, setting], int(count))
            if path != "-":
                result.astype("float32").tofile(path)
        except Exception as error:  # whatever it is: the other tasks are still worth having
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(answer), file=out, flush=True)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def normalized(rows):
    import numpy

    return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)


def batches(lengths, size):
    """Places of texts, longest first, `size` at a time: what sentence-transformers does."""
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    return [order[n : n + size] for n in range(0, len(order), size)]
