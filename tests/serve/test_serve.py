"""wherry-serve on tiny models with random weights, by raw HTTP: every route and its body, each error, the same bits alone and
in company, floods, slow and vanished clients, signals, a device that is lost.

usage: test_serve.py WHERRY WHERRY_SERVE HOOKED_SERVE|- [PART...]     HOOKED_SERVE: with hook.c in it
The environment variable WHERRY_TEST_DEVICES names another device than cpu.
"""

import base64
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "golden"))
import heads_models  # noqa: E402
import question_models  # noqa: E402
from client import Server  # noqa: E402

WHERRY, SERVE, HOOKED = sys.argv[1:4]
TEXTS = ["the boat", "water, water!", "a", "the river 12", "b c d e f g h", "?", "boat the boat the boat", "one two three"]
DEVICE = os.environ.get("WHERRY_TEST_DEVICES", "cpu").split()[0]
ON = ("--device", DEVICE, *(("--threads", "1") if DEVICE == "cpu" else ()))


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def bits(rows):
    return [[struct.pack("f", v) for v in row] for row in rows]


def close(a, b, most=1e-5):
    return len(a) == len(b) and all(abs(x - y) < most for x, y in zip(a, b))


def wherry(*words, text=""):
    return subprocess.run([WHERRY, *words, *ON], input=text.encode(), capture_output=True, check=True).stdout.decode()


def embedded(model, texts, *more):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    done = wherry("embed", "-m", model, "--input", "jsonl", "--json", "-q", *more, text=lines)
    return [json.loads(line)["embedding"] for line in done.splitlines()]


def model(folder, kind):
    path = os.path.join(folder, kind)
    if not os.path.exists(path):
        heads_models.write_model(kind, path)
        if kind.startswith("m3-"):
            shutil.copy(os.path.join(HERE, "..", "data", "torch", f"sparse_{kind[3:]}.pt"),
                        os.path.join(path, "sparse_linear.pt"))
    return path


# ---- routes ----


def check_embeddings(server, folder):
    path = model(folder, "sentence-dense")
    want = embedded(path, TEXTS, "--normalize", "--prompt", "")
    rows = server.post("/embed", {"inputs": TEXTS, "model": "embed"})
    assert bits(rows) == bits(want)
    for name in ("x-compute-type", "x-compute-time", "x-compute-characters", "x-compute-tokens", "x-total-time",
                 "x-tokenization-time", "x-queue-time", "x-inference-time"):
        assert server.headers[name], name
    assert server.headers["x-compute-type"] == "cpu"
    assert int(server.headers["x-compute-characters"]) == sum(map(len, TEXTS))
    assert bits(server.post("/embed", {"inputs": TEXTS[0]})) == bits(want[:1])
    raw = server.post("/embed", {"inputs": TEXTS, "normalize": False, "model": "embed"})
    assert bits(raw) == bits(embedded(path, TEXTS, "--no-normalize", "--prompt", ""))
    cut = server.post("/embed", {"inputs": TEXTS[0], "dimensions": 5})[0]
    length = math.sqrt(sum(v * v for v in raw[0][:5]))
    assert close(cut, [v / length for v in raw[0][:5]]) and len(cut) == 5
    prompted = server.post("/embed", {"inputs": TEXTS[0], "prompt_name": "query"})
    assert bits(prompted) == bits(embedded(path, TEXTS[:1], "--normalize", "--prompt", "query"))
    tokens = server.post("/tokenize", {"inputs": TEXTS[0]})[0]
    ids = [token["id"] for token in tokens]
    for inputs in (ids, [ids], [ids, TEXTS[1]]):
        assert bits(server.post("/embed", {"inputs": inputs})[:1]) == bits(want[:1])
    everything = server.post("/embed_all", {"inputs": TEXTS[:2]})
    assert [len(rows) for rows in everything] == [
        len(server.post("/tokenize", {"inputs": text})[0]) for text in TEXTS[:2]]
    assert bits(everything[0]) == bits(embedded(path, TEXTS[:1], "--output-type", "tokens", "--no-normalize", "--prompt", "")[0])
    cosines = server.post("/similarity", {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}})
    assert close(cosines, [sum(a * b for a, b in zip(want[0], row)) for row in want[1:]])
    return want


