"""wherry embed on SPLADE models against sentence-transformers (tests/golden/words.json), on every device and in all plans,
and what is refused.

usage: test_words.py WHERRY
The environment variable WHERRY_TEST_DEVICES narrows the devices (cpu, reference, opencl:0, vulkan:0), WHERRY_TEST_ALL=1
has drivers take all models.
"""

import json
import math
import os
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import command  # noqa: E402
import heads_models  # noqa: E402
from command import close, run  # noqa: E402
from heads_models import merge  # noqa: E402


DRIVERS = ("splade-max", "splade-sum")  # drivers that compile for seconds take these alone


def embed(model, *words, text):
    return [json.loads(line) for line in run("embed", "-m", model, "--json", "-q", *words, text=text).splitlines()]


def check(model, wanted, texts, on):
    rows = embed(model, "-t", "f32", *on, text="".join(text + "\n" for text in texts))
    for row, want in zip(rows, wanted):
        have = row["weights"]
        for key in {*have, *want}:
            assert abs(have.get(key, 0) - want.get(key, 0)) < 1e-4, (model, on, key, have.get(key), want.get(key))
        assert list(have) == sorted(have, key=int)
        assert sorted((weight for _, weight in row["words"]), reverse=True) == [weight for _, weight in row["words"]]
        assert sorted(have.values()) == sorted(weight for _, weight in row["words"])
    for order in ([1, 0], [3, 0, 2]):
        found = embed(model, "-t", "f32", *on, text="".join(texts[n] + "\n" for n in order))
        assert [row["weights"] for row in found] == [rows[n]["weights"] for n in order], "the batch changes weights"


def check_half(model, wanted, texts, on):
    for row, want in zip(embed(model, "-t", "f16", *on, text="".join(text + "\n" for text in texts)), wanted):
        have = row["weights"]
        dot = sum(have.get(key, 0) * weight for key, weight in want.items())
        length = math.sqrt(sum(w * w for w in have.values()) * sum(w * w for w in want.values()))
        assert dot >= 0.9999 * length, (model, on, dot / length)


def check_forms(model, wanted, texts, folder):
    """Text, an array with a column for each word, and pools of the tokens' vectors instead."""
    line = run("embed", "-m", model, "-d", "cpu", "-q", text=texts[0] + "\n").rstrip("\n").split("\t")
    names = heads_models.vocabulary("bert")
    ids = {int(word[1:]) if word[1:].isdigit() else len(names) - 1 - names[::-1].index(word) for word in (
        pair.rsplit(" ", 1)[0] for pair in line)} # of two tokens of a name the last one has it
    assert ids == {int(key) for key in wanted[0]}, line
    out = os.path.join(folder, "words.npy")
    run("embed", "-m", model, "-d", "cpu", "-f", "npy", "-o", out, text=texts[0] + "\n")
    with open(out, "rb") as file:
        assert f"(1, {len(names)})".encode() in file.read(128)
    pooled = run("embed", "-m", model, "-d", "cpu", "-q", "--pool", "mean", text=texts[0] + "\n")
    assert len(pooled.split()) == heads_models.HIDDEN
    vectors = embed(model, "-d", "cpu", "--output-type", "tokens", text=texts[0] + "\n")[0]
    assert len(vectors["embedding"]) == vectors["tokens"]
    found = json.loads(run("models", model, "--json"))["models"][0]
    assert found["words"] and found["runs"], found
    for plan, name in (("flash", "words"), ("unfused", "vocabulary_weight")):
        assert name in run("analyze", "-m", model, "--plan", plan), "the vocabulary is not counted"
    run("verify", "-m", model, "-d", "cpu")
    run("embed", "-m", model, "-d", "cpu", "--dim", "8", text="a\n", code=2, says="leave them out for weights of words")


def check_bad(folder):
    def broken(kind, change, says, code=3, within="1_SpladePooling", name="config.json"):
        model = os.path.join(folder, "broken")
        heads_models.write_changed(kind, model, within, name, change)
        run("embed", "-m", model, "-d", "cpu", text="a\n", code=code, says=says)

    broken("splade-max", merge(pooling_strategy="mean"), "pooling_strategy mean is not supported")
    broken("splade-max", merge(pooling_strategy=1), "that is no string")
    broken("splade-max", merge(activation_function="gelu"), "activation_function gelu")
    broken("splade-max", lambda _: [], "not an object")
    broken("splade-max", merge(architectures=["BertModel"]), "has no weights of words", 4, "")
    broken("splade-max", merge(tie_word_embeddings=False), "no tensor cls.predictions.decoder.weight", 3, "")
    broken("splade-plain", merge(vocab_size=80), "has shape", 3, "")
    modules = {"idx": 2, "name": "2", "path": "", "type": "sentence_transformers.models.Normalize"}
    broken("splade-max", lambda value: value + [modules], "Normalize is not supported at its place", 3, "", "modules.json")
    plain = os.path.join(folder, "bert-rerank")
    heads_models.write_model("bert-rerank", plain)
    run("embed", "-m", plain, "-d", "cpu", "--output-type", "sparse", text="a\n", code=4, says="has no weights of tokens")


def main():
    with open(os.path.join(GOLDEN, "words.json"), encoding="utf-8") as file:
        golden = json.load(file)
    given = os.environ.get("WHERRY_TEST_DEVICES", "").replace(",", " ").split()
    usable = [device for device in json.loads(run("devices", "--json"))["devices"] if device["usable"]]
    devices = given or [device["id"] for device in usable]
    texts = golden["texts"]
    with tempfile.TemporaryDirectory() as folder:
        for kind, wanted in golden["models"].items():
            model = os.path.join(folder, kind)
            heads_models.write_model(kind, model)
            sparse = ("--output-type", "sparse") if kind == "splade-plain" else ()
            for device in devices:
                driver = device.startswith(("opencl", "vulkan"))
                if driver and kind not in DRIVERS and not os.environ.get("WHERRY_TEST_ALL"):
                    continue
                for plan in ("flash", "paper", "unfused"):
                    if plan == "flash" or device == "cpu":
                        check(model, wanted, texts, ("-d", device, "--plan", plan, *sparse))
                if driver and kind != "splade-max":
                    check_half(model, wanted, texts, ("-d", device, *sparse))
        check_forms(os.path.join(folder, "splade-max"), golden["models"]["splade-max"], texts, folder)
        check_bad(folder)
    print(f"{command.checks} checks passed")


if __name__ == "__main__":
    main()
