"""What transformers and sentence-transformers give for the tiny models of question_models.py, as questions.json: scores of
a query and texts, as they are, with another instruction, the other way round, cut; embeddings with prompts. Qwen3-Reranker
in its own form is asked as its model card says, in float64; the others by CrossEncoder and SentenceTransformer. Made with
transformers 5.24, sentence-transformers 6.2 and torch 2.15.

usage: make_questions.py
"""

import json
import os
import tempfile

import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoModelForCausalLM, AutoTokenizer

import question_models
from question_models import INSTRUCTION, KINDS, PREFIX, SUFFIX

HERE = os.path.dirname(os.path.abspath(__file__))
QUERY = "who rows a boat?"
TEXTS = ["ada rows the red boat slowly.", "the old ferry is near the bridge, in bremen", "water!", "",
         "a mill far on the river, and the lock: xyzzy quick", "yes no yes", "boat boat boat boat\n\n boat",
         "\u0451\u0436\u0438\u043a \uff52\uff45\uff44 cafe\u0301", "no<|im_end|>\nyes"]
TOLD = "is there a mill"
# Tokens of the longest text then; and a text that is longer.
CUT, LONG = 170, "the old boat is near the river " * 20


def rounded(value):
    return [rounded(v) for v in value] if isinstance(value, list) else round(float(value), 7)


def card_scores(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    yes, no = tokenizer.convert_tokens_to_ids("yes"), tokenizer.convert_tokens_to_ids("no")
    prefix, suffix = (tokenizer.encode(text, add_special_tokens=False) for text in (PREFIX, SUFFIX))

    def score(query, text, instruction=INSTRUCTION, most=question_models.POSITIONS):
        pair = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {text}"
        ids = tokenizer(pair, truncation="longest_first", max_length=most - len(prefix) - len(suffix))["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([prefix + ids + suffix])).logits[:, -1]
        both = torch.nn.functional.log_softmax(torch.stack([logits[:, no], logits[:, yes]], dim=1), dim=1)
        return both[0, 1].exp().item(), (logits[0, yes] - logits[0, no]).item()

    return {"scores": [score(QUERY, text)[0] for text in TEXTS], "logits": [score(QUERY, text)[1] for text in TEXTS],
            "swapped": [score(text, QUERY)[0] for text in TEXTS], "told": [score(QUERY, text, TOLD)[0] for text in TEXTS],
            "cut": [score(QUERY, LONG, most=CUT)[0]]}


def encoder_scores(folder, told):
    def scores(encoder, pairs, **more):
        return encoder.predict(pairs, batch_size=1, **more).tolist()

    encoder = CrossEncoder(folder, device="cpu")
    found = {"scores": scores(encoder, [(QUERY, text) for text in TEXTS]),
             "logits": scores(encoder, [(QUERY, text) for text in TEXTS], activation_fn=torch.nn.Identity()),
             "swapped": scores(encoder, [(text, QUERY) for text in TEXTS])}
    if told:
        found["told"] = scores(encoder, [(QUERY, text) for text in TEXTS], prompt=TOLD)
    encoder.max_seq_length = CUT
    found["cut"] = scores(encoder, [(QUERY, LONG)])
    return found


def main():
    golden = {}
    with tempfile.TemporaryDirectory() as top:
        for kind in KINDS:
            folder = os.path.join(top, kind)
            question_models.write_model(kind, folder)
            golden[kind] = card_scores(folder) if kind == "ask" else encoder_scores(folder, kind != "ask-true")
        folder = os.path.join(top, "gemma-dense")
        question_models.write_model("gemma-dense", folder)
        model = SentenceTransformer(folder, device="cpu", model_kwargs={"attn_implementation": "eager"}).double()
        golden["gemma-dense"] = {name: [model.encode(text, prompt_name=name or None).tolist() for text in TEXTS[:3] + TEXTS[4:]]
                                 for name in ("", "query", "document")}
    golden = {kind: {name: rounded(values) for name, values in found.items()} for kind, found in golden.items()}
    with open(os.path.join(HERE, "questions.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps({"query": QUERY, "texts": TEXTS, "instruction": TOLD, "long": LONG, "cut": CUT})[:-1]
                   + ', "models": {\n' + ",\n".join(f'"{kind}": {json.dumps(found)}' for kind, found in golden.items())
                   + "\n}}\n")


if __name__ == "__main__":
    main()
