"""Random tensors counted on a device and on the host: `python tests/fuzz/tensors.py --cases 300`.

Any type, layout and kind, few and many classes, wrong values: tables and refusals must agree.
`scripts/sanitize-gpu` runs a few under the tools that watch kernels.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import torch

import calibrant
from calibrant.exceptions import CalibrantError

TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
KINDS = ("binary", "top-label", "marginal", "multi-label")


def differences(seed: int, device: str, most_values: int) -> str:
    """Return how the table of a random problem on a device differs from the host's, "" if not."""
    rng = np.random.default_rng(seed)
    kind, are_logits = str(rng.choice(KINDS)), bool(rng.random() < 0.4)
    k = 1 if kind == "binary" else int(rng.choice([3, 4, 9, 31, 33, 100, 257, 1000, 2049, 5000]))
    n = int(rng.choice([1, 2, 7, 33, 100, 1000, 4097, 20_000, 66_000]))
    n = min(n, max(1, most_values // k))
    look, x = predictions(rng, kind, (n,) if kind == "binary" else (n, k), are_logits)
    x = x.to(TYPES[rng.integers(len(TYPES))])
    y = labels(rng, kind, n, k)
    if rng.random() < 0.15:
        x, y = with_a_wrong_value(rng, x, y)
    n_bins = min(int(rng.choice([1, 2, 15, 40, 100, 1000])), 40 if k > 300 else 1000)
    rule = str(rng.choice(["mass", "width"]))
    asked = {
        "kind": kind,
        "bins": f"{rule}:{n_bins}",
        "input": "logits" if are_logits else "probabilities",
    }
    there = answer(torch.tensor(y).to(device), laid_out(rng, x.to(device)), asked)
    here = answer(y, x.to(torch.float64).numpy(), asked)
    found = compared(there, here, are_logits, rule, look)
    return found and f"{seed}: {found}; {asked}, {tuple(x.shape)} of {x.dtype}, {look}"


def predictions(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], are_logits: bool
) -> tuple[str, Any]:
    look = str(rng.choice(["plain", "few", "one", "tiny", "ends", "skewed"]))
    u = rng.random(shape)
    u = {
        "plain": u,
        "few": np.round(u, 1),
        "one": np.full(shape, u.flat[0]),
        "tiny": u * 10.0 ** -rng.integers(0, 44, shape),
        "ends": (u > 0.5).astype(float),
        "skewed": u**8,
    }[look]
    if are_logits:
        u = (u - 0.5) * rng.choice([1, 8, 60, 1000])
    elif kind in ("top-label", "marginal") and look in ("plain", "skewed"):
        u = u / u.sum(-1, keepdims=True)
    return look, torch.tensor(u)


def labels(rng: np.random.Generator, kind: str, n: int, k: int) -> Any:
    if kind in ("binary", "multi-label"):
        y = rng.integers(0, 2, n if kind == "binary" else (n, k))
        return y.astype([np.int64, np.int32, np.uint8, np.bool_][rng.integers(4)])
    return rng.integers(0, k, n).astype([np.int64, np.int32][rng.integers(2)])


def with_a_wrong_value(rng: np.random.Generator, x: Any, y: Any) -> tuple[Any, Any]:
    what, row = rng.choice(["missing", "infinite", "unknown label"]), int(rng.integers(len(y)))
    if what == "unknown label":
        y = y.astype(np.int64)
        y[(row,) + (0,) * (y.ndim - 1)] = 99_999
    else:
        column = () if x.ndim == 1 else (int(rng.integers(x.shape[1])),)
        x[(row, *column)] = float("nan" if what == "missing" else "inf")
    return x, y


def laid_out(rng: np.random.Generator, x: Any) -> Any:
    """Return the same numbers elsewhere in memory: at an odd address, in columns, with gaps."""
    layout = rng.choice(["rows", "odd", "columns", "gaps"])
    if layout == "odd":
        memory = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)
        memory[1:] = x.reshape(-1)
        return memory[1:].view(x.shape)
    if layout == "columns" and x.ndim == 2:
        return x.T.contiguous().T
    if layout == "gaps":
        memory = x.repeat_interleave(2, dim=0)
        return memory[::2]
    return x


def answer(y: Any, x: Any, asked: dict[str, str]) -> Any:
    try:
        return calibrant.tabulate(y, x, **asked)
    except CalibrantError as error:
        return error


def compared(there: Any, here: Any, are_logits: bool, rule: str, look: str) -> str:
    if isinstance(there, Exception) or isinstance(here, Exception):
        same = type(there) is type(here) and str(there) == str(here)
        return "" if same else f"{there!r:.150} and {here!r:.150}"
    if are_logits:  # a confidence may be one rounding away, and lie on the other side of an edge
        if there.count.sum() != here.count.sum():
            return "rows"
        many_ties = look in ("few", "one", "ends")
        allowed = 2 + 1e-3 * here.n * (len(here.count) if many_ties else 1)
        apart = np.abs(there.count - here.count).sum() if rule == "width" else 0.0
        return "" if apart <= allowed else f"counts, by {apart:g}"
    if any(a != b for a, b in zip(there.bins, here.bins, strict=True)):
        return "edges"
    if not (np.array_equal(there.count, here.count) and np.array_equal(there.sum_y, here.sum_y)):
        return "counts"
    if not np.array_equal(there.level, here.level, equal_nan=True):
        return "levels"
    return "" if np.allclose(there.sum_p, here.sum_p, rtol=1e-12, atol=1e-300) else "sums"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--most-values", type=int, default=3_000_000)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    failures = []
    for seed in range(args.first, args.first + args.cases):
        failure = differences(seed, args.device, args.most_values)
        if failure:
            failures.append(failure)
            print(failure, flush=True)
    print(f"{args.cases} cases on {args.device}; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
