"""The real clients against wherry-serve; clients.sh runs it.

usage: clients.py WHERRY_SERVE MINILM RERANKER CLASSIFIER
"""

import os
import sys

import numpy

from client import Server

HERE = os.path.dirname(os.path.abspath(__file__))
SERVE, MINILM, RERANKER, CLASSIFIER = sys.argv[1:]
with open(os.path.join(HERE, "..", "..", "data", "sentences.txt"), encoding="utf-8") as file:
    TEXTS = file.read().split("\n")[:24]
GOLDEN = numpy.load(os.path.join(HERE, "..", "golden", "minilm.npy"))[:len(TEXTS)]
GOLDEN = GOLDEN / numpy.linalg.norm(GOLDEN, axis=1, keepdims=True)
DEVICE = ("--device", "cpu", "--dtype", "f32")


def same(rows, golden=GOLDEN):
    rows = numpy.asarray(rows, dtype=numpy.float32)
    assert rows.shape == golden.shape and numpy.abs(rows - golden).max() < 1e-5, numpy.abs(rows - golden).max()


def check_openai(url):
    import openai
    client = openai.OpenAI(base_url=url + "/v1", api_key="key", max_retries=0)
    answer = client.embeddings.create(model="minilm", input=TEXTS)  # base64, as it asks for when nothing is said
    same([row.embedding for row in answer.data])
    assert answer.usage.prompt_tokens > 0 and answer.model == "minilm"
    same([row.embedding for row in client.embeddings.create(model="minilm", input=TEXTS, encoding_format="float").data])
    cut = client.embeddings.create(model="minilm", input=TEXTS[0], dimensions=64).data[0].embedding
    same([cut], GOLDEN[:1, :64] / numpy.linalg.norm(GOLDEN[:1, :64]))
    assert [model.id for model in client.models.list()] == ["minilm", "rank", "class"]
    ids = [101, 7592, 102]
    same([client.embeddings.create(model="minilm", input=ids).data[0].embedding],
         numpy.array([client.embeddings.create(model="minilm", input="hello").data[0].embedding], dtype=numpy.float32))
    for wrong, kind in (({"model": "minilm", "input": ["a"] * 1000}, openai.UnprocessableEntityError),
                        ({"model": "none", "input": "a"}, openai.NotFoundError)):
        try:
            client.embeddings.create(**wrong)
            raise AssertionError("it was answered")
        except kind as error:
            assert error.body["message"], error.body
    try:
        openai.OpenAI(base_url=url + "/v1", api_key="wrong", max_retries=0).embeddings.create(model="minilm", input="a")
        raise AssertionError("it was answered")
    except openai.AuthenticationError:
        pass


def check_cohere(url):
    import cohere
    documents = TEXTS[:5]
    for client in (cohere.Client(api_key="key", base_url=url), cohere.ClientV2(api_key="key", base_url=url)):
        answer = client.rerank(model="rank", query="a boat", documents=documents, top_n=3)
        scores = [row.relevance_score for row in answer.results]
        assert len(scores) == 3 and scores == sorted(scores, reverse=True) and {row.index for row in answer.results} <= set(range(5))


def check_hub(url):
    from huggingface_hub import InferenceClient
    client = InferenceClient(model=url, token="key")
    same([client.feature_extraction(text)[0] for text in TEXTS[:3]], GOLDEN[:3])
    scores = client.sentence_similarity(TEXTS[0], TEXTS[:4])
    same([scores], numpy.array([GOLDEN[:4] @ GOLDEN[0]], dtype=numpy.float32))


def check_hub_labels(url):
    from huggingface_hub import InferenceClient
    # It takes the first of what there is; as text-embeddings-inference answers, that is the best label.
    best = InferenceClient(model=url, token="key").text_classification("the boat")
    assert best.label in ("against", "neutral", "for") and 1 / 3 < best.score < 1, best


def check_langchain(url):
    from langchain_openai import OpenAIEmbeddings
    made = OpenAIEmbeddings(model="minilm", base_url=url + "/v1", api_key="key", check_embedding_ctx_length=False, chunk_size=32)
    same(made.embed_documents(TEXTS))
    same([made.embed_query(TEXTS[0])], GOLDEN[:1])


def check_llama_index(url):
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    made = TextEmbeddingsInference(model_name="minilm", base_url=url, auth_token="key", embed_batch_size=8)
    # It puts an instruction in front of texts of models that it knows; of others none.
    same(made.get_text_embedding_batch(TEXTS))
    same([made.get_query_embedding(TEXTS[0])], GOLDEN[:1])


def main():
    with Server(SERVE, "-m", "minilm=" + MINILM, "-m", "rank=" + RERANKER, "-m", "class=" + CLASSIFIER, *DEVICE,
                "--api-key", "key") as server:
        url = f"http://127.0.0.1:{server.port}"
        for check in (check_openai, check_cohere, check_hub, check_langchain, check_llama_index):
            check(url)
            print(f"{check.__name__}: passed", flush=True)
    with Server(SERVE, "-m", CLASSIFIER, *DEVICE) as server:
        check_hub_labels(f"http://127.0.0.1:{server.port}")
        print("check_hub_labels: passed", flush=True)


main()
