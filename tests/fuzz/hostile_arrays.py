"""Hostile arrays: other types, shapes, layouts and values, through the public functions.

Each array comes with its meaning: the numbers that it stands for, or None where it stands for none.
What means nothing must be refused with a `CalibrantError`; what is accepted must be counted as the
same numbers in plain arrays are.
"""

from __future__ import annotations

import copy
import random
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from child import expect

import calibrant as cb
from calibrant.exceptions import CalibrantError

SUMS = ("count", "sum_y", "sum_p", "sum_pp", "sum_py")


def prepare() -> None:
    cb.certify([0, 1] * 20, [0.5] * 40, max_error=0.5)


def run(number: int, folder: Path) -> str:
    rng = random.Random(f"hostile arrays {number}")
    numbers = np.random.default_rng(number)
    n = rng.choice([1, 2, 3, 30, 200])
    n_classes = rng.choice([1, 1, 1, 3, 5])
    y, p = plain(numbers, n, n_classes, rng)
    y_true, y_meaning = hostile_labels(y, rng, numbers)
    y_prob, p_meaning = hostile_probs(p, rng, numbers)
    check = rng.choice(CHECKS)
    weights, w_meaning = (None, None)
    if check in WEIGHTED:
        weights, w_meaning = hostile_weights(n, rng, numbers)
    whole = (
        y_meaning is not None
        and p_meaning is not None
        and (weights is None or w_meaning is not None)
    )
    if whole and len(y_meaning) != len(p_meaning):
        whole = False
    if whole and weights is not None and len(w_meaning) != len(p_meaning):
        whole = False
    arguments = (y_true, y_prob, weights)
    before = copy.deepcopy(arguments)
    note(folder / "case.txt", arguments)
    meanings = (y_meaning, p_meaning, w_meaning)
    try:
        answer = check(arguments, meanings if whole else None, rng)
    except CalibrantError as error:
        expect(len(str(error)) > 20, f"a refusal without words: {error!r}")
        return "refused"
    expect(whole, f"accepted what has no meaning: {answer!r:.300}")
    expect(same_bytes(before, arguments), "an argument was written to")
    return answer


