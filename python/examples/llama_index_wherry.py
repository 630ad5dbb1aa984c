"""Wherry in LlamaIndex: WherryEmbedding(path="all-MiniLM-L6-v2") wherever LlamaIndex wants an embed_model."""

import wherry
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings import BaseEmbedding


class WherryEmbedding(BaseEmbedding):
    _model: wherry.Model = PrivateAttr()

    def __init__(self, path, device=None, **options):
        super().__init__(model_name=str(path), **options)
        self._model = wherry.Model(path, device=device)

    def _get_text_embeddings(self, texts):
        return self._model.encode(texts).tolist()

    def _get_text_embedding(self, text):
        return self._model.encode(text).tolist()

    def _get_query_embedding(self, query):
        return self._model.encode(query, prompt="query" if "query" in self._model.prompts else None).tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)
