#!/usr/bin/env python3
"""Writes core/tokenizer/unicode_ranges.h: what the `tokenizers` library takes each Unicode scalar value for.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/make_ranges.py > core/tokenizer/unicode_ranges.h

The library mixes Unicode versions (its categories are those of Unicode 8, its decompositions those of Unicode 9), so
nothing but the library itself can tell. Every scalar value is passed through it here.
"""
import sys
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers


def only(**on):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **on}).normalize_str


clean, strip, nfd = only(clean_text=True), only(strip_accents=True), normalizers.NFD().normalize_str
pieces = pre_tokenizers.BertPreTokenizer().pre_tokenize_str



def moves(a, b):
    return nfd("a" + a + b) != "a" + a + b


# One character of each combining class that the library knows, to find the class of another by whether the two change
# places.
probes = {}
for code in range(0x300, 0x3100):
    value, c = unicodedata.combining(chr(code)), chr(code)
    if value and value not in probes and nfd(c) == c and (value == 240 or moves("\u0345", c)):
        probes[value] = c


def combining_class(c):
    """The library's class of c (0: it is a starter)."""
    value = unicodedata.combining(c)
    before = {v for v, p in probes.items() if moves(c, p)}
    after = {v for v, p in probes.items() if moves(p, c)}
    if not before and not after:
        return 0
    if before != {v for v in probes if v < value} or after != {v for v in probes if v > value}:
        sys.exit(f"U+{ord(c):04X}: the class is not that of Python's Unicode {unicodedata.unidata_version}")
    return value


def classify(code):
    c = chr(code)
    if clean("a" + c + "b") == "ab":
        return "REMOVED", 0
    if [p for p, _ in pieces("a" + c + "b")] == ["a", c, "b"]:
        return "PUNCTUATION", 0
    if nfd(c) != c:
        return None
    order = combining_class(c) if moves(c, probes[1]) or moves("\u0345", c) else 0
    if strip("a" + c + "b") == "ab":
        return ("MARK", order) if order else ("STARTER_MARK", 0)
    return ("COMBINING", order) if order else None


ranges = []
for code in range(0x110000):
    if 0xD800 <= code < 0xE000:
        continue
    found = classify(code)
    if not found:
        continue
    if ranges and ranges[-1][1] == code - 1 and ranges[-1][2:] == found:
        ranges[-1] = (ranges[-1][0], code, *found)
    else:
        ranges.append((code, code, *found))

print(f"""/* What Hugging Face's tokenizers library ({tokenizers.__version__}) takes characters for: its categories are those of Unicode 8, its
 * combining classes those of Unicode 9. Made by tests/tokenizer/make_ranges.py; not edited by hand. */
#ifndef WHERRY_TOKENIZER_UNICODE_RANGES_H
#define WHERRY_TOKENIZER_UNICODE_RANGES_H

#include "tokenizer/unicode.h"

struct unicode_range {{
    uint32_t first, last;
    uint8_t class_; /* enum unicode_class */
    uint8_t order;  /* combining class of UNICODE_MARK and UNICODE_COMBINING */
}};

/* clang-format off */
static const struct unicode_range unicode_ranges[] = {{""")
line = "   "
for first, last, name, order in ranges:
    cell = f" {{0x{first:X}, 0x{last:X}, UNICODE_{name}, {order}}},"
    if len(line) + len(cell) > 120:
        print(line)
        line = "   "
    line += cell
print(line)
print("};\n/* clang-format on */\n\n#endif")
