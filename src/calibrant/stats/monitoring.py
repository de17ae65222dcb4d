"""Evidence, batch after batch, that an error exceeds a tolerance or that a reference has gone.

A batch has N_j rows in bin j, with mean prediction s_j, of which K_j are events. Given predictions
and earlier batches, rows are independent, and row i is an event with probability pi_i.

**One bet** is a tilt theta_j for every bin, fixed before the labels of the batch are seen. For a
convex function G_j of the rate, phi_j(pi) = log(1 + pi (exp(theta_j) - 1)) - G_j(pi) is concave.
It peaks at r_j if theta_j is the tilt (`calibrant.stats.e_values.tilt`) from r_j to the
alternative rate a_j = r_j + r_j (1 - r_j) G_j'(r_j). Hence by Jensen's inequality

    E exp(theta_j K_j) <= exp(sum of G_j(pi_i) + N_j phi_j(r_j)),

and  log E = sum_j [log-likelihood ratio of a_j against r_j, plus N_j G_j(r_j)] - cost  has
E exp(log E) <= 1 wherever E exp(sum of G_j(pi_i)) <= exp(cost). Two hypotheses say so:

*Tolerance*: the l2 error of the batch's population is at most t. With e = pi - p and
L = log(1 + q), take G(e) = log(1 + q e^2) up to |e| = e0 = c L / q, c = sqrt(2) - 1, and beyond
its tangent at e0. G is convex, as e0 <= 1 / sqrt(q). At e = 1 the tangent is below log(1 + q e^2),
because (c L)^2 / q + 2 c L <= (c^2 + 2 c) L = L, and so in between, where log(1 + q e^2) is
first convex, then concave. Rows are drawn independently, so the mean of exp(sum of G) is at most
(1 + q t^2)^n: the cost is n log(1 + q t^2). q must not depend on the batch, its predictions
included. For t = 0 there is no slack: r_j = s_j, and log E is a log-likelihood ratio.

*Reference*: the event rates are those of an earlier sample with N0_j rows and rates x_j, up to its
noise. A binomial has P(N0 KL(x, pi0) >= z) <= 2 exp(-z) (Chernoff, from both sides), so N0 KL is
stochastically at most log 2 + an exponential variable. The sum over B bins is then at most
R = B log 2 + a quantile of the gamma distribution of shape B, but for the share
`REFERENCE_SHARE` of the error probability. On that event G_j = lambda (N0_j / N_j) KL(x_j, pi0_j)
costs lambda R. In bins that mix predictions the events of the reference are unlike ones, whose
exponential moments are smaller (Hoeffding 1956), so the same holds; and pi0_j is the rate of today
less the difference of mean predictions: the gap between rate and prediction is what stays.

**Process.** Alternatives m are shifts and slopes of all log-odds, one bin at a time, and what
earlier batches have shown; each of several sizes. With fixed weights w_m and u_k, each of sum 1,

    sum_m w_m sum_k u_k prod_{i = k..t} E_i,m     (1 where k > t: not yet bet)

is an average of supermartingales that begin at 1, so the probability that it *ever* reaches
1 / delta is at most delta (Ville), whatever number of batches is looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.table import BinTable

SIZES = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
"""Of alternatives, in log-odds beyond the hypothesis; twice apart, the best one is never far. These
and all constants below affect the delay only, never validity; tuned on 1,000 rows a day."""
FAMILY_WEIGHTS = {"shift": 0.5, "slope": 0.15, "bin": 0.2, "learned": 0.15}
"""Half for a shift, the commonest drift: it costs 0.7 where probability 1 would cost 0."""
FIRST_SHARE = 0.6
LATE_SCALE = 30.0
"""Of the weights u_k, what the first batch gets; the rest of them falls like k^(-3/2) from about
this batch on."""
MEMORY = 0.9
PRIOR_ROWS = 50.0
"""The learned alternative forgets a tenth of its rows a batch, and shrinks gaps as by so many rows
without any."""
REFERENCE_SHARE = 0.2
"""Of the error probability, for the noise of the reference."""
_CORNER = math.sqrt(2) - 1
"""Times log(1 + q) / q: a tangent there takes the place of log(1 + q e^2). It is early enough to
stay below it up to e = 1 for every q, on which validity rests; a larger one shortens the delay."""
_NEAREST = 1e-12
"""To 0 and 1 that a prediction counts as being; bets at it are never on the outer side."""
_MOST_BEYOND = 1e12
"""Times the tolerance that an alternative may lie; keeps q finite where the tolerance is tiny."""
_NOMINAL_VARIANCE, _NOMINAL_LOGIT, _NOMINAL_MASS = 0.2, 1.4, 0.1
"""What the first batch is assumed to be like, for which q is tuned."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows, events and the sum of predictions in each bin."""

    size: FloatArray
    events: FloatArray
    predicted: FloatArray

    @classmethod
    def of(cls, table: BinTable) -> Batch:
        """Return the sums of a table of one event."""
        return cls(table.count[0], table.sum_y[0], table.sum_p[0])

    @classmethod
    def none(cls, n_bins: int) -> Batch:
        """Return a batch without rows."""
        return cls(*np.zeros((3, n_bins)))

    def __add__(self, other: Batch) -> Batch:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Batch(*(a + b for a, b in pairs))

    @property
    def mean(self) -> FloatArray:
        """The mean prediction of each bin, 1/2 where there are no rows."""
        mean = self.predicted / np.maximum(self.size, 1)
        return np.clip(np.where(self.size > 0, mean, 0.5), _NEAREST, 1 - _NEAREST)


