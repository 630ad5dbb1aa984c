#!/usr/bin/env python3
"""Writes core/tokenizer/letters_ranges.h: letters, numbers and white space as the regular expressions of Hugging Face's
`tokenizers` know them (Oniguruma), and what those know that Unicode 14, which is PCRE2's in Debian 12, does not.

    pip install tokenizers==0.23.3          with a Python whose unicodedata is Unicode 14 (3.11)
    python3 tests/tokenizer/make_letters.py core/tokenizer/letters_ranges.h
"""
import sys
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
TEXT = "".join(map(chr, SCALARS))
BLOCK = 256


def members(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {ord(c) for piece, _ in split.pre_tokenize_str(TEXT) for c in piece}


def ranges(found):
    out = []
    for c in sorted(found):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def rows(items, width=118):
    line = "   "
    for item in items:
        if len(line) + len(item) + 1 > width:
            yield line
            line = "   "
        line += " " + item
    yield line


def main(path):
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    known = {category: members(r"\p{%s}" % category) for category in CATEGORIES}
    old = {category: set() for category in CATEGORIES + ["Cn", "Cs"]}
    for c in SCALARS:
        old[unicodedata.category(chr(c))].add(c)
    recent = []
    for category in CATEGORIES:
        assert old[category] - known[category] == ({0x1171E} if category == "Mn" else set()), category  # which became Mc
        recent += [(a, b, category) for a, b in ranges(known[category] - old[category])]
    letters = members(r"\p{L}")
    numbers = members(r"\p{N}")
    spaces = members(r"\s")
    kind = {**dict.fromkeys(letters, 1), **dict.fromkeys(numbers, 2), **dict.fromkeys(spaces, 3)}
    blocks, index = [], []
    for first in range(0, max(kind) + 1, BLOCK):
        bits = tuple(sum(kind.get(first + 32 * w + i, 0) << 2 * i for i in range(32)) for w in range(BLOCK // 32))
        if bits not in blocks:
            blocks.append(bits)
        index.append(blocks.index(bits))
    assert len(blocks) <= 256
    with open(path, "w", encoding="ascii", newline="\n") as f:
        f.write("""/* Made by tests/tokenizer/make_letters.py: edit that. */
#ifndef WHERRY_TOKENIZER_LETTERS_RANGES_H
#define WHERRY_TOKENIZER_LETTERS_RANGES_H

#include <stdint.h>

/* clang-format off */
/* Of each 256 characters, which block they have; those above the last are all LETTER_NONE. */
static const uint8_t letter_blocks[] = {
""")
        f.write("\n".join(rows(f"{i}," for i in index)) + "\n};\n\n")
        f.write("/* Two bits a character: enum letter. */\nstatic const uint64_t letter_bits[][8] = {\n")
        for bits in blocks:
            f.write("    {" + ",".join(f"{w:#x}" if w > 9 else str(w) for w in bits) + "},\n")
        f.write("};\n\n/* Characters that came with Unicode 15, 15.1 and 16, by general category. */\n"
                "static const struct recent_range {\n    uint32_t first, last;\n    char category[3];\n} recent_ranges[] = {\n")
        f.write("\n".join(rows(f'{{{a:#x}, {b:#x}, "{c}"}},' for a, b, c in sorted(recent))) + "\n};\n/* clang-format on */\n\n#endif\n")
    print(len(blocks), "blocks", len(index), "index", len(recent), "recent ranges")


if __name__ == "__main__":
    main(sys.argv[1])
