"""Who is it wrong for? Every group of rows that was asked for, and diagrams of the worst."""

from __future__ import annotations

from calibrant._html import Content, Element, element, scrolling, shown, table
from calibrant.groups import key_of, shown_key
from calibrant.reports.curves import curve_of
from calibrant.reports.findings import Findings
from calibrant.reports.reliability import PANELS, panels
from calibrant.reports.sections import section
from calibrant.reports.wording import percent, points
from calibrant.stats import Audit, AuditedGroup
from calibrant.stats.curves import join_bins

BINS_OF_A_PANEL = 20
"""More points than these run together in a small diagram."""
MOST_GROUPS = 200
"""Lines of the table; the others are counted."""


def groups_of_rows(findings: Findings) -> Element | None:
    """Return the table of groups, the worst first, and diagrams of the worst six."""
    audit = findings.audit
    if audit is None:
        return None
    heads = ["Group", "Rows", "Error, points", "Interval", "Proved, points"]
    heads += ["Verdict"] if audit.max_error else []
    rows = [_row(group)[: len(heads)] for group in audit.groups[:MOST_GROUPS]]
    listed = table("Groups, the worst first", heads, rows)
    left_out = len(audit) - MOST_GROUPS
    more = f"{left_out:,} more groups are not shown." if left_out > 0 else None
    return section(
        "groups",
        "Who is it wrong for?",
        element("p", _words(audit)),
        scrolling("Error of each group", listed, "tall"),
        more and element("p", more, class_="note"),
        _panels(audit),
        element(
            "p",
            "Rows are told apart by ",
            shown(audit.tables.described_by),
            f". Intervals, bounds and verdicts hold for all {len(audit):,} groups at once, with "
            f"{percent(audit.confidence_level)} confidence.",
            class_="note",
        ),
    )


def _row(group: AuditedGroup) -> tuple[Content, ...]:
    return (
        shown(shown_key(group.group)),
        f"{group.n:,}",
        points(group.error),
        f"{points(group.low)} to {points(group.high)}",
        f"{points(group.lower_bound)} to {points(group.upper_bound)}"
        if group.upper_bound < 1
        else f"≥ {points(group.lower_bound)}",
        "too small" if group.is_too_small else group.verdict or "",
    )


def _words(audit: Audit) -> str:
    """Say in a few sentences what holds for all groups."""
    said = []
    if audit.max_error is not None:
        limit, n = points(audit.max_error), len(audit)
        counts = [(len(audit.of(x)), x) for x in ("refuted", "certified", "undecided")]
        found = ", ".join(f"{k:,} {x}" for k, x in counts if k)
        said.append(f"Is every group off by at most {limit} points? Of {n:,}: {found}.")
    if audit.too_small:
        needed = max(group.rows_needed or 0 for group in audit.too_small)
        k = len(audit.too_small)
        has = "1 group has" if k == 1 else f"{k:,} groups have"
        said.append(
            f"{has} too few rows to be certified even if calibrated: "
            + (f"{needed:,} are needed." if k == 1 else f"up to {needed:,} are needed in each.")
        )
    if audit.heterogeneity is not None:
        p = audit.heterogeneity.pvalue
        differ = p <= 1 - audit.confidence_level
        words = "The error differs between groups" if differ else "No difference between groups"
        said.append(f"{words}{'' if differ else ' can be shown'} (p = {p:.2g}).")
    return " ".join(said)


def _panels(audit: Audit) -> Element | None:
    """Return small diagrams of the worst groups; of several classes there are none."""
    if audit.tables.problem.n_groups > 1:
        return None
    level = audit.confidence_level
    at_once = 1 - (1 - level) / len(audit)
    worst = audit.groups[:PANELS]
    drawn = (join_bins(audit.tables[key_of(group.group)], BINS_OF_A_PANEL) for group in worst)
    curves = (curve_of(table, None, level, at_once) for table in drawn)
    return panels((shown_key(g.group), g.error, c) for g, c in zip(worst, curves, strict=True))
