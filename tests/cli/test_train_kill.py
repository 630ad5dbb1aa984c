"""Ends `wherry train` at random moments (SIGKILL), every other time while a checkpoint or the model is being written, and
gives the same command again: the model has the same bits as of a run that nothing disturbed, the log the same steps and
losses, and what lies under the model's name is whole at any moment.

usage: test_train_kill.py WHERRY [DEVICE]

WHERRY_TEST_KILLS: how many (default: 3).
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WHERRY = os.path.abspath(sys.argv[1])
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
KILLS = int(os.environ.get("WHERRY_TEST_KILLS", "3"))
STEPS = 120
chooser = random.Random(int(os.environ.get("WHERRY_TEST_SEED", "23")))


class Training:
    """One output folder, and all processes that write it."""

    def __init__(self, work, name):
        self.out = os.path.join(work, name)
        self.log = self.out + ".jsonl"
        self.command = [WHERRY, "train", "--quiet", "--device", DEVICE, "--model", os.path.join(work, "model"),
                        "--task", "contrastive", "--data", os.path.join(work, "data.jsonl"), "--dev",
                        os.path.join(work, "dev.jsonl"), "--batch", "8", "--steps", str(STEPS), "--save-every", "4",
                        "--eval-every", "40", "--lr", "1e-3", "--log", self.log, "--out", self.out]
        self.cache = os.path.join(work, "cache")

    def start(self):
        return subprocess.Popen(self.command + ["--cache", self.cache], stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def unfinished(self):
        """Whether a folder is being written."""
        checkpoints = self.out + ".checkpoints"
        try:
            names = os.listdir(checkpoints)
        except FileNotFoundError:
            names = []
        return os.path.isdir(self.out + ".unfinished") or any(name.endswith(".unfinished") for name in names)

    def model(self):
        with open(os.path.join(self.out, "model.safetensors"), "rb") as file:
            return file.read()

    def losses(self):
        with open(self.log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [(line["step"], line["loss"], line["norm"]) for line in lines if "norm" in line]


def end(process):
    """Its exit code; a message of one that was not killed is an error."""
    err = process.communicate()[1].decode(errors="replace")
    if process.returncode not in (0, -9):
        sys.exit("exit code %d: %s" % (process.returncode, err))
    return process.returncode


def kill(training, process, seconds):
    """After some time, or in a folder's writing; how it was ended, None: it came to its end."""
    writing = seconds is None
    begun = time.monotonic()
    wait = chooser.uniform(0, 0.002)
    rest = chooser.randrange(12)
    while process.poll() is None:
        if not writing and time.monotonic() - begun >= seconds:
            break
        if writing and training.unfinished():
            if not rest:
                time.sleep(wait)
                break
            while training.unfinished() and process.poll() is None:
                pass
            rest -= 1
        if not writing:
            time.sleep(0.001)
    inside = training.unfinished()
    process.kill()
    if end(process) == 0:
        return None
    return "writing" if inside else "between"


def main():
    with tempfile.TemporaryDirectory(prefix="wherry-train-kill-") as work:
        subprocess.run([sys.executable, os.path.join(HERE, "make_model.py"), os.path.join(work, "model")], check=True)
        lines = ['{"query": "the %c", "answer": "boat %c %c water"}\n' % (c, c, c) for c in "abcdefghijklmnopqrstuvwx"]
        for name, some in (("data.jsonl", lines[:20]), ("dev.jsonl", lines[20:])):
            with open(os.path.join(work, name), "w", encoding="utf-8") as file:
                file.writelines(some)
        whole = Training(work, "whole")
        begun = time.monotonic()
        end(whole.start())
        took = time.monotonic() - begun
        model, losses = whole.model(), whole.losses()
        assert len(losses) == STEPS, len(losses)
        killed = {"writing": 0, "between": 0}
        ended = 0
        training = Training(work, "cut0")
        while True:
            count = sum(killed.values())
            process = training.start()
            if count < KILLS:
                how = kill(training, process, None if count % 2 else chooser.uniform(0, 0.7 * took))
                if how:
                    killed[how] += 1
                    if not os.path.exists(training.out):
                        continue
                    # Killed after its last step; what lies there is whole then.
                    if training.model() != model:
                        sys.exit("%s: killed, it left a model that is another" % training.out)
                    ended += 1
                    training = Training(work, "cut%d" % ended)
                    continue
            elif end(process):
                sys.exit("somebody else killed it")
            if training.model() != model:
                sys.exit("%s: after %s the model has other bits" % (training.out, killed))
            if training.losses() != losses:
                sys.exit("%s: after %s the log has other losses" % (training.out, killed))
            if training.unfinished() or os.path.exists(training.out + ".checkpoints"):
                sys.exit("%s: something is left over" % training.out)
            ended += 1
            if count >= KILLS:
                break
            training = Training(work, "cut%d" % ended)
        print("%s: %d kills, %d of them while a folder was being written; %d trainings of %.2f s and %d steps ended with "
              "the same bits" % (DEVICE, sum(killed.values()), killed["writing"], ended, took, STEPS))


main()