def note(path: Path, arguments: tuple) -> None:
    """Write down what the case is about; pandas warns of large numbers that it prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        facts = [
            (type(x).__name__, getattr(x, "dtype", ""), getattr(x, "shape", ""), x)
            for x in arguments
        ]
        path.write_text("\n".join(f"{a} {b} {c}\n{d!r:.2000}" for a, b, c, d in facts))


class Sub(np.ndarray):
    """A subclass that changes nothing."""


def same_bytes(a: tuple, b: tuple) -> bool:
    pairs = zip(a, b, strict=True)
    return all(
        x.tobytes() == y.tobytes() for x, y in pairs if type(x) is np.ndarray and x.dtype != object
    )


def plain(numbers: np.random.Generator, n: int, n_classes: int, rng: random.Random):
    digits = rng.choice([1, 17])
    if n_classes == 1:
        p = np.round(numbers.uniform(size=n), digits)
        return (numbers.uniform(size=n) < p).astype(np.int64), p
    p = np.round(numbers.dirichlet(np.ones(n_classes), size=n), digits)
    p = np.clip(p, 0, 1)
    return numbers.integers(n_classes, size=n), p


# The arrays, and what they mean


def layouts(array: np.ndarray, rng: random.Random, numbers: np.random.Generator) -> object:
    """Return the same numbers in another layout or container."""
    name = rng.choice(["same", "strided", "backwards", "read-only", "fortran", "big-endian", "list", "tuple",
                       "object", "unaligned", "series", "unmasked", "subclass"])  # fmt: skip
    if name == "strided":
        wide = np.zeros((len(array) * 3, *array.shape[1:]), array.dtype)
        wide[::3] = array
        return wide[::3]
    if name == "backwards":
        return array[::-1].copy()[::-1]
    if name == "read-only":
        array = array.copy()
        array.flags.writeable = False
        return array
    if name == "fortran":
        return np.asfortranarray(array)
    if name == "big-endian" and array.dtype.kind in "iuf":
        return array.astype(array.dtype.newbyteorder(">"))
    if name == "list":
        return array.tolist()
    if name == "tuple":
        return tuple(array.tolist())
    if name == "object":
        return array.astype(object)
    if name == "unaligned" and array.dtype.kind in "iuf":
        raw = np.zeros(array.nbytes + 1, np.uint8)
        view = raw[1:].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view
    if name == "series":
        index = numbers.permutation(len(array))
        return (
            pd.Series(array, index=index) if array.ndim == 1 else pd.DataFrame(array, index=index)
        )
    if name == "unmasked":
        return np.ma.array(array)
    if name == "subclass":
        return array.view(np.recarray) if array.dtype.names else array.view(Sub)
    return array


def meaningless(array: np.ndarray, rng: random.Random) -> object:
    """Return something that is not a column of numbers of this length."""
    masked = np.zeros(array.shape, bool)
    masked.flat[rng.randrange(array.size)] = True
    return rng.choice([
        lambda: None, lambda: "text", lambda: 0.5, lambda: np.array(0.5), lambda: array[:0], lambda: [],
        lambda: array[None, None], lambda: array.astype(complex) + 1j, lambda: array.astype(str),
        lambda: np.ma.array(array, mask=masked), lambda: {"a": 1}, lambda: object(), lambda: [*array.tolist(), "x"],
        lambda: np.array([None] * len(array)), lambda: np.zeros(len(array), "M8[s]"), lambda: [[0.1], [0.1, 0.2]],
        lambda: np.zeros(len(array), [("a", "f8"), ("b", "f8")]), lambda: iter(array.tolist()), lambda: b"bytes",
        # three times as long, and labels twice: both together must not fit again
        lambda: np.concatenate([array] * (3 if array.dtype.kind == "f" else 2)),
        lambda: np.zeros((len(array), 0)), lambda: {0.1, 0.2},
        lambda: np.zeros(len(array), "V8"), lambda: array.astype("m8[s]"), lambda: [array, None], lambda: np.nan,
    ])()  # fmt: skip


def hostile_probs(p: np.ndarray, rng: random.Random, numbers: np.random.Generator):
    name = rng.choice(
        ["same", "same", "layout", "layout", "type", "value", "edge", "none", "column", "two"]
    )
    if name == "layout":
        return layouts(p, rng, numbers), p
    if name == "type":
        kind = rng.choice(["f2", "f4", "f4", "g", "bool", "i1", "u8", "i8"])
        other = np.round(p).astype(kind) if kind[0] in "biu" else p.astype(kind)
        return layouts(other, rng, numbers), other.astype(np.float64)
    if name == "value":
        bad = rng.choice(
            [np.nan, np.inf, -np.inf, -1e-9, np.nextafter(1, 2), 1.7, -3.0, 1e308, 90.0]
        )
        p = p.copy()
        p.flat[rng.randrange(p.size)] = bad
        return layouts(p, rng, numbers), None
    if name == "edge":
        p = p.copy()
        values = [
            -0.0,
            0.0,
            1.0,
            5e-324,
            1e-310,
            np.nextafter(1, 0),
            np.nextafter(0.5, 0),
            0.5,
            np.nextafter(0.5, 1),
        ]
        for _ in range(rng.choice([1, 5])):
            p.flat[rng.randrange(p.size)] = rng.choice(values)
        return layouts(p, rng, numbers), p
    if name == "none":
        return meaningless(p, rng), None
    if name == "column" and p.ndim == 1:
        return layouts(p[:, None], rng, numbers), p
    if name == "two" and p.ndim == 1:
        return layouts(np.stack([1 - p, p], axis=1), rng, numbers), p
    return p, p


def hostile_labels(y: np.ndarray, rng: random.Random, numbers: np.random.Generator):
    name = rng.choice(["same", "same", "same", "layout", "type", "value", "none"])
    if name == "layout":
        return layouts(y, rng, numbers), y
    if name == "type":
        return layouts(
            y.astype(rng.choice(["u1", "i1", "i8", "u8", "f2", "f4", "f8", "g"])), rng, numbers
        ), y
    if name == "value":
        bad = rng.choice([np.nan, np.inf, -1, 0.5, 99, 2.0**53, 2.0**63, -(2.0**63), 1e300])
        other = y.astype(np.float64)
        other[rng.randrange(len(y))] = bad
        if rng.random() < 0.3:
            other = other.astype(object)
            other[rng.randrange(len(y))] = rng.choice(
                [None, 10**30, -(10**30), "x", b"x", (), np.datetime64("NaT"), 1j]
            )
        return layouts(other, rng, numbers), None
    if name == "none":
        return meaningless(y, rng), None
    return y, y


def hostile_weights(n: int, rng: random.Random, numbers: np.random.Generator):
    if rng.random() < 0.7:
        return None, None
    w = numbers.uniform(0.1, 3, size=n)
    name = rng.choice(["same", "layout", "zeros", "value", "none", "tiny", "type"])
    if name == "layout":
        return layouts(w, rng, numbers), w
    if name == "type":
        other = np.ceil(w).astype(rng.choice(["u1", "i8", "f2", "f4"]))
        return layouts(other, rng, numbers), other.astype(np.float64)
    if name == "zeros":
        return np.zeros(n), None
    if name == "value":
        w[rng.randrange(n)] = rng.choice([np.nan, np.inf, -1.0, -1e-300])
        return layouts(w, rng, numbers), None
    if name == "none":
        return meaningless(w, rng), None
    return w, w


# The functions


def reference(meanings, edges: np.ndarray, kind: str, group: int = 0) -> dict[str, np.ndarray]:
    """Count rows one group at a time, in plain NumPy."""
    y, p, w = meanings
    w = np.ones(len(p)) if w is None else w
    if p.ndim == 2:
        top = p.argmax(axis=1) if kind != "marginal" else group
        y, p = (y == top).astype(float), p[np.arange(len(p)), top]
    place = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, None)
    terms = {
        "count": np.ones(len(p)),
        "sum_y": w * y,
        "sum_p": w * p,
        "sum_pp": w * p * p,
        "sum_py": w * p * y,
    }
    return {
        name: np.bincount(place, term, minlength=edges.size - 1) for name, term in terms.items()
    }


def check_tabulate(arguments, meanings, rng: random.Random) -> str:
    y, p, w = arguments
    several = meanings is None or meanings[1].ndim == 2
    kind = rng.choice([None, None, "marginal"]) if several else None
    bins = rng.choice([cb.EqualWidth(4), 3, cb.Distinct(), "auto", cb.Hybrid(3)])
    table = cb.tabulate(y, p, sample_weight=w, kind=kind, bins=bins)
    if meanings is None:
        return "counted"
    for group, edges in enumerate(table.bins):
        sums = reference(meanings, np.asarray(edges.edges), table.problem.kind, group)
        for name in SUMS:
            got = getattr(table, name)[group, : len(edges)]
            expect(np.allclose(got, sums[name], rtol=1e-9, atol=1e-12),
                   f"{name} of group {group} is {got.tolist()!r:.300}, not {sums[name].tolist()!r:.300}")  # fmt: skip
    return "accepted, numbers right"


def check_error(arguments, meanings, rng: random.Random) -> str:
    y, p, w = arguments
    norm = rng.choice(["l1", "l2", "max", 1, 3.5])
    result = cb.calibration_error(
        y, p, sample_weight=w, norm=norm, bins=rng.choice([3, cb.EqualWidth(5)])
    )
    value = float(result.value)
    expect(0 <= value <= 1, f"an error of {value}")
    if meanings is not None:
        again = cb.calibration_error(
            meanings[0],
            meanings[1],
            sample_weight=meanings[2],
            norm=norm,
            bins=result.table.bins[0],
        )
        expect(
            abs(again.value - value) <= 1e-9,
            f"{value} instead of {again.value} for the same numbers",
        )
    str(result)
    return "accepted, numbers right"


def check_certify(arguments, meanings, rng: random.Random) -> str:
    y, p, _ = arguments
    certificate = cb.certify(y, p, max_error=0.2)
    if meanings is not None:
        again = cb.certify(meanings[0], meanings[1], max_error=0.2)
        same = (again.verdict, again.upper_bound, again.n) == (
            certificate.verdict,
            certificate.upper_bound,
            certificate.n,
        )
        expect(same, f"{certificate} instead of {again}")
    return "accepted, numbers right"


def check_weighted(arguments, meanings, rng: random.Random) -> str:
    y, p, w = arguments
    name = rng.choice(["curve", "brier", "metric"])
    if name == "curve":
        cb.reliability_curve(y, p, sample_weight=w)
    elif name == "brier":
        cb.brier_decomposition(y, p, sample_weight=w)
    else:
        several = meanings is not None and meanings[1].ndim == 2
        problem = {"kind": "top-label", "n_classes": meanings[1].shape[1]} if several else {}
        metric = cb.CalibrationMetric(bins=cb.EqualWidth(4), **problem)
        metric.update(y, p, w)
        expect(0 <= metric.compute().value <= 1, "an error outside [0, 1]")
    return "accepted"


def check_others(arguments, meanings, rng: random.Random) -> str:
    y, p, _ = arguments
    name = rng.choice(["test", "compare", "free", "prequential"])
    if name == "test":
        expect(0 <= cb.calibration_test(y, p, rng=0).pvalue <= 1, "a p value outside [0, 1]")
    elif name == "compare":
        cb.compare(y, p, p)
    elif name == "free":
        cb.bin_free_bounds(y, p)
    else:
        cb.prequential_lower_bound(y, p)
    return "accepted"


RECALIBRATORS = (
    cb.PlattScaling, cb.BetaScaling, cb.QuadraticScaling, cb.HistogramBinning, cb.ScalingBinning,
    cb.IsotonicCalibration, cb.VennAbers, cb.Identity, cb.TemperatureScaling, cb.VectorScaling,
    cb.MatrixScaling,
)  # fmt: skip


def check_fit(arguments, meanings, rng: random.Random) -> str:
    y, p, w = arguments
    make = rng.choice(RECALIBRATORS)
    if make is cb.Identity and meanings is None:
        make = cb.PlattScaling  # Identity learns nothing: its labels and weights may be anything
    fitted = make().fit(p, y, sample_weight=w)
    answer = fitted.predict_proba(p)
    expect(np.isfinite(answer).all() and answer.min() >= 0 and answer.max() <= 1 + 1e-12,
           f"{make.__name__} answers outside [0, 1]: {np.asarray(answer).tolist()!r:.300}")  # fmt: skip
    if meanings is not None and np.shape(p) == meanings[1].shape:
        again = (
            make()
            .fit(meanings[1], meanings[0], sample_weight=meanings[2])
            .predict_proba(meanings[1])
        )
        expect(
            np.allclose(answer, again, atol=1e-6),
            f"{make.__name__} answers otherwise for the same numbers",
        )
    return "accepted, answers probabilities"


WEIGHTED = (check_tabulate, check_error, check_weighted, check_fit)
CHECKS = (check_tabulate, *WEIGHTED, check_certify, check_others)
