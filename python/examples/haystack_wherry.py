"""Wherry in Haystack: components WherryTextEmbedder and WherryDocumentEmbedder."""

from dataclasses import replace

import wherry
from haystack import Document, component


@component
class WherryTextEmbedder:
    def __init__(self, path, device=None):
        self.model = wherry.Model(path, device=device)

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        prompt = "query" if "query" in self.model.prompts else None
        return {"embedding": self.model.encode(text, prompt=prompt).tolist()}


@component
class WherryDocumentEmbedder:
    def __init__(self, path, device=None):
        self.model = wherry.Model(path, device=device)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]):
        vectors = self.model.encode([document.content or "" for document in documents]).tolist()
        return {"documents": [replace(d, embedding=v) for d, v in zip(documents, vectors)]}
