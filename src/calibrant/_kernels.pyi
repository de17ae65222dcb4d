"""The compiled loops, an extension in C: src/kernels holds its source.

Arrays are of the type named and, where nothing else is said, contiguous. Predictions ("probs") are
float32 or float64 and labels any integers or floats, of any strides. Functions that check values
return a status: 0 fine, 1 a prediction is not valid, 2 a label is not. All of them release the
interpreter's lock.
"""

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray

Lookup = tuple[int, FloatArray, IntArray, FloatArray, IntArray, int, int]

def count_column(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    groups: IntArray | None,
    least_group: int,
    n_groups: int,
    n_classes: int,
    first: int,
    are_logits: bool,
    lookup: Lookup,
    sums: FloatArray,
    level: FloatArray | None,
    /,
) -> int: ...
def count_classes(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    groups: IntArray | None,
    least_group: int,
    n_groups: int,
    n_classes: int,
    first: int,
    are_logits: bool,
    lookup: Lookup,
    sums: FloatArray,
    level: FloatArray | None,
    /,
) -> int: ...
def sum_influences(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    lookup: Lookup,
    slope: FloatArray,
    offset: FloatArray,
    means: tuple[float, float, float],
    sums: FloatArray,
    /,
) -> int: ...
def add_compensated(total: FloatArray, lost: FloatArray, term: FloatArray, /) -> None: ...
def table_of(sums: FloatArray, weighted: bool, rounding: float, out: FloatArray, /) -> bool: ...
def top_values(probs: AnyArray, are_logits: bool, out: AnyArray, /) -> int: ...
def transpose(probs: AnyArray, out: AnyArray, /) -> int: ...
def count_cells(probs: AnyArray, counts: AnyArray, /) -> int: ...
def pick_cells(probs: AnyArray, marked: BoolArray, out: FloatArray, /) -> int: ...
def near_quantiles(lines: AnyArray, out: FloatArray, /) -> int: ...
def logistic_sums(
    first: FloatArray,
    second: FloatArray | None,
    events: FloatArray,
    theta: tuple[float, float, float],
    out: FloatArray,
    /,
) -> None: ...
def distinct_scores(keys: AnyArray, events: FloatArray, counts: FloatArray, /) -> int: ...
def pool(
    keys: AnyArray,
    first: AnyArray,
    weight: FloatArray,
    events: FloatArray,
    total: FloatArray,
    /,
) -> int: ...
def tangent_slopes(x: FloatArray, y: FloatArray, slopes: FloatArray, /) -> None: ...
def hash_rows(
    rows: AnyArray,
    codes: IntArray,
    factors: AnyArray,
    mix: int,
    odd: int,
    bound: int,
    out: AnyArray,
    /,
) -> tuple[int, int]: ...
def exps(values: FloatArray, /) -> None: ...
def even_bins(values: FloatArray, n_bins: int, cells: AnyArray, /) -> None: ...
def block_weights(
    at: FloatArray,
    top: FloatArray,
    heavy: FloatArray,
    light: FloatArray,
    length: FloatArray,
    tilt: FloatArray,
    scale: FloatArray,
    out: FloatArray,
    first: int,
    /,
) -> None: ...
def add_rows(weight: FloatArray, cells: IntArray, share: FloatArray, /) -> None: ...
def tail_step(
    before: FloatArray,
    share: FloatArray,
    above: FloatArray | None,
    rows: IntArray,
    needed: BoolArray,
    log_scale: FloatArray,
    left: FloatArray,
    right: FloatArray,
    bulge: FloatArray,
    cap: FloatArray | None,
    log_mean: FloatArray,
    tops: FloatArray,
    /,
) -> None: ...
def forms() -> list[str]: ...
def form() -> str: ...
def use_form(name: str, /) -> None: ...
