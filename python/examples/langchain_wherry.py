"""Wherry in LangChain: WherryEmbeddings("all-MiniLM-L6-v2") wherever LangChain wants Embeddings."""

import wherry
from langchain_core.embeddings import Embeddings


class WherryEmbeddings(Embeddings):
    def __init__(self, path, device=None, **options):
        self.model, self.options = wherry.Model(path, device=device), options

    def embed_documents(self, texts):
        return self.model.encode(texts, **self.options).tolist()

    def embed_query(self, text):
        prompt = "query" if "query" in self.model.prompts else None
        return self.model.encode(text, **{"prompt": prompt, **self.options}).tolist()