def check_openai(server, want):
    answer = server.post("/v1/embeddings", {"input": TEXTS, "model": "embed"})
    assert answer["object"] == "list" and answer["model"] == "embed"
    assert bits(row["embedding"] for row in answer["data"]) == bits(want)
    assert [(row["object"], row["index"]) for row in answer["data"]] == [("embedding", n) for n in range(len(TEXTS))]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > len(TEXTS)
    coded = server.post("/embeddings", {"input": TEXTS, "model": "embed", "encoding_format": "base64", "user": "u"})
    for row, values in zip(coded["data"], want):
        assert base64.b64decode(row["embedding"]) == struct.pack(f"<{len(values)}f", *values)
    for dimensions in (1, 2, 3, 7):
        coded = server.post("/v1/embeddings", {"input": "a", "model": "embed", "encoding_format": "base64",
                                               "dimensions": dimensions})
        assert len(base64.b64decode(coded["data"][0]["embedding"])) == 4 * dimensions
    listed = json.loads(server.get("/v1/models"))
    assert [(m["id"], m["object"]) for m in listed["data"]] == [(n, "model") for n in ("embed", "rank", "class", "words")]
    assert json.loads(server.get("/v1/models/rank"))["id"] == "rank"
    server.get("/v1/models/nothing", 404)
    server.post("/v1/embeddings", {"input": "a", "model": "nothing"}, 404, "there is no model")
    server.post("/v1/embeddings", {"input": "a", "encoding_format": "int8"}, 422, "encoding_format")


def check_scores(server, folder):
    path, query = model(folder, "bert-rerank"), "the river"
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    rows = wherry("rerank", "-m", path, "--query", query, "--scores", "sigmoid", "--input", "jsonl", "--json", "-q",
                  text=lines).splitlines()
    want = [(row["index"], row["score"]) for row in map(json.loads, rows)]
    ranks = server.post("/rerank", {"query": query, "texts": TEXTS})
    assert [(row["index"], row["score"]) for row in ranks] == want
    ranks = server.post("/rerank", {"query": query, "texts": TEXTS, "raw_scores": True, "return_text": True})
    assert all(f32(1 / (1 + math.exp(-row["score"]))) - dict(want)[row["index"]] < 1e-6 for row in ranks)
    assert all(row["text"] == TEXTS[row["index"]] for row in ranks)
    for route in ("/rerank", "/v1/rerank", "/v2/rerank", "/v1/reranking"):
        answer = server.post(route, {"model": "rank", "query": query, "documents": [TEXTS[0], *({"text": t} for t in TEXTS[1:])],
                                     "top_n": 3, "return_documents": True})
        assert [(row["index"], row["relevance_score"]) for row in answer["results"]] == want[:3]
        assert [row["document"]["text"] for row in answer["results"]] == [TEXTS[n] for n, _ in want[:3]]
        assert answer["model"] == "rank" and answer["usage"]["total_tokens"] > 0 and answer["id"]
    server.post("/v1/rerank", {"query": query, "documents": TEXTS, "top_n": 0}, 422, "top_n")
    one = server.post("/predict", {"inputs": [query, TEXTS[0]], "model": "rank"})
    assert one == [{"score": dict(want)[0], "label": "LABEL_0"}]
    classes = server.post("/predict", {"inputs": "the boat", "model": "class"})
    assert [row["label"] for row in sorted(classes, key=lambda row: -row["score"])] == [row["label"] for row in classes]
    assert abs(sum(row["score"] for row in classes) - 1) < 1e-5 and len(classes) == 3
    batch = server.post("/predict", {"inputs": [["the boat"], ["the boat", "water"]], "model": "class"})
    assert batch[0] == classes and len(batch) == 2 and batch[1] != classes
    assert server.post("/predict", {"inputs": ["the boat"], "model": "class"}) == classes
    server.post("/predict", {"inputs": ["a", "b", "c"], "model": "class"}, 422, "pair of strings")


def check_sparse(server, folder):
    path = model(folder, "splade-max")
    found = server.post("/embed_sparse", {"inputs": TEXTS[:3]})
    rows = wherry("embed", "-m", path, "--json", "-q", "--prompt", "", text="\n".join(TEXTS[:3]) + "\n").splitlines()
    for words, row in zip(found, map(json.loads, rows)):
        assert {str(w["index"]): w["value"] for w in words} == row["weights"] and words


