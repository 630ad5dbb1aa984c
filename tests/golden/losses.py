"""Writes losses.txt: losses of a few rows and their gradients, as sentence-transformers and torch compute them in 64-bit
floats. tests/test_loss.c compares every device with them.

usage: losses.py > losses.txt     (needs torch and sentence-transformers 6 or newer)

A case is: its name; kind, columns, examples, length; symmetric, scale, positive weight; dimensions, each with its weight;
class weights, labels, values, each with their number before; the rows; the loss; its gradient by the rows.
"""

import sys

import torch
from sentence_transformers.sentence_transformer import losses
from torch.nn import functional

KINDS = ["contrastive", "cosent", "cosine", "vectors", "margin", "classes", "binary", "regression"]
IGNORED = -100


class Nothing(torch.nn.Module):
    """The losses want a model, and are given what it would make."""

    def __init__(self):
        super().__init__()
        self.model_card_data = None


def of_vectors(kind, columns, case):
    """The loss of an example's columns, rows of each being [examples][width]."""
    model = Nothing()
    values = case["values"]
    if kind == "contrastive":
        options = {"scale": case["scale"]}
        if case["symmetric"]:
            options.update(directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction")
        return losses.MultipleNegativesRankingLoss(model, **options).compute_loss_from_embeddings(columns, None)
    if kind == "cosent":
        return losses.CoSENTLoss(model, scale=case["scale"]).compute_loss_from_embeddings(columns, values)
    if kind == "cosine":
        # Not the class itself: it rounds labels to 32 bits.
        return functional.mse_loss(torch.cosine_similarity(*columns), values)
    if kind == "margin":
        return losses.MarginMSELoss(model).compute_loss_from_embeddings(columns, values)
    return functional.mse_loss(columns[0], values.view(columns[0].shape))


def cut(rows, width):
    return functional.normalize(rows[..., :width], dim=-1)


def loss_of(kind, rows, case):
    columns = rows.view(case["columns"], case["examples"], -1)
    if kind == "classes":
        weights = case["class_weights"] if len(case["class_weights"]) else None
        return functional.cross_entropy(rows, case["labels"], weight=weights, ignore_index=IGNORED)
    if kind == "binary":
        weight = torch.tensor(case["positive_weight"], dtype=torch.float64)
        return functional.binary_cross_entropy_with_logits(rows, case["values"].view(rows.shape), pos_weight=weight)
    if not case["dimensions"]:
        return of_vectors(kind, list(columns), case)
    total = 0
    for width, weight in case["dimensions"]:
        values = case["values"]
        if kind == "vectors":
            values = cut(values.view(case["examples"], -1), width).reshape(-1)
        total = total + weight * of_vectors(kind, list(cut(columns, width)), dict(case, values=values))
    return total


def numbers(values):
    return " ".join("%.9g" % v for v in values)


def write(name, kind, examples, length, rows=None, **options):
    case = dict(columns={"contrastive": 2, "cosent": 2, "cosine": 2, "margin": 3}.get(kind, 1), examples=examples,
                symmetric=0, scale=20.0, positive_weight=1.0, dimensions=[], class_weights=[], labels=[], values=[])
    case.update(options)
    if rows is None:
        rows = torch.randn(case["columns"] * examples, length)
    rows = rows.float().double().requires_grad_(True)
    for key in ("class_weights", "values"):
        case[key] = torch.as_tensor(case[key], dtype=torch.float32).double()
    case["labels"] = torch.as_tensor(case["labels"], dtype=torch.long)
    loss = loss_of(kind, rows, case)
    loss.backward()
    print(name)
    print(KINDS.index(kind), case["columns"], examples, length)
    print(case["symmetric"], "%.9g" % case["scale"], "%.9g" % case["positive_weight"])
    print(len(case["dimensions"]), " ".join("%d %.9g" % pair for pair in case["dimensions"]))
    for key in ("class_weights", "labels", "values"):
        print(len(case[key]), numbers(case[key].tolist()))
    for row in rows.detach().tolist():
        print(numbers(row))
    print("%.15g" % loss.item())
    for row in rows.grad.tolist():
        print(" ".join("%.12g" % v for v in row))


def main():
    torch.manual_seed(23)
    widths = [(8, 1.0), (5, 0.5), (4, 0.25)]
    scores = [0.9, 0.1, 0.5, 0.5, 0.0, 0.9]  # with ties
    near = torch.randn(12, 8)  # pairs that belong together, so that the loss is small
    near[6:] = near[:6] + 0.3 * torch.randn(6, 8)
    same = torch.randn(12, 8)
    same[1], same[7] = same[0], same[6]  # an example that is there twice
    write("contrastive, pairs", "contrastive", 5, 8)
    write("contrastive, near", "contrastive", 6, 8, rows=near)
    write("contrastive, twice the same", "contrastive", 6, 8, rows=same)
    write("contrastive, negatives", "contrastive", 3, 7, columns=4)
    write("contrastive, one example", "contrastive", 1, 8, columns=3)
    write("contrastive, scale 1", "contrastive", 5, 8, scale=1.0)
    write("contrastive, symmetric", "contrastive", 5, 8, symmetric=1)
    write("contrastive, symmetric, negatives", "contrastive", 4, 8, columns=3, symmetric=1)
    write("contrastive, dimensions", "contrastive", 4, 8, columns=3, dimensions=widths)
    write("contrastive, symmetric, dimensions", "contrastive", 4, 8, symmetric=1, dimensions=[(3, 1.0), (8, 2.0)])
    write("cosent", "cosent", 6, 8, values=scores)
    write("cosent, all the same", "cosent", 3, 8, values=[1.0, 1.0, 1.0])
    write("cosent, dimensions", "cosent", 6, 8, values=scores, dimensions=widths)
    write("cosine", "cosine", 6, 8, values=scores)
    write("cosine, dimensions", "cosine", 6, 8, values=scores, dimensions=widths)
    write("vectors", "vectors", 4, 7, values=torch.randn(28))
    write("vectors, dimensions", "vectors", 4, 8, values=torch.randn(32), dimensions=widths)
    write("margin", "margin", 5, 8, values=torch.randn(5))
    write("margin, dimensions", "margin", 4, 8, values=torch.randn(4), dimensions=widths)
    write("classes", "classes", 6, 5, labels=[0, 4, 2, 2, 1, 3])
    write("classes, weights, some ignored", "classes", 6, 3, labels=[0, IGNORED, 2, 2, 1, IGNORED],
          class_weights=[0.5, 2.0, 0.0])
    write("classes, far apart", "classes", 3, 4, rows=torch.randn(3, 4) * 60, labels=[0, 1, 2])
    write("binary", "binary", 5, 1, values=[1, 0, 0, 1, 0.25])
    write("binary, positive weight", "binary", 4, 3, values=[1, 0, 0.5, 0, 0, 1, 1, 1, 0, 0, 1, 0], positive_weight=2.5)
    write("binary, far apart", "binary", 6, 1, rows=torch.tensor([[-90.0], [90], [-12], [12], [-30], [30]]),
          values=[0, 1, 1, 0, 0, 0])
    write("regression", "regression", 6, 1, values=scores)


if __name__ == "__main__":
    sys.exit(main())
