#!/usr/bin/env python3
"""Whether what a trainer saves opens elsewhere: has test_trainer_folders leave a model, and opens it in transformers and in
sentence-transformers, which must give the vectors that it left beside it. Exit 77 where Python lacks them.

Usage: check_trainer.py TEST_TRAINER_FOLDERS
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)


def vectors(name, folder):
    """A function from ids to a vector of length 1, and what the package finds of the tokenizer."""
    if name == "transformers":
        model = AutoModel.from_pretrained(folder).eval()
        return lambda x: torch.nn.functional.normalize(
            model(x, attention_mask=torch.ones_like(x)).last_hidden_state.mean(1))
    model = SentenceTransformer(str(folder), device="cpu")
    assert len(model) == 3 and model.max_seq_length == 16, model
    assert model.encode(["t7 t9"]).shape == (1, 16)
    return lambda x: model({"input_ids": x, "attention_mask": torch.ones_like(x)})["sentence_embedding"]


def main():
    far = 0
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        subprocess.run([sys.argv[1]], check=True, env={**os.environ, "WHERRY_TEST_KEEP": str(work)},
                       stdout=subprocess.DEVNULL)
        ids, offsets = np.fromfile(work / "ids.bin", np.int32), np.fromfile(work / "offsets.bin", np.uint32)
        want = np.fromfile(work / "vectors.bin", np.float32).reshape(len(offsets) - 1, -1)
        for name in ("transformers", "sentence-transformers"):
            encode = vectors(name, work / "model")
            for row, (a, b) in enumerate(zip(offsets[:-1], offsets[1:])):
                with torch.no_grad():
                    have = encode(torch.tensor(ids[a:b].astype(np.int64))[None]).numpy()[0]
                far = max(far, float(np.linalg.norm(have - want[row])))
            print("%s: vectors within %.2g" % (name, far))
    return far > 1e-5


if __name__ == "__main__":
    sys.exit(main())