def check_tokens(server, folder):
    tokens = server.post("/tokenize", {"inputs": ["the boat.", "b"]})
    assert [t["text"] for t in tokens[0] if not t["special"]] == ["the", "boat", "."]
    assert [(t["start"], t["stop"]) for t in tokens[0]] == [(None, None), (0, 3), (4, 8), (8, 9), (None, None)]
    assert [t["text"] for t in tokens[0] if t["special"]] == ["[CLS]", "[SEP]"]
    plain = server.post("/tokenize", {"inputs": "the boat.", "add_special_tokens": False})
    assert plain == [[t for t in tokens[0] if not t["special"]]]
    ids = [t["id"] for t in tokens[0]]
    decoded = server.post("/decode", {"ids": ids})
    assert decoded == ["the boat."], decoded
    assert server.post("/decode", {"ids": [ids, ids[1:2]], "skip_special_tokens": False}) == ["[CLS] the boat. [SEP]", "the"]
    server.post("/decode", {"ids": [10 ** 6]}, 422, "vocabulary has")
    server.post("/decode", {"ids": "a"}, 422, "not a list")


def check_pages(server):
    for path in ("/", "/health", "/ping"):
        assert json.loads(server.get(path)) == {"status": "ok"}
    info = json.loads(server.get("/info"))
    for name in ("model_id", "model_sha", "model_dtype", "served_model_name", "model_type", "max_concurrent_requests",
                 "max_input_length", "max_batch_tokens", "max_batch_requests", "max_client_batch_size", "auto_truncate",
                 "tokenization_workers", "version", "sha", "docker_label"):
        assert name in info, name
    assert info["model_type"] == {"embedding": {"pooling": "mean"}} and info["device"]["id"] == DEVICE
    types = [m["model_type"] for m in info["models"]]
    assert types[1]["reranker"] == {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}} and "classifier" in types[2]
    assert info["sessions"][0]["device_bytes"] > info["sessions"][0]["weight_bytes"] > 0
    page = server.get("/status")
    assert "embed" in page and "http" not in page.replace("http-equiv", "").split("<body>")[0] and "src=" not in page
    assert "default-src 'none'" in server.headers["Content-Security-Policy"]
    metrics = server.get("/metrics")
    for line in metrics.splitlines():
        name, _, value = line.rpartition(" ")
        assert line.startswith("# ") or (name and math.isfinite(float(value))), line
    for name in ("te_request_count{method=\"batch\"}", "te_request_success{method=\"single\"}", "te_embed_count",
                 "te_predict_success", "te_request_duration_count", "te_embed_inference_duration_sum",
                 "te_batch_next_tokens_count", "te_request_input_length_count", "wherry_inference_bytes_total"):
        assert server.metric(name) > 0, name
    assert server.metric("te_queue_size") == 0 and server.metric("wherry_up") == 1


def routes(folder):
    options = ["-m", "embed=" + model(folder, "sentence-dense"), "-m", "rank=" + model(folder, "bert-rerank"),
               "-m", "class=" + model(folder, "bert-classify"), "-m", "words=" + model(folder, "splade-max")]
    with Server(SERVE, *options, *ON, "--prompt", "") as server:
        want = check_embeddings(server, folder)
        check_openai(server, want)
        check_scores(server, folder)
        check_sparse(server, folder)
        check_tokens(server, folder)
        check_pages(server)
        errors(server)
        company(server, want)
        shapes(server)
        connections(server)


def natural(folder):
    """POST / is what the model is for; other kinds of tokenizers; TCP by IPv6's or another name is the system's."""
    with Server(SERVE, "-m", model(folder, "bert-rerank"), *ON) as server:
        ranks = server.post("/", {"query": "a", "texts": ["b", "the boat"]})
        assert {row["index"] for row in ranks} == {0, 1}
        assert server.post("/", {"inputs": [["a", "b"]]})[0][0]["label"] == "LABEL_0"
        server.post("/embed", {"inputs": "a"}, 424, "model is not an embedding model")
        assert server.post("/rerank", {"query": "a", "documents": ["b"], "model": "rerank-v3"})["model"] == "bert-rerank"
    with Server(SERVE, "-m", model(folder, "m3-f32"), *ON) as server:
        path = model(folder, "m3-f32")
        assert bits(server.post("/", {"inputs": TEXTS[:2]})) == bits(embedded(path, TEXTS[:2], "--normalize"))
        found = server.post("/embed_sparse", {"inputs": "the boat"})
        row = json.loads(wherry("embed", "-m", path, "--output-type", "sparse", "--json", "-q", text="the boat\n"))
        assert {str(w["index"]): w["value"] for w in found[0]} == row["weights"]
        cosines = server.post("/", {"inputs": {"source_sentence": "a", "sentences": ["a"]}})
        assert close(cosines, [1])
        ids = [t["id"] for t in server.post("/tokenize", {"inputs": "the boat"})[0]]
        assert server.post("/decode", {"ids": ids})[0].strip() == "the boat"
    broken = os.path.join(folder, "broken")
    subprocess.run([sys.executable, os.path.join(HERE, "..", "cli", "make_model.py"), broken,
                    "encoder.layer.1.output.LayerNorm.weight", "all", "3e38"], check=True)
    with Server(SERVE, "-m", broken, *ON) as server:
        server.post("/embed", {"inputs": ["a", "the boat"]}, 424, "text 0: the result is not finite")
    with Server(SERVE, "-m", model(folder, "sentence-bytes"), "--device", "reference", "--max-tokens", "8",
                "--auto-truncate", "--prompt", "") as server:
        ids = [t["id"] for t in server.post("/tokenize", {"inputs": "the boat"})[0]]
        assert server.post("/decode", {"ids": ids})[0].strip() == "the boat"
        long = "the boat " * 20
        right = server.post("/embed", {"inputs": long})
        tokens = [t["id"] for t in server.post("/tokenize", {"inputs": long})[0]]
        assert bits(right) == bits(server.post("/embed", {"inputs": tokens[:7] + tokens[-1:]}))
        left = server.post("/embed", {"inputs": long, "truncation_direction": "Left"})
        assert bits(left) == bits(server.post("/embed", {"inputs": tokens[:1] + tokens[-7:]}))
        server.post("/embed", {"inputs": long, "truncate": False}, 422, "the limit is 8")


