#!/usr/bin/env python3
"""Makes training/*.safetensors, the gradients that the C tests compare with: encoder layers and whole encoders,
differentiated by PyTorch in float64.

Usage: training.py           writes training/ and training.json (what made it) beside this script
       training.py --check   compares the files with what this PyTorch says, writes nothing; exit 1 if they differ

Needs torch (any build, the CPU is enough) and numpy. Nothing of the library is called: the weights of
wherry_model_create_random (core/model/random.c) and dropout's random numbers (core/interface/random.h) are computed here a
second time, and the layer is written out in torch's elementary operations; only differentiation is torch's own.
Before anything is written the Philox generator is compared with published vectors and autograd with finite differences.

A file is one case. Little-endian, F32 unless another type is named; shapes as the library has them.
  config       I32 [12 or 14]: layers, hidden, heads, feed_forward, vocabulary, positions, token_types, activation
               (wherry_activation), pre_layernorm, pooler, pool (wherry_pool; 5, none: the case is a stack of layers
               from x to y, without embeddings, final norm and pooling), normalize; relative_buckets, relative_distance
  scalars      [2]: epsilon of every layernorm, dropout's probability
  seeds        I64 [3]: the model's for wherry_model_create_random, dropout's seed, dropout's step
  offsets      I32 [sequences + 1]
  x            [tokens, hidden]: a stack's input; a whole encoder's are ids and types, I32 [tokens] each
  y            [tokens, hidden] of a stack, else [sequences, hidden]
  dy           like y: the gradient of the loss in respect of y, random
  dx           like x: what follows for x; stacks only
  d.NAME       the same for the parameter that the library names NAME: d.layer.0.w_qkv [3, heads, head_dim, hidden]...
  float32      [1]: how far torch's own float32 result is off: of all results the largest L2 norm of the difference,
               divided by that of the result
"""
import json
import math
import platform
import sys
from pathlib import Path

import numpy as np
import torch

GELU, GELU_TANH, RELU = range(3)  # wherry_activation
MEAN, CLS, MAX, POOLER, NONE = range(1, 6)  # wherry_pool
DROPOUT_SEED, DROPOUT_STEP = 0x1234567890ABCDEF, 7

# Small, uneven, and of one token; of several tiles of queries and keys.
LENGTHS, LONG_LENGTHS = (7, 1, 12, 5), (70, 1, 33)
FAR_LENGTHS = (150, 1, 20)  # farther apart than the last row of a bias by distance begins
SMALL = {"layers": 1, "hidden": 48, "heads": 3, "feed_forward": 96, "vocabulary": 61, "positions": 16, "token_types": 2,
         "activation": GELU, "pre_layernorm": 0, "pooler": 0, "pool": NONE, "normalize": 0}
CASES = {
    #                         config, epsilon, dropout, lengths
    "post-relu-dropout": ({"activation": RELU}, 1e-12, 0.1, LENGTHS),
    "post-gelu": ({"hidden": 64, "heads": 1, "feed_forward": 64, "positions": 128}, 1e-12, 0.0, LONG_LENGTHS),
    "pre-gelu-dropout": ({"pre_layernorm": 1}, 1e-5, 0.1, LENGTHS),
    "pre-relu": ({"pre_layernorm": 1, "activation": RELU}, 1e-5, 0.0, LENGTHS),
    "post-gelu-dropout-4": ({"layers": 4}, 1e-12, 0.1, LENGTHS),
    "model-mean": ({"layers": 2, "pool": MEAN}, 1e-12, 0.1, LENGTHS),
    "model-pooler": ({"layers": 2, "pooler": 1, "pool": POOLER}, 1e-12, 0.1, LENGTHS),
    "model-pre-max-unit": ({"layers": 2, "hidden": 32, "heads": 4, "feed_forward": 40, "pre_layernorm": 1, "pool": MAX,
                            "normalize": 1}, 1e-5, 0.1, LENGTHS),
    "model-relative": ({"layers": 2, "hidden": 32, "heads": 4, "feed_forward": 40, "positions": 150, "pool": MEAN,
                        "relative_buckets": 32, "relative_distance": 128}, 1e-12, 0.1, FAR_LENGTHS),
}

# ---- random numbers ----

