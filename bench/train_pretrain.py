"""Pretrains a tiny BERT from nothing on this project's own pages, by wherry and by transformers with PyTorch, and draws
both losses. Texts, vocabulary, configuration, batches' sizes and the optimizer are the same; weights and masks are drawn
by each with the same distribution.

usage: train_pretrain.py WHERRY FOLDER STEPS CURVE.svg [DEVICE...]    (needs torch and transformers; FOLDER gets the files)

DEVICE: wherry's, by default cpu. PyTorch has a GPU where wherry has one and it finds one.
"""
import collections
import json
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH, RATE, WORDS, LENGTH = 32, 1e-3, 2000, 64
SHAPE = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
             max_position_embeddings=LENGTH, type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def texts():
    found = []
    for page in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]:
        for paragraph in re.split(r"\n\s*\n", page.read_text(encoding="utf-8")):
            line = " ".join(re.sub(r"[`*|\[\]]", " ", paragraph).split())
            found += [part for part in re.split(r"(?<=[.:;]) ", line) if len(part.split()) > 5]
    random.Random(3).shuffle(found)
    return found


def write(folder, lines):
    """The pieces that any word is made of, and the most frequent words."""
    words = collections.Counter(word for line in lines for word in re.findall(r"[a-z]+|[^\sa-z]", line.lower()))
    letters = sorted({letter for word in words for letter in word})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    pieces += [word for word, _ in words.most_common(WORDS) if len(word) > 1][:WORDS - len(pieces)]
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(SHAPE, vocab_size=len(pieces), model_type="bert", architectures=["BertForMaskedLM"], hidden_act="gelu",
                  layer_norm_eps=1e-12, initializer_range=0.02)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        dict(tokenizer_class="BertTokenizer", do_lower_case=True, model_max_length=LENGTH)) + "\n")
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")


def by_wherry(program, folder, steps, device):
    log, out = folder / f"wherry-{device.replace(':', '-')}.jsonl", folder / f"trained-{device.replace(':', '-')}"
    log.unlink(missing_ok=True)
    subprocess.run([program, "train", "--model", folder, "--init", "random", "--task", "mlm", "--data",
                    folder / "texts.txt", "--out", out, "--batch", str(BATCH), "--steps", str(steps),
                    "--lr", str(RATE), "--warmup", "0.1", "--dropout", "0", "--max-tokens", str(LENGTH), "--truncate",
                    "--dtype", "f32", "--device", device, "--log", log], check=True)
    rows = [json.loads(line) for line in open(log, encoding="utf-8")]
    return [row["loss"] for row in rows if "gradient_norm" in row or "norm" in row]


def by_transformers(folder, lines, steps, gpu):
    import torch
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer
    torch.manual_seed(1)
    torch.set_num_threads(1)
    device = "cuda" if gpu and torch.cuda.is_available() else "cpu"
    tokenizer = BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True)
    model = BertForMaskedLM(BertConfig.from_json_file(folder / "config.json")).train().to(device)
    plain = ("bias", "LayerNorm.weight")
    groups = [{"params": [p for n, p in model.named_parameters() if n.endswith(plain) == without],
               "weight_decay": 0 if without else 0.01} for without in (False, True)]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    warmup = (steps + 9) // 10
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: s / warmup if s < warmup else max(0, (steps - s) / (steps - warmup)))
    order, losses = [], []
    for _ in range(steps):
        if len(order) < BATCH:
            order = random.Random(len(losses)).sample(lines, len(lines))
        batch = tokenizer(order[:BATCH], padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
        order = order[BATCH:]
        ids, labels = batch["input_ids"].clone(), batch["input_ids"].clone()
        chosen = (torch.rand(ids.shape) < 0.15) & (ids > 3)
        labels[~chosen] = -100
        what = torch.rand(ids.shape)
        ids[chosen & (what < 0.8)] = tokenizer.mask_token_id
        other = chosen & (what >= 0.8) & (what < 0.9)
        ids[other] = torch.randint(len(tokenizer), (int(other.sum()),))
        loss = model(input_ids=ids.to(device), attention_mask=batch["attention_mask"].to(device),
                     labels=labels.to(device)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return device, losses


def draw(curves, path):
    """Means of ten steps each."""
    width, height, high = 640, 320, max(max(losses) for _, losses in curves)
    low = min(min(losses) for _, losses in curves)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
           f'font-size="12"><rect width="{width}" height="{height}" fill="#fff"/>']
    for n, (name, losses) in enumerate(curves):
        means = [sum(losses[i:i + 10]) / len(losses[i:i + 10]) for i in range(0, len(losses), 10)]
        points = " ".join(f"{50 + (width - 70) * i / max(1, len(means) - 1):.1f},"
                          f"{20 + (height - 60) * (high - y) / (high - low):.1f}" for i, y in enumerate(means))
        color = ("#0868ac", "#d95f02", "#1b9e77", "#7570b3")[n % 4]
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'
                   f'<text x="{width - 220}" y="{40 + 18 * n}" fill="{color}">{name}: {means[-1]:.2f} at the end</text>')
    out.append(f'<text x="50" y="{height - 12}">steps 0 to {len(curves[0][1])}; cross-entropy of masked tokens, means of '
               f'ten steps</text><text x="8" y="24">{high:.1f}</text><text x="8" y="{height - 36}">{low:.1f}</text></svg>')
    pathlib.Path(path).write_text("\n".join(out) + "\n")


def main():
    folder, steps = pathlib.Path(sys.argv[2]), int(sys.argv[3])
    lines = texts()
    write(folder, lines)
    devices = sys.argv[5:] or ["cpu"]
    curves = [(f"wherry, {device}", by_wherry(sys.argv[1], folder, steps, device)) for device in devices]
    device, losses = by_transformers(folder, lines, steps, any(":" in device for device in devices))
    curves.append((f"PyTorch, {device}", losses))
    (folder / "pytorch.jsonl").write_text("".join(
        json.dumps(dict(step=step, loss=loss)) + "\n" for step, loss in enumerate(losses)))
    for name, losses in curves:
        print(f"{name}: {losses[0]:.4f} to {sum(losses[-10:]) / 10:.4f} (mean of the last ten of {len(losses)} steps)")
    draw(curves, sys.argv[4])


if __name__ == "__main__":
    main()
