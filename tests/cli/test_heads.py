"""wherry rerank, classify, fill and embed against what the reference libraries gave (tests/golden/heads.json), and what they
refuse. In f32 on the host's cores and the reference; in f16 on every driver that has it, some of the models, with
WHERRY_TEST_ALL=1 all.

usage: test_heads.py WHERRY
The environment variable WHERRY_TEST_DEVICES narrows the devices (cpu, reference, opencl:0, vulkan:0).
"""

import json
import math
import os
import shutil
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path.insert(0, GOLDEN)
import command  # noqa: E402
import heads_models  # noqa: E402
from command import close, run  # noqa: E402
from heads_models import merge  # noqa: E402


def rows(*words, text):
    return [json.loads(line) for line in run(*words, "--json", "-q", text=text).splitlines()]


def lines(texts):
    return "".join(text + "\n" for text in texts)


def check_texts(model, golden, wanted, on):
    texts, query = golden["texts"], golden["query"]
    names = wanted["names"]

    def scores(found):
        return [[next(l["score"] for l in row["labels"] if l["label"] == name) for name in names] for row in found]

    close(scores(rows("classify", "-m", model, *on, text=lines(texts))), wanted["labels"], model)
    pairs = [f"{query}\t{text}" for text in texts]
    close(scores(rows("classify", "-m", model, "--pairs", *on, text=lines(pairs))), wanted["pairs"], model)
    for row, all_scores in zip(run("classify", "-m", model, "-q", *on, text=lines(texts)).splitlines(),
                               wanted["labels"]):
        name, score = row.split("\t")
        assert name == names[all_scores.index(max(all_scores))], (row, all_scores)
        close(float(score), max(all_scores), row)
    if "scores" not in wanted:
        run("rerank", "-m", model, "--query", query, *on, text=lines(texts), code=3, says="is no reranker")
        return
    found = rows("rerank", "-m", model, "--query", query, *on, text=lines(texts))
    assert [row["score"] for row in found] == sorted((row["score"] for row in found), reverse=True)
    close([row["score"] for row in sorted(found, key=lambda row: row["index"])], wanted["scores"], model)
    ranked = [row.split("\t") for row in run("rerank", "-m", model, "-Q", query, "--top", "2", "-q", *on,
                                             text=lines(texts)).splitlines()]
    assert [(int(line) - 1, text) for _, line, text in ranked] == [(r["index"], texts[r["index"]]) for r in found[:2]]
    for text, score, other in zip(texts, wanted["swapped"], wanted["scores"]):
        one = rows("rerank", "-m", model, "--query", text, *on, text=query + "\n")[0]["score"]
        close(one, score, "swapped")
        assert abs(one - other) > 1e-5, (text, "the order of a pair makes no difference")


def check_tokens(model, golden, wanted, on):
    texts = golden["texts"]
    for aggregation, entities in wanted.items():
        found = rows("classify", "-m", model, "--tokens", "--aggregation", aggregation, "--with-text", *on,
                     text=lines(texts))
        for row, text, want in zip(found, texts, entities):
            assert row["text"] == text
            have = [(e["label"], e["start"], e["end"]) for e in row["entities"]]
            assert have == [(e["label"], e["start"], e["end"]) for e in want], (aggregation, text, have, want)
            close([e["score"] for e in row["entities"]], [e["score"] for e in want], aggregation)
            assert all(e["word"] == text[e["start"]:e["end"]] for e in row["entities"])
    simple = run("classify", "-m", model, "--tokens", "-q", *on, text=lines(texts)).splitlines()
    want = [(n + 1, e["start"], e["end"], e["label"]) for n, row in enumerate(wanted["simple"]) for e in row]
    assert [(int(a), int(b), int(c), d) for a, b, c, d, _, _ in (line.split("\t") for line in simple)] == want
    run("classify", "-m", model, text="a\n", code=3, says="give --tokens")


def check_sentences(model, golden, wanted, on):
    texts = golden["texts"]
    plain = [row["embedding"] for row in rows("embed", "-m", model, "--prompt", "", *on, text=lines(texts))]
    close(plain, wanted["embeddings"], model)
    prompted = rows("embed", "-m", model, "--prompt", "query", *on, text=lines(texts[:2]))
    close([row["embedding"] for row in prompted], wanted["prompted"], model)
    cut = rows("embed", "-m", model, "--prompt", "", "--dim", "8", "--normalize", *on, text=lines(texts[:2]))
    close([row["embedding"] for row in cut], wanted["cut"], model)


