#!/usr/bin/env python3
"""Writes core/tokenizer/unicode_tables.h: how the `tokenizers` library decomposes, composes and classes characters where
its other normalizers and pre-tokenizers ask.

    pip install tokenizers==0.23.3
    python3 tests/tokenizer/make_tables.py > core/tokenizer/unicode_tables.h

As in make_ranges.py, every scalar value is passed through the library itself.
"""
import base64
import struct

import tokenizers
from tokenizers import normalizers, pre_tokenizers

SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
nfc, nfd, nfkd = (form().normalize_str for form in (normalizers.NFC, normalizers.NFD, normalizers.NFKD))
strip = normalizers.StripAccents().normalize_str
digits = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str


def spans(test):
    found = []
    for c in SCALARS:
        if not test(c):
            continue
        if found and found[-1][1] == c - 1:
            found[-1] = (found[-1][0], c)
        else:
            found.append((c, c))
    return found


def is_hangul(c):
    return 0xAC00 <= c < 0xAC00 + 11172


def pairs():
    """What two characters make one."""
    found = []
    for c in SCALARS:
        parts = nfd(chr(c))
        if is_hangul(c) or parts == chr(c) or nfc(chr(c)) != chr(c):
            continue
        first = nfc(parts[:-1])
        assert len(first) == 1 and nfc(first + parts[-1]) == chr(c), hex(c)
        found.append((ord(first), ord(parts[-1]), c))
    return sorted(found)


def table(name, kind, rows):
    lines, line = [], "   "
    for row in rows:
        cell = " {" + ", ".join(x if isinstance(x, str) else f"0x{x:X}" for x in row) + "},"
        if len(line) + len(cell) > 120:
            lines.append(line)
            line = "   "
        line += cell
    return f"static const struct {kind} {name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


if __name__ == "__main__":
    print(f"""/* How Hugging Face's tokenizers library ({tokenizers.__version__}) takes characters apart and joins them (Unicode 9),
 * and which it calls marks and numbers. Made by tests/tokenizer/make_tables.py; not edited by hand. */
#ifndef WHERRY_TOKENIZER_UNICODE_TABLES_H
#define WHERRY_TOKENIZER_UNICODE_TABLES_H

#include <stdint.h>

struct unicode_span {{
    uint32_t first, last;
}};

struct unicode_pair {{
    uint32_t first, second, joined;
}};

/* clang-format off */
/* Compatibility decomposition changes them. */""")
    print(table("unicode_compatible", "unicode_span", spans(lambda c: not is_hangul(c) and nfkd(chr(c)) != chr(c))))
    print("/* Combining marks of all kinds. */")
    print(table("unicode_marks", "unicode_span", spans(lambda c: strip(chr(c)) == "")))
    print("/* Digits, letters that are numbers, and other numbers. */")
    print(table("unicode_numbers", "unicode_span", spans(lambda c: len(digits("a" + chr(c) + "b")) == 3)))
    print("/* Two characters that canonical composition makes one of, by the first, then the second. */")
    print(table("unicode_pairs", "unicode_pair", pairs()))
    print("/* clang-format on */\n\n#endif")
