"""The tables that `measure.py` prints and writes into a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import measure_cases as cases
from measure_cases import Group


@dataclass(frozen=True)
class Line:
    """What was found for one case; `seconds` is a limit if it was stopped there."""

    seconds: float
    value: float = 0.0
    extra_mb: float = float("nan")
    problem: str = ""

    @property
    def is_bound(self) -> bool:
        return self.problem.startswith("over")


Found = dict[str, dict[str, Line]]
"""Lines by key of their group and name of their case."""


@dataclass(frozen=True)
class Target:
    """That the time of one line over that of another is at least, or at most, so much."""

    work: str
    limit: float
    is_at_least: bool
    group: str
    over: str
    under: str

    def row(self, found: Found) -> str:
        lines = found.get(self.group, {})
        over, under = lines.get(self.over), lines.get(self.under)
        word = "at least" if self.is_at_least else "at most"
        wanted = f"{word} {self.limit:g}x"
        if over is None or under is None or _failed(over) or _failed(under):
            return f"| {self.work} | {wanted} | not measured | |"
        ratio = over.seconds / under.seconds
        met = ratio >= self.limit if self.is_at_least else ratio <= self.limit
        sign = "over " if over.is_bound else ""
        return f"| {self.work} | {wanted} | {sign}{_short(ratio)}x | {_verdict(met)} |"


def _failed(line: Line) -> bool:
    return bool(line.problem) and not line.is_bound


def _verdict(met: bool) -> str:
    return "met" if met else "**not met**"


def targets() -> list[Target]:
    """Return what is to be shown, ratios of lines of one run."""
    found = []
    for n, rows in ((10_000_000, "1e7"), (100_000_000, "1e8")):
        key = f"width {n}"
        for name, limit in (
            (cases.RELPLOT, 3),
            (cases.TORCHMETRICS, 50),
            (cases.NETCAL, 50),
            (cases.SKLEARN, 40),
        ):
            work = f"equal width, {rows} rows: time of {name} over ours"
            found.append(Target(work, limit, True, key, name, cases.COMPILED))
        work = f"equal width, {rows} rows: our time over reading both arrays"
        found.append(Target(work, 3, False, key, cases.COMPILED, cases.READ))
    for n, rows, limit in ((10_000, "1e4", 2), (100_000, "1e5", 0.7)):
        work = f"equal width, {rows} rows: our time over that of relplot"
        found.append(Target(work, limit, False, f"width {n}", cases.COMPILED, cases.RELPLOT))
    work = "equal width, 1e7 rows: time of our NumPy engine over relplot"
    found.append(Target(work, 1.3, False, "width 10000000", cases.NUMPY, cases.RELPLOT))
    for b in (100, 1000):
        work = f"{b:,} uniform-mass bins, 1e7 rows: np.sort over ours"
        found.append(Target(work, 1, True, f"mass of {b}", cases.SORT, cases.MASS))
    work = "marginal, equal width, 50,000 x 1,000: pycalib over ours"
    found.append(Target(work, 20, True, "marginal 1000", cases.PYCALIB, cases.MARGINAL))
    work = "marginal, uniform mass, debiased, 50,000 x 1,000: uncertainty-calibration over ours"
    key = "marginal mass 1000"
    found.append(Target(work, 100, True, key, cases.UNCERTAINTY, cases.MARGINAL_MASS))
    work = "1,000 resamples of a binned model: uncertainty-calibration over ours"
    pair = (cases.UNCERTAINTY_RESAMPLES, cases.RESAMPLES)
    found.append(Target(work, 1000, True, "bootstrap", *pair))
    return found


def memory_rows(found: Found) -> Iterator[str]:
    """Yield the target of memory: under 1% of what 1e8 rows of 16 bytes take."""
    for group, name, work in (
        ("width 100000000", cases.COMPILED, "equal width"),
        ("mass 100000000", cases.MASS, "100 uniform-mass bins"),
    ):
        line = found.get(group, {}).get(name)
        work = f"{work}, 1e8 rows: extra memory over input"
        if line is None or line.problem:
            yield f"| {work} | under 1% | not measured | |"
            continue
        share = line.extra_mb / 1600
        yield f"| {work} | under 1% | {100 * share:.2f}% | {_verdict(share < 0.01)} |"


def import_row(seconds: dict[str, float]) -> str:
    more = 1000 * (seconds["calibrant"] - seconds["numpy"])
    measured = f"{more:.0f} ms more" if more > 0 else f"{-more:.0f} ms less"
    wanted = "at most 50 ms more"
    return (
        f"| import calibrant over import numpy | {wanted} | {measured} | {_verdict(more <= 50)} |"
    )


def table_of(group: Group, lines: dict[str, Line]) -> Iterator[str]:
    """Yield the lines of one group as a table."""
    yield f"| {group.title} | seconds | ratio | value | extra MB |"
    yield "|---|--:|--:|--:|--:|"
    first = lines[group.names[0]].seconds if group.names[0] in lines else float("nan")
    for name, line in lines.items():
        if line.problem:
            ratio = f"over {_short(line.seconds / first)}" if line.is_bound else ""
            yield f"| {name} | {line.problem} | {ratio} | | |"
            continue
        value = f"{line.value:.6f}" if line.value else ""
        ratio = _short(line.seconds / first)
        yield f"| {name} | {_short(line.seconds)} | {ratio} | {value} | {line.extra_mb:.1f} |"


def growth(title: str, keys: dict[str, str], names: tuple[str, ...], found: Found) -> Iterator[str]:
    """Yield how the seconds of some cases grow over groups, named by what grows."""
    yield f"| {title} | " + " | ".join(names) + " |"
    yield "|---|" + "--:|" * len(names)
    for label, key in keys.items():
        cells = [found.get(key, {}).get(name) for name in names]
        shown = ["" if c is None else c.problem or _short(c.seconds) for c in cells]
        yield f"| {label} | " + " | ".join(shown) + " |"


def growth_tables(
    rows: list[int], classes: list[int], n_bins: list[int], found: Found
) -> Iterator[str]:
    names = (
        cases.COMPILED,
        cases.NUMPY,
        cases.RELPLOT,
        cases.TORCHMETRICS,
        cases.NETCAL,
        cases.SKLEARN,
    )
    yield from growth("rows (seconds)", {f"{n:,}": f"width {n}" for n in rows}, names, found)
    yield ""
    some = {f"{b:,} equal width": f"width of {b}" for b in n_bins}
    yield from growth("bins (seconds)", some, (cases.COMPILED, cases.RELPLOT), found)
    yield ""
    some = {f"{b:,} uniform mass": f"mass of {b}" for b in n_bins}
    yield from growth("bins (seconds)", some, (cases.MASS, cases.SORT), found)
    yield ""
    some = {f"{k:,}": f"marginal {k}" for k in classes}
    yield from growth("classes (seconds)", some, (cases.MARGINAL, cases.PYCALIB), found)
    yield ""
    some = {f"{k:,}": f"marginal mass {k}" for k in classes}
    yield from growth("classes (seconds)", some, (cases.MARGINAL_MASS, cases.UNCERTAINTY), found)


def target_table(found: Found, imports: dict[str, float]) -> Iterator[str]:
    yield "| what | target | measured | |"
    yield "|---|---|---|---|"
    yield from (target.row(found) for target in targets())
    yield from memory_rows(found)
    yield import_row(imports)


def _short(number: float) -> str:
    """Three digits, without an exponent."""
    return (
        f"{number:.3g}"
        if 1e-4 <= number < 1000
        else f"{number:,.0f}"
        if number >= 1
        else f"{number:.7f}"
    )