def told(folder):
    """What a request says of its texts: a prompt, by its name or as a text, and an instruction for pairs; refused where the
    model has no place for it."""
    texts, query, said = ["the boat", "two waters"], "a river", "Is it a boat?"
    for kind in ("ask-messages", "ask-true"):
        question_models.write_model(kind, os.path.join(folder, kind))
    path = os.path.join(folder, "ask-messages")
    heads_models.write_json(path, "config_sentence_transformers.json", {"prompts": {"other": said}})
    with open(os.path.join(model(folder, "sentence-dense"), "config_sentence_transformers.json"), encoding="utf-8") as file:
        prompt = json.load(file)["prompts"]["query"]

    def score(*more):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        rows = wherry("rerank", "-m", path, "--query", query, "--input", "jsonl", "--json", "-q", *more, text=lines)
        return [(row["index"], row["score"]) for row in map(json.loads, rows.splitlines())]

    options = ["-m", "embed=" + model(folder, "sentence-dense"), "-m", "ask=" + path,
               "-m", "plain=" + os.path.join(folder, "ask-true"), "-m", "rank=" + model(folder, "bert-rerank")]
    with Server(SERVE, *options, *ON, "--prompt", "") as server:
        own, asked = score(), score("--instruction", said)
        assert own != asked
        for more, want in (({}, own), ({"instruction": said}, asked), ({"prompt_name": "other"}, asked),
                           ({"instruction": None}, own), ({"instruction": ""}, score("--instruction", ""))):
            body = {"model": "ask", "query": query, **more}
            ranks = server.post("/rerank", {**body, "texts": texts})
            assert [(row["index"], row["score"]) for row in ranks] == want, more
            ranks = server.post("/v1/rerank", {**body, "documents": texts})["results"]
            assert [(row["index"], row["relevance_score"]) for row in ranks] == want, more
        pair = {"model": "ask", "inputs": [query, texts[0]], "instruction": said}
        assert server.post("/predict", pair)[0]["score"] == dict(asked)[0]
        named = server.post("/embed", {"inputs": texts, "prompt_name": "query"})
        given = server.post("/embed", {"inputs": texts, "prompt": prompt})
        assert bits(named) == bits(given) == bits(server.post("/embed", {"inputs": [prompt + text for text in texts]}))
        answer = server.post("/v1/embeddings", {"input": texts, "model": "embed", "prompt": prompt})
        assert bits(row["embedding"] for row in answer["data"]) == bits(named)
        assert bits(server.post("/embed", {"inputs": texts, "prompt": ""})) == bits(server.post("/embed", {"inputs": texts}))
        assert bits(server.post("/embed_all", {"inputs": texts[:1], "prompt": prompt})[0]) == bits(
            server.post("/embed_all", {"inputs": prompt + texts[0]})[0])
        cosines = {"source_sentence": texts[0], "sentences": texts}
        assert close(server.post("/similarity", {"inputs": cosines, "parameters": {"prompt": prompt}})[:1], [1])
        for more, says in (({"prompt": "a", "prompt_name": "query"}, "give one of them"), ({"prompt": 3}, "not a string"),
                           ({"prompt": "a\0b"}, "has a NUL"), ({"instruction": said}, "is for pairs")):
            server.post("/embed", {"inputs": texts, **more}, 422, says)
            server.post("/v1/embeddings", {"input": texts, "model": "embed", **more}, 422, says)
        server.post("/embed", {"inputs": [1, 2], "prompt": "a"}, 422, "list of ids")
        for name in ("plain", "rank"):
            for more in ({"instruction": said}, {"prompt_name": "query"}):
                body = {"model": name, "query": query, **more}
                server.post("/rerank", {**body, "texts": texts}, 422, "have no place for an instruction")
                server.post("/v1/rerank", {**body, "documents": texts}, 422, "have no place for an instruction")
        server.post("/rerank", {"model": "ask", "query": query, "texts": texts, "prompt": "a"}, 422, "pairs have")
        server.post("/rerank", {"model": "ask", "query": query, "texts": texts, "prompt_name": "no"}, 422, "prompt_name")
        server.post("/predict", {"model": "ask", "inputs": "a", "instruction": said}, 422, "is no pair")


