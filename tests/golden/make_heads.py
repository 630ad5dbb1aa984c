"""What transformers and sentence-transformers give for the tiny models of heads_models.py, as heads.json: scores of
pairs, labels, entities, masked tokens, embeddings. Made with transformers 5.23 and sentence-transformers 6.2, torch 2.11.

usage: make_heads.py [heads.json [KIND...]]   (KIND: these alone are made, others stay)
"""

import json
import os
import sys
import tempfile

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import (AutoModelForMaskedLM, AutoModelForTokenClassification, AutoModelForSequenceClassification,
                          AutoTokenizer, pipeline)

import heads_models

QUERY = "who rows a boat?"
TEXTS = ["ada rows the red boat slowly.", "the old ferry is near the bridge, in bremen", "water!",
         "a mill far on the river, and the lock: xyzzy quick", "Ada and Bremen", "boat boat boat boat",
         "ёжик ｒｅｄ　水 cafe\u0301", "ﬁne ½ שלום कल 어제 ™"]
MASKED = ["the [MASK] boat is near", "ada [MASK] to [MASK] slowly."]


def rounded(value):
    return [rounded(v) for v in value] if isinstance(value, list) else round(float(value), 7)


def of_texts(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    out = {}
    if model.config.num_labels == 1:
        encoder = CrossEncoder(folder, device="cpu")
        out["scores"] = rounded(encoder.predict([(QUERY, text) for text in TEXTS]).tolist())
        out["swapped"] = rounded(encoder.predict([(text, QUERY) for text in TEXTS]).tolist())
    classify = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
    order = list(model.config.id2label.values())
    # The pipeline does not know sentence-transformers' key.
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        apply = "none" if "sbert_ce_default_activation_function" in json.load(file) else None
    for name, texts in (("labels", TEXTS), ("pairs", [{"text": QUERY, "text_pair": text} for text in TEXTS])):
        rows = [classify(text, top_k=None, function_to_apply=apply) for text in texts]
        out[name] = [rounded([next(r["score"] for r in row if r["label"] == label) for label in order]) for row in rows]
    out["names"] = order
    return out


def of_tokens(folder):
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    out = {}
    for aggregation in ("none", "simple", "first", "average", "max"):
        run = pipeline("token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=aggregation,
                       device="cpu")
        out[aggregation] = [[{"label": e.get("entity_group", e.get("entity")), "score": rounded(e["score"]),
                              "start": int(e["start"]), "end": int(e["end"])} for e in run(text)] for text in TEXTS]
    return out


def of_masks(folder):
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    run = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=5, device="cpu")
    rows = []
    for text in MASKED:
        found = run(text.replace("[MASK]", tokenizer.mask_token))
        found = found if isinstance(found[0], list) else [found]
        rows.append([[{"token": f["token_str"], "score": rounded(f["score"])} for f in one] for one in found])
    return {"masks": rows}


def of_sentences(folder):
    model = SentenceTransformer(folder, device="cpu")
    out = {"embeddings": rounded(model.encode(TEXTS).tolist()),
           "prompted": rounded(model.encode(TEXTS[:2], prompt_name="query").tolist())}
    model.truncate_dim = 8
    out["cut"] = rounded(model.encode(TEXTS[:2], normalize_embeddings=True).tolist())
    return out


def main():
    golden = {"query": QUERY, "texts": TEXTS, "masked": MASKED, "models": {}}
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "heads.json")
    if len(sys.argv) > 2:
        with open(path, encoding="utf-8") as file:
            golden["models"] = json.load(file)["models"]
    torch.manual_seed(0)
    for kind in sys.argv[2:] or heads_models.KINDS:
        with tempfile.TemporaryDirectory() as folder:
            heads_models.write_model(kind, folder)
            make = (of_sentences if kind.startswith("sentence") else of_tokens if kind.endswith("entities")
                    else of_masks if kind.endswith("fill") else of_texts)
            golden["models"][kind] = make(folder)
            print(kind, file=sys.stderr)
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f' "{key}": {json.dumps(golden[key])}' for key in ("query", "texts", "masked")))
        file.write(',\n "models": {\n' + ",\n".join(f'  "{kind}": {json.dumps(found)}' for kind, found in
                                                  golden["models"].items()) + "\n }\n}\n")


if __name__ == "__main__":
    main()