@dataclass(frozen=True, eq=False)
class Tolerance:
    """The hypothesis that the l2 error of every batch's population is at most `max_error`."""

    max_error: float
    past: Batch

    def centre(self, batch: Batch) -> FloatArray:
        """Return the rates around which the hypothesis lies: the predictions."""
        return batch.mean

    def unit_norms(self, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the error per unit of size, and the mean label variance where it sits.

        From earlier batches. There are none before the first: then they are nominal.
        """
        n = self.past.size.sum()
        if n == 0:
            norms = np.full(len(shapes), _NOMINAL_VARIANCE * math.sqrt(_NOMINAL_MASS))
            norms[:2] = _NOMINAL_VARIANCE, _NOMINAL_VARIANCE * _NOMINAL_LOGIT
            return norms, np.full(len(shapes), _NOMINAL_VARIANCE)
        s = self.past.mean
        return self.gap_norms(s * (1 - s) * shapes_at(s))

    def gap_norms(self, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the error of these gaps under the masses of earlier batches, and the variance."""
        s = self.past.mean
        squares = self.past.size / self.past.size.sum() * gaps**2
        total = np.maximum(squares.sum(axis=1), 1e-300)
        return np.sqrt(total), np.maximum(squares @ (s * (1 - s)) / total, _NEAREST)

    def reach(self, norms: FloatArray) -> FloatArray:
        """Return the sizes at which shapes of these unit norms leave the hypothesis."""
        return self.max_error / norms

    def log_e_values(
        self, batch: Batch, a: FloatArray, beyond: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Return log E of alternatives a, whose error is `beyond` times the tolerance."""
        s = self.centre(batch)
        v = s * (1 - s)
        if self.max_error == 0:
            return _log_ratios(batch, np.broadcast_to(s, a.shape), (a - s) / v, np.zeros(a.shape))
        q = (np.maximum(beyond - 1, 0.0) / (2 * variance))[:, None]
        r = s + (a - s) / (1 + 2 * q * v)
        corner = _CORNER * np.log1p(q) / np.maximum(q, 1e-300)
        inner = np.clip(r - s, -corner, corner)
        slope = 2 * q * inner / (1 + q * inner**2)
        penalty = np.log1p(q * inner**2) + slope * (r - s - inner)
        cost = batch.size.sum() * np.log1p(q[:, 0] * self.max_error**2)
        return np.asarray(_log_ratios(batch, r, slope, penalty) - cost)


@dataclass(frozen=True, eq=False)
class Reference:
    """The hypothesis that rates are those of a reference sample, up to its noise."""

    sample: Batch
    delta: float

    @property
    def radius(self) -> float:
        """R of the module's docstring."""
        n_bins = int((self.sample.size > 0).sum())
        quantile = special.gammainccinv(n_bins, REFERENCE_SHARE * self.delta)
        return n_bins * math.log(2) + float(quantile)

    @property
    def rate(self) -> FloatArray:
        """The event rate of each bin, 0 where there are no rows."""
        return np.asarray(self.sample.events / np.maximum(self.sample.size, 1))

    def centre(self, batch: Batch) -> FloatArray:
        """Return the rates of the reference, moved with the mean prediction of each bin."""
        moved = self.rate + batch.mean - self.sample.mean
        return np.clip(np.where(self.sample.size > 0, moved, batch.mean), _NEAREST, 1 - _NEAREST)

    def unit_norms(self, shapes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the distance per unit of size, and a variance that is not used."""
        x = np.clip(self.rate, _NEAREST, 1 - _NEAREST)
        return self.gap_norms(x * (1 - x) * shapes)

    def gap_norms(self, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the root of sum N0 KL for small gaps."""
        x = (self.sample.events + 1) / (self.sample.size + 2)
        squares = self.sample.size * gaps**2 / (2 * x * (1 - x))
        return np.sqrt(np.maximum(squares.sum(axis=1), 1e-300)), np.ones(len(gaps))

    def reach(self, norms: FloatArray) -> FloatArray:
        """Return the sizes at which shapes of these unit norms leave the hypothesis."""
        return math.sqrt(self.radius) / norms

    def log_e_values(
        self, batch: Batch, a: FloatArray, beyond: FloatArray, variance: FloatArray
    ) -> FloatArray:
        """Return log E of alternatives a that lie `beyond` times as far as the noise reaches."""
        old, x = self.sample, self.rate
        share = np.maximum(beyond - 1, 0.0) * batch.size.sum() / old.size.sum()
        held = share[:, None] * old.size / np.maximum(batch.size, 1)
        r = (a + held * self.centre(batch)) / (1 + held)
        before = r - (batch.mean - old.mean)  # the rate that the reference would have had
        usable = (old.size > 0) & (before > _NEAREST) & (before < 1 - _NEAREST)
        before = np.where(usable, before, 0.5)
        slope = np.where(usable, held * (before - x) / (before * (1 - before)), 0.0)
        divergence = special.rel_entr(x, before) + special.rel_entr(1 - x, 1 - before)
        return np.asarray(_log_ratios(batch, r, slope, held * divergence) - share * self.radius)


def _log_ratios(batch: Batch, r: FloatArray, slope: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return sum_j [log-likelihood ratio of a_j against r_j + N_j G_j(r_j)] of each alternative.

    Where no tilt peaks at r_j there is no bet: theta_j = 0.
    """
    up, down = (1 - r) * slope, -r * slope
    used = (slope != 0) & (up > -1 + 1e-9) & (down > -1 + 1e-13) & (batch.size > 0)
    up, down = np.where(used, up, 0.0), np.where(used, down, 0.0)
    misses = batch.size - batch.events
    terms = batch.events * np.log1p(up) + misses * np.log1p(down)
    return np.asarray((terms + np.where(used, batch.size * penalty, 0.0)).sum(axis=1))


def shapes_at(rate: FloatArray) -> FloatArray:
    """Return directions in log-odds, (shapes, bins): a shift, a slope, and one bin at a time."""
    return np.vstack([np.ones(rate.size), special.logit(rate), np.eye(rate.size)])


_SIGNED = np.concatenate([SIZES, -SIZES])


def alternative_weights(n_bins: int) -> FloatArray:
    """Return w_m: of shifts, slopes and single bins by size and sign, and of the learned one."""
    families = [FAMILY_WEIGHTS["shift"], FAMILY_WEIGHTS["slope"]]
    shapes = [*families, *[FAMILY_WEIGHTS["bin"] / n_bins] * n_bins]
    return np.append(np.repeat(shapes, _SIGNED.size) / _SIGNED.size, FAMILY_WEIGHTS["learned"])


def alternative_of(number: int) -> tuple[int, int]:
    """Return the shape of an alternative, as an index of `shapes_at`, and its sign."""
    return number // _SIGNED.size, 1 if _SIGNED[number % _SIGNED.size] > 0 else -1


def log_e_values(
    batch: Batch, hypothesis: Tolerance | Reference, learned: FloatArray
) -> FloatArray:
    """Return log E of every alternative for one batch; `learned` are gaps from earlier ones."""
    centre = hypothesis.centre(batch)
    shapes = shapes_at(centre)
    norms, variances = hypothesis.unit_norms(shapes)
    reach = hypothesis.reach(norms)[:, None]
    sizes = (_SIGNED + np.sign(_SIGNED) * reach).ravel()
    with np.errstate(divide="ignore", over="ignore"):
        beyond = np.abs(sizes) / np.repeat(reach, _SIGNED.size)
    moved = special.logit(centre) + sizes[:, None] * np.repeat(shapes, _SIGNED.size, axis=0)
    a = np.vstack([special.expit(moved), centre + learned])
    norm, variance = (hypothesis.gap_norms(learned[None, :]) if learned.any() else
                      (np.zeros(1), np.ones(1)))  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        learned_beyond = np.where(norm > 0, 1 / hypothesis.reach(norm), 0.0)
    beyond = np.minimum(np.append(beyond, learned_beyond), _MOST_BEYOND)
    variances = np.append(np.repeat(variances, _SIGNED.size), variance)
    clipped = np.clip(a, _NEAREST, 1 - _NEAREST)
    return hypothesis.log_e_values(batch, clipped, beyond, variances)


def learned_gaps(recent: Batch) -> FloatArray:
    """Return the shrunk gaps of recent batches, whose `predicted` sums the expected events."""
    return np.asarray((recent.events - recent.predicted) / (recent.size + PRIOR_ROWS))


def remembered(recent: Batch, batch: Batch, centre: FloatArray) -> Batch:
    """Forget a little of earlier batches, and add one with the events expected of it."""
    expected = Batch(batch.size, batch.events, batch.size * centre)
    faded = Batch(*(MEMORY * x for x in vars(recent).values()))
    return faded + expected


def share_begun(n_batches: int) -> float:
    """Return the sum of u_1 ... u_n, the weight of all starts up to this batch.

    >>> [round(share_begun(n), 3) for n in (0, 1, 30, 365)]
    [0.0, 0.6, 0.715, 0.89]
    """
    if n_batches == 0:
        return 0.0
    later = n_batches - 1 + LATE_SCALE
    return 1 - (1 - FIRST_SHARE) * math.sqrt(LATE_SCALE / later)


@dataclass(frozen=True, eq=False)
class EProcess:
    """The evidence so far.

    Attributes
    ----------
    n_batches : int
    log_wealth : ndarray
        log of sum_k u_k prod_{i >= k} E_i,m, of each alternative.
    log_best : ndarray
        log of the largest product, over all starts k.
    start : ndarray
        The k of that product, from 0 on.
    """

    n_batches: int
    log_wealth: FloatArray
    log_best: FloatArray
    start: IntArray

    @classmethod
    def new(cls, n_bins: int) -> EProcess:
        """Return the process before the first batch."""
        n = alternative_weights(n_bins).size
        return cls(0, np.full(n, -np.inf), np.zeros(n), np.zeros(n, np.intp))

    def after(self, log_e: FloatArray) -> EProcess:
        """Return the process after one batch more."""
        begun = share_begun(self.n_batches + 1) - share_begun(self.n_batches)
        fresh: BoolArray = self.log_best <= 0
        return EProcess(
            self.n_batches + 1,
            np.logaddexp(self.log_wealth, math.log(begun)) + log_e,
            np.where(fresh, 0.0, self.log_best) + log_e,
            np.where(fresh, self.n_batches, self.start),
        )

    def log_total(self, weights: FloatArray) -> float:
        """Return the log of the weighted average, with 1 for the starts still to come."""
        waiting = math.log(1 - share_begun(self.n_batches))
        logs = np.append(self.log_wealth + np.log(weights), waiting)
        return float(np.logaddexp.reduce(logs))