def check_masks(model, golden, wanted, on):
    mask = heads_models.mask_of(model)
    texts = [text.replace("[MASK]", mask) for text in golden["masked"]]
    for row, want in zip(rows("fill", "-m", model, *on, text=lines(texts)), wanted["masks"]):
        assert len(row["masks"]) == len(want)
        for found, tokens in zip(row["masks"], want):
            assert [t["token"] for t in found] == [t["token"] for t in tokens], (found, tokens)
            close([t["score"] for t in found], [t["score"] for t in tokens], model)
    plain = [line.split("\t") for line in run("fill", "-m", model, "--top", "1", "-q", *on,
                                              text=lines(texts)).splitlines()]
    assert [(int(line), token) for line, token, _ in plain] == [
        (n + 1, mask[0]["token"]) for n, row in enumerate(wanted["masks"]) for mask in row]
    if "bytes" in model:
        spelled = {character: byte for byte, character in heads_models.byte_alphabet().items()}
        names = heads_models.vocabulary("bytes")
        found = rows("fill", "-m", model, "--top", str(len(names)), *on, text=texts[0] + "\n")[0]["masks"][0]
        assert {t["id"]: t["token"] for t in found} == {
            n: bytes(spelled[c] for c in name).decode(errors="replace") for n, name in enumerate(names)}
    many = lines([" ".join([mask] * 40), texts[0]])
    found = rows("fill", "-m", model, *on, text=many)
    assert [len(row["masks"]) for row in found] == [40, 1]
    close([t["score"] for t in found[1]["masks"][0]], [t["score"] for t in wanted["masks"][0][0]], "after many")
    run("fill", "-m", model, *on, text="water\n", code=3, says="line 1: no mask to fill in it")
    run("rerank", "-m", model, "-Q", "a", *on, text="water\n", code=3, says="is no reranker")


# CPU drivers compile for seconds; WHERRY_TEST_ALL=1 takes all.
HALF = {"vulkan": ["bert-rerank", "bert-entities", "bert-fill", "xlmr-classify", "mpnet-classify", "sentence-pieces"],
        "opencl": ["xlmr-classify", "sentence-pieces"]}


def drivers(given, model):
    """Those with f16. A driver may lack it, and must say so."""
    found = []
    ids = [d["id"] for d in json.loads(run("devices", "--json"))["devices"] if d["usable"] and ":" in d["id"]]
    for device in (d for d in ids if not given or d in given):
        done = command.result("embed", "-m", model, "-d", device, "-t", "f16", text="a\n")
        assert done.returncode == 0 or b"f16" in done.stderr, (device, done.stderr)
        found += [device] if done.returncode == 0 else []
    return found


def near(found, wanted, what):
    """f16's bounds: the direction of vectors and of scores, and each value."""
    norm = math.sqrt(sum(f * f for f in found) * sum(w * w for w in wanted))
    cosine = sum(f * w for f, w in zip(found, wanted)) / norm
    assert len(found) == len(wanted) and cosine >= 0.9999, (what, cosine, found, wanted)
    assert all(abs(f - w) < 0.02 for f, w in zip(found, wanted)), (what, found, wanted)
    command.checks += 1


def check_half(model, kind, golden, wanted, device):
    on, texts, what = ("-d", device, "-t", "f16"), golden["texts"], (kind, device)
    if kind.startswith("sentence"):
        found = rows("embed", "-m", model, "--prompt", "", *on, text=lines(texts))
        pairs = zip((row["embedding"] for row in found), wanted["embeddings"])
    elif kind.endswith("entities"):
        found = rows("classify", "-m", model, "--tokens", "--aggregation", "none", *on, text=lines(texts))
        have, want = ({(n, e["start"], e["end"]): e for n, row in enumerate(one) for e in row}
                      for one in ((row["entities"] for row in found), wanted["none"]))
        # Two labels may be as good as equal.
        other = [place for place in {*have, *want} if have.get(place, {}).get("label") != want.get(place, {}).get("label")]
        assert len(other) <= len(want) // 20, (what, other)
        pairs = [([have[place]["score"] for place in want if place in have],
                  [want[place]["score"] for place in want if place in have])]
    elif kind.endswith("fill"):
        masked = [text.replace("[MASK]", heads_models.mask_of(model)) for text in golden["masked"]]
        found = rows("fill", "-m", model, *on, text=lines(masked))
        pairs = [([t["score"] for t in f], [t["score"] for t in w]) for row, masks in zip(found, wanted["masks"])
                 for f, w in zip(row["masks"], masks)]
    else:
        found = rows("classify", "-m", model, *on, text=lines(texts))
        pairs = [([next(l["score"] for l in row["labels"] if l["label"] == name) for name in wanted["names"]], w)
                 for row, w in zip(found, wanted["labels"])]
    for one, other in pairs:
        near(one, other, what)


