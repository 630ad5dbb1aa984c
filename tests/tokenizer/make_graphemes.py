#!/usr/bin/env python3
"""Writes core/tokenizer/grapheme_ranges.h: which characters the `tokenizers` library puts into one grapheme cluster.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/make_graphemes.py > core/tokenizer/grapheme_ranges.h

The library does not say so itself, but its Precompiled normalizer goes by clusters: one of fewer than six bytes is
replaced as a whole. With a map that replaces everything by "Y", a text's Ys are its short clusters, and the characters of
its long ones. Every scalar value is put into contexts where that tells.
"""
import struct

import tokenizers
from tokenizers import normalizers

SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SYLLABLES = range(0xAC00, 0xD7A4)  # by number


def everything():
    """A character map in which whatever begins with any byte becomes "Y"."""
    units = [0] * 512
    units[0] = 256 << 10  # the root's children lie at 256 ^ byte
    leaf = 1  # all lead to the same value
    for byte in range(1, 256):
        place = 256 ^ byte
        units[place] = byte | 1 << 8 | (place ^ leaf) << 10
    units[leaf] = 1 << 31
    return normalizers.Precompiled(struct.pack("<513I", 4 * len(units), *units) + b"Y\0")


normalize = everything().normalize_str


def count(text):
    return len(normalize(text))


def classify(c):
    if c in (0x0D, 0x0A, 0x200D) or c in SYLLABLES or 0x1F1E6 <= c <= 0x1F1FF:
        return None  # by number
    text = chr(c)
    if count("a" + text) == 1:
        if count("\u0915" + text + "\u0915\u0301") == 4:
            return "LINKER"
        conjunct = count("\u0915" + text + "\u094d\u0915\u0301") == 5
        emoji = count("\u00a9" + text + "\u200d\u00a9\u0301") == 5
        assert emoji or not conjunct
        return "EXTEND" if conjunct else "MARK" if emoji else "SPACING"
    if count(text + ("\u0301" if c < 0x80 else "\u0301\u0301")) == 2:
        return "CONTROL"
    if count(text + "a") == 1:
        return "PREPEND"
    if count(text + "\u200d\u00a9\u0301") == 4:
        return "PICTOGRAPH"
    if count(text + "\u094d\u0915\u0301") == 4:
        return "CONSONANT"
    if count(text + "\uac00\u0301") == 3:
        return "LEADING"
    after_leading, after_vowel = (count("\u0600" + before + text) == 3 for before in ("\u1100", "\uac00"))
    if after_vowel:
        return "VOWEL" if after_leading else "TRAILING"
    assert not after_leading
    return None


ranges = []
for code in SCALARS:
    found = classify(code)
    if found and ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == found:
        ranges[-1] = (ranges[-1][0], code, found)
    elif found:
        ranges.append((code, code, found))

print(f"""/* How Hugging Face's tokenizers library ({tokenizers.__version__}) joins characters to grapheme clusters. Made by
 * tests/tokenizer/make_graphemes.py; not edited by hand. */
#ifndef WHERRY_TOKENIZER_GRAPHEME_RANGES_H
#define WHERRY_TOKENIZER_GRAPHEME_RANGES_H

#include <stdint.h>

struct grapheme_range {{
    uint32_t first, last;
    uint8_t class_; /* enum grapheme_class */
}};

/* clang-format off */
static const struct grapheme_range grapheme_ranges[] = {{""")
line = "   "
for first, last, name in ranges:
    cell = f" {{0x{first:X}, 0x{last:X}, GRAPHEME_{name}}},"
    if len(line) + len(cell) > 120:
        print(line)
        line = "   "
    line += cell
print(line)
print("};\n/* clang-format on */\n\n#endif")
