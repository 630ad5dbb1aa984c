"""What sentence-transformers' SparseEncoder gives for the tiny SPLADE models of heads_models.py, as words.json: for each
text the weights above 0, by token id. Made with sentence-transformers 6.2, transformers 5.23 and torch 2.11.

usage: make_words.py
"""

import json
import os
import tempfile

from sentence_transformers import SparseEncoder

import heads_models

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["ada rows the red boat slowly.", "water!", "a mill far on the river, and the lock: xyzzy quick",
         "is who near?", "boat " * 60]
KINDS = (*heads_models.WORD_WEIGHTS, "splade-plain")


def weights(model, texts):
    rows = model.encode(texts, convert_to_sparse_tensor=False, batch_size=1).tolist()
    return [{str(n): round(weight, 7) for n, weight in enumerate(row) if weight > 0} for row in rows]


def main():
    golden = {}
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            heads_models.write_model(kind, folder)
            golden[kind] = weights(SparseEncoder(folder, device="cpu"), TEXTS)
    with open(os.path.join(HERE, "words.json"), "w", encoding="utf-8") as file:
        file.write('{\n "texts": ' + json.dumps(TEXTS) + ',\n "models": {\n'
                   + ",\n".join(f'  "{kind}": {json.dumps(found)}' for kind, found in golden.items()) + "\n }\n}\n")


if __name__ == "__main__":
    main()
