#!/usr/bin/env python3
"""Wherry's backend `cpu` beside PyTorch, ONNX Runtime and llama.cpp on the same cores in the same run: one record.

Usage: cpu.py FOLDER BUILD OUT [--rounds N] [--threads N] [--only TASK,...] [--llama] [--compile] [--command TEXT] [--note TEXT]
  FOLDER   of cpu_prepare.py        BUILD    with wherry, cpu_wherry, stream
  OUT      peers.json and peers.md are written there (cpu_table.py makes the table of the record)

Each peer is a process of its own that stays; in a round each does its share of a task, one after the other, so that
what else the machine does meets all of them. Every setting is tried once; the two best of each peer, and Wherry's best,
go through the rounds. A time is what a caller waits for, from texts (or ids) to embeddings, after a first call that is
not counted. Settings of the 2,000 sentences are tried with every seventh of them.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import cpu_table

HERE = Path(__file__).resolve().parent
# Task: repetitions in a turn; settings of each peer.
TASKS = {
    "sentences": (1, {
        "wherry": ["2048", "4096", "8192"],
        "pytorch": ["8", "16", "32", "64"],
        "onnxruntime": ["fused-1", "fused-4", "fused-16", "fused-32", "plain-4", "plain-16"],
        "llama": ["256", "512", "1024"],
    }),
    "sentence": (50, {
        "wherry": ["-"],
        "pytorch": ["library", "model"],
        "onnxruntime": ["plain", "fused"],
        "llama": ["512"],
    }),
    "batch": (1, {
        "wherry": ["512"],
        "pytorch": ["eager", "compile"],
        "onnxruntime": ["plain", "fused"],
        "llama": ["512", "1024"],
    }),
    "layer": (5, {"wherry": ["0.1"], "pytorch": ["eager-0.1", "compile-0.1"]}),
    "layer-plain": (5, {"wherry": ["0"], "pytorch": ["eager-0", "compile-0"]}),
    "bf16": (1, {
        "wherry": ["bf16-2048", "bf16-4096", "bf16-8192"],
        "pytorch": ["bf16-16", "bf16-32", "bf16-64"],
    }),
}
ASKED_AS = {"layer-plain": "layer", "bf16": "sentences"}
TRIED_WITH = {"sentences": "some", "bf16": "some"}  # the others are tried as what they are


def say(text):
    print(f"cpu: {text}", file=sys.stderr, flush=True)


class Worker:
    def __init__(self, command, log):
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"it ended, with {self.process.wait()}"}

    def ask(self, task, setting, count, path="-"):
        if self.process.poll() is not None:
            return {"error": f"it ended, with {self.process.returncode}"}
        self.process.stdin.write(f"{task} {setting} {count} {path}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def cores():
    """As many as the process may run on, within its control group's quota."""
    count = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    except OSError:
        pass
    return count


def processor():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    known = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "avx512_fp16", "amx_tile")
    return {"name": facts.get("model name", "unknown"), "cores": cores(), "flags": [f for f in known if f in flags]}


