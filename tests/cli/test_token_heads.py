"""wherry embed --output-type sparse and tokens against FlagEmbedding's formulas (tests/golden/token_heads.json), on
every device, and what is refused.

usage: test_token_heads.py WHERRY
The environment variable WHERRY_TEST_DEVICES narrows the devices (cpu, reference, opencl:0, vulkan:0).
"""

import json
import os
import shutil
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
FILES = os.path.join(HERE, "..", "data", "torch")
sys.path.insert(0, GOLDEN)
import command  # noqa: E402
import heads_models  # noqa: E402
from command import close, run  # noqa: E402


def embed(model, *words, text):
    return [json.loads(line) for line in run("embed", "-m", model, "--prompt", "", "-t", "f32", "--json", "-q", *words,
                                             text=text).splitlines()]


def check(model, wanted, texts, on):
    all_texts = "".join(text + "\n" for text in texts)
    rows = embed(model, "--output-type", "tokens", *on, text=all_texts)
    close([row["embedding"] for row in rows], wanted["vectors"], (model, on))
    if "weights" not in wanted:
        return
    weights = embed(model, "--output-type", "sparse", *on, text=all_texts)
    for row, want in zip(weights, wanted["weights"]):
        close(row["weights"], want, (model, on))
        assert list(row["weights"]) == sorted(row["weights"], key=int)
    assert [len(row["embedding"]) + 1 for row in rows] == [row["tokens"] for row in weights]
    for line, want in zip(run("embed", "-m", model, "--prompt", "", "-t", "f32", "-q", "--output-type", "sparse", *on,
                              text=all_texts).splitlines(), weights):
        pairs = [pair.rsplit(" ", 1) for pair in line.split("\t")] if line else []
        assert [[word, float(weight)] for word, weight in pairs] == want["words"], (line, want)
    alone = [embed(model, "--output-type", "sparse", *on, text=text + "\n")[0]["weights"] for text in texts[:2]]
    assert alone == [row["weights"] for row in weights[:2]], "the batch changes weights"


def write(kind, folder):
    model = os.path.join(folder, kind)
    heads_models.write_model(kind, model)
    if kind != "m3-colbert":
        for name in ("sparse", "colbert"):
            shutil.copy(os.path.join(FILES, f"{name}_{kind[3:]}.pt"), os.path.join(model, f"{name}_linear.pt"))
    return model


