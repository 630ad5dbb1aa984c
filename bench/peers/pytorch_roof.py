#!/usr/bin/env python3
"""What PyTorch reaches of this machine's CUDA device where memory or arithmetic alone counts: beside `wherry roof`.

Usage: pytorch_roof.py [--out FILE] [--repeats N] [--only PIECE,...]

copy   y = x, f16, 2 GiB each: read and written bytes are both counted
read   the largest element of 2 GiB of f32
triad  a = b + 3 c, f32, 1 GiB each
matrix products of 8192 x 8192 x 8192 in f16, sums in f32, by cuBLAS
f32    the same in f32, without TF32

Random data; medians (5th and 95th percentile beside them) of device time after half a second of the same work. Prints one
line each; FILE gets JSON: {"run": {...}, "rows": [{"what", "ms", "amount", "per_second", "unit"}]}.
"""
import argparse

import torch

import timing

GIB, SIDE = 1 << 30, 8192


def copy():
    x = torch.empty(GIB, dtype=torch.half, device="cuda").normal_()
    y = torch.empty_like(x)
    return lambda: y.copy_(x), 4 * GIB, "B/s"


def read():
    x = torch.empty(GIB // 2, device="cuda").normal_()
    return lambda: torch.amax(x), 2 * GIB, "B/s"


def triad():
    b, c = (torch.empty(GIB // 4, device="cuda").normal_() for _ in range(2))
    a = torch.empty_like(b)
    return lambda: torch.add(b, c, alpha=3.0, out=a), 3 * GIB, "B/s"


def product(dtype):
    a, b = (torch.empty(SIDE, SIDE, dtype=dtype, device="cuda").normal_() for _ in range(2))
    out = torch.empty_like(a)
    return lambda: torch.mm(a, b, out=out), 2 * SIDE**3, "flop/s"


PIECES = {
    "copy": copy,
    "read": read,
    "triad": triad,
    "matrix": lambda: product(torch.half),
    "f32": lambda: product(torch.float32),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--only", default=",".join(PIECES), help="of " + ", ".join(PIECES))
    args = parser.parse_args()
    unknown = set(args.only.split(",")) - set(PIECES)
    if unknown:
        parser.error(f"--only: there is no {', '.join(sorted(unknown))}")
    result = {"run": timing.run_facts(), "rows": []}
    torch.backends.cuda.matmul.allow_tf32 = False
    for what, make in PIECES.items():
        if what not in args.only.split(","):
            continue
        row = {"what": what, "repeats": args.repeats}
        function, amount, unit = make()
        (times,) = timing.device_times([function], args.repeats)
        timing.record(row, "ms", times)
        row.update(amount=amount, unit=unit, per_second=amount / row["ms"] * 1e3)
        result["rows"].append(row)
        print(f"{what:8} {row['per_second'] / 1e12:9.3f} T{unit}", flush=True)
        del function
        torch.cuda.empty_cache()
    result["run"]["driver_and_clocks"] = timing.driver()
    timing.write_json(args.out, result)


main()