def check_prompts(model):
    run("embed", "-m", model, "-d", "cpu", "--json", text="a\n", says="query, document")
    run("embed", "-m", model, "-d", "cpu", "--prompt", "passage", text="a\n", code=2, says="they have query, document")
    run("embed", "-m", model, "-d", "cpu", "--dim", "1000", text="a\n", code=2, says="this model's have")
    path = os.path.join(model, "config_sentence_transformers.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    want = run("embed", "-m", model, "-d", "cpu", "--prompt", "document", text="water\n")
    heads_models.write_json(model, os.path.basename(path), {**config, "default_prompt_name": "document", "truncate_dim": 8})
    found = run("embed", "-m", model, "-d", "cpu", text="water\n")
    assert len(found.split()) == 8 and len(want.split()) > 8
    run("embed", "-m", model, "-d", "cpu", "--prompt", "", "--pool", "cls", text="a\n", code=4)
    for change, says in (({"default_prompt_name": "x"}, "has none of that name"), ({"prompts": [1]}, "not an object"),
                         ({"prompts": {"a": 1}}, "is not a string"), ({"truncate_dim": 0}, "truncate_dim")):
        heads_models.write_json(model, os.path.basename(path), {**config, **change})
        run("embed", "-m", model, "-d", "cpu", text="a\n", code=3, says=says)
    heads_models.write_json(model, os.path.basename(path), config)
    pooling = os.path.join(model, "1_Pooling")
    with open(os.path.join(pooling, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    heads_models.write_json(pooling, "config.json", {**config, "include_prompt": False})
    run("embed", "-m", model, "-d", "cpu", "--prompt", "query", text="a\n", code=3, says="include_prompt")
    run("embed", "-m", model, "-d", "cpu", "--prompt", "", text="a\n")
    heads_models.write_json(pooling, "config.json", config)


def npy(path):
    with open(path, "rb") as file:
        data = file.read()
    header = data[10:128].decode()
    shape = [int(n) for n in header[header.index("(") + 1:header.index(")")].split(",")]
    descr = header.split("'")[3]
    kind = {"<f4": "f", "<f2": "e", "|i1": "b", "|u1": "B"}[descr]
    values = struct.unpack(f"<{shape[0] * shape[1]}{kind}", data[128:])
    return descr, [list(values[r * shape[1]:(r + 1) * shape[1]]) for r in range(shape[0])]


def check_types(model, golden, folder):
    """As sentence_transformers.util.quantize_embeddings."""
    out = os.path.join(folder, "out.npy")
    ranges = os.path.join(folder, "ranges.npy")

    def embed(*words):
        run("embed", "-m", model, "-d", "cpu", "--prompt", "", "-f", "npy", "-o", out, *words, text=lines(golden["texts"]))
        return npy(out)

    kind, full = embed()
    shutil.copy(out, ranges)
    assert kind == "<f4"
    kind, half = embed("--output-type", "f16")
    assert kind == "<f2" and half == [list(struct.unpack(f"<{len(r)}e", struct.pack(f"<{len(r)}e", *r))) for r in full]
    for name, wanted, less in (("binary", "|i1", 128), ("ubinary", "|u1", 0)):
        kind, bits = embed("--output-type", name)
        want = [[sum((row[i + b] > 0) << 7 - b for b in range(8) if i + b < len(row)) - less
                 for i in range(0, len(row), 8)] for row in full]
        assert kind == wanted and bits == want, (bits, want)
    kind, steps = embed("--output-type", "int8", "--ranges", ranges)
    assert kind == "|i1"
    for c in range(len(full[0])):
        low, high = min(row[c] for row in full), max(row[c] for row in full)
        for row, found in zip(full, steps):
            want = min(max((row[c] - low) / ((high - low) / 255 or 1), 0), 255) - 128
            assert -0.001 <= want - found[c] < 1.001, (want, found[c])
    run("embed", "-m", model, "-d", "cpu", "--output-type", "int8", text="a\n", code=2, says="--ranges")
    run("embed", "-m", model, "-d", "cpu", "--ranges", ranges, text="a\n", code=2, says="int8")
    with open(out, "wb") as file:
        file.write(b"not an array")
    run("embed", "-m", model, "-d", "cpu", "--output-type", "int8", "--ranges", out, text="a\n", code=3,
        says="is not an .npy file")


def check_bad(folder):
    """Files that contradict each other, or ask for what is not there."""
    def broken(kind, change, says, code=3, command="classify", name="config.json", within="",
               text="a\n"):
        model = os.path.join(folder, "broken")
        heads_models.write_changed(kind, model, within, name, change)
        run(command, "-m", model, "-d", "cpu", text=text, code=code, says=says)

    one = {"0": "a", "1": "b"}
    broken("bert-classify", merge(id2label=one), "has shape [3, 32]")
    broken("bert-classify", merge(id2label={**one, "3": "c"}), "none with the number 2")
    broken("bert-classify", merge(id2label={"0": 1, "1": "b", "2": "c"}), "not a string")
    broken("bert-classify", merge(id2label={}), "1 to")
    broken("bert-classify", merge(num_labels=2), "has 3 labels")
    broken("bert-classify", merge(num_labels=-1), "num_labels")
    broken("bert-classify", merge(architectures=["BertModel"]), "has no classes of texts")
    broken("bert-classify", merge(sentence_transformers={"activation_fn": "torch.nn.modules.activation.Softsign"}),
           "Softsign")
    broken("bert-fill", merge(tie_word_embeddings=False), "no tensor cls.predictions.decoder.weight", command="fill",
           text="[MASK]\n")
    broken("bert-classify", merge(architectures=["BertForTokenClassification"]), "it has some of tokens")
    broken("mpnet-classify", merge(num_attention_heads=8), "relative_attention_bias.weight has shape [32, 4]")
    broken("roberta-entities", merge(max_position_embeddings=67), "position_embeddings.weight has shape [66, 32]")
    for change, says in ((merge(out_features=17), "tensor linear.weight has shape"),
                         (merge(in_features=31), "takes 31 values and gets 32"),
                         (merge(out_features=0), "out_features"),
                         (merge(activation_function="torch.nn.modules.activation.SiLU"), "SiLU"),
                         (merge(use_residual=True), "use_residual"),
                         (merge(module_input_name="token_embeddings"), "module_input_name")):
        broken("sentence-dense", change, says, command="embed", within="2_Dense")
    broken("sentence-layers", merge(dimension=41), "takes 41 values and gets 40", command="embed", within="3_LayerNorm")


def main():
    with open(os.path.join(GOLDEN, "heads.json"), encoding="utf-8") as file:
        golden = json.load(file)
    given = os.environ.get("WHERRY_TEST_DEVICES", "").replace(",", " ").split()
    devices = [d for d in ("cpu", "reference") if not given or d in given]
    with tempfile.TemporaryDirectory() as folder:
        heads_models.write_model("sentence-bytes", os.path.join(folder, "first"))
        halves = drivers(given, os.path.join(folder, "first"))
        for kind, wanted in golden["models"].items():
            model = os.path.join(folder, kind)
            heads_models.write_model(kind, model)
            check = (check_sentences if kind.startswith("sentence") else check_tokens if kind.endswith("entities")
                     else check_masks if kind.endswith("fill") else check_texts)
            for n, device in enumerate(devices):
                if n == 0 or kind in ("bert-rerank", "bert-entities", "sentence-combined-dense"):
                    check(model, golden, wanted, ("-d", device))
            for device in halves:
                if "WHERRY_TEST_ALL" in os.environ or kind in HALF[device.split(":")[0]]:
                    check_half(model, kind, golden, wanted, device)
        check_prompts(os.path.join(folder, "sentence-dense"))
        check_types(os.path.join(folder, "sentence-combined-dense"), golden, folder)
        check_bad(folder)
        run("rerank", "-m", os.path.join(folder, "bert-rerank"), text="a\n", code=2, says="--query")
        run("fill", "-m", os.path.join(folder, "bert-rerank"), text="a\n", code=3, says="fills no masks")
        run("classify", "-m", os.path.join(folder, "bert-entities"), "--tokens", "--top", "2", text="a\n", code=2)
    print(f"{command.checks} checks passed, in f16 on {', '.join(halves) or 'no driver'}")


if __name__ == "__main__":
    main()
