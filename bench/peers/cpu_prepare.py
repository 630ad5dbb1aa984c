#!/usr/bin/env python3
"""Makes what the peers of bench/peers/cpu.py read, from a folder of all-MiniLM-L6-v2 alone; nothing is downloaded.

Usage: cpu_prepare.py FOLDER MODEL [--llama SOURCES] [--part PART]
  SOURCES  of llama.cpp, whose converter makes GGUF
  PART     one alone, as onnx:minilm: what this program starts itself for

FOLDER gets minilm (a link to MODEL), sentences.txt, some.txt (every seventh of them), sentence.txt (its first text of 20
tokens), ids.i32 (8 x 512 random ids), bert-base (random weights), *.onnx (exported by PyTorch, and *-fused.onnx, by ONNX
Runtime's optimizer for BERT), *.gguf, lengths.json. What is there already stays.
"""
import argparse
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sentences

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def make_texts(folder):
    lines = sentences.texts()
    tokens = sentences.lengths(lines, folder / "minilm")
    (folder / "sentences.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (folder / "some.txt").write_text("".join(line + "\n" for line in lines[::7]), encoding="utf-8")
    (folder / "sentence.txt").write_text(lines[tokens.index(20)] + "\n", encoding="utf-8")
    (folder / "lengths.json").write_text(json.dumps(tokens), encoding="utf-8")


def make_bert_base(folder):
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    BertModel(BertConfig()).save_pretrained(folder / "bert-base")
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(folder / "minilm" / name, folder / "bert-base" / name)
    torch.randint(1000, 30000, (8, 512), dtype=torch.int32).numpy().tofile(folder / "ids.i32")


def make_onnx(folder, name):
    import torch
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = AutoModel.from_pretrained(folder / name, attn_implementation="eager").eval()

        def forward(self, ids, mask, types):
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    encoder = Encoder()
    ones = torch.ones(2, 16, dtype=torch.long)
    axes = {key: {0: "batch", 1: "length"} for key in (*NAMES, "hidden")}
    path = folder / f"{name}.onnx"
    torch.onnx.export(
        encoder,
        (ones, ones, 0 * ones),
        path,
        input_names=NAMES,
        output_names=["hidden"],
        dynamic_axes=axes,
        dynamo=False,
    )
    config = encoder.model.config
    fused = optimizer.optimize_model(
        str(path), "bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size, opt_level=1
    )
    fused.save_model_to_file(str(folder / f"{name}-fused.onnx"))
    print(name, "fused operators:", fused.get_fused_operator_statistics(), file=sys.stderr)


def make_gguf(folder, name, sources):
    path = folder / f"{name}.gguf"
    command = [sys.executable, sources / "convert_hf_to_gguf.py", "--outtype", "f32", "--outfile", path, folder / name]
    subprocess.run(command, check=True, stdout=sys.stderr)


def make_part(args):
    kind, _, name = args.part.partition(":")
    if kind == "random":
        make_bert_base(args.folder)
    elif kind == "onnx":
        make_onnx(args.folder, name)
    else:
        make_gguf(args.folder, name, args.llama)


def make(pool, args, name):
    """What is missing of a model: its weights first, the rest at a time. Parts are processes, which use a core each."""

    def run(part):
        if subprocess.run([sys.executable, *sys.argv, "--part", f"{part}:{name}"], check=False).returncode:
            raise OSError(f"{part} of {name} can't be made")

    if name == "bert-base" and not (args.folder / "ids.i32").exists():
        run("random")
    parts = [] if (args.folder / f"{name}-fused.onnx").exists() else ["onnx"]
    if args.llama and not (args.folder / f"{name}.gguf").exists():
        parts.append("gguf")
    for part in [pool.submit(run, part) for part in parts]:
        part.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--llama", type=Path)
    parser.add_argument("--part")
    args = parser.parse_args()
    if args.part:
        make_part(args)
        return
    folder = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "minilm").exists():
        (folder / "minilm").symlink_to(args.model.resolve())
    make_texts(folder)
    with ThreadPoolExecutor(8) as pool:  # more than there are parts, which wait for others
        for model in [pool.submit(make, pool, args, name) for name in ("bert-base", "minilm")]:
            model.result()


if __name__ == "__main__":
    main()
