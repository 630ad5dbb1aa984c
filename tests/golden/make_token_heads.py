"""What bge-m3's heads give for tiny XLM-R models of heads_models.py, as token_heads.json, and their files as torch.save
writes them, in tests/data/torch: weights of token ids and vectors for late interaction, by FlagEmbedding's formulas; and
vectors of a chain of a Transformer, a Dense on token embeddings and a Normalize. Made with torch 2.11 and transformers 5.23.

usage: make_token_heads.py
"""

import json
import os
import tempfile

import safetensors.torch
import torch
from transformers import AutoModel, AutoTokenizer

import heads_models

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "..", "data", "torch")
TEXTS = ["ada rows the red boat slowly.", "water!", "a mill far on the river, and the lock: xyzzy quick",
         "boat boat \u65e5 boat </s> the <pad> boat", "is who near?"]
TYPES = {"m3-f32": torch.float32, "m3-f16": torch.float16, "m3-bf16": torch.bfloat16}


def rounded(tensor):
    return [[round(v, 7) for v in row] for row in tensor.tolist()]


def write_heads(kind, dtype):
    for name, rows in (("sparse", 1), ("colbert", heads_models.HIDDEN)):
        linear = torch.nn.Linear(heads_models.HIDDEN, rows)
        torch.save(linear.to(dtype).state_dict(), os.path.join(FILES, f"{name}_{kind[3:]}.pt"))


def read_head(name, kind):
    state = torch.load(os.path.join(FILES, f"{name}_{kind[3:]}.pt"), weights_only=True)
    return {key: value.float() for key, value in state.items()}


def last_hidden(folder):
    model, tokenizer = AutoModel.from_pretrained(folder).float().eval(), AutoTokenizer.from_pretrained(folder)
    for text in TEXTS:
        tokens = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            yield tokens["input_ids"][0].tolist(), model(**tokens).last_hidden_state[0], tokenizer


def lexical_weights(ids, token_weights, tokenizer):
    named = {tokenizer.convert_tokens_to_ids(getattr(tokenizer, name))
             for name in ("cls_token", "eos_token", "pad_token", "unk_token") if getattr(tokenizer, name)}
    weights = {}
    for token, weight in zip(ids, token_weights.tolist()):
        if token not in named and weight > weights.get(token, 0):
            weights[token] = weight
    return {str(token): round(weights[token], 7) for token in sorted(weights)}


def of_m3(kind, folder):
    sparse, colbert = read_head("sparse", kind), read_head("colbert", kind)
    out = {"weights": [], "vectors": [], "dense": []}
    for ids, hidden, tokenizer in last_hidden(folder):
        token_weights = torch.relu(hidden @ sparse["weight"].T + sparse["bias"]).squeeze(-1)
        out["weights"].append(lexical_weights(ids, token_weights, tokenizer))
        vectors = hidden[1:] @ colbert["weight"].T + colbert["bias"]
        out["vectors"].append(rounded(torch.nn.functional.normalize(vectors, dim=-1)))
        out["dense"] += rounded(torch.nn.functional.normalize(hidden[:1], dim=-1))
    return out


def of_chain(folder):
    dense = safetensors.torch.load_file(os.path.join(folder, "1_Dense", "model.safetensors"))["linear.weight"]
    return {"vectors": [rounded(torch.nn.functional.normalize(hidden @ dense.T, dim=-1))
                        for _, hidden, _ in last_hidden(folder)]}


def main():
    torch.manual_seed(7)
    golden = {}
    for kind in (*TYPES, "m3-colbert"):
        if kind in TYPES:
            write_heads(kind, TYPES[kind])
        with tempfile.TemporaryDirectory() as folder:
            heads_models.write_model(kind, folder)
            golden[kind] = of_m3(kind, folder) if kind in TYPES else of_chain(folder)
    with open(os.path.join(HERE, "token_heads.json"), "w", encoding="utf-8") as file:
        file.write('{\n "texts": ' + json.dumps(TEXTS) + ',\n "models": {\n'
                   + ",\n".join(f'  "{kind}": {json.dumps(found)}' for kind, found in golden.items()) + "\n }\n}\n")


if __name__ == "__main__":
    main()
