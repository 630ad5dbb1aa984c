#!/usr/bin/env python3
"""Whether PEFT opens the adapters that a trainer writes: has test_adapter_files leave one, of the model of trainer/classes,
and opens both in PEFT, which must give the scores that it left beside them, and merged, too. Exit 77 where Python lacks it.

Usage: check_adapter.py TEST_ADAPTER_FILES
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)


def difference(model, ids, offsets, want):
    far = 0
    for row, (a, b) in enumerate(zip(offsets[:-1], offsets[1:])):
        with torch.no_grad():
            have = model(torch.tensor(ids[a:b].astype(np.int64))[None]).logits.numpy()[0]
        far = max(far, float(np.abs(have - want[row]).max()))
    return far


def main():
    base = Path(__file__).parent / "trainer" / "classes"
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        subprocess.run([sys.argv[1]], check=True, env={**os.environ, "WHERRY_TEST_KEEP": str(work)},
                       stdout=subprocess.DEVNULL)
        ids, offsets = np.fromfile(work / "ids.bin", np.int32), np.fromfile(work / "offsets.bin", np.uint32)
        want = np.fromfile(work / "scores.bin", np.float32).reshape(len(offsets) - 1, -1)
        model = AutoModelForSequenceClassification.from_pretrained(base).eval()
        plain = difference(model, ids, offsets, want)
        model = PeftModel.from_pretrained(model, work / "adapter").eval()
        adapted = difference(model, ids, offsets, want)
        merged = difference(model.merge_and_unload(), ids, offsets, want)
    print("scores within %.2g, merged %.2g; without the adapter %.2g" % (adapted, merged, plain))
    return not (adapted < 1e-5 and merged < 1e-5 and plain > 1e-3)


if __name__ == "__main__":
    sys.exit(main())
