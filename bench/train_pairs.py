"""Makes pairs to train an embedding model with of this project's own pages: a heading, and the first paragraph below it.

usage: train_pairs.py FOLDER    writes train.jsonl, and dev.jsonl with a fifth of the pairs
"""
import json
import pathlib
import random
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_TEXT = ("|", "```", "*", "-", "[", "    ", "!")


def pairs_of(text):
    """Yields a page's headings, with its title before them, and paragraphs of more than 60 characters."""
    title = heading = None
    paragraph = []
    for line in text.split("\n") + [""]:
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
            if line.startswith("# "):
                title = heading
        elif heading and line and not line.startswith(NO_TEXT):
            paragraph.append(line)
        elif not line and paragraph:
            text = re.sub(r"\(.*?\)|[`\[\]]", "", " ".join(paragraph))
            paragraph = []
            if heading and len(text) > 60:
                yield (f"{title}: {heading}" if title != heading else heading), text[:400]
                heading = None


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {}
    for page in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]:
        for query, answer in pairs_of(page.read_text(encoding="utf-8")):
            found.setdefault(query, answer)
    pairs = [{"query": query, "answer": answer} for query, answer in found.items()]
    random.Random(3).shuffle(pairs)
    held_out = len(pairs) // 5
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("dev", pairs[:held_out]), ("train", pairs[held_out:])):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(pair) + "\n" for pair in part)
    print(f"{len(pairs)} pairs, of which {held_out} are held out")


if __name__ == "__main__":
    main()
