"""Write vectors.json, the test vectors for calibration errors, from `slow.py` alone.

Run ``python tests/reference/make_vectors.py`` to write the file again. docs/test-vectors.md says
what the fields mean.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import slow

FILE = Path(__file__).with_name("vectors.json")
HEADER = {
    "format": "calibration-test-vectors",
    "version": 1,
    "definition": "docs/test-vectors.md",
    "tolerance": 1e-12,
}


def float32(value):
    """The float64 value of the float32 nearest to `value`."""
    return struct.unpack("<f", struct.pack("<f", value))[0]


def below(value):
    return math.nextafter(value, 0.0)


def above(value):
    return math.nextafter(value, 1.0)


def equal_width(n_bins):
    words = f"{n_bins} bins of equal width, edges i / {n_bins}"
    return {"rule": "equal-width", "n_bins": n_bins, "words": words}


def equal_mass(n_bins):
    words = f"{n_bins} bins of equal mass, fewer where ties demand it"
    return {"rule": "equal-mass", "n_bins": n_bins, "words": words}


def given(edges):
    return {"rule": "given", "n_bins": len(edges) - 1, "words": "these edges", "edges": edges}


DISTINCT = {"rule": "distinct", "n_bins": None, "words": "one bin for each distinct prediction"}

TEN_ROWS = {
    "y_true": [0, 0, 1, 0, 0, 1, 1, 0, 1, 1],
    "y_prob": [0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9],
}
THREE_CLASSES = {
    "y_true": [0, 2, 0, 2, 2, 0, 2, 0],
    "y_prob": [
        [0.7, 0.2, 0.1],
        [0.1, 0.3, 0.6],
        [0.5, 0.25, 0.25],
        [0.4, 0.4, 0.2],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.2, 0.3, 0.5],
        [0.2, 0.6, 0.2],
    ],
}

CASES = [
    {
        "name": "ten-rows-equal-width",
        "probes": "the plain case; .2, .4, .6 and .8 lie on edges and belong to the bin below",
        "kind": "binary",
        **TEN_ROWS,
        "bins": equal_width(5),
    },
    {
        "name": "ten-rows-equal-mass",
        "probes": "the plain case; the debiased square is negative and stays so",
        "kind": "binary",
        **TEN_ROWS,
        "bins": equal_mass(2),
    },
    {
        "name": "zero-and-one",
        "probes": "0.0 is in the first bin and 1.0 in the last; neither is lost, neither overflows",
        "kind": "binary",
        "y_true": [0, 0, 1, 1, 1, 0],
        "y_prob": [0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        "bins": equal_width(10),
    },
    {
        "name": "every-tenth-on-its-edge",
        "probes": "every tie on an edge goes down; edges summed up from steps of .1 fall short of "
        "i / 10 from .8 on, and fail",
        "kind": "binary",
        "y_true": [0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1],
        "y_prob": [i / 10 for i in range(11)],
        "bins": equal_width(10),
    },
    {
        "name": "edges-of-fifteen",
        "probes": "edges i / 15 of the most usual number of bins, each hit exactly",
        "kind": "binary",
        "y_true": [int(i % 3 == 0) for i in range(16)],
        "y_prob": [i / 15 for i in range(16)],
        "bins": equal_width(15),
    },
    {
        "name": "next-floats",
        "probes": "the next float64 below an edge, the edge, and the next above it; edges computed "
        "as i * .1 lie one float above .3 and .7, and fail",
        "kind": "binary",
        "y_true": [1, 0, 1, 0, 1, 1, 0, 0, 1],
        "y_prob": [f(edge) for edge in (0.3, 0.5, 0.7) for f in (below, float, above)],
        "bins": equal_width(10),
    },
    {
        "name": "float32-edges",
        "probes": "predictions are the float32 values of tenths; compared as float64, .1, .2, .3, "
        ".4, .6 and .8 lie above the edge and .7 and .9 below it",
        "kind": "binary",
        "dtype": "float32",
        "y_true": [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1],
        "y_prob": [float32(i / 10) for i in range(11)],
        "bins": equal_width(10),
    },
    {
        "name": "empty-bins",
        "probes": "empty bins count for nothing: no NaN, no share of the mean, no maximum",
        "kind": "binary",
        "y_true": [0, 1, 0, 1, 1],
        "y_prob": [0.31, 0.33, 0.38, 0.91, 0.97],
        "bins": equal_width(10),
    },
    {
        "name": "one-row-bins",
        "probes": "a row alone in its bin adds 0 to the debiased square, and its plain gap to the "
        "debiased l1",
        "kind": "binary",
        "y_true": [1, 0, 1, 0, 1],
        "y_prob": [0.15, 0.35, 0.55, 0.75, 0.78],
        "bins": equal_width(10),
    },
    {
        "name": "uneven-edges",
        "probes": "edges that no rule made, among them a bin two floats wide",
        "kind": "binary",
        "y_true": [0, 1, 1, 0, 1, 1],
        "y_prob": [0.2, 0.25, above(0.25), above(above(0.25)), above(above(above(0.25))), 0.9],
        "bins": given([0.0, 0.25, above(above(0.25)), 0.9, 1.0]),
    },
    {
        "name": "all-ties",
        "probes": "one distinct prediction leaves one bin, however many are asked for",
        "kind": "binary",
        "y_true": [1, 0, 0, 1, 0, 0],
        "y_prob": [0.4] * 6,
        "bins": equal_mass(4),
    },
    {
        "name": "ties-leave-fewer-bins",
        "probes": "equal predictions stay together, so four bins become three",
        "kind": "binary",
        "y_true": [0, 0, 1, 0, 1, 1, 0, 1],
        "y_prob": [0.1, 0.6, 0.6, 0.6, 0.6, 0.6, 0.7, 0.9],
        "bins": equal_mass(4),
    },
    {
        "name": "equal-mass-tie-between-cuts",
        "probes": "half of three rows is as near to one row as to two: the lower cut is taken",
        "kind": "binary",
        "y_true": [0, 1, 1],
        "y_prob": [0.25, 0.5, 0.875],
        "bins": equal_mass(2),
    },
    {
        "name": "equal-mass-neighbouring-floats",
        "probes": "between neighbouring floats there is no half-way: the edge is the lower one",
        "kind": "binary",
        "y_true": [0, 1, 1, 0],
        "y_prob": [0.7, 0.7, above(0.7), above(0.7)],
        "bins": equal_mass(2),
    },
    {
        "name": "single-row",
        "probes": "one row: nothing to debias, and no division by zero",
        "kind": "binary",
        "y_true": [1],
        "y_prob": [0.3],
        "bins": equal_width(5),
    },
    {
        "name": "distinct-values",
        "probes": "a model of three outputs, each its own bin: the error itself, no lower bound",
        "kind": "binary",
        "y_true": [1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0],
        "y_prob": [0.2] * 5 + [0.5] * 4 + [0.9] * 6,
        "bins": DISTINCT,
    },
    {
        "name": "one-label-only",
        "probes": "no event at all: the variance of the labels is 0 in every bin",
        "kind": "binary",
        "y_true": [0, 0, 0, 0],
        "y_prob": [0.1, 0.2, 0.6, 0.7],
        "bins": equal_width(2),
    },
    {
        "name": "top-label-ties",
        "probes": "rows 3 and 7 tie for the top: the lowest index is the predicted class",
        "kind": "top-label",
        "y_true": [0, 1, 2, 0, 1, 2, 0, 2],
        "y_prob": [
            [0.7, 0.2, 0.1],
            [0.3, 0.6, 0.1],
            [0.1, 0.3, 0.6],
            [0.4, 0.4, 0.2],
            [0.5, 0.25, 0.25],
            [0.0, 0.0, 1.0],
            [0.9, 0.05, 0.05],
            [0.25, 0.375, 0.375],
        ],
        "bins": equal_width(5),
    },
    {
        "name": "top-label-three-classes",
        "probes": "class 1 never happens, and row 3 ties for the top",
        "kind": "top-label",
        **THREE_CLASSES,
        "bins": equal_mass(3),
    },
    {
        "name": "marginal-absent-class",
        "probes": "class 1 never happens and still counts as one of three; classes are averaged "
        "before anything is clipped",
        "kind": "marginal",
        **THREE_CLASSES,
        "bins": equal_width(4),
    },
    {
        "name": "marginal-equal-mass",
        "probes": "every class has edges of its own, and not the same number of bins",
        "kind": "marginal",
        **THREE_CLASSES,
        "bins": equal_mass(8),
    },
]


def edges_of(bins, values):
    match bins["rule"]:
        case "equal-width":
            return slow.equal_width_edges(bins["n_bins"])
        case "equal-mass":
            return slow.equal_mass_edges(values, bins["n_bins"])
        case "distinct":
            return slow.distinct_edges(values)
    return bins["edges"]


def solved(case):
    """Return the case with the edges of every group and what is to be expected."""
    pairs = slow.pairs_of(case["y_true"], case["y_prob"], case["kind"])
    edges = [edges_of(case["bins"], [p for _, p in group]) for group in pairs]
    groups = [slow.fill(*each) for each in zip(pairs, edges, strict=True)]
    errors = {
        "l1": slow.plugin_error(groups, 1),
        "l2": slow.plugin_error(groups, 2),
        "max": slow.plugin_error(groups, math.inf),
        "debiased_l2_squared": slow.debiased_square(groups),
        "debiased_l1": slow.debiased_l1(groups),
    }
    return {
        **{key: case[key] for key in ("name", "probes", "kind")},
        "dtype": case.get("dtype", "float64"),
        "y_true": case["y_true"],
        "y_prob": case["y_prob"],
        "bins": {**case["bins"], "edges": edges},
        "expected": {
            "count": [[len(rows) for rows in bins] for bins in groups],
            "sum_y": [[slow.sum_y(rows) for rows in bins] for bins in groups],
            "sum_p": [[float(slow.sum_p(rows)) for rows in bins] for bins in groups],
            # The last digit of exp, erf and pow is not the same on every machine.
            **{name: float(f"{value:.14g}") for name, value in errors.items()},
        },
    }


def as_text(value, indent=""):
    """JSON with one key a line and lists of numbers kept on theirs."""
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"{deeper}{json.dumps(k)}: {as_text(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        lines = [deeper + as_text(item, deeper) for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def document():
    return as_text({**HEADER, "cases": [solved(case) for case in CASES]}) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