# ---- errors ----


def errors(server):
    wrong = [(b"", 422), (b"[", 422), (b"[1]", 422), (b'"a"', 422), (b"nul", 422), (b"{}", 422), (b'{"inputs": 3}', 422),
             (b'{"inputs": null}', 422), (b'{"inputs": {}}', 422), (b'{"inputs": [null]}', 422), (b'{"inputs": [["a"]]}', 422),
             (b'{"inputs": [1.5]}', 422), (b'{"inputs": [1, "a"]}', 422), (b'{"inputs": []}', 400), (b'{"inputs": ""}', 400),
             (b'{"inputs": ["a", ""]}', 400), (b'{"inputs": [[]]}', 400), (b'{"inputs": "a", "inputs": "b"}', 422),
             (b'{"inputs": "a\xff"}', 422), (b'{"inputs": "\xc0\xaf"}', 422), (b'{"inputs": "\\ud800"}', 422),
             (b'{"inputs": "a"} x', 422), (b'{"inputs": "a", "truncate": 1}', 422), (b'{"inputs": "a", "normalize": "yes"}', 422),
             (b'{"inputs": "a", "truncation_direction": "up"}', 422), (b'{"inputs": "a", "prompt_name": "no"}', 422),
             (b'{"inputs": "a", "dimensions": 0}', 422), (b'{"inputs": "a", "dimensions": 1000}', 422),
             (b'{"inputs": "a", "dimensions": 1e400}', 422), (b'{"inputs": "a", "model": 3}', 422),
             (b'{"inputs": [-1]}', 422), (b'{"inputs": [99999999999]}', 422), (b'{"inputs": [[1], [100000]]}', 422),
             (b'[' * 100000, 422), (b'{"inputs": ' + b'[' * 1000 + b']' * 1000 + b'}', 422),
             (b'{"inputs": [' + b'1,' * 300000 + b'1]}', 422)]
    for body, status in wrong:
        server.post("/embed", body, status)
    for body in (b"", b"[", b'{"input": 3}', b'{"input": "\xff"}', b'{"input": []}'):
        server.post("/v1/embeddings", body, 400 if body.endswith(b"[]}") else 422)
    for value in ({"texts": ["a"]}, {"query": "a"}, {"query": "a", "texts": "b"}, {"query": 3, "texts": ["b"]},
                  {"query": "a", "texts": [3]}, {"query": "a", "texts": ["b"], "return_text": 3}):
        server.post("/rerank", value, 422)
    server.post("/rerank", {"query": "a", "texts": []}, 400, "Empty")
    for value in ({"inputs": "a"}, {"inputs": {"source_sentence": "a"}}, {"inputs": {"sentences": ["a"]}},
                  {"inputs": {"source_sentence": ["a"], "sentences": ["a"]}}):
        server.post("/similarity", value, 422)
    long = "the " * 200
    server.post("/embed", {"inputs": ["a", long]}, 422, "text 1 has 202 tokens, the limit is 64")
    assert len(server.post("/embed", {"inputs": long, "truncate": True})) == 1
    server.post("/embed", {"inputs": ["a"] * 33}, 422, "batch size 33 > maximum allowed batch size 32")
    server.post("/embed", {"inputs": ["a"] * 10000}, 422, "batch size 10000")
    server.post("/v1/embeddings", {"input": ["a"] * 10000}, 422, "batch size 10000")
    server.post("/rerank", {"query": "a", "texts": ["b"] * 10000}, 422, "batch size 10000")
    assert server.post("/embed", {"inputs": "a\0b"}) != server.post("/embed", {"inputs": "a"})
    assert server.raw("POST", "/nothing", "{}")[0] == 404 and server.raw("GET", "/embed")[0] == 405
    assert server.raw("PUT", "/embed", "{}")[0] == 405 and server.raw("POST", "/info", "{}")[0] == 405
    assert server.raw("HEAD", "/health")[0] == 200
    server.post("/embed", b"x" * 2000001, 413, "2000000 bytes")
    server.post("/v1/embeddings", b"x" * 50000000, 413)
    check_chunks(server)


