"""Trains on the pairs of train_pairs.py by sentence-transformers, all of them in each step, as
    wherry train --task contrastive --data FOLDER/train.jsonl --dev FOLDER/dev.jsonl --batch PAIRS --steps 12 --warmup 2
        --lr 5e-5 --dropout 0 --max-tokens 128 --truncate
does, and prints each step's loss, the gradient's norm and, every third step, loss and recall of the held-out pairs.

usage: train_beside.py MODEL FOLDER [--steps N] [--warmup N] [--rate X] [--every N] [--device cpu|cuda] [--log FILE]

--every: steps between two looks at the held-out pairs. FILE gets the lines that wherry train --log writes, for wherry
report to draw beside it.
"""
import argparse
import json
import pathlib
import time

import torch
from sentence_transformers import SentenceTransformer, losses



def evaluate(model, pairs):
    with torch.no_grad():
        queries, answers = (model.encode([pair[name] for pair in pairs], convert_to_tensor=True, normalize_embeddings=True)
                            for name in ("query", "answer"))
        scores = queries @ answers.T
        own = torch.arange(len(pairs))
        better = (scores > scores.diagonal()[:, None]).sum(1)
        loss = torch.nn.functional.cross_entropy(20 * scores, own)
        return loss.item(), (better < 1).float().mean().item(), (better < 10).float().mean().item()


def write(log, **line):
    if log:
        log.write(json.dumps(line) + "\n")
        log.flush()


def look(model, dev, step, log):
    loss, first, ten = evaluate(model, dev)
    print(f"step {step}: loss {loss:.6f}, recall@1 {first:.4f}, recall@10 {ten:.4f}", flush=True)
    write(log, step=step, evaluation={"loss": loss, "recall@1": first, "recall@10": ten})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rate", type=float, default=5e-5)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--log")
    args = parser.parse_args()
    model = SentenceTransformer(args.model, device=args.device)
    model.max_seq_length = 128
    model.eval()  # no dropout
    train, dev = ([json.loads(line) for line in open(pathlib.Path(args.folder) / f"{name}.jsonl", encoding="utf-8")]
                  for name in ("train", "dev"))
    plain = ("bias", "LayerNorm.weight")
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(plain) == without],
               "weight_decay": 0 if without else 0.01} for without in (False, True)]
    optimizer = torch.optim.AdamW(groups, lr=args.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / args.warmup if step < args.warmup
        else max(0, (args.steps - step) / (args.steps - args.warmup)))
    tokenize = getattr(model, "preprocess", None) or model.tokenize
    columns = [{name: tensor.to(args.device) if hasattr(tensor, "to") else tensor
                for name, tensor in tokenize([pair[name] for pair in train]).items()} for name in ("query", "answer")]
    tokens = sum(int(column["attention_mask"].sum()) for column in columns)
    ranking = losses.MultipleNegativesRankingLoss(model)
    log = open(args.log, "w", encoding="utf-8") if args.log else None
    write(log, run={"torch": torch.__version__, "device": args.device})
    look(model, dev, 0, log)
    for step in range(1, args.steps + 1):
        start, rate = time.perf_counter(), schedule.get_last_lr()[0]
        optimizer.zero_grad()
        loss = ranking([dict(column) for column in columns], None)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        schedule.step()
        loss = loss.item()
        print(f"step {step}: {loss:.6f}, norm {norm:.6f}", flush=True)
        write(log, step=step, loss=loss, rate=rate, norm=norm, examples=len(train), tokens=tokens,
              seconds=time.perf_counter() - start)
        if step % args.every == 0 or step == args.steps:
            look(model, dev, step, log)


if __name__ == "__main__":
    main()
