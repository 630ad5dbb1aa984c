"""wherry train, task by task, on tiny models: the loss falls, and what the last evaluation says (loss, accuracy, Spearman's
correlation, recall@k) is what is computed here of what the other commands make of the saved folder. Where Python has
transformers, the folder opens in the class that its config names, and gives the same scores.

usage: test_train_tasks.py WHERRY [DEVICE]
"""

import json
import math
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import command  # noqa: E402
import make_model  # noqa: E402
from command import run  # noqa: E402

try:
    import torch
    import transformers
except ImportError:
    transformers = None
try:
    from scipy.stats import spearmanr
except ImportError:
    spearmanr = None

DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"
LABELS = ["north", "east", "south"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
chooser = random.Random(23)


def write_model(folder, kind, labels):
    """make_model.py's, with a classifier of texts ("Sequence") or of tokens ("Token")."""
    words = make_model.vocabulary()
    shapes = {"bert." + name: shape for name, shape in make_model.tensors(len(words)).items()
              if kind == "Sequence" or "pooler" not in name}
    shapes["classifier.weight"] = [len(labels), make_model.HIDDEN]
    shapes["classifier.bias"] = [len(labels)]
    os.makedirs(folder)
    config = {"architectures": ["BertFor%sClassification" % kind], "model_type": "bert", "vocab_size": len(words),
              "hidden_size": make_model.HIDDEN, "num_hidden_layers": make_model.LAYERS,
              "num_attention_heads": make_model.HEADS, "intermediate_size": make_model.FEED_FORWARD,
              "hidden_act": "gelu", "max_position_embeddings": make_model.POSITIONS, "type_vocab_size": 2,
              "layer_norm_eps": 1e-12, "id2label": {str(n): label for n, label in enumerate(labels)},
              "label2id": {label: n for n, label in enumerate(labels)}}
    for name, value in (("config.json", config),
                        ("tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(words) + "\n")
    make_model.write_weights(os.path.join(folder, "model.safetensors"), shapes)


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


class Work:
    def __init__(self, folder):
        self.folder = folder
        self.runs = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def train(self, model, task, rows, dev, *options, steps=60):
        """The trained folder, and its last evaluation; the loss has fallen."""
        self.runs += 1
        out, log = self.path("out%d" % self.runs), self.path("log%d" % self.runs)
        write_lines(self.path("data.jsonl"), rows)
        write_lines(self.path("dev.jsonl"), dev)
        run("train", "-m", model, "-d", DEVICE, "-q", "--task", task, "--data", self.path("data.jsonl"), "--dev",
            self.path("dev.jsonl"), "--steps", str(steps), "--batch", "16", "--lr", "3e-3", "--dropout", "0", "--out",
            out, "--log", log, "--eval-every", str(steps), *options)
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        said = [line["evaluation"] for line in lines if "evaluation" in line]
        losses = [line["loss"] for line in lines if "norm" in line]
        some = max(3, steps // 8)
        before, after = sum(losses[:some]) / some, sum(losses[-some:]) / some
        print("%-12s %-36s %.4f -> %.4f, %s" % (task, " ".join(options), before, after, said[1]))
        assert len(said) == 2 and len(losses) == steps and after < before, (task, options, losses)
        return out, said[1]


def same(found, wanted, what, within=1e-5):
    command.checks += 1
    assert abs(found - wanted) <= within * max(1, abs(wanted)), (what, found, wanted)


# ---- what evaluations should say ----

def ranks(values):
    order = sorted(range(len(values)), key=lambda n: values[n])
    out, first = [0.0] * len(values), 0
    while first < len(order):
        end = first
        while end < len(order) and values[order[end]] == values[order[first]]:
            end += 1
        for n in order[first:end]:
            out[n] = (first + end + 1) / 2
        first = end
    return out


def spearman(a, b):
    x, y = ranks(a), ranks(b)
    mean = (len(x) + 1) / 2
    up = sum((p - mean) * (q - mean) for p, q in zip(x, y))
    result = up / math.sqrt(sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y))
    if spearmanr:
        same(result, spearmanr(a, b).statistic, "scipy", 1e-12)
    return result


def embed(model, texts):
    lines = run("embed", "-m", model, "-d", DEVICE, "-t", "f32", "--json", "-q", text="".join(t + "\n" for t in texts))
    vectors = [json.loads(line)["embedding"] for line in lines.splitlines()]
    return [[x / math.sqrt(sum(y * y for y in v)) for x in v] for v in vectors]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def logits(model, texts, labels, *options):
    lines = run("classify", "-m", model, "-d", DEVICE, "-t", "f32", "--json", "-q", "--scores", "none", *options,
                text="".join(t + "\n" for t in texts))
    return [[next(l["score"] for l in json.loads(line)["labels"] if l["label"] == name) for name in labels]
            for line in lines.splitlines()]


def log_sum(values):
    most = max(values)
    return most + math.log(sum(math.exp(v - most) for v in values))


def elsewhere(model, name, texts, wanted):
    """Opens the folder in transformers; `wanted`: the class' scores."""
    if not transformers:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    other = getattr(transformers, "AutoModelFor%sClassification" % name).from_pretrained(model).eval()
    assert type(other).__name__ == "BertFor%sClassification" % name, type(other)
    for text, want in zip(texts, wanted):
        one = tokenizer(*text.split("\t"), return_tensors="pt") if isinstance(text, str) else text
        with torch.no_grad():
            found = other(**one).logits[0].tolist()
        for f, w in zip(found, want):
            same(f, w, (model, text), 1e-4)


# ---- tasks ----

def scored(work, model):
    def row():
        a, b = chooser.choice(LETTERS), chooser.choice(LETTERS)
        near = 1 - abs(ord(a) - ord(b)) / 25
        return {"one": "the " + a, "other": "boat %s %s" % (b, b), "score": near}

    rows, dev = [row() for _ in range(64)], [row() for _ in range(14)]
    for loss in ("cosent", "cosine"):
        out, said = work.train(model, "scored", rows, dev, "--loss", loss)
        vectors = embed(out, [r["one"] for r in dev] + [r["other"] for r in dev])
        cosines = [dot(vectors[n], vectors[n + len(dev)]) for n in range(len(dev))]
        scores = [r["score"] for r in dev]
        same(said["spearman"], spearman(cosines, scores), loss, 0.01)  # cosines that are as good as equal
        if loss == "cosine":
            want = sum((c - s) ** 2 for c, s in zip(cosines, scores)) / len(dev)
        else:
            want = log_sum([0] + [20 * (cosines[j] - cosines[i]) for i in range(len(dev)) for j in range(len(dev))
                                  if scores[i] > scores[j]])
        same(said["loss"], want, loss, 1e-4)


def contrastive(work, model):
    def row(letter):
        other = chooser.choice([l for l in LETTERS if l != letter])
        return {"anchor": "the " + letter, "positive": "boat %s water" % letter, "negative": "water %s boat" % other}

    rows, dev = [row(l) for l in LETTERS[:20]], [row(l) for l in LETTERS[14:]]
    for options in ((), ("--symmetric",), ("--dims", "32,16", "--batch-tokens", "200")):
        out, said = work.train(model, "contrastive", rows, dev, *options, steps=16 if options else 8)
        columns = [embed(out, [r[name] for r in dev]) for name in ("anchor", "positive", "negative")]
        for k in (1, 10):
            found = 0
            for n, anchor in enumerate(columns[0]):
                right = dot(anchor, columns[1][n])
                found += sum(dot(anchor, other) > right + 1e-7 for other in columns[1]) < k
            same(said["recall@%d" % k], found / len(dev), (options, k))
        if not options:
            want = 0
            for n, anchor in enumerate(columns[0]):
                row_of = [20 * dot(anchor, other) for other in columns[1] + columns[2]]
                want += (log_sum(row_of) - row_of[n]) / len(dev)
            same(said["loss"], want, "contrastive", 1e-4)


def classify(work, model):
    def row(pair=False, several=False):
        at = chooser.randrange(26)
        text = "the %s boat %s" % (LETTERS[at], LETTERS[at])
        out = {"one": text, "two": "water " + LETTERS[chooser.randrange(26)]} if pair else {"text": text}
        if several:
            out["labels"] = [LABELS[n] for n in range(3) if at % (n + 2) == 0]
        else:
            out["label"] = LABELS[at * 3 // 26] if chooser.random() < 0.5 else at * 3 // 26
        return out

    for options, pair, several in (((), False, False), ((), True, False), (("--loss", "binary"), False, True)):
        rows, dev = [row(pair, several) for _ in range(64)], [row(pair, several) for _ in range(15)]
        out, said = work.train(model, "classify", rows, dev, *options)
        texts = [r["one"] + "\t" + r["two"] if pair else r["text"] for r in dev]
        scores = logits(out, texts, LABELS, *(["--pairs"] if pair else []))
        elsewhere(out, "Sequence", texts, scores)
        if several:
            targets = [[1.0 if name in r["labels"] else 0.0 for name in LABELS] for r in dev]
            cells = [(s, t) for row_of, goal in zip(scores, targets) for s, t in zip(row_of, goal)]
            same(said["accuracy"], sum((s > 0) == (t > 0.5) for s, t in cells) / len(cells), options)
            want = sum(math.log1p(math.exp(s)) - t * s for s, t in cells) / len(cells)
        else:
            numbers = [r["label"] if isinstance(r["label"], int) else LABELS.index(r["label"]) for r in dev]
            right = sum(max(range(3), key=row_of.__getitem__) == n for row_of, n in zip(scores, numbers))
            same(said["accuracy"], right / len(dev), options)
            want = sum(log_sum(row_of) - row_of[n] for row_of, n in zip(scores, numbers)) / len(dev)
        same(said["loss"], want, ("classify", options), 1e-4)


def regress(work, model):
    def row():
        at = chooser.randrange(26)
        return {"text": "the %s water" % LETTERS[at], "score": at / 25}

    for loss in ("squares", "binary"):
        rows, dev = [row() for _ in range(64)], [row() for _ in range(13)]
        out, said = work.train(model, "regress", rows, dev, "--loss", loss)
        found = [scores[0] for scores in logits(out, [r["text"] for r in dev], ["nearness"])]
        elsewhere(out, "Sequence", [r["text"] for r in dev], [[f] for f in found])
        wanted = [r["score"] for r in dev]
        same(said["spearman"], spearman(found, wanted), loss, 0.01)
        squares = sum((f - w) ** 2 for f, w in zip(found, wanted)) / len(dev)
        same(said["squared error"], squares, loss, 1e-4)
        bits = sum(math.log1p(math.exp(f)) - w * f for f, w in zip(found, wanted)) / len(dev)
        same(said["loss"], squares if loss == "squares" else bits, loss, 1e-4)


def tokens(work, model):
    def row():
        words = [chooser.choice(["the", "boat", "water", chooser.choice(LETTERS), "xy", "abc"]) for _ in range(6)]
        kinds = {"the": "O", "boat": "B-thing", "water": "B-thing"}
        return {"tokens": words, "labels": [kinds.get(word, 2) for word in words]}

    names = ["O", "B-thing", "B-letter"]
    rows, dev = [row() for _ in range(48)], [row() for _ in range(12)]
    dev[0]["labels"][2] = -100
    out, said = work.train(model, "tokens", rows, dev, steps=30)
    texts = [" ".join(r["tokens"]) for r in dev]
    lines = run("classify", "-m", out, "-d", DEVICE, "-t", "f32", "--json", "-q", "--tokens", "--aggregation", "none",
                text="".join(t + "\n" for t in texts)).splitlines()
    right = counted = 0
    for row_of, line in zip(dev, lines):
        at = {entity["start"]: entity["label"] for entity in json.loads(line)["entities"]}
        begin = 0
        for word, label in zip(row_of["tokens"], row_of["labels"]):
            if label != -100:
                counted += 1
                right += at.get(begin, "O") == (label if isinstance(label, str) else names[label])
            begin += len(word) + 1
    same(said["accuracy"], right / counted, "tokens")
    assert said["accuracy"] > 0.9, said
    if transformers:
        other = transformers.AutoModelForTokenClassification.from_pretrained(out).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(out)
        loss = count = 0
        for row_of in dev:
            one = tokenizer(row_of["tokens"], is_split_into_words=True, return_tensors="pt")
            of, seen, labels = one.word_ids(), set(), []
            for word in of:
                fresh = word is not None and word not in seen
                label = row_of["labels"][word] if fresh else -100
                labels.append(names.index(label) if isinstance(label, str) else label)
                seen.add(word)
            with torch.no_grad():
                loss += torch.nn.functional.cross_entropy(other(**one).logits[0], torch.tensor(labels),
                                                          reduction="sum").item()
            count += sum(label != -100 for label in labels)
        same(said["loss"], loss / count, "tokens' loss", 1e-4)


def pretraining(work):
    """BERT's: a new model tells which of two halves belong together; the folder has the weights for it."""
    folder, texts = work.path("pretraining"), work.path("texts.txt")
    write_model(folder, "Sequence", LABELS)
    os.remove(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**config, "architectures": ["BertForPreTraining"]}, file)
    rows = [{"text": "%s boat" % a, "next": a == b, "pair": "%s water" % b}
            for a in LETTERS[:6] for b in (a, chooser.choice(LETTERS[:6]))]
    out, said = work.train(folder, "mlm", rows, rows[:8], "--next-sentence", "--init", "random")
    assert 0 <= said["next sentences"] <= 1 and 0 <= said["accuracy"] <= 1, said
    with open(os.path.join(out, "model.safetensors"), "rb") as file:
        names = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    for name in ("bert.pooler.dense.weight", "cls.seq_relationship.weight", "cls.seq_relationship.bias"):
        command.checks += 1
        assert name in names, sorted(names)
    assert names["cls.seq_relationship.weight"]["shape"] == [2, make_model.HIDDEN]
    if transformers:
        other, told = transformers.BertForPreTraining.from_pretrained(out, output_loading_info=True)
        assert not told["missing_keys"] and not told["unexpected_keys"], told
    with open(texts, "w", encoding="utf-8") as file:
        file.write("".join("%s boat\n" % letter for letter in LETTERS))
    again = work.path("again")
    run("train", "-m", out, "-d", DEVICE, "-q", "--task", "mlm", "--next-sentence", "--data", texts, "--steps", "3",
        "--batch", "8", "--shards", "4", "--out", again)
    with open(os.path.join(again, "model.safetensors"), "rb") as file:
        assert json.loads(file.read(int.from_bytes(file.read(8), "little"))).keys() == names.keys()


def main():
    with tempfile.TemporaryDirectory(prefix="wherry-train-tasks-") as folder:
        work = Work(folder)
        plain = work.path("plain")
        sys.argv = ["make_model.py", plain]
        make_model.main()
        for kind, name, labels in (("Sequence", "classes", LABELS), ("Sequence", "number", ["nearness"]),
                                   ("Token", "tokens", ["O", "B-thing", "B-letter"])):
            write_model(work.path(name), kind, labels)
        scored(work, plain)
        contrastive(work, plain)
        classify(work, work.path("classes"))
        regress(work, work.path("number"))
        tokens(work, work.path("tokens"))
        pretraining(work)
    print("%d checks passed%s" % (command.checks, "" if transformers else "; transformers is not here"))


if __name__ == "__main__":
    main()
