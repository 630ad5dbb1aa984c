#!/usr/bin/env python3
"""Makes what the peers of bench/peers/cpu.py read, from a folder of all-MiniLM-L6-v2 alone; nothing is downloaded.

Usage: cpu_prepare.py FOLDER MODEL [--llama SOURCES]     SOURCES: of llama.cpp, whose converter makes GGUF

FOLDER gets minilm (a link to MODEL), sentences.txt, sentence.txt (its first text of 20 tokens), ids.i32 (8 x 512 random
ids), bert-base (random weights), *.onnx (exported by PyTorch, and *-fused.onnx, by ONNX Runtime's optimizer for BERT),
*.gguf, lengths.json. What is there already stays.
"""
import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import sentences

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def make_texts(folder):
    lines = sentences.texts()
    tokens = sentences.lengths(lines, folder / "minilm")
    (folder / "sentences.txt").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--llama", type=Path)
    args = parser.parse_args()
    folder = args.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "minilm").exists():
        (folder / "minilm").symlink_to(args.model.resolve())
    make_texts(folder)
    if not (folder / "ids.i32").exists():
        make_bert_base(folder)
    for name in ("minilm", "bert-base"):
        if not (folder / f"{name}-fused.onnx").exists():
            make_onnx(folder, name)
        if args.llama and not (folder / f"{name}.gguf").exists():
            make_gguf(folder, name, args.llama)


if __name__ == "__main__":
    main()
