"""Simulated tables by the thousand: models whose calibration error is known exactly.

Every model has ``draw(n, runs, rng) -> Cells`` with one table per run on the first axis, and
``error(power)``, the population error that the tables estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from scipy import special

from calibrant import Distinct, tabulate
from calibrant.stats.estimators import Cells, error_of
from calibrant.stats.influences import influence_of

CHUNK = 2_000_000
FIELDS = tuple(field.name for field in fields(Cells))


def in_chunks(draw, runs: int, width: int) -> Cells:
    """Join tables of ``draw(runs)``, made a few at a time so that rows fit in memory."""
    step = max(1, CHUNK // width)
    parts = [draw(min(step, runs - start)) for start in range(0, runs, step)]
    return Cells(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in FIELDS})


def cells_of_counts(size, events, levels) -> Cells:
    """Cells of unweighted tables in which every bin holds one prediction."""
    size, events = np.asarray(size, float), np.asarray(events, float)
    residual = events * (1 - levels) ** 2 + (size - events) * levels**2
    return Cells(events, size * levels, size * levels**2, size, size, residual)


@dataclass(frozen=True, eq=False)
class BinnedModel:
    """A binary model of finitely many outputs: P(f = level) = mass, P(Y = 1 | level) = rate."""

    levels: np.ndarray
    rates: np.ndarray
    shares: np.ndarray | None = None
    n_groups = 1

    @property
    def weights(self):
        return np.ones(1)

    @property
    def masses(self):
        """All outputs are equally likely unless `shares` say otherwise."""
        return (
            np.full(self.levels.size, 1 / self.levels.size) if self.shares is None else self.shares
        )

    @property
    def smallest_mass(self) -> float:
        return float(self.masses.min())

    def draw_counts(self, n: int, runs: int, rng):
        size = rng.multinomial(n, self.masses, size=runs)
        return size, rng.binomial(size, self.rates)

    def draw(self, n: int, runs: int, rng) -> Cells:
        size, events = self.draw_counts(n, runs, rng)
        return cells_of_counts(size[:, None], events[:, None], self.levels)

    def estimate(self, size, events) -> float:
        """Return the debiased l2 error of one table."""
        cells = cells_of_counts(size[None], events[None], self.levels)
        return float(estimates(cells, self.weights, 2.0, debiased=True))

    def table(self, size, events):
        """Return the BinTable of rows with these counts, through the front door."""
        bins = np.repeat(np.arange(size.size), size)
        first = np.cumsum(size) - size
        y = np.arange(bins.size) < (first + events)[bins]
        return tabulate(y, self.levels[bins], bins=Distinct())

    def error(self, power: float) -> float:
        gap = np.abs(self.rates - self.levels)
        return float(gap.max() if math.isinf(power) else (gap**power @ self.masses) ** (1 / power))


def split(cells: Cells):
    """Yield the tables of many runs one by one."""
    return (one_run(cells, run) for run in range(len(cells.mass)))


def one_run(cells: Cells, run: int) -> Cells:
    return Cells(**{name: getattr(cells, name)[run] for name in FIELDS})


def grid(n_bins: int) -> np.ndarray:
    return (np.arange(n_bins) + 0.5) / n_bins


def sloped(levels, slope: float):
    """Event rates whose log-odds are `slope` times those of the predictions."""
    return special.expit(slope * special.logit(levels))


def calibrated(n_bins: int) -> BinnedModel:
    return BinnedModel(grid(n_bins), grid(n_bins))


def mild(n_bins: int) -> BinnedModel:
    return BinnedModel(grid(n_bins), sloped(grid(n_bins), 0.8))


def strong(n_bins: int) -> BinnedModel:
    return BinnedModel(grid(n_bins), sloped(grid(n_bins), 0.45))


def overconfident(n_bins: int) -> BinnedModel:
    """Confidences pile up below 1 while a tenth of the surest ones are wrong."""
    confidence = 0.5 + 0.5 * np.cbrt(grid(n_bins))
    return BinnedModel(confidence, 0.5 + 0.8 * (confidence - 0.5))


def rare(n_bins: int) -> BinnedModel:
    """Risks below 0.1 of which half become events."""
    return BinnedModel(0.1 * grid(n_bins), 0.05 * grid(n_bins))


def rare_calibrated(n_bins: int) -> BinnedModel:
    return BinnedModel(0.1 * grid(n_bins), 0.1 * grid(n_bins))


def rare_missed(n_bins: int) -> BinnedModel:
    """Risks below 0.1 that are really half as large again."""
    return BinnedModel(0.1 * grid(n_bins), 0.15 * grid(n_bins))


BINARY = {
    "calibrated": calibrated,
    "mild": mild,
    "strong": strong,
    "overconfident": overconfident,
    "rare": rare,
    "rare calibrated": rare_calibrated,
    "rare missed": rare_missed,
}


@dataclass(frozen=True, eq=False)
class MarginalModel:
    """A classifier with finitely many output vectors, all equally likely.

    ``outputs`` and ``truths`` have shape (vectors, classes): what is said, and the probabilities
    from which the one label of a row is drawn. Rows are counted by (vector, label), which is all
    that a table needs to know of them; the classes of one row stay dependent.
    """

    outputs: np.ndarray
    truths: np.ndarray

    @property
    def n_groups(self) -> int:
        return self.outputs.shape[1]

    @property
    def weights(self):
        return np.full(self.n_groups, 1 / self.n_groups)

    @property
    def smallest_mass(self) -> float:
        return 1 / self.outputs.shape[0]

    @cached_property
    def _bins(self):
        """Return the distinct outputs of each class, and which vectors fall into which."""
        found = [np.unique(column, return_inverse=True) for column in self.outputs.T]
        widest = max(values.size for values, _ in found)
        levels = np.zeros((self.n_groups, widest))
        member = np.zeros((self.n_groups, self.outputs.shape[0], widest))
        for k, (values, place) in enumerate(found):
            levels[k, : values.size] = values
            member[k, np.arange(place.size), place] = 1
        return levels, member

    def draw_counts(self, n: int, runs: int, rng):
        """Return how many rows had each vector and label: shape (runs, vectors, classes)."""
        shares = self.truths / self.truths.sum()
        return rng.multinomial(n, shares.ravel(), size=runs).reshape(runs, *shares.shape)

    def draw(self, n: int, runs: int, rng) -> Cells:
        return self._cells(self.draw_counts(n, runs, rng).astype(float))

    def _cells(self, counts) -> Cells:
        levels, member = self._bins
        size = np.einsum("rm,kmb->rkb", counts.sum(axis=2), member, optimize=True)
        events = np.einsum("rmk,kmb->rkb", counts, member, optimize=True)
        return cells_of_counts(size, events, levels)

    def draw_with_influences(self, n: int, runs: int, rng, power: float):
        """Return tables, the variance of row influences in each, and how many rows carry it.

        Rows of one vector and one label have one influence, so there is one for each such pair.
        """
        counts = self.draw_counts(n, runs, rng).astype(float)
        cells = self._cells(counts)
        place = self._bins[1].argmax(axis=2)
        spread, rows = np.empty(runs), np.empty(runs)
        for run, (each, count) in enumerate(zip(split(cells), counts, strict=True)):
            influence = influence_of(each, self.weights, power)
            slope, offset = (
                np.take_along_axis(coefficient, place, axis=1).T
                for coefficient in (influence.slope, influence.offset)
            )
            h = slope - (slope * self.outputs + offset).sum(axis=1, keepdims=True)
            h = h - (influence.mean_a - influence.mean_m)
            square = (count * h**2).sum()
            spread[run] = square / n**2
            rows[run] = square**2 / max((count * h**4).sum(), 1e-300)
        return cells, spread, rows

    def error(self, power: float) -> float:
        levels, member = self._bins
        size = member.sum(axis=1)
        events = np.einsum("mk,kmb->kb", self.truths, member)
        gap = np.where(size > 0, np.abs(events / np.maximum(size, 1) - levels), 0.0)
        if math.isinf(power):
            return float(gap.max())
        per_class = (size / self.outputs.shape[0] * gap**power).sum(axis=1)
        return float((per_class @ self.weights) ** (1 / power))


def in_hundredths(probs):
    """Round probability vectors to whole percents that still add up to 1."""
    scaled = 100 * probs
    whole = np.floor(scaled)
    missing = np.rint(100 - whole.sum(axis=1)).astype(int)
    rank = (whole - scaled).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return (whole + (rank < missing[:, None])) / 100


def rare_classes(n_classes: int, factor: float, rate: float = 0.002) -> MarginalModel:
    """One common class, and others of about this rate of which the model says `factor` times it."""
    rng = np.random.default_rng(4)
    truths = rate * rng.gamma(0.5, 2.0, size=(60, n_classes))
    truths[:, 1:] = in_groups(truths[:, 1:])
    truths[:, 0] = 1 - truths[:, 1:].sum(axis=1)
    outputs = truths * np.where(np.arange(n_classes) > 0, factor, 1.0)
    outputs[:, :1] = in_groups(truths[:, :1])
    return MarginalModel(outputs, truths)


def in_groups(columns, n_groups: int = 6):
    """Replace the values of each column by the means of this many groups of like ones."""
    grouped = np.empty_like(columns)
    for column, out in zip(columns.T, grouped.T, strict=True):
        for own in np.array_split(np.argsort(column), n_groups):
            out[own] = column[own].mean()
    return grouped


def top_label_model(n_classes: int, sharpen: float = 1.0) -> BinnedModel:
    """The largest output of `softmax_model`, and whether it names the label."""
    model = softmax_model(n_classes, sharpen)
    rows, top = np.arange(len(model.outputs)), model.outputs.argmax(axis=1)
    levels, place = np.unique(model.outputs[rows, top], return_inverse=True)
    share = np.bincount(place)
    rates = np.bincount(place, model.truths[rows, top]) / share
    return BinnedModel(levels, rates, share / share.sum())


@dataclass(frozen=True, eq=False)
class WeightedModel:
    """A binary model whose events weigh `weight` times as much as other rows.

    ``rates`` are those of the weighted population, which is what is estimated.
    """

    levels: np.ndarray
    rates: np.ndarray
    weight: float
    weights = np.ones(1)

    @property
    def _counted_rates(self):
        """Event rates among rows, as they are drawn."""
        return self.rates / (self.rates + self.weight * (1 - self.rates))

    def draw(self, n: int, runs: int, rng) -> Cells:
        levels, weight = self.levels, self.weight
        size = rng.multinomial(n, np.full(levels.size, 1 / levels.size), size=runs)[:, None]
        events = rng.binomial(size, self._counted_rates)
        rest = size - events
        w, ww = weight * events + rest, weight**2 * events + rest
        wwuu = weight**2 * events * (1 - levels) ** 2 + rest * levels**2
        return Cells(weight * events, w * levels, w * levels**2, w, ww, wwuu)

    def error(self, power: float) -> float:
        mass = 1 + (self.weight - 1) * self._counted_rates
        gap = np.abs(self.rates - self.levels)
        if math.isinf(power):
            return float(gap.max())
        return float(np.average(gap**power, weights=mass) ** (1 / power))


def softmax_model(n_classes: int, sharpen: float = 1.0, n_vectors: int = 50) -> MarginalModel:
    """Softmax outputs in whole percents; `sharpen` is the inverse temperature of what is said."""
    rng = np.random.default_rng(7)
    logits = 1.5 * rng.normal(size=(n_vectors, n_classes)) + np.linspace(-1, 1, n_classes)
    truths = in_hundredths(special.softmax(logits, axis=1))
    if sharpen == 1.0:
        return MarginalModel(truths, truths)
    return MarginalModel(in_hundredths(special.softmax(sharpen * logits, axis=1)), truths)


@dataclass(frozen=True, eq=False)
class ContinuousModel:
    """Predictions uniform on [0, 1] with event rate ``sloped(f, slope)``, in bins."""

    slope: float
    n_bins: int
    n_groups = 1

    @property
    def weights(self):
        return np.ones(1)

    @cached_property
    def _integral(self):
        """Points t and the integral of (rate - f) from 0 to t."""
        t = np.linspace(0, 1, 200_001)
        middle = (t[1:] + t[:-1]) / 2
        gap = sloped(middle, self.slope) - middle
        return t, np.concatenate([[0], np.cumsum(gap)]) * (t[1] - t[0])

    def error_in(self, edges, power: float):
        """Population l_p error in bins of these edges (last axis), exact up to the grid."""
        width = np.diff(edges, axis=-1)
        gap = np.abs(np.diff(np.interp(edges, *self._integral), axis=-1)) / width
        if math.isinf(power):
            return gap.max(axis=-1)
        return (width * gap**power).sum(axis=-1) ** (1 / power)

    def error(self, power: float) -> float:
        return float(self.error_in(np.linspace(0, 1, self.n_bins + 1), power))

    def draw_rows(self, n: int, runs: int, rng):
        f = np.sort(rng.uniform(size=(runs, n)), axis=1)
        return f, rng.uniform(size=f.shape) < sloped(f, self.slope)

    def draw(self, n: int, runs: int, rng) -> Cells:
        """Draw tables in equal-width bins."""

        def some(runs):
            f, y = self.draw_rows(n, runs, rng)
            place = np.minimum((f * self.n_bins).astype(int), self.n_bins - 1)
            flat = (place + self.n_bins * np.arange(runs)[:, None]).ravel()
            terms = (y, f, f**2, np.ones_like(f), np.ones_like(f), (y - f) ** 2)
            shape = (runs, 1, self.n_bins)
            return Cells(
                *(np.bincount(flat, t.ravel(), math.prod(shape)).reshape(shape) for t in terms)
            )

        return in_chunks(some, runs, n)

    def draw_equal_mass(self, n: int, runs: int, rng):
        """Draw tables in bins of n / n_bins rows, and the edges half-way between the bins."""
        edges = []

        def some(runs):
            f, y = self.draw_rows(n, runs, rng)
            f, y = (a.reshape(runs, 1, self.n_bins, -1) for a in (f, y))
            inner = (f[:, 0, :-1, -1] + f[:, 0, 1:, 0]) / 2
            edges.append(np.pad(inner, ((0, 0), (1, 1)), constant_values=(0, 1)))
            terms = (y, f, f**2, np.ones_like(f), np.ones_like(f), (y - f) ** 2)
            return Cells(*(t.sum(axis=-1, dtype=float) for t in terms))

        return in_chunks(some, runs, n), np.concatenate(edges)


def estimates(cells: Cells, weights, power: float, debiased: bool):
    """Return the reported errors, one per run."""
    return error_of(cells, weights, power, debiased)


def coverage(limits, truth) -> float:
    """Share of intervals that hold the truth; limits of exactly 0 hold a truth of 0."""
    low, high = limits
    return float(np.mean((low <= truth) & (truth <= high)))


def mean_width(limits) -> float:
    return float(np.mean(limits[1] - limits[0]))
