"""Reads what `wherry embed` wrote, in any of its formats, and compares.

usage: check_output.py shape FILE ROWS COLUMNS   FILE has this many embeddings of this many finite numbers
       check_output.py same FILE FILE...         all files hold the same float32 values, bit for bit
"""

import ast
import json
import math
import struct
import sys


def as_float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def read_npy(data):
    if data[6:8] != b"\x01\x00":
        raise ValueError(".npy version is not 1.0")
    (length,) = struct.unpack("<H", data[8:10])
    if (10 + length) % 64 or data[9 + length : 10 + length] != b"\n":
        raise ValueError(".npy header is not aligned or not ended")
    header = ast.literal_eval(data[10 : 10 + length].decode("ascii"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        raise ValueError(f".npy header says {header}")
    rows, columns = header["shape"]
    values = struct.unpack(f"<{rows * columns}f", data[10 + length :])
    return [list(values[r * columns : (r + 1) * columns]) for r in range(rows)]


def read_embeddings(path):
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(b"\x93NUMPY"):
        return read_npy(data)
    lines = data.decode("utf-8").splitlines()
    if data.startswith(b"{"):
        objects = [json.loads(line) for line in lines]
        if [o["index"] for o in objects] != list(range(len(objects))):
            raise ValueError("JSONL indices are not 0, 1, 2, ...")
        return [[as_float32(v) for v in o["embedding"]] for o in objects]
    return [[as_float32(float(v)) for v in line.split(" ")] for line in lines]


def main():
    mode, paths = sys.argv[1], sys.argv[2:]
    if mode == "shape":
        rows = read_embeddings(paths[0])
        if len(rows) != int(paths[1]):
            sys.exit(f"{len(rows)} embeddings, {paths[1]} expected")
        for row in rows:
            if len(row) != int(paths[2]) or not all(math.isfinite(v) for v in row):
                sys.exit(f"an embedding of {len(row)} numbers, {paths[2]} finite ones expected")
        return
    first = read_embeddings(paths[0])
    for path in paths[1:]:
        if read_embeddings(path) != first:
            sys.exit(f"{path} differs from {paths[0]}")


main()
