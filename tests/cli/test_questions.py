"""wherry rerank on language models that are asked about a query and a document, and wherry embed on EmbeddingGemma's form,
against what the reference libraries gave (tests/golden/questions.json); and what is refused. In f32 on the host's cores,
the reference and every driver; in bf16 on those that have it.

usage: test_questions.py WHERRY
The environment variable WHERRY_TEST_DEVICES narrows the devices (cpu, reference, opencl:0, vulkan:0).
"""

import json
import math
import os
import shutil
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import command  # noqa: E402
import heads_models  # noqa: E402
import question_models  # noqa: E402
from command import close, run  # noqa: E402
from heads_models import merge  # noqa: E402


def rank(model, query, texts, *more):
    text = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    found = [json.loads(line) for line in run("rerank", "-m", model, "-Q", query, "--input", "jsonl", "--json", "-q", *more,
                                              text=text).splitlines()]
    return [row["score"] for row in sorted(found, key=lambda row: row["index"])]


def check_scores(model, golden, wanted, *on):
    query, texts = golden["query"], golden["texts"]
    close(rank(model, query, texts, *on), wanted["scores"], (model, on))
    close(rank(model, query, texts, "--scores", "none", *on), wanted["logits"], (model, on, "logits"))
    for text, score in zip(texts, wanted["swapped"]):
        close(rank(model, text, [query], *on), [score], (model, on, "swapped", text))
    told = ("--instruction", golden["instruction"])
    if "told" in wanted:
        close(rank(model, query, texts, *told, *on), wanted["told"], (model, on, "told"))
    cut = ("--max-tokens", str(golden["cut"]))
    close(rank(model, query, [golden["long"]], *cut, "--truncate", *on), wanted["cut"], (model, on, "cut"))
    run("rerank", "-m", model, "-Q", query, *cut, *on, text=golden["long"] + "\n", code=3, says="cut such texts")
    if on[1] == "cpu":
        run("rerank", "-m", model, "-Q", query, "--max-tokens", "20", "--truncate", *on, text=golden["long"] + "\n", code=3,
            says="leaves nothing of the second text")


def near(found, wanted, least, what):
    cosine = sum(f * w for f, w in zip(found, wanted)) / math.sqrt(sum(f * f for f in found) * sum(w * w for w in wanted))
    assert len(found) == len(wanted) and cosine >= least, (what, cosine)
    command.checks += 1


def check_gemma(model, golden, wanted, prompts, least, length, *on):
    texts = [text for text in golden["texts"] if text]
    for prompt in prompts:
        vectors = wanted[prompt]
        text = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        lines = run("embed", "-m", model, "--prompt", prompt, "--input", "jsonl", "--json", "-q", *on, text=text)
        found = [json.loads(line)["embedding"] for line in lines.splitlines()]
        for one, vector in zip(found, vectors):
            near(one, vector, least, (on, prompt))
            assert abs(sum(x * x for x in one) - 1) < length, (on, sum(x * x for x in one))


def drivers(given):
    ids = [d["id"] for d in json.loads(run("devices", "--json"))["devices"] if d["usable"] and ":" in d["id"]]
    return [d for d in ids if not given or d in given]


def has_type(model, device, dtype):
    done = command.result("embed", "-m", model, "-d", device, "-t", dtype, text="a\n")
    assert done.returncode == 0 or dtype.encode() in done.stderr, (device, done.stderr)
    return done.returncode == 0


