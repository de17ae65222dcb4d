"""Calibration errors written out from their definitions, to hold faster code against.

Nothing here comes from the library, and nothing here is quick. Sums are exact fractions, so a
disagreement is never the rounding of this file; floats appear only in powers, exponentials and
the comparison of a prediction with an edge. Labels are class indices; 1 is the event of a binary
problem.

A problem is a list of groups: one for each class if it is marginal, else a single one. A group is
a list of bins, and a bin a list of (event, prediction) pairs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise


def bin_index(value, edges):
    """The edge rule: the first bin is [e0, e1], the others are (e_i, e_i+1]."""
    if edges[0] <= value <= edges[1]:
        return 0
    for i in range(1, len(edges) - 1):
        if edges[i] < value <= edges[i + 1]:
            return i
    raise ValueError(f"{value} lies outside the bins")


def equal_width_edges(n_bins):
    return [i / n_bins for i in range(n_bins + 1)]


def equal_mass_edges(values, n_bins):
    """Cut between distinct values where the number of rows below is nearest to j * n / n_bins."""
    distinct = sorted(set(values))
    rows_below = [0]
    for group in _runs(sorted(values)):
        rows_below.append(rows_below[-1] + len(group))
    cuts = set()
    for j in range(1, n_bins):
        # Distances are taken n_bins times as large: whole numbers, so that ties are seen exactly.
        distances = [abs(n_bins * below - j * len(values)) for below in rows_below]
        nearest = distances.index(min(distances))  # the first, so a tie goes to the lower cut
        if 0 < nearest < len(distinct):  # outside all values there is nothing to cut
            cuts.add(nearest)
    return _with_ends(edge_between(distinct[cut - 1], distinct[cut]) for cut in sorted(cuts))


def distinct_edges(values):
    distinct = sorted(set(values))
    return _with_ends(edge_between(low, high) for low, high in pairwise(distinct))


def edge_between(low, high):
    """Half-way in float64; the lower value itself where rounding would reach the upper one."""
    middle = low + (high - low) / 2
    return middle if middle < high else low


def _with_ends(inner):
    return [0.0, *(edge for edge in inner if edge > 0.0), 1.0]


def _runs(ordered):
    runs = []
    for value in ordered:
        if runs and runs[-1][0] == value:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def pairs_of(y_true, y_prob, kind):
    """Return the (event, prediction) pairs of every group."""
    if kind == "binary":
        return [[(int(y), float(p)) for y, p in zip(y_true, y_prob, strict=True)]]
    rows = [(int(y), [float(p) for p in row]) for y, row in zip(y_true, y_prob, strict=True)]
    if kind == "top-label":
        return [[(int(y == argmax(row)), max(row)) for y, row in rows]]
    n_classes = len(rows[0][1])
    return [[(int(y == k), row[k]) for y, row in rows] for k in range(n_classes)]


def argmax(row):
    """The first index of the largest value."""
    return row.index(max(row))


def fill(pairs, edges):
    """Sort pairs into bins."""
    bins = [[] for _ in edges[1:]]
    for y, p in pairs:
        bins[bin_index(p, edges)].append((y, p))
    return bins


def groups_of(y_true, y_prob, kind, rule):
    """Return the groups of a problem; `rule` makes edges from the predictions of one group."""
    return [fill(pairs, rule([p for _, p in pairs])) for pairs in pairs_of(y_true, y_prob, kind)]


def repeated(rows, times):
    """Every row as often as its whole-number weight says."""
    return [row for row, t in zip(rows, times, strict=True) for _ in range(t)]


def sum_y(rows):
    return sum(y for y, _ in rows)


def sum_p(rows):
    return sum((Fraction(p) for _, p in rows), Fraction(0))


def gap(rows):
    """Event rate minus mean prediction."""
    return (sum_y(rows) - sum_p(rows)) / len(rows)


def size(bins):
    return sum(len(rows) for rows in bins)


def occupied(bins):
    return [rows for rows in bins if rows]


def class_mean(values, class_weight=None):
    """Weighted mean over groups; equal weights unless told otherwise."""
    weights = [1] * len(values) if class_weight is None else class_weight
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def plugin_power(bins, power):
    """Sum over bins of N_j / n * |x_j - s_j|^power."""
    n = size(bins)
    return math.fsum(len(rows) / n * float(abs(gap(rows))) ** power for rows in occupied(bins))


def plugin_max(bins):
    return float(max(abs(gap(rows)) for rows in occupied(bins)))


def plugin_error(groups, power, class_weight=None):
    """The l_p error; math.inf is the maximum over all bins of all classes that weigh something."""
    if math.isinf(power):
        weights = [1] * len(groups) if class_weight is None else class_weight
        return max(plugin_max(bins) for bins, w in zip(groups, weights, strict=True) if w > 0)
    mean = class_mean([plugin_power(bins, power) for bins in groups], class_weight)
    return mean ** (1 / power)


def debiased_square_of(bins):
    """Sum over bins and over pairs i != k in a bin of U_i U_k / (n (N_j - 1)), U = y - p."""
    total = Fraction(0)
    for rows in bins:
        residuals = [y - Fraction(p) for y, p in rows]
        for i in range(len(rows)):
            for k in range(len(rows)):
                if i != k:
                    total += residuals[i] * residuals[k] / (len(rows) - 1)
    return float(total / size(bins))


def debiased_square(groups, class_weight=None):
    """The debiased squared l2 error: signed, classes averaged before anyone clips."""
    return class_mean([debiased_square_of(bins) for bins in groups], class_weight)


def folded_mean(rows):
    """E|s - R| for R normal about the event rate x with variance x (1 - x) / N."""
    d = float(gap(rows))
    rate = Fraction(sum_y(rows), len(rows))
    tau = math.sqrt(rate * (1 - rate) / len(rows))
    if tau == 0:
        return abs(d)
    bell = tau * math.sqrt(2 / math.pi) * math.exp(-(d**2) / (2 * tau**2))
    return bell + d * math.erf(d / (tau * math.sqrt(2)))


def debiased_l1_of(bins):
    """Twice the plug-in error minus what resampled labels would make of it on average."""
    n = size(bins)
    resampled = math.fsum(len(rows) / n * folded_mean(rows) for rows in occupied(bins))
    return 2 * plugin_power(bins, 1) - resampled


def debiased_l1(groups, class_weight=None):
    """The debiased l1 error: signed, classes averaged before anyone clips."""
    return class_mean([debiased_l1_of(bins) for bins in groups], class_weight)


def brier(bins):
    return sum((y - Fraction(p)) ** 2 for rows in bins for y, p in rows) / size(bins)


def brier_parts(bins):
    """Brier score, reliability, resolution, uncertainty.

    Brier = REL - RES + UNC where every bin holds one distinct prediction.
    """
    n = size(bins)
    base = Fraction(sum(sum_y(rows) for rows in bins), n)
    rel = sum(len(rows) * gap(rows) ** 2 for rows in occupied(bins)) / n
    rates = [(len(rows), Fraction(sum_y(rows), len(rows))) for rows in occupied(bins)]
    res = sum(count * (rate - base) ** 2 for count, rate in rates) / n
    return brier(bins), rel, res, base * (1 - base)


def corrected_brier_parts(bins):
    """The same with the bias of each part removed (Ferro and Fricker, 2012); the sum is kept.

    A row alone in its bin has no variance to subtract, so every bin should hold two.
    """
    n = size(bins)
    score, rel, res, unc = brier_parts(bins)
    noise = Fraction(0)
    for rows in bins:
        if len(rows) >= 2:
            rate = Fraction(sum_y(rows), len(rows))
            noise += len(rows) * rate * (1 - rate) / (len(rows) - 1)
    noise /= n
    return score, rel - noise, res - noise + unc / (n - 1), unc * n / (n - 1)
