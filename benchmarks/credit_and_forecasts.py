"""Credit risk and forecasting beside their own tools: the same data, both numbers, both times.

Run it in an environment that has calibrant and, of the others, what is to be compared:
``pip install probcal==0.4.0 model-diagnostics scores``. It prints the rows of the tables in
docs/recipe-credit.md and docs/recipe-forecasting.md; the time is the best of five calls in this
process, after one that is not counted.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import probcal
from model_diagnostics.scoring import LogLoss, SquaredError, decompose
from probcal import metrics

import calibrant

SCALE = {"AAA": 0.0005, "A": 0.002, "BBB": 0.01, "BB": 0.03, "B": 0.1, "CCC": 0.25}
SHARES = (0.13, 0.31, 0.24, 0.18, 0.1, 0.04)


def portfolio(n: int = 100_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return grades, PDs and defaults; those of grade BB are half again as many as it says."""
    rng = np.random.default_rng(0)
    grade = rng.choice(list(SCALE), size=n, p=SHARES)
    pd = np.array([SCALE[name] for name in grade])
    y = rng.uniform(size=n) < pd * np.where(grade == "BB", 1.5, 1.0)
    return grade, pd, y.astype(int)


def forecasts(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of rain and what happened."""
    rng = np.random.default_rng(1)
    p = rng.beta(0.8, 1.6, size=n)
    return p, (rng.uniform(size=n) < p**1.2).astype(int)


def timed(call):  # type: ignore[no-untyped-def]
    """Return the answer, and the best of five times in milliseconds."""
    answer, times = call(), []
    for _ in range(5):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return answer, 1000 * min(times)


def row(what: str, theirs, ours, numbers) -> None:  # type: ignore[no-untyped-def]
    """Print one line: what, both numbers, both times."""
    (their, their_time), (our, our_time) = timed(theirs), timed(ours)
    a, b = numbers(their, our)
    print(f"| {what} | {a} | {b} | {their_time:.1f} ms | {our_time:.1f} ms |")


def credit() -> None:
    """Print the lines of docs/recipe-credit.md."""
    grade, pd, y = portfolio()
    order = list(SCALE)
    counts = [int((grade == name).sum()) for name in order]
    defaults = [int(y[grade == name].sum()) for name in order]
    table = calibrant.BinTable.from_counts(list(SCALE.values()), counts, defaults)
    row(
        "binomial p-value of BB",
        lambda: metrics.binomial_grade_test(y, pd, grade, order=order),
        lambda: calibrant.grade_backtest(y, grade, grades=SCALE),
        lambda a, b: (f"{np.asarray(a.p_value)[3]:.3g}", f"{b.p_binomial[3]:.3g}"),
    )
    row(
        "Jeffreys p-value of A",
        lambda: metrics.jeffreys_grade_test(y, pd, grade, order=order),
        lambda: calibrant.grade_backtest(y, grade, grades=SCALE),
        lambda a, b: (f"{np.asarray(a.p_value)[1]:.6f}", f"{b.p_jeffreys[1]:.6f}"),
    )
    row(
        "prudent PD of AAA, 90%",
        lambda: metrics.pluto_tasche(counts, defaults, confidence=0.9),
        lambda: calibrant.stats.prudent_pds(counts, defaults, confidence_level=0.9),
        lambda a, b: (f"{a.pd_upper[0]:.6f}", f"{b[0]:.6f}"),
    )
    row(
        "offset to a mean of 2%",
        lambda: probcal.LogitOffset(target_mean=0.02).fit(pd),
        lambda: calibrant.PriorShift(target_mean=0.02).fit(pd),
        lambda a, b: (f"{a.affine_logit_coeffs_[1]:.9f}", f"{b.offset_:.9f}"),
    )
    theirs = probcal.LogitOffset(target_mean=0.02).fit(pd)
    ours = calibrant.PriorShift(target_mean=0.02).fit(pd)
    row(
        "raw score of a PD of 2% after that",
        lambda: theirs.point_inverse([0.02]),
        lambda: ours.inverse([0.02]),
        lambda a, b: (f"{a[0]:.9f}", f"{b[0]:.9f}"),
    )
    certificate, time = timed(lambda: calibrant.certify(table, levels=list(SCALE.values())))
    bound = f"at most {certificate.upper_bound:.4f}"
    print(f"| certified l2 error of the scale | none | {bound} | | {time:.1f} ms |")


def forecasting() -> None:
    """Print the lines of docs/recipe-forecasting.md."""
    p, y = forecasts()
    row(
        "Brier skill (probcal)",
        lambda: metrics.brier_skill_score(y, p),
        lambda: calibrant.skill_score(y, p),
        lambda a, b: (f"{a:.6f}", "{:.6f} [{:.3f}, {:.3f}]".format(b, *b.confidence_interval())),
    )

    def parts(frame) -> str:  # type: ignore[no-untyped-def]
        return " - ".join(f"{frame[name][0]:.6f}" for name in ("miscalibration", "discrimination"))

    def ours(d) -> str:  # type: ignore[no-untyped-def]
        return f"{d.miscalibration:.6f} - {d.discrimination:.6f}"

    row(
        "CORP of the Brier score (model-diagnostics)",
        lambda: decompose(y, p, scoring_function=SquaredError()),
        lambda: calibrant.brier_decomposition(y, p, method="corp"),
        lambda a, b: (parts(a), ours(b)),
    )
    row(
        "CORP of the log loss (model-diagnostics)",
        lambda: decompose(y, p, scoring_function=LogLoss()),
        lambda: calibrant.stats.corp_decomposition(
            calibrant.tabulate(y, p, bins="distinct"), rule="log"
        ),
        lambda a, b: (parts(a), ours(b)),
    )
    row(
        "CORP of the Brier score (probcal)",
        lambda: probcal.corp_reliability(y, p, bands=None),
        lambda: calibrant.brier_decomposition(y, p, method="corp"),
        lambda a, b: (f"{a.brier_mcb:.6f} - {a.brier_dsc:.6f}", ours(b)),
    )


if __name__ == "__main__":
    credit()
    print()
    forecasting()
