"""Gives the command files that are made to take memory and time, within 1 GB of address space and a few seconds of
processor time: each is refused with the limit that it is over, or read.

usage: test_hostile.py WHERRY           (files of models, texts and records, on the reference)
       test_hostile.py WHERRY tuning    (files of tunings, on the first usable driver of a CPU)

The limits of processor time are ten times and more what a quiet core takes. All cases run, whatever fails.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "report"))
import make_model  # noqa: E402
import make_record  # noqa: E402

WHERRY = os.path.abspath(sys.argv[1])
MEMORY, SECONDS = 1 << 30, 5
MIB = 1 << 20
FINE, INPUT = 0, 3
WORDS = make_model.vocabulary()
SPARE = 8  # ids of the model that its vocabulary leaves for added tokens


# ---- running ----


class Runner:
    def __init__(self, folder, env, memory):
        self.folder, self.memory, self.passed, self.failed = folder, memory, 0, []
        self.env = dict(os.environ, **env)

    def run(self, words, seconds=SECONDS):
        """Exit status (negative: the signal), what was written and said, processor time in seconds."""

        def limit():
            if self.memory:
                resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        said = [os.path.join(self.folder, name) for name in ("stdout", "stderr")]
        with open(said[0], "wb") as out, open(said[1], "wb") as err:
            process = subprocess.Popen([WHERRY, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=self.env, preexec_fn=limit)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        out, err = (open(path, "rb").read().decode(errors="replace") for path in said)
        return process.returncode, out, err, used.ru_utime + used.ru_stime

    def case(self, name, expected, pattern, words, seconds=SECONDS):
        """Whether the command ends with this status and says something that the pattern finds; "": says nothing."""
        code, out, err, took = self.run(words, seconds)
        wrong = code != expected or not (re.search(pattern, err) if pattern else not err)
        ended = signal.Signals(-code).name if code < 0 else code
        print("%-50s %s in %.2f s%s" % (name, ended, took, ": WRONG" if wrong else ""), flush=True)
        if wrong:
            self.failed.append(name)
            print("    expected %s and /%s/, it said: %s" % (expected, pattern, err[:400].strip()))
        self.passed += not wrong
        return None if wrong else out

    def end(self):
        print("%d passed, %d failed" % (self.passed, len(self.failed)))
        if self.failed:
            sys.exit("failed: " + ", ".join(self.failed))


# ---- files ----


def write(path, *parts):
    with open(path, "wb") as file:
        for part in parts:
            file.write(part.encode() if isinstance(part, str) else part)
    return path


def sparse(path, size):
    with open(path, "wb") as file:
        file.truncate(size)
    return path


def keys(count):
    """'"key00000000":0,...': `count` keys, of thousands."""
    block = ",".join('"key####%04d":0' % n for n in range(1000))
    return ",".join(block.replace("####", "%04d" % n) for n in range(count // 1000))


def tensors(count):
    """Empty tensors of a header."""
    return ",".join('"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % n for n in range(count))


class Model:
    """A small model folder, of which a case changes files; those of other cases are the whole one's."""

    def __init__(self, folder):
        self.folder = folder
        sys.argv[1:] = [folder]
        make_model.main()
        self.change(vocab_size=len(WORDS) + SPARE)
        self.weights = os.path.join(folder, "model.safetensors")
        make_model.write_weights(self.weights, make_model.tensors(len(WORDS) + SPARE))
        self.count = 0

    def config(self):
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
            return json.load(file)

    def change(self, **values):
        """config.json with these."""
        config = dict(self.config(), **values)
        write(os.path.join(self.folder, "config.json"), json.dumps(config))

    def without(self, *names):
        """Another folder with links to all files but these."""
        self.count += 1
        folder = "%s-%d" % (self.folder, self.count)
        os.mkdir(folder)
        for name in os.listdir(self.folder):
            if name not in names:
                os.symlink(os.path.join(self.folder, name), os.path.join(folder, name))
        return folder

    def having(self, name, *parts):
        """Another folder, where this file is so."""
        folder = self.without(name)
        write(os.path.join(folder, name), *parts)
        return folder

    def header(self, more):
        """Another folder, whose weights have this in their header besides."""
        with open(self.weights, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            text, data = file.read(size).rstrip(), file.read()
        text = text[:-1] + b"," + more.encode() + b"}"
        return self.having("model.safetensors", len(text).to_bytes(8, "little"), text, data)


# ---- models ----


def test_vocabulary(r, model, embed):
    r.case("vocab.txt of 60 MB of blank lines", INPUT, "vocab.txt .*60000000 bytes.* 16777216",
           embed(model.having("vocab.txt", b"\n" * 60000000)))
    r.case("vocab.txt of 16 MB of blank lines", INPUT, "vocab.txt: it has 16000000 lines, and 2097152 are the most",
           embed(model.having("vocab.txt", b"\n" * 16000000)))
    # As many as there may be: a blank line is a token that no text has.
    blank = b"\n" * ((2 << 20) - len(WORDS))
    folder = model.having("vocab.txt", "\n".join(WORDS), "\n", blank)
    most = r.case("vocab.txt of 2,097,152 lines", FINE, "", embed(folder))
    if most is not None:
        assert most == r.run(embed(model.folder))[1]
    word = "ab" * (7 << 20)
    r.case("vocab.txt with a token of 14 MiB", INPUT, "vocab.txt: token \"ab.* has id .*but the model has",
           embed(model.having("vocab.txt", "\n".join(WORDS + ["x"] * SPARE), "\n", word)))


def test_configuration(r, model, embed):
    inside = json.dumps(model.config())[:-1]
    r.case("config.json of 32 MB", INPUT, "config.json has 32000002 bytes; at most 4194304",
           embed(model.having("config.json", "[" + "{}," * (32000000 // 3) + "{}]")))
    r.case("config.json of 3 MB, 1 M values", INPUT, "config.json: more than 262144 values",
           embed(model.having("config.json", inside + ', "x": [' + "{}," * 1000000 + "{}]}")))
    r.case("config.json of 100 levels", INPUT, "config.json: more than 64 levels of nesting",
           embed(model.having("config.json", inside + ', "x": ' + "[" * 100 + "]" * 100 + "}")))
    r.case("config.json of 4 M levels", INPUT, "config.json: more than 64 levels of nesting",
           embed(model.having("config.json", "[" * (4 << 20))))
    r.case("modules.json of 1 M values", INPUT, "modules.json: more than 262144 values",
           embed(model.having("modules.json", "[" + "{}," * 1000000 + "{}]")))


def test_weights(r, model, embed):
    many = "{" + keys(4000000) + "}"
    r.case("header of 4 M keys, %d MB" % (len(many) // 1000000), INPUT,
           "model.safetensors: the header says that it has %d bytes, and 16777216" % len(many),
           embed(model.having("model.safetensors", len(many).to_bytes(8, "little"), many)))
    r.case("header of 16 MiB of values", INPUT, "model.safetensors: the header: more than 524288 values",
           embed(model.header('"__metadata__":{' + keys(1000000) + "}")))
    r.case("header of 50,000 tensors", INPUT, r"the file has \d+ tensors, and 32768 are the most",
           embed(model.header(tensors(50000))))
    r.case("header of 32,000 tensors", FINE, "", embed(model.header(tensors(32000))))


def write_shards(folder, shapes):
    """Each tensor in a file of its own."""
    where = {}
    for n, (name, shape) in enumerate(shapes.items()):
        where[name] = "model-%d.safetensors" % n
        make_model.write_weights(os.path.join(folder, where[name]), {name: shape})
    return json.dumps({"weight_map": where})


def test_index(r, model, embed):
    index = "model.safetensors.index.json"

    def having(*parts):
        folder = model.without("model.safetensors")
        write(os.path.join(folder, index), *parts)
        return folder

    folder = having()
    sparse(os.path.join(folder, index), 16 * MIB + 1)
    r.case("index of more than 16 MiB", INPUT, "index.json .*16777217 bytes.* 16777216", embed(folder))
    r.case("index of 1 M entries", INPUT, "index.json: more than 262144 values",
           embed(having('{"weight_map": {' + keys(1000000) + "}}")))
    make_model.LAYERS = 10
    folder = model.without("model.safetensors", "config.json")
    write(os.path.join(folder, "config.json"), json.dumps(dict(model.config(), num_hidden_layers=10)))
    text = write_shards(folder, make_model.tensors(len(WORDS) + SPARE))
    write(os.path.join(folder, index), text)
    make_model.LAYERS = 2
    r.case("weights in 167 files", INPUT, "has more than 128 files of weights", embed(folder))
    # One file by many names, each time read anew.
    folder = having()
    shapes = make_model.tensors(len(WORDS) + SPARE)
    with open(model.weights, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text, data = file.read(size), file.read()
    text += b" " * ((2 << 20) - len(text))
    write(os.path.join(folder, "w"), len(text).to_bytes(8, "little"), text, data)
    names = {name: "./" * n + "w" for n, name in enumerate(shapes)}
    write(os.path.join(folder, index), json.dumps({"weight_map": names}))
    r.case("one header of 2 MiB by 39 names", INPUT, "headers .* more than 16777216 bytes together", embed(folder))


# ---- tokenizers and texts ----


def added(content):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def tokenizer_config(**values):
    return json.dumps(dict({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, **values))


def test_tokenizer(r, model, embed):
    folder = model.having("tokenizer.json", '{"version": "1.0", "x": [' + "0," * (7 << 19) + "0]}")
    r.case("tokenizer.json of 3.7 M values", INPUT, "tokenizer.json: more than 3145728 values", embed(folder))
    folder = model.having("tokenizer.json")
    sparse(os.path.join(folder, "tokenizer.json"), 64 * MIB + 1)
    r.case("tokenizer.json of more than 64 MiB", INPUT, "tokenizer.json .*67108865 bytes.* 67108864", embed(folder))

    folder = model.without("vocab.txt", "tokenizer_config.json", "config.json")
    write(os.path.join(folder, "merges.txt"), "a a\n" * 15000000)
    write(os.path.join(folder, "vocab.json"), json.dumps({"<s>": 0, "</s>": 2, "a": 3, "aa": 4}))
    config = dict(model.config(), model_type="roberta", architectures=["RobertaModel"], pad_token_id=1)
    write(os.path.join(folder, "config.json"), json.dumps(config))
    r.case("merges.txt of 15 M merges", INPUT, "merges.txt: it has more than 2097152 merges", embed(folder))

    def config(key, *parts):
        return embed(model.having("tokenizer_config.json", tokenizer_config()[:-1], ', "%s": ' % key, *parts, "}"))

    one = json.dumps(added("#"))
    decoder = ",".join('"%d":%s' % (n, one.replace("#", "<%d>" % n)) for n in range(100000))
    r.case("tokenizer_config.json of 22 MB", INPUT, r"tokenizer_config.json has \d+ bytes; at most 16777216",
           config("added_tokens_decoder", "{", decoder, "}, ", '"x": [', "0," * 6000000, "0]"))
    r.case("tokenizer_config.json of 1.5 M values", INPUT, "tokenizer_config.json: more than 1048576 values",
           config("additional_special_tokens", "[", '"a",' * 1500000, '"a"]'))
    r.case("tokenizer_config.json of 100,000 added tokens", INPUT,
           "would get id %d, but the model has %d ids" % (len(WORDS) + SPARE, len(WORDS) + SPARE),
           config("added_tokens_decoder", "{", decoder, "}"), 20)
    same = ",".join('"%d":%s' % (n, one.replace("#", "-")) for n in range(100000))
    r.case("one added token 100,000 times", FINE, "", config("added_tokens_decoder", "{", same, "}"), 20)
    r.case("added tokens of 1 M characters 'a' and 'b' in all", INPUT, "would get id",
           config("additional_special_tokens", "[", ",".join('"%s"' % ("a" * n + "b") for n in range(1, 1400)), "]"))


def test_texts(r, model, embed):
    text = os.path.join(r.folder, "text")

    def dashes(*lengths):
        tokens = [added("-" * length) for length in lengths]
        return model.having("tokenizer_config.json", tokenizer_config(additional_special_tokens=tokens))

    one, two = dashes(1000000), dashes(20001)
    r.case("an added token of 1 M dashes, 80 kB of dashes", FINE, "", embed(one, write(text, b"-" * 80000 + b"\n")))
    r.case("an added token of 1 M dashes, 999,999 dashes", FINE, "", embed(one, write(text, b"-" * 999999 + b"\n")))
    nearly = (b"-" * 20000 + b" ") * 50 + b"\n"
    r.case("an added token of 20,001 dashes, 20,000 each", FINE, "", embed(two, write(text, nearly)))
    marks = "\u0316\u0301" * 1250000  # each pair has to change places
    r.case("10 MB: a letter with 5 M marks", FINE, "", embed(model.folder, write(text, "a", marks, marks, "\n")))
    r.case("10 MB: one word", FINE, "", embed(model.folder, write(text, b"a" * 10000000 + b"\n")))
    r.case("10 MB: one line of words", FINE, "", embed(model.folder, write(text, b"boat " * 2000000 + b"\n")))
    r.case("a line of more than 64 MiB", INPUT, "line 1: longer than 64 MiB",
           embed(model.folder, write(text, b"a" * (64 * MIB + 1))))
    r.case("a text without an end", INPUT, "line 1: longer than 64 MiB", embed(model.folder, "/dev/zero"))
    jsonl = lambda *parts: embed(model.folder, write(text, *parts), "--input", "jsonl")  # noqa: E731
    r.case("JSONL: a line of more than 64 MiB", INPUT, "line 2: longer than 64 MiB",
           jsonl('{"text": "a"}\n{"text": "', b"a" * (64 * MIB), '"}\n'))
    r.case("JSONL: a line of 10 M values", INPUT, "line 1: more than 65536 values",
           jsonl('{"text": "a", "x": [', "{}," * 10000000, "{}]}\n"))
    r.case("JSONL: a line of 1 M levels", INPUT, "line 1: more than 64 levels",
           jsonl('{"text": "a", "x": ', "[" * 1000000, "\n"))


# ---- records and device specifications ----


def test_records(r):
    path = os.path.join(r.folder, "record.json")
    r.case("record of 15 MB of empty objects", INPUT, "record.json: more than 1048576 values",
           ["report", write(path, "[", "{}," * 5000000, "{}]")])
    r.case("record of 100 levels", INPUT, "record.json: more than 64 levels",
           ["report", write(path, "[" * 100, "]" * 100)])
    r.case("record of more than 64 MiB", INPUT, "record.json: more than 67108864 bytes",
           ["report", sparse(path, 64 * MIB + 1)])
    r.case("record without an end", INPUT, "/dev/zero: more than 67108864 bytes", ["report", "/dev/zero"])
    write(path, json.dumps(make_record.make_record({"plans": "1500"})))
    r.case("record of 1500 plans, 7500 operations", FINE, "", ["report", path], seconds=20)
    for entries, most in (("devices", 64), ("ceilings", 512)):
        write(path, json.dumps(make_record.make_record({entries: 10000})))
        r.case(f"record of 10,000 {entries}", INPUT, f"{entries} has 10000 entries, and a record has at most {most}",
               ["report", path])


def test_specs(r):
    path = os.path.join(r.folder, "spec.json")

    def analyze(spec):
        return ["analyze", "--config", "minilm-l6", "--device-spec", spec]

    r.case("device specification of more than 64 MiB", INPUT, "spec.json: more than 67108864 bytes",
           analyze(sparse(path, 64 * MIB + 1)))
    r.case("device specification without an end", INPUT, "/dev/zero: more than 67108864 bytes", analyze("/dev/zero"))
    r.case("device specification of 10 M values", INPUT, "spec.json: more than 1048576 values",
           analyze(write(path, '{"x": [', "0," * 10000000, "0]}")))


def main_reference(folder):
    nowhere = dict.fromkeys(("OCL_ICD_VENDORS", "VK_DRIVER_FILES", "VK_ICD_FILENAMES"), "/nonexistent")
    r = Runner(folder, nowhere, MEMORY)
    model = Model(os.path.join(folder, "model"))
    texts = write(os.path.join(folder, "texts"), "water boat\n")

    def embed(model, text=texts, *more):
        return ["embed", "--device", "reference", "--model", model, "--cache", "", "--truncate", "--quiet", *more, text]

    r.case("nothing hostile", FINE, "", embed(model.folder))
    test_vocabulary(r, model, embed)
    test_configuration(r, model, embed)
    test_weights(r, model, embed)
    test_index(r, model, embed)
    test_tokenizer(r, model, embed)
    test_texts(r, model, embed)
    test_records(r)
    test_specs(r)
    r.end()


# ---- files of tunings ----


class Tuning:
    """What wherry tune leaves in a cache folder of its own, to which lines are added."""

    def __init__(self, r, model, device):
        self.r, self.cache = r, os.path.join(r.folder, "cache")
        self.place = ["--device", device, "--model", model.folder, "--cache", self.cache]
        self.text = write(os.path.join(r.folder, "text"), "water boat\n")
        code, _, err, _ = r.run(self.tune(), 300)
        assert code == 0, err
        self.files = {}
        for name in os.listdir(self.cache):
            if name.startswith(("tuned-", "tuning-")):
                with open(os.path.join(self.cache, name), "rb") as file:
                    self.files[name.split("-")[0]] = os.path.join(self.cache, name), file.read()
        assert sorted(self.files) == ["tuned", "tuning"], self.files
        device, driver, kernels = (line.partition(b" ")[2] for line in self.files["tuned"][1].split(b"\n")[1:4])
        self.start = fnv(FNV_START, device + b"\0" + driver + b"\0" + int(kernels, 16).to_bytes(8, sys.byteorder))

    def tune(self):
        return ["tune", *self.place, "--candidates", "1", "--rounds", "7", "--batch", "1", "--seq", "8", "--no-layouts"]

    def embed(self):
        return ["embed", *self.place, self.text]

    def line(self, fields):
        fields = fields.encode()
        return b"%016x\t%s\n" % (fnv(self.start, fields), fields)

    def put(self, kind, *parts):
        """Writes the file as it was, and these after it."""
        path, text = self.files[kind]
        write(path, text, *parts)
        return path


FNV_START, FNV_PRIME, FNV_MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def fnv(value, data):
    """FNV-1a, as core/base/index.c."""
    for byte in data:
        value = (value ^ byte) * FNV_PRIME & FNV_MASK
    return value


def main_tuning(folder):
    listed = subprocess.run([WHERRY, "devices", "--quiet", "--json"], check=True, capture_output=True).stdout
    asked = os.environ.get("WHERRY_TEST_DEVICES", "").split()
    devices = [d["id"] for d in json.loads(listed)["devices"]
               if d["usable"] and d["type"] == "CPU" and ":" in d["id"] and (not asked or d["id"] in asked)]
    if not devices:
        print("SKIPPED: no driver of a CPU: nothing is tuned")
        sys.exit(77)
    r = Runner(folder, {"POCL_CACHE_DIR": os.path.join(folder, "pocl")}, 4 * MEMORY)
    t = Tuning(r, Model(os.path.join(folder, "model")), devices[0])
    used, known = r"(?s)\A(?!.*not used)", r"\b(\d+) candidates in .*, \1 of them measured before"
    sizes = [t.line("sizes\tw%d\tx\t1\t1" % n) for n in range(200000)]
    measured = [t.line("measured\ttried\tw%d\tx\tright" % n + "\t1" * 6 + "\t7\t0\t") for n in range(100000)]
    measured += [t.line("step\t1\t%x\t1\t1\t1\t1\t7\tright\t" % n) for n in range(100000)]
    for lines in (4000, 200000):
        t.put("tuned", *sizes[:lines])
        r.case("{:,} tuned sizes".format(lines), FINE, used, t.embed(), 10)
        t.put("tuned")
        t.put("tuning", *measured[:lines // 2], *measured[-lines // 2:])
        out = r.case("a log of {:,} measurements".format(lines), FINE, used, t.tune(), 30)
        assert out is None or re.search(known, out), out
    most = r"tuned-[0-9a-f]*.txt are not used: "
    had = t.files["tuned"][1].count(b"\n")  # the header, and what was chosen
    t.put("tuned", b"\n" * (262145 - had))
    r.case("tuned sizes of 262,145 lines", FINE, most + "it has 262145 lines, and 262144 are the most", t.embed(), 10)
    sparse(t.put("tuned"), 64 * MIB + 1)
    r.case("tuned sizes of more than 64 MiB", FINE, most + ".*67108865 bytes.* 67108864", t.embed(), 10)
    r.end()


def main():
    tuning = sys.argv[2:] == ["tuning"]
    with tempfile.TemporaryDirectory(prefix="wherry-hostile-") as folder:
        if tuning:
            main_tuning(folder)
        else:
            main_reference(folder)


main()