# enum weight, core/graph/graph.h: the library's name, the number, the shape of a part, the number of parts
ONCE = (("word", 1, "vi"), ("position", 2, "mi"), ("type", 3, "ti"), ("embed.gamma", 4, "i"), ("embed.beta", 5, "i"))
PER_LAYER = (("w_qkv", 6, "ii"), ("b_qkv", 7, "i"), ("w_out", 8, "ii"), ("b_out", 9, "i"), ("gamma1", 10, "i"),
             ("beta1", 11, "i"), ("w_lin1", 12, "ui"), ("b_lin1", 13, "u"), ("w_lin2", 14, "iu"), ("b_lin2", 15, "i"),
             ("gamma2", 16, "i"), ("beta2", 17, "i"))
FINAL = (("final.gamma", 18, "i"), ("final.beta", 19, "i"))
OF_POOLER = (("w_pooler", 20, "ii"), ("b_pooler", 21, "i"))
BY_DISTANCE = (("relative", 24, "dh"),)
WEIGHT_COUNT = 22  # of those that are numbered by layers


def mix(x):
    """uint64 array -> uint64 array: the finalizer of SplitMix64"""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def random_bits(seed, place, elements):
    one = np.array([seed + 0x9E3779B97F4A7C15, place + 1], dtype=object) % 2**64
    key = mix(one[:1].astype(np.uint64)) ^ mix(one[1:].astype(np.uint64))
    return mix(mix(key) + np.arange(elements, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def standard(bits):
    """-> float32 array, near to normal: the sum of four uniform numbers of 16 bits"""
    parts = [(bits >> np.uint64(shift) & np.uint64(0xFFFF)).astype(np.int64) for shift in (0, 16, 32, 48)]
    return (sum(parts) - 131070).astype(np.float32) * (np.float32(1.7320508) / np.float32(65536))


def make_weights(config, seed):
    """name -> float32 array, in the shape that the library has"""
    sizes = {"i": config["hidden"], "u": config["feed_forward"], "v": config["vocabulary"], "m": config["positions"],
             "t": config["token_types"], "d": config.get("relative_buckets", 0), "h": config["heads"]}
    heads, head_dim = config["heads"], config["hidden"] // config["heads"]
    stack = config["pool"] == NONE
    rules = [] if stack else [(name, -1, *rest) for name, *rest in ONCE]
    rules += [(name, layer, *rest) for layer in range(config["layers"]) for name, *rest in PER_LAYER]
    rules += [(name, -1, *rest) for name, *rest in FINAL if config["pre_layernorm"] and not stack]
    rules += [(name, -1, *rest) for name, *rest in OF_POOLER if config["pool"] == POOLER]
    rules += [(name, -1, *rest) for name, *rest in BY_DISTANCE if sizes["d"]]
    weights = {}
    for name, layer, number, letters in rules:
        shape = [sizes[letter] for letter in letters]
        parts = []
        for part in range(3 if "qkv" in name else 1):
            place = ((layer + 1) * WEIGHT_COUNT + number) * 3 + part
            if number >= WEIGHT_COUNT:
                place = (number << 32) + (layer + 1) * 3 + part
            gamma, matrix = "gamma" in name, len(shape) == 2 and letters[0] not in "vmt"
            deviation = np.float32(1) / np.sqrt(np.float32(shape[-1])) if matrix else np.float32(0.1 if gamma else 0.02)
            offset = deviation * standard(random_bits(seed, place, math.prod(shape)))
            parts.append((np.float32(1 if gamma else 0) + offset).reshape(shape))
        value = np.stack(parts) if len(parts) > 1 else parts[0]
        value = value.reshape({"w_qkv": (3, heads, head_dim, -1), "b_qkv": (3, heads, head_dim),
                               "w_out": (-1, heads, head_dim)}.get(name, value.shape))
        weights[f"layer.{layer}.{name}" if layer >= 0 else name] = value
    return weights


def philox(counter, key):
    """Philox-4x32-7. counter: four uint32 arrays or numbers, key: two numbers -> four uint32 arrays"""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k = [np.uint64(word) for word in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(7):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [p1 >> np.uint64(32) ^ c[1] ^ k[0], p1 & low, p0 >> np.uint64(32) ^ c[3] ^ k[1], p0 & low]
        k = [k[0] + np.uint64(0x9E3779B9) & low, k[1] + np.uint64(0xBB67AE85) & low]
    return [word.astype(np.uint32) for word in c]


class Dropout:
    """The factors of a site's elements. `like` gives their type."""

    SITES = ("attention", "out", "activation", "lin2")

    def __init__(self, probability, seed=DROPOUT_SEED, step=DROPOUT_STEP):
        self.threshold = round(probability * 65536)
        self.key, self.step = (seed & 0xFFFFFFFF, seed >> 32), step

    def factors(self, layer, kind, rows, columns, like):
        """rows: array of row numbers [...] -> tensor [..., columns]"""
        rows = np.asarray(rows)[..., None, None]
        eights = np.arange((columns + 7) // 8)[:, None]
        zero = np.zeros(np.broadcast_shapes(rows.shape, eights.shape), dtype=np.uint64)
        words = philox((zero + rows.astype(np.uint64), zero + eights.astype(np.uint64),
                        zero + np.uint64(4 * layer + self.SITES.index(kind)), zero + np.uint64(self.step)), self.key)
        words = np.concatenate(words, axis=-1)  # [..., eights, 4]
        bits = np.stack([words & 0xFFFF, words >> 16], axis=-1).reshape(*words.shape[:-2], -1)[..., :columns]
        kept = torch.from_numpy(bits >= self.threshold).to(like.dtype)
        return kept * (65536 / (65536 - self.threshold))

    def __call__(self, x, layer, kind, rows=None):
        if self.threshold == 0:
            return x
        rows = np.arange(x.shape[0]) if rows is None else rows
        return x * self.factors(layer, kind, rows, x.shape[-1], x)


# ---- the encoder, in torch ----


# The smallest of each feed-forward network that was run.
PRE_ACTIVATIONS = []


def layernorm(x, gamma, beta, epsilon):
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(dim=-1, keepdim=True) + epsilon) * gamma + beta


def bias_by_distance(table, tokens, distance):
    """[rows, heads] -> [query, head, key]: T5's rule as MPNet has it, in float32 as there"""
    half = table.shape[0] // 2
    exact = half // 2
    offset = torch.arange(tokens)[None, :] - torch.arange(tokens)[:, None]  # of the key from the query
    apart = offset.abs()
    steps = torch.log(apart.clamp(min=1).float() / exact) / math.log(distance / exact) * (half - exact)
    row = torch.where(apart < exact, apart, (exact + steps.long()).clamp(max=half - 1)) + (offset > 0) * half
    return table[row].permute(0, 2, 1)


def attention(x, w, layer, offsets, dropout):
    _, heads, head_dim, hidden = w["w_qkv"].shape
    qkv = torch.einsum("ti,qhpi->qthp", x, w["w_qkv"]) + w["b_qkv"][:, None]
    contexts = []
    for first, end in zip(offsets, offsets[1:]):
        q, k, v = qkv[:, first:end]
        scores = torch.einsum("jhp,khp->jhk", q, k) / math.sqrt(head_dim)
        if "relative" in w:
            scores = scores + bias_by_distance(w["relative"], end - first, w["distance"])
        weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        rows = np.arange(first, end)[:, None] * heads + np.arange(heads)
        contexts.append(torch.einsum("jhk,khp->jhp", dropout(weights, layer, "attention", rows), v))
    out = torch.einsum("thp,ihp->ti", torch.cat(contexts), w["w_out"]) + w["b_out"]
    return dropout(out, layer, "out")


def feed_forward(x, w, layer, activation, dropout):
    u = x @ w["w_lin1"].T + w["b_lin1"]
    PRE_ACTIVATIONS.append(u.detach().abs().min().item())
    u = u * (u > 0) if activation == RELU else 0.5 * u * (1 + torch.erf(u / math.sqrt(2)))
    return dropout(dropout(u, layer, "activation") @ w["w_lin2"].T + w["b_lin2"], layer, "lin2")


def run_layers(x, weights, config, epsilon, offsets, dropout):
    for layer in range(config["layers"]):
        prefix = f"layer.{layer}."
        w = {name[len(prefix):]: value for name, value in weights.items() if name.startswith(prefix)}
        if "relative" in weights:
            w.update(relative=weights["relative"], distance=config["relative_distance"])

        def norm(z, n):
            return layernorm(z, w[f"gamma{n}"], w[f"beta{n}"], epsilon)

        if config["pre_layernorm"]:
            x = x + attention(norm(x, 1), w, layer, offsets, dropout)
            x = x + feed_forward(norm(x, 2), w, layer, config["activation"], dropout)
        else:
            x = norm(x + attention(x, w, layer, offsets, dropout), 1)
            x = norm(x + feed_forward(x, w, layer, config["activation"], dropout), 2)
    return x


def run_model(ids, types, weights, config, epsilon, offsets, dropout):
    positions = np.concatenate([np.arange(end - first) for first, end in zip(offsets, offsets[1:])])
    x = weights["word"][ids] + weights["position"][positions] + weights["type"][types]
    x = layernorm(x, weights["embed.gamma"], weights["embed.beta"], epsilon)
    x = run_layers(x, weights, config, epsilon, offsets, dropout)
    if config["pre_layernorm"]:
        x = layernorm(x, weights["final.gamma"], weights["final.beta"], epsilon)
    sequences = [x[first:end] for first, end in zip(offsets, offsets[1:])]
    if config["pool"] == MEAN:
        y = torch.stack([s.mean(dim=0) for s in sequences])
    elif config["pool"] == MAX:
        y = torch.stack([s.max(dim=0).values for s in sequences])
    else:
        y = torch.stack([s[0] for s in sequences])
    if config["pool"] == POOLER:
        y = torch.tanh(y @ weights["w_pooler"].T + weights["b_pooler"])
    if config["normalize"]:
        y = y / y.norm(dim=-1, keepdim=True)
    return y


# ---- a case ----


def gradients(dtype, weights, given, config, epsilon, dropout):
    """name -> float64 array of y, dx and all d.NAME, computed in `dtype`"""
    leaves = {name: torch.from_numpy(value).to(dtype).requires_grad_() for name, value in weights.items()}
    offsets = given["offsets"].tolist()
    if "x" in given:
        leaves["x"] = torch.from_numpy(given["x"]).to(dtype).requires_grad_()
        y = run_layers(leaves["x"], leaves, config, epsilon, offsets, dropout)
    else:
        y = run_model(given["ids"], given["types"], leaves, config, epsilon, offsets, dropout)
    y.backward(torch.from_numpy(given["dy"]).to(dtype))
    out = {"y": y.detach()}
    out.update({"dx" if name == "x" else "d." + name: leaf.grad for name, leaf in leaves.items()})
    return {name: value.double().numpy() for name, value in out.items()}


def make_input(seed, attempt, tokens, hidden):
    return standard(random_bits(seed, 10**6 + 2 * attempt, tokens * hidden)).reshape(tokens, hidden)


def make_case(name, seed):
    changes, epsilon, probability, lengths = CASES[name]
    config = {**SMALL, **changes}
    epsilon = float(np.float32(epsilon))
    tokens, hidden = sum(lengths), config["hidden"]
    stack = config["pool"] == NONE
    given = {
        "config": np.array(list(config.values()), dtype=np.int32),
        "scalars": np.array([epsilon, probability], dtype=np.float32),
        "seeds": np.array([seed, DROPOUT_SEED, DROPOUT_STEP], dtype=np.int64),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
    }
    if stack:
        given["x"] = make_input(seed, 0, tokens, hidden)
    else:
        bits = random_bits(seed, 10**6, 2 * tokens)
        given["ids"] = (bits[:tokens] % np.uint64(config["vocabulary"] // 2) * np.uint64(2)).astype(np.int32)
        given["types"] = (bits[tokens:] % np.uint64(config["token_types"])).astype(np.int32)
    rows = tokens if stack else len(lengths)
    given["dy"] = standard(random_bits(seed, 10**6 + 1, rows * hidden)).reshape(rows, hidden)
    weights, dropout = make_weights(config, seed), Dropout(probability)
    for attempt in range(1, 10000 if config["activation"] == RELU else 1):
        # A ReLU's derivative jumps at 0. No value may be so near that rounding to 16 bits carries it across.
        PRE_ACTIVATIONS.clear()
        with torch.no_grad():
            run_layers(torch.tensor(given["x"]).double(), {n: torch.tensor(v).double() for n, v in weights.items()},
                       config, epsilon, given["offsets"], dropout)
        if min(PRE_ACTIVATIONS) > 4e-4:
            break
        given["x"] = make_input(seed, attempt, tokens, hidden)
    exact = gradients(torch.float64, weights, given, config, epsilon, dropout)
    single = gradients(torch.float32, weights, given, config, epsilon, dropout)
    off = {key: float(np.linalg.norm(single[key] - exact[key]) / np.linalg.norm(exact[key])) for key in exact}
    worst = max(off, key=off.get)
    case = {**given, **{key: value.astype(np.float32) for key, value in exact.items()}}
    case["float32"] = np.array([off[worst]], dtype=np.float32)
    if not all(np.isfinite(value).all() for value in case.values()) or off[worst] > 1e-4:
        sys.exit(f"{name}: unexpected result: {worst} in float32 is off by {off[worst]}")
    return case, worst


# ---- files: safetensors ----

DTYPES = {"float32": "F32", "int32": "I32", "int64": "I64"}


def write_file(path, arrays):
    header, at = {}, 0
    for name, value in arrays.items():
        end = at + value.nbytes
        header[name] = {"dtype": DTYPES[value.dtype.name], "shape": list(value.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(value.astype(value.dtype.newbyteorder("<")).tobytes() for value in arrays.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def read_file(path):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    types = {short: name for name, short in DTYPES.items()}
    return {name: np.frombuffer(raw[start + t["data_offsets"][0]: start + t["data_offsets"][1]], types[t["dtype"]])
            .reshape(t["shape"]) for name, t in json.loads(raw[8:start]).items()}


# ---- checks that need no file ----


def check_philox():
    """Vectors of Random123's kat_vectors for philox4x32 with 7 rounds."""
    ones, pi = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
    for words, expected in (((0,) * 6, "5f6fb709 0d893f64 4f121f81 4f730a48"),
                            ((ones,) * 6, "5207ddc2 45165e59 4d8ee751 8c52f662"),
                            (pi, "4dfccaba 190a87f0 c47362ba b6b5242a")):
        got = " ".join(f"{int(word):08x}" for word in philox(words[:4], words[4:]))
        if got != expected:
            sys.exit(f"Philox of {words}: {got}, not {expected}")
    factors = Dropout(0.1).factors(3, "lin2", np.arange(1000), 1000, torch.zeros(1, dtype=torch.float64))
    if abs(factors.mean().item() - 1) > 0.002:
        sys.exit(f"dropout's factors have a mean of {factors.mean().item()}, not 1")


def check_gradients():
    """Autograd against finite differences, with every kind of case in small."""
    for changes in ({}, {"activation": RELU, "pre_layernorm": 1}, {"pool": MEAN}, {"pool": POOLER},
                    {"pool": MAX, "pre_layernorm": 1, "normalize": 1},
                    {"relative_buckets": 4, "relative_distance": 2}):
        config = {**SMALL, "hidden": 8, "heads": 2, "feed_forward": 6, "vocabulary": 5, "positions": 3, **changes}
        weights = make_weights(config, 3)
        names = list(weights)
        x = standard(random_bits(4, 0, 5 * 8)).reshape(5, 8)
        leaves = [torch.from_numpy(value).double().requires_grad_() for value in (x, *weights.values())]

        def function(x, *values):
            given = dict(zip(names, values))
            if config["pool"] == NONE:
                return run_layers(x, given, config, 1e-5, [0, 3, 4, 5], Dropout(0.25))
            ids, types = np.array([1, 4, 1, 0, 2]), np.array([0, 1, 1, 0, 1])
            return run_model(ids, types, given, config, 1e-5, [0, 3, 4, 5], Dropout(0.25)) + 0 * x.sum()

        torch.autograd.gradcheck(function, leaves, eps=1e-6, atol=1e-6, rtol=1e-5)


def main():
    here = Path(__file__).resolve().parent
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    check_philox()
    check_gradients()
    folder = here / "training"
    folder.mkdir(exist_ok=True)
    cases, failed = {}, False
    for number, name in enumerate(CASES):
        case, worst = make_case(name, 1000 + number)
        path = folder / (name + ".safetensors")
        if check:
            stored = read_file(path)
            same = stored.keys() == case.keys() and all(stored[key].shape == case[key].shape for key in case)
            off = max(np.abs(stored[key].astype(float) - case[key]).max() / (1 + np.abs(case[key]).max())
                      for key in case if key != "float32") if same else math.inf
            failed = failed or not off <= 1e-6
            print(f"{name}: the file is off by {off:.1e}")
        else:
            write_file(path, case)
            print(f"{name}: {path.stat().st_size} bytes; torch's float32 is off by {case['float32'][0]:.1e} ({worst})")
        cases[name] = {"float32_off_by": float(f"{case['float32'][0]:.2g}"), "most_in": worst}
    if not check:
        made_by = {"dtype": "float64, stored as float32", "cases": cases, "python": platform.python_version(),
                   "numpy": np.__version__, "torch": torch.__version__}
        (here / "training.json").write_text(json.dumps(made_by, indent=2) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
