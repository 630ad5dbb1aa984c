"""wherry embed --output-type tokens on models of late interaction against sentence-transformers' MultiVectorEncoder
(tests/golden/late.json): marks, lengths, a query's masks, what documents leave out; and what is refused.

usage: test_late.py WHERRY
"""

import json
import os
import sys
import tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
sys.path.insert(0, GOLDEN)
import command  # noqa: E402
import heads_models  # noqa: E402
from command import close, run  # noqa: E402
from heads_models import merge  # noqa: E402


def vectors(model, prompt, texts, device="cpu"):
    lines = run("embed", "-m", model, "-d", device, "-t", "f32", "--json", "-q", "--output-type", "tokens", "--prompt",
                prompt, text="".join(text + "\n" for text in texts))
    return [json.loads(line)["embedding"] for line in lines.splitlines()]


def check_bad(folder):
    def broken(kind, change, says, name, within="", prompt="document"):
        model = os.path.join(folder, "broken")
        heads_models.write_changed(kind, model, within, name, change)
        run("embed", "-m", model, "-d", "cpu", "--json", "--prompt", prompt, text="a\n", code=3, says=says)

    sentence, pylate = "sentence_bert_config.json", "config_sentence_transformers.json"
    expansion = {"strategy": "fixed", "attend": True, "length": 10}
    broken("late-native", merge(query_expansion={**expansion, "strategy": "tiled"}), "strategy tiled", sentence)
    broken("late-native", merge(query_expansion={**expansion, "length": None}), "no \"length\"", sentence)
    broken("late-native", merge(query_expansion={**expansion, "attend": 1}), "\"attend\" is neither", sentence)
    broken("late-native", merge(query_expansion={**expansion, "token": "[X]"}), "which the tokenizer has not", sentence)
    broken("late-native", merge(query_expansion={**expansion, "attend": False}), "no other token sees", sentence,
           prompt="query")
    broken("late-native", merge(query_expansion={**expansion, "length": 1000}), "the model takes 64", sentence,
           prompt="query")
    broken("late-native", merge(document_length=0), "document_length", sentence)
    broken("late-native", merge(skiplist_words="x"), "skiplist_words", "config.json", "2_MultiVectorMask")
    broken("late-native", merge(skiplist_words=[1]), "skiplist_words", "config.json", "2_MultiVectorMask")
    broken("late-native", merge(keep_only_token_ids=[1]), "keep_only_token_ids", "config.json", "2_MultiVectorMask")
    broken("late-pylate", merge(query_prefix=3), "query_prefix", pylate)
    broken("late-pylate", merge(document_prefix="##a "), "the mark ##a in front of texts", pylate)
    broken("late-pylate", lambda value: value, "no other token sees", pylate, prompt="query")


def main():
    with open(os.path.join(GOLDEN, "late.json"), encoding="utf-8") as file:
        golden = json.load(file)
    texts = golden["texts"]
    with tempfile.TemporaryDirectory() as folder:
        for kind, wanted in golden["models"].items():
            model = os.path.join(folder, kind)
            heads_models.write_model(kind, model)
            for prompt, want in wanted.items():
                for device in ("cpu", "reference"):
                    close(vectors(model, prompt, texts, device), want, (kind, prompt))
        check_bad(folder)
    print(f"{command.checks} checks passed")


if __name__ == "__main__":
    main()