def safetensors(path, tensors):
    """Tensors of F32, by name: shape and values."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        more = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def check_safetensors(model, texts):
    """A file of that kind goes before the other one; without a bias, and with one alone."""
    path = os.path.join(model, "sparse_linear.safetensors")
    text = texts[0] + "\n"

    def sparse(**more):
        safetensors(path, {"weight": ([1, heads_models.HIDDEN], [0.0] * heads_models.HIDDEN), **more})
        return embed(model, "-d", "cpu", "--output-type", "sparse", text=text)[0]["weights"]

    found = sparse(bias=([1], [0.75]))
    assert found and set(found.values()) == {0.75}, found
    assert sparse() == {} and sparse(bias=([1], [-1.0])) == {}
    os.remove(path)
    path = os.path.join(model, "colbert_linear.safetensors")
    safetensors(path, {"weight": ([3, heads_models.HIDDEN], [1.0] * heads_models.HIDDEN * 3), "bias": ([3], [4.0, 0, 0])})
    rows = embed(model, "-d", "cpu", "--output-type", "tokens", text=text)[0]["embedding"]
    assert all(len(row) == 3 and abs(sum(v * v for v in row) - 1) < 1e-5 for row in rows)
    os.remove(path)


def check_bad(model, texts):
    """What is wrong with a head's file is said when its output is asked for; others do without."""
    text = texts[0] + "\n"
    path = os.path.join(model, "sparse_linear.pt")

    def refused(says, code=3):
        run("embed", "-m", model, "-d", "cpu", "--json", "--output-type", "sparse", text=text, code=code, says=says)
        run("embed", "-m", model, "-d", "cpu", "--prompt", "", text=text)

    shutil.copy(os.path.join(FILES, "colbert_f32.pt"), path)
    refused("tensor weight has shape [32, 32], and the model asks for [1, 32]")
    for name, says, code in (("calls", "only tensors are read: do not load", 4), ("legacy", "no zip", 3),
                             ("f32", "has shape [3, 5]", 3), ("many", "more than 8 tensors", 4),
                             ("integers", "torch.LongStorage", 4)):
        shutil.copy(os.path.join(FILES, name + ".pt"), path)
        refused(says, code)
    with open(os.path.join(FILES, "sparse_f32.pt"), "rb") as file:
        whole = file.read()
    with open(path, "wb") as file:
        file.write(whole[:len(whole) // 2])
    refused("get it again")
    os.remove(path)
    refused("has no weights of tokens: that takes a folder with sparse_linear.safetensors or sparse_linear.pt", 4)
    width = heads_models.HIDDEN
    other = os.path.join(model, "sparse_linear.safetensors")
    row = ([1, width], [0.0] * width)
    for tensors, says, code in (({"weight": row, "bias": ([2], [0.0] * 2)}, "bias has shape [2]", 3),
                                ({"bias": ([1], [0.0])}, "no tensor weight", 3),
                                ({"weight": ([width], [0.0] * width)}, "asks for [1, 32]", 3),
                                ({"weight": row, "x": ([1], [0.0])}, "more tensors than weight", 4)):
        safetensors(other, tensors)
        refused(says, code)
    safetensors(other, {"weight": ([1, width], [float("nan")] * width)})
    refused("weight")
    os.remove(other)
    shutil.copy(os.path.join(FILES, "f16.pt"), os.path.join(model, "colbert_linear.pt"))
    tokens = ("embed", "-m", model, "-d", "cpu", "--json", "--output-type", "tokens")
    run(*tokens, text=text, code=3, says="has shape [3, 5]")
    run(*tokens, "--pool", "none", text=text)
    run("embed", "-m", model, "-d", "cpu", "--prompt", "", text=text)
    for words, says in ((("--output-type", "sparse", "-f", "npy"), "only --format jsonl or text"),
                        (("--output-type", "tokens"), "only --format jsonl"),
                        (("--output-type", "sparse", "--json", "--dim", "2"), "leave --pool"),
                        (("--output-type", "sparse", "--json", "--pool", "cls"), "leave --pool")):
        run("embed", "-m", model, "-d", "cpu", *words, text=text, code=2, says=says)


def main():
    with open(os.path.join(GOLDEN, "token_heads.json"), encoding="utf-8") as file:
        golden = json.load(file)
    given = os.environ.get("WHERRY_TEST_DEVICES", "").replace(",", " ").split()
    devices = given or [device["id"] for device in json.loads(run("devices", "--json"))["devices"] if device["usable"]]
    texts = golden["texts"]
    with tempfile.TemporaryDirectory() as folder:
        models = {kind: write(kind, folder) for kind in golden["models"]}
        for device in devices:
            for plan in ("flash", "paper", "unfused") if device == "cpu" else ("flash",):
                for kind in models if device == "cpu" else ("m3-f32",):
                    check(models[kind], golden["models"][kind], texts, ("-d", device, "-p", plan))
        for kind, model in models.items():
            said = json.loads(run("models", "--json", model))["models"][0]
            assert said["token_weights"] == said["token_vectors"] == (kind != "m3-colbert"), said
        model = models["m3-f32"]
        dense = [row["embedding"] for row in embed(model, "-d", "cpu", text="".join(text + "\n" for text in texts))]
        close(dense, golden["models"]["m3-f32"]["dense"], "dense")
        raw = embed(model, "-d", "cpu", "--output-type", "tokens", "--pool", "none", text=texts[0] + "\n")[0]
        assert len(raw["embedding"]) == raw["tokens"], "--pool none leaves tokens out"
        check_safetensors(model, texts)
        check_bad(model, texts)
    print(f"{command.checks} checks passed")


if __name__ == "__main__":
    main()
