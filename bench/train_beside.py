"""Trains on the pairs of train_pairs.py by sentence-transformers, all of them in each step, as
    wherry train --task contrastive --data FOLDER/train.jsonl --dev FOLDER/dev.jsonl --batch PAIRS --steps 12 --warmup 2
        --lr 5e-5 --dropout 0 --max-tokens 128 --truncate
does, and prints each step's loss, the gradient's norm and, every third step, loss and recall of the held-out pairs.

usage: train_beside.py MODEL FOLDER
"""
import json
import pathlib
import sys

import torch
from sentence_transformers import SentenceTransformer, losses

STEPS, WARMUP, RATE = 12, 2, 5e-5


def evaluate(model, pairs):
    with torch.no_grad():
        queries, answers = (model.encode([pair[name] for pair in pairs], convert_to_tensor=True, normalize_embeddings=True)
                            for name in ("query", "answer"))
        scores = queries @ answers.T
        own = torch.arange(len(pairs))
        better = (scores > scores.diagonal()[:, None]).sum(1)
        loss = torch.nn.functional.cross_entropy(20 * scores, own)
        return loss.item(), (better < 1).float().mean().item(), (better < 10).float().mean().item()


def main():
    model = SentenceTransformer(sys.argv[1], device="cpu")
    model.max_seq_length = 128
    model.eval()  # no dropout
    train, dev = ([json.loads(line) for line in open(pathlib.Path(sys.argv[2]) / f"{name}.jsonl", encoding="utf-8")]
                  for name in ("train", "dev"))
    plain = ("bias", "LayerNorm.weight")
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(plain) == without],
               "weight_decay": 0 if without else 0.01} for without in (False, True)]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / WARMUP if step < WARMUP else max(0, (STEPS - step) / (STEPS - WARMUP)))
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    columns = [tokenize([pair[name] for pair in train]) for name in ("query", "answer")]
    ranking = losses.MultipleNegativesRankingLoss(model)
    print("step 0: loss %.6f, recall@1 %.4f, recall@10 %.4f" % evaluate(model, dev))
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        loss = ranking([dict(column) for column in columns], None)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"step {step}: {loss.item():.6f}, norm {norm.item():.6f}", flush=True)
        if step % 3 == 0:
            print(f"step {step}: loss %.6f, recall@1 %.4f, recall@10 %.4f" % evaluate(model, dev), flush=True)


if __name__ == "__main__":
    main()