def output(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


class Run:
    def __init__(self, args):
        self.args, self.threads = args, args.threads or cores()
        self.samples, self.errors, self.cosines, self.workers, self.peers = [], [], [], {}, {}

    def start(self):
        """All begin together: what takes long is reading libraries."""
        args = self.args
        commands = {"wherry": [args.build / "cpu_wherry", args.folder, "cpu", self.threads]}
        names = ["pytorch", "onnxruntime"] + (["llama"] if args.llama else [])
        for name in names:
            commands[name] = [sys.executable, HERE / f"cpu_{name}.py", args.folder, self.threads]
        for name, command in commands.items():
            with open(args.out / f"{name}.log", "w", encoding="utf-8") as log:
                self.workers[name] = Worker(command, log)
        for name in list(self.workers):
            self.peers[name] = self.workers[name].answer()
            if "error" in self.peers[name]:
                self.fail("start", name, "-", self.peers[name]["error"])
                del self.workers[name]
        self.peers.setdefault("llama", {"absent": "was not given"})

    def fail(self, task, peer, setting, error):
        say(f"{task}, {peer} {setting}: {error}")
        self.errors.append({"task": task, "peer": peer, "setting": setting, "error": error})

    def turn(self, task, peer, setting, turn):
        path = self.args.out / f"{task}-{peer}.f32" if task in ("sentences", "sentence", "batch", "bf16") else "-"
        count = TASKS[task][0] if task in TASKS else 1
        answer = self.workers[peer].ask(ASKED_AS.get(task, task), setting, count, path)
        if "error" in answer:
            self.fail(task, peer, setting, answer["error"])
            return False
        self.samples.append({"task": task, "peer": peer, "setting": setting, "turn": turn, **answer})
        say(f"{task}, {peer} {setting}: {1e3 * cpu_table.median(answer['seconds']):.4g} ms")
        return True

    def best(self, task, peer, settings, count):
        times = cpu_table.times(self.samples, task, peer)
        return sorted((s for s in settings if s in times), key=times.get)[:count]

    def measure(self, task):
        settings = {peer: TASKS[task][1][peer] for peer in self.workers if peer in TASKS[task][1]}
        if not self.args.compile:
            settings = {p: [s for s in all_ if not s.startswith("compile")] for p, all_ in settings.items()}
        tried = TRIED_WITH.get(task, task)
        for peer, all_ in settings.items():
            for setting in all_:
                self.turn(tried, peer, setting, 0)
        chosen = {p: self.best(tried, p, all_, 1 if p == "wherry" else 2) for p, all_ in settings.items()}
        for turn in range(1, self.args.rounds + 1):
            for peer, best in chosen.items():
                for setting in best:
                    self.turn(task, peer, setting, turn)
        self.compare(task)

    def compare(self, task):
        """Embeddings beside Wherry's in f32; each file has what the peer made last."""
        import numpy as np

        def rows(name, peer):
            path = self.args.out / f"{name}-{peer}.f32"
            width = 768 if name == "batch" else 384
            return np.fromfile(path, np.float32).reshape(-1, width).astype(np.float64) if path.exists() else None

        ours = rows("sentences" if task == "bf16" else task, "wherry")
        for peer in TASKS[task][1]:
            theirs = rows(task, peer)
            if (peer == "wherry" and task != "bf16") or ours is None or theirs is None:
                continue
            cosine = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
            self.cosines.append({"task": task, "peer": peer, "least": float(f"{cosine.min():.9g}")})

    def bandwidth(self):
        """STREAM and the layernorm that adds, in turns."""
        shape = "65536x1024"
        for turn in range(1, self.args.rounds + 1):
            lines = output(self.args.build / "stream", self.threads, 256, 7).splitlines()  # MiB: as large as the tensors
            copies = {words[0]: float(words[2]) for words in map(str.split, lines) if words[0] in cpu_table.COPIES}
            for way, rate in copies.items():
                self.samples.append({"task": "norm", "peer": "stream", "setting": way, "turn": turn, "gb_s": rate})
            command = (self.args.build / "wherry", "bench", "norm", shape, "--device", "cpu", "--dtype", "f32",
                       "--only", "forward,bdrln,brln", "--warm", "0.15", "--repeats", 7, "-q", "--json")
            rows = json.loads(output(*command))["rows"]
            for row in rows:
                sample = {"task": "norm", "peer": "wherry", "setting": row["form"], "turn": turn}
                self.samples.append({**sample, "gb_s": 1e-9 * cpu_table.norm_bytes(row["form"], shape) / row["seconds"]})
            forms = ", ".join(f"{s['setting']} {s['gb_s']:.1f}" for s in self.samples[-len(rows) :])
            say(f"norm: copy {max(copies.values()):.1f} GB/s, {forms}")

    def record(self):
        command = ["git", "-C", HERE, "rev-parse", "--short=12", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        tokens = json.loads((self.args.folder / "lengths.json").read_text(encoding="utf-8"))
        texts = {"count": len(tokens), "tokens": sum(tokens)}
        texts |= {"median": cpu_table.median(tokens), "longest": max(tokens)}
        return {
            "schema": "wherry-cpu-peers-1",
            "processor": processor(),
            "threads": self.threads,
            "peers": self.peers,
            "commit": os.environ.get("COMMIT") or commit or None,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": self.args.command,
            "texts": texts,
            "note": self.args.note,
            "samples": self.samples,
            "errors": self.errors,
            "cosines": self.cosines,
        }

    def save(self):
        record = self.record()
        (self.args.out / "peers.json").write_text(cpu_table.dump(record), encoding="utf-8")
        (self.args.out / "peers.md").write_text(cpu_table.markdown(record), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "build", "out"):
        parser.add_argument(name, type=lambda text: Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", default=",".join([*TASKS, "norm"]))
    parser.add_argument("--llama", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--command", default=" ".join(sys.argv))
    parser.add_argument("--note", default="")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for embeddings in args.out.glob("*.f32"):  # of another run
        embeddings.unlink()
    run = Run(args)
    run.start()
    has_bf16 = cpu_table.BF16 & set(processor()["flags"])
    for task in args.only.split(","):
        begin = time.monotonic()
        if task == "norm":
            run.bandwidth()
        elif task != "bf16" or has_bf16:
            run.measure(task)
        say(f"{task} took {time.monotonic() - begin:.0f} s")
        run.save()  # what is measured stays when the run is ended
    for worker in run.workers.values():
        worker.end()
    print((args.out / "peers.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
