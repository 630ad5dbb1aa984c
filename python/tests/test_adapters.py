"""The examples' adapters with the real packages: those that are installed.

usage: test_adapters.py EXAMPLES MODEL
"""

import importlib.util
import sys

import numpy as np
import wherry

TEXTS = ["A boat crosses the river.", "Prices rose again."]


def langchain(path):
    from langchain_core.vectorstores import InMemoryVectorStore
    from langchain_wherry import WherryEmbeddings

    store = InMemoryVectorStore(WherryEmbeddings(path, device="cpu"))
    store.add_texts(TEXTS)
    assert store.similarity_search("a ferry on the water", k=1)[0].page_content == TEXTS[0]
    return WherryEmbeddings(path, device="cpu").embed_documents(TEXTS)


def llama_index(path):
    from llama_index.core import Document, VectorStoreIndex
    from llama_index_wherry import WherryEmbedding

    embedding = WherryEmbedding(path, device="cpu")
    index = VectorStoreIndex.from_documents([Document(text=text) for text in TEXTS], embed_model=embedding)
    found = index.as_retriever(similarity_top_k=1).retrieve("a ferry on the water")
    assert found[0].get_content() == TEXTS[0]
    return embedding.get_text_embedding_batch(TEXTS)


def haystack(path):
    from haystack import Document, Pipeline
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore
    from haystack_wherry import WherryDocumentEmbedder, WherryTextEmbedder

    store = InMemoryDocumentStore()
    documents = WherryDocumentEmbedder(path, device="cpu").run(documents=[Document(content=t) for t in TEXTS])["documents"]
    store.write_documents(documents)
    pipeline = Pipeline()
    pipeline.add_component("embedder", WherryTextEmbedder(path, device="cpu"))
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    found = pipeline.run({"embedder": {"text": "a ferry on the water"}})["retriever"]["documents"]
    assert found[0].content == TEXTS[0]
    return [d.embedding for d in documents]


def main():
    sys.path.insert(0, sys.argv[1])
    path, ran = sys.argv[2], []
    with wherry.Model(path, device="cpu") as model:
        wanted = model.encode(TEXTS)
    for name, module, test in (("LangChain", "langchain_core", langchain), ("LlamaIndex", "llama_index", llama_index),
                               ("Haystack", "haystack", haystack)):
        if importlib.util.find_spec(module) is None:
            print(f"{name}: not installed")
            continue
        np.testing.assert_allclose(np.array(test(path), dtype=np.float32), wanted, atol=1e-6)
        ran.append(name)
        print(f"{name}: passed")
    return 0 if ran else 77


if __name__ == "__main__":
    sys.exit(main())