def check_kinds(folder, golden):
    """What a folder is: a language model embeds, too; with a list of other modules it is no reranker."""
    model = os.path.join(folder, "ask")
    vector = run("embed", "-m", model, "-d", "cpu", "--pool", "last", text="a boat\n")
    assert len(vector.split()) == question_models.HIDDEN
    for kind, pairs in (("ask", True), ("ask-messages", True), ("gemma-dense", False)):
        info = json.loads(run("models", "--json", os.path.join(folder, kind)))["models"][0]
        assert info["pair_template"] == pairs and info["labels"] == int(pairs), info
    plain = os.path.join(folder, "plain")
    shutil.copytree(model, plain)
    heads_models.write_json(plain, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "x.Transformer"},
                                                    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "x.Pooling"}])
    heads_models.write_json(os.path.join(plain, "1_Pooling"), "config.json", {"pooling_mode": "lasttoken"})
    run("rerank", "-m", plain, "-Q", "a", "-d", "cpu", text="a\n", code=3, says="is no reranker")
    assert run("embed", "-m", plain, "-d", "cpu", text="a boat\n") == vector
    run("rerank", "-m", os.path.join(folder, "ask-true"), "-Q", "a", "--instruction", "b", "-d", "cpu", text="a\n", code=2,
        says="no place for an instruction")
    run("classify", "-m", model, "-d", "cpu", text="a\n", code=3, says="give --pairs")


def check_bad(folder):
    def broken(kind, says, change, *where):
        model = os.path.join(folder, "broken")
        shutil.rmtree(model, ignore_errors=True)
        question_models.write_model(kind, model)
        path = os.path.join(model, *where)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps(change(json.loads(text))) if path.endswith(".json") else change(text))
        run("rerank", "-m", model, "-Q", "a", "-d", "cpu", text="a\n", code=3, says=says)

    score = ("1_LogitScore", "config.json")
    broken("ask-untied", "true_token_id", merge(true_token_id=None), *score)
    broken("ask-untied", "false_token_id", merge(false_token_id=100000), *score)
    broken("ask-untied", "supported is causal_logits", merge(module_input_name="logits"), *score)
    broken("ask-untied", "Qwen3ForCausalLM", merge(architectures=["Qwen3Model"]), "config.json")
    broken("ask-true", "no tensor lm_head.weight", merge(tie_word_embeddings=False), "config.json")
    for change, says in ((lambda text: text.replace("set query", "if query"), "a statement beside set"),
                         (lambda text: text.replace("{{ query_text }}", "{{ query }}"), "a name that was not set"),
                         (lambda text: text.replace("| first -%}", "| last -%}"), "a filter beside"),
                         (lambda text: text.replace("{{ query_text }}", "{{ document_text }}"), "another order"),
                         (lambda text: text.replace("{{ document_text }}", ""), "no place for a query"),
                         (lambda text: text + "{{ instruction }}", "another order"),
                         (lambda text: text + "{# ", "a comment without an end"),
                         (lambda text: text + "{{ 'a", "a string without an end"),
                         (lambda text: "{%- set x = '" + 900 * "x" + "' -%}" + 400 * "{{x}}" + text, "a longer text"),
                         (lambda text: question_models.CHAT, "a statement beside set")):
        broken("ask-untied", says, change, "chat_template.jinja")


def main():
    with open(os.path.join(GOLDEN, "questions.json"), encoding="utf-8") as file:
        golden = json.load(file)
    given = os.environ.get("WHERRY_TEST_DEVICES", "").replace(",", " ").split()
    halves = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, wanted in golden["models"].items():
            model = os.path.join(folder, kind)
            question_models.write_model(kind, model)
            for device in [d for d in ("cpu", "reference") if not given or d in given] + drivers(given):
                on = ("-d", device, "-t", "f32")
                if kind == "gemma-dense":
                    prompts = list(wanted) if device == "cpu" else ["query"]
                    check_gemma(model, golden, wanted, prompts, 0.99999, 1e-5, *on)
                    if device != "reference" and has_type(model, device, "bf16"):
                        halves.append(device)
                        check_gemma(model, golden, wanted, prompts[:1], 0.999, 0.02, "-d", device, "-t", "bf16")
                elif device == "cpu":
                    check_scores(model, golden, wanted, *on)
                elif kind == "ask" and not device.startswith("opencl"):  # where each kernel is seconds of compiling
                    close(rank(model, golden["query"], golden["texts"], *on), wanted["scores"], (model, on))
        check_kinds(folder, golden)
        check_bad(folder)
    print(f"{command.checks} checks passed, in bf16 on {', '.join(halves) or 'no device'}")


if __name__ == "__main__":
    main()
