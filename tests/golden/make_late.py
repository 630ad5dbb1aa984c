"""What sentence-transformers' MultiVectorEncoder gives for the tiny late-interaction models of heads_models.py, as
late.json: for each text the vectors of a query and of a document. Queries that are expanded with masks that no token
sees are left out. Made with sentence-transformers 6.2, transformers 5.23 and torch 2.11.

usage: make_late.py
"""

import json
import os
import tempfile

from sentence_transformers import MultiVectorEncoder

import heads_models

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = ["ada rows the red boat slowly.", "water!", "who is near? a mill far on the river, and the lock",
         "the boat, the ferry"]


def vectors(encode):
    return [[[round(float(v), 7) for v in row] for row in encode(text)] for text in TEXTS]


def main():
    golden = {}
    for kind, (_, attend) in heads_models.LATE.items():
        with tempfile.TemporaryDirectory() as folder:
            heads_models.write_model(kind, folder)
            model = MultiVectorEncoder(folder, device="cpu")
            golden[kind] = {"document": vectors(model.encode_document)}
            if attend is not False:
                golden[kind]["query"] = vectors(model.encode_query)
    with open(os.path.join(HERE, "late.json"), "w", encoding="utf-8") as file:
        file.write('{\n "texts": ' + json.dumps(TEXTS) + ',\n "models": {\n'
                   + ",\n".join(f'  "{kind}": {json.dumps(found)}' for kind, found in golden.items()) + "\n }\n}\n")


if __name__ == "__main__":
    main()