def check_chunks(server):
    """Bodies whose length is not told, and clients that ask before they send."""
    def pieces(count):
        for _ in range(count):
            yield b" " * 65536
    one = server.connection()
    one.request("POST", "/embed", body=pieces(40), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert one.getresponse().status == 413
    one.close()
    one = server.connect()
    one.sendall(b"POST /embed HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9000000\r\n\r\n")
    assert b" 413 " in one.recv(4096).split(b"\r\n")[0] + b" "
    one.close()


# ---- company ----


def company(server, want):
    """Many at once, of one text and of several: each has the bits that it has alone."""
    wrong = []

    def client(seed):
        one = server.connection()
        for n in range(12):
            first = (seed * 7 + n) % len(TEXTS)
            chosen = [(first + i) % len(TEXTS) for i in range(1 + (seed + n) % 5)]
            _, _, data = server.raw("POST", "/embed", json.dumps({"inputs": [TEXTS[i] for i in chosen]}), connection=one)
            if bits(json.loads(data)) != bits(want[i] for i in chosen):
                wrong.append((seed, n, data[:200]))
        one.close()

    before = server.metric("wherry_batches_total"), server.metric("te_embed_success")
    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    batches, texts = (server.metric(name) - b for name, b in zip(("wherry_batches_total", "te_embed_success"), before))
    assert texts > batches, "nothing ran in company"


def shapes(server):
    """Routes of several models in turn, from several threads, keep apart."""
    def client():
        for _ in range(6):
            assert len(server.post("/embed", {"inputs": "a", "model": "embed"})[0]) == 16
            assert len(server.post("/predict", {"inputs": "a", "model": "class"})) == 3
            assert len(server.post("/rerank", {"query": "a", "texts": ["b", "c"]})) == 2
    run_all([client] * 4)


def run_all(works):
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as error:  # noqa: BLE001: of a thread, for the main one
            failures.append(error)
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def connections(server):
    """Opened and dropped, some in the middle of a request, some without reading the answer."""
    head = b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: "

    def some(count):
        for n in range(count):
            one = server.connect()
            if n % 4 == 1:
                one.sendall(head + b"100\r\n\r\n{")
            elif n % 4 == 2:
                one.sendall(head + b'16\r\n\r\n{"inputs": "ab"}')
            elif n % 4 == 3:
                one.sendall(b"GE")
            one.close()
    some(200)
    server.get("/health")
    before = resident(server.process.pid)
    some(1000)
    server.post("/embed", {"inputs": "a"})
    after = resident(server.process.pid)
    if "san" not in SERVE:
        assert after - before < 4096, f"{after - before} KiB more after 1000 connections"


# ---- what takes a device that is slow, or lost ----


def hooked(folder):
    if HOOKED == "-":
        return
    hook = os.path.join(folder, "hook")

    def say(text):
        with open(hook + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.rename(hook + ".new", hook)

    options = ["-m", model(folder, "sentence-dense"), *ON, "--prompt", ""]
    with Server(HOOKED, *options, "--max-concurrent-requests", "4", "--timeout", "20", hook=hook) as server:
        want = server.post("/embed", {"inputs": "the boat"})
        say("slow 0.6")
        flood(server)
        vanish(server)
        os.remove(hook)
        assert server.post("/embed", {"inputs": "the boat"}) == want
        say("fail")
        server.post("/embed", {"inputs": "the boat"}, 424, "Backend")
        assert server.post("/embed", {"inputs": "the boat"}) == want
        say("lose")
        server.post("/v1/embeddings", {"input": "the boat"}, 503, "lost")
        server.until("the device is open again")
        assert server.post("/embed", {"inputs": "the boat"}) == want and server.metric("wherry_devices_lost_total") == 1
        say("slow 0.8")
        stop(server)
    os.remove(hook)
    with Server(HOOKED, *options, "--timeout", "0.5", hook=hook) as server:
        slow_clients(server)
        say("slow 1.2")
        run_all([lambda: server.post("/embed", {"inputs": "a"}), lambda: late(server)])
        os.remove(hook)
        server.post("/embed", {"inputs": "a"})
        time.sleep(0.6)
        server.get("/health")  # nothing ran since
    assert not os.path.exists(hook)


def late(server):
    """Waits longer than a request may; meanwhile the device is seen to hang."""
    time.sleep(0.2)
    one = server.connection()
    one.request("POST", "/embed", '{"inputs": "b"}')
    time.sleep(0.5)
    server.get("/health", 503)
    answer = one.getresponse()
    assert answer.status == 503, answer.status
    answer.read()
    one.close()


def flood(server):
    """Beyond the bound 429, and at once; those within are answered."""
    statuses = []

    def client():
        start = time.monotonic()
        status, headers, data = server.raw("POST", "/embed", '{"inputs": "a"}')
        statuses.append(status)
        if status == 429:
            assert json.loads(data)["error_type"] == "Overloaded" and headers["Retry-After"] == "1"
            assert time.monotonic() - start < 0.6, "a refusal waited for the device"
    run_all([client] * 24)
    assert statuses.count(200) >= 4 and statuses.count(429) >= 8 and set(statuses) == {200, 429}, statuses


def vanish(server):
    """Clients that went away before their turn are not run."""
    dropped = server.metric('te_request_failure{err="dropped"}')
    batches = server.metric("te_embed_success")
    first = threading.Thread(target=server.post, args=("/embed", {"inputs": "a"}))
    first.start()
    time.sleep(0.2)
    gone = [server.connect() for _ in range(3)]
    for one in gone:
        one.sendall(b'POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n{"inputs": "a"}')
    time.sleep(0.1)
    for one in gone:
        one.close()
    first.join()
    time.sleep(0.1)
    assert server.metric('te_request_failure{err="dropped"}') == dropped + 3
    assert server.metric("te_embed_success") == batches + 1


def stop(server):
    """What runs is answered, what comes is refused, and it ends with 0."""
    kept = server.connection()
    server.raw("GET", "/health", connection=kept)
    answers = []
    first = threading.Thread(target=lambda: answers.append(server.raw("POST", "/embed", '{"inputs": "a"}')[0]))
    first.start()
    time.sleep(0.2)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    server.get("/health", 503)
    status, headers, data = server.raw("POST", "/embed", '{"inputs": "a"}', connection=kept)
    assert status == 503 and headers["Connection"] == "close" and json.loads(data)["error_type"] == "Unhealthy"
    first.join()
    assert answers == [200], answers
    server.process.wait(10)


def slow_clients(server):
    """Byte by byte, or not at all: cut after their time, while others are answered."""
    slow = [server.connect() for _ in range(3)]
    slow[0].sendall(b"POST /embed HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
    start, open_ones = time.monotonic(), set(slow)
    while open_ones and time.monotonic() - start < 10:
        for one in sorted(open_ones, key=id):
            try:
                one.sendall(b" " if one is slow[0] else b"G" if one is slow[1] else b"")
                one.settimeout(0.01)
                if not one.recv(100):
                    open_ones.discard(one)
            except socket.timeout:
                pass
            except OSError:
                open_ones.discard(one)
        assert server.raw("GET", "/ping")[0] == 200
        time.sleep(0.05)
    for one in slow:
        one.close()
    assert not open_ones, "a slow client was never cut"
    assert server.metric("wherry_connections_cut_total") >= 2


# ---- signals, sockets, keys ----


def reload(folder):
    kept, link = model(folder, "sentence-dense"), os.path.join(folder, "link")
    other, keys = os.path.join(folder, "other"), os.path.join(folder, "keys")
    heads_models.write_model("sentence-root", other)
    os.symlink(kept, link)

    def write_keys(*lines):
        with open(keys, "w", encoding="ascii") as file:
            file.writelines(line + "\n" for line in lines)
    write_keys("first", "second")
    with Server(SERVE, "-m", "m=" + link, *ON, "--prompt", "", "--api-key-file", keys) as server:
        def ask(key="first", status=200):
            return server.post("/embed", {"inputs": "the boat"}, status, Authorization="Bearer " + key)

        def again(says):
            server.process.send_signal(signal.SIGHUP)
            server.until(says)
        server.post("/embed", {"inputs": "a"}, 401, "API key")
        for key in ("firs", "first ", "x", "", "firstfirst"):
            if key != "first ":
                ask(key, 401)
        assert server.raw("GET", "/info")[0] == 401 and server.raw("GET", "/health")[0] == 200
        assert server.raw("GET", "/nothing")[0] == 401
        old = ask("second")
        os.remove(link)
        os.symlink(other, link)
        write_keys("third")
        stop_at, seen = time.monotonic() + 0.7, []

        def client():
            while time.monotonic() < stop_at:
                seen.append(server.raw("POST", "/embed", '{"inputs": "a"}', {"Authorization": "Bearer third"})[0])
        run_all([client, client, lambda: again("were read again")])
        assert set(seen) <= {200, 401} and 200 in seen, "a request failed while models were read again"
        fresh = ask("third")
        ask("first", 401)
        assert bits(fresh) == bits(embedded(other, ["the boat"], "--normalize", "--prompt", "")) != bits(old)
        shutil.rmtree(other)
        again("the old ones stay")
        assert ask("third") == fresh
        write_keys()
        again("the old keys and models stay")
        assert ask("third") == fresh


def sockets(folder):
    path = os.path.join(folder, "socket")
    options = ["-m", model(folder, "sentence-dense"), *ON, "--socket", path]
    with Server(SERVE, *options) as server:
        want = server.post("/embed", {"inputs": "a"})
        done = subprocess.run([SERVE, *options], capture_output=True, text=True, check=False)
        assert done.returncode == 4 and "can't listen" in done.stderr, done
        server.process.kill()
        server.process.wait()
        assert os.path.exists(path)
        server.process = Server(SERVE, *options).process  # in place of the one that is no more
        assert server.post("/embed", {"inputs": "a"}) == want
    assert not os.path.exists(path)
    done = subprocess.run([SERVE, *options[:-1], os.path.join(folder, "sentence-dense", "config.json")], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 4 and os.path.getsize(os.path.join(folder, "sentence-dense", "config.json"))


def starts(folder):
    """Command lines and models that are wrong end it with a sentence; wherry serve is the same program."""
    good = model(folder, "sentence-dense")
    for words, code, says in (
            ([], 2, "a model is missing"), (["-m", good, "--prot", "1"], 2, "did you mean --port"),
            (["-m", good, "--port", "70000"], 2, "from 0 to 65535"), (["-m", good, "--port"], 2, "needs a value"),
            (["-m", good, "extra"], 2, "no option extra"), (["-m", good, "-m", good], 2, "two models have the name"),
            (["-m", good, "--api-key", "a b"], 2, "no header can have"), (["-m", good, "--api-key-file", "/nonexistent"], 2, "can't read"),
            (["-m", "/nonexistent", *ON], 3, "/nonexistent"), (["-m", good, "--device", "nothing"], 4, "nothing"),
            (["-m", good, *ON, "--max-batch-tokens", "32"], 2, "less than the longest text"),
            (["-m", good, *ON, "--prompt", "nothing"], 3, "nothing"), (["-m", good, *ON, "--dtype", "f8"], 2, "f32|f16|bf16"),
            (["-m", model(folder, "bert-entities"), *ON], 3, "classes of tokens"),
            (["-m", good, *ON, "--host", "256.1.1.1.1"], 4, "--host")):
        done = subprocess.run([WHERRY, "serve", *words], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code and says in done.stderr, (words, done)
    help_text = subprocess.run([WHERRY, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    assert all(len(line) <= 90 for line in help_text.splitlines())
    with open(os.path.join(HERE, "..", "..", "docs", "wherry-serve.1"), encoding="utf-8") as file:
        manual = file.read().replace("\\", "")
    named = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", help_text, re.M)
    assert len(named) > 20 and all(name in manual for name in named), named
    with Server(WHERRY, "serve", "-m", good, *ON) as server:
        server.get("/health")
        server.stop(signal.SIGINT)
    alone = os.path.join(folder, "alone")
    os.makedirs(alone)
    shutil.copy(WHERRY, alone)
    done = subprocess.run([os.path.join(alone, os.path.basename(WHERRY)), "serve"], capture_output=True, text=True, check=False,
                          env={"PATH": "/nonexistent"})
    assert done.returncode == 2 and "wherry-serve is not installed" in done.stderr, done


PARTS = (routes, natural, told, hooked, reload, sockets, starts)

with tempfile.TemporaryDirectory() as temporary:
    for part in PARTS:
        if len(sys.argv) == 4 or part.__name__ in sys.argv[4:]:
            began = time.monotonic()
            part(temporary)
            print(f"{part.__name__}: {time.monotonic() - began:.1f} s", flush=True)
