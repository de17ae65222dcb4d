"""Certificates: statements on a calibration error that hold at any sample size, with a verdict.

A certificate says "with probability at least 95%, the error is at most u", and by itself
"... at least l". A verdict against a tolerance can be wrong in one way only, whatever the truth,
so each bound has the whole error probability.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from calibrant._digests import NO_DIGESTS, Digests
from calibrant._documents import (
    check_entries,
    check_header,
    check_names,
    header,
    is_number,
    is_text,
    is_whole,
    read_json,
)
from calibrant._results import Result, ended, statement
from calibrant._version import __version__
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.bounds import smallest_error
from calibrant.stats.clusters import check_draws, is_draw
from calibrant.stats.curves import diagram_of
from calibrant.stats.estimators import ClassWeight, Norm, Target, power_of
from calibrant.stats.proofs import agrees_too_well, bounds_of, unseen_of
from calibrant.stats.questions import ASKED, MOST_DRAWS, MinBinMass, Question
from calibrant.stats.rechecks import (
    Recheck,
    compared_digests,
    differing_claims,
    differing_tables,
    unproved_claims,
    version_notes,
)
from calibrant.stats.verdicts import (
    ONE_OF_EACH,
    OVERLAP_UNCHECKED,
    TOO_GOOD,
    Verdict,
    assumptions_of,
    decided,
    in_present_words,
    judgement,
    shown_bounds,
    trivial_error,
    verdict_of,
)
from calibrant.table import BinTable

FORMAT = "calibrant.certificate"
SCHEMA = 3


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Result):
    """What a table proves about a calibration error.

    Attributes
    ----------
    verdict : {"certified", "refuted", "undecided"} or None
        None without `max_error`.
    reason : str
        The verdict in words.
    upper_bound : float
        The error is at most this, with probability at least `confidence_level`; 1.0 if nothing
        can be said, as for outputs that are not finitely many.
    lower_bound : float
        The error is at least this, with probability at least `confidence_level`.
    n : int
        The number of rows.
    confidence_level, max_error, norm, target, min_bin_mass, levels, looks, draws
        As they were given; `draws` is None where rows are in no clusters.
    method : str
        The theorem that was used.
    assumptions : list of str
        What must be true for the statement to hold.
    class_weights : list of float
        Of the classes of a marginal problem; they add up to 1.
    table : BinTable
        The evidence; `recheck` computes everything again from it.
    lower_table : BinTable or None
        That of the lower bound, where it comes from another draw.
    drawn : list of int or None
        The numbers of the draws of the two tables, from 0 on.
    digests : Digests
        By which the rows, the recalibrator and the columns are recognised, where there were any.
    version : str
        Of calibrant, that made it.

    See Also
    --------
    certify : makes one.
    recheck : checks it against its rows.

    Examples
    --------
    >>> from calibrant import certify
    >>> certificate = certify([0, 1] * 500, [0.5] * 1000, max_error=0.1)
    >>> certificate.verdict, bool(Certificate.from_json(certificate.to_json()).recheck())
    ('certified', True)
    """

    verdict: Verdict | None
    reason: str
    upper_bound: float
    lower_bound: float
    n: int
    confidence_level: float
    max_error: float | None
    norm: str
    target: Target
    min_bin_mass: MinBinMass
    levels: list[float] | None
    looks: int
    draws: int | None
    method: str
    assumptions: list[str]
    class_weights: list[float]
    table: BinTable
    lower_table: BinTable | None = None
    drawn: list[int] | None = None
    digests: Digests = NO_DIGESTS
    version: str = __version__

    def __str__(self) -> str:
        return statement(self._summary(), self.assumptions, self.verdict)

    def _summary(self) -> str:
        head = f"{self.verdict}: " if self.verdict else ""
        return ended(f"{head}{self.reason}")

    def _facts(self) -> Iterator[tuple[str, str]]:
        level = f"{100 * self.confidence_level:g}%"
        least, most = shown_bounds(self.lower_bound, self.upper_bound, self.agrees_too_well)
        yield "verdict", self.verdict or "none asked for"
        yield f"{self.norm} error at most", f"{most} ({level})"
        yield f"{self.norm} error at least", f"{least} ({level})"
        yield "reason", ended(self.reason)
        yield "holds if", " ".join(self.assumptions)

    def _picture(self) -> str:
        return diagram_of(self.table, self.confidence_level)

    @property
    def trivial_error(self) -> float:
        """The error on these rows of a model that always answers 0 or 1, whichever is commoner.

        A bound above it does not distinguish this model from that one.
        """
        return trivial_error(self.table, np.array(self.class_weights), power_of(self.norm))

    @property
    def agrees_too_well(self) -> bool:
        """Whether labels agree with the predictions better than independent draws would."""
        return in_present_words(self.reason).startswith(TOO_GOOD)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, the table included."""
        lower = None if self.lower_table is None else self.lower_table.to_dict()
        parts = {"table": self.table.to_dict(), "lower_table": lower}
        parts["digests"] = self.digests.to_dict()
        return {**header(FORMAT, SCHEMA), **vars(self), **parts}

    def to_json(self) -> str:
        """Return the certificate as a document, for others to check again."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read a certificate; only `recheck` verifies its claims."""
        document = read_json(text, "A certificate")
        document = check_header(document, FORMAT, SCHEMA, "A certificate", "Certify again")
        names, document = tuple(cls.__dataclass_fields__), _with_draws(document)
        check_names(document, ("format", "schema", *names), "A certificate")
        check_entries(document, _ALLOWED, "a certificate")
        fields = {name: document[name] for name in names}
        fields["table"] = BinTable.from_dict(document["table"])
        if document["lower_table"] is not None:
            fields["lower_table"] = BinTable.from_dict(document["lower_table"])
        fields["digests"] = Digests.from_dict(document["digests"])
        return cls(**fields)

    def recheck(
        self,
        table: BinTable | None = None,
        digests: Digests | None = None,
        lower_table: BinTable | None = None,
    ) -> Recheck:
        """Compute everything again from the certificate's own table, and compare.

        A certificate of this version must say exactly what its table gives. One that says that
        another version made it agrees if its table proves at least what it claims: the notes tell
        where this version proves more, or words a sentence otherwise.

        Parameters
        ----------
        table : BinTable, optional
            The rows, counted again in the bins of this certificate's table: then the two
            tables are compared too. `calibrant.recheck` counts and compares in one call.
        digests : Digests, optional
            Of these rows, their columns, and the recalibrator.
        lower_table : BinTable, optional
            The rows of the draw of the lower bound, where that is another one.
        """
        for counted in (table, lower_table):
            if not (counted is None or isinstance(counted, BinTable)):
                raise InvalidArgumentError(
                    "recheck compares a certificate with a BinTable; got "
                    f"{type(counted).__name__}. "
                    "calibrant.recheck(certificate, y_true, y_prob) counts rows and compares them."
                )
        try:
            asked = {name: getattr(self, name) for name in ASKED}
            weights = self.class_weights if self.table.n_groups > 1 else None
            question = Question.of(self.table, **asked, class_weight=weights)
            assumptions = [in_present_words(sentence) for sentence in self.assumptions]
            tables = (self.table, self.lower_table, self.drawn)
            again = _answer(*tables, question, self.digests, OVERLAP_UNCHECKED in assumptions)
        except (TypeError, ValueError, ArithmeticError) as error:
            return Recheck(False, (f"it cannot be computed: {error}",), None)
        claims = (self.table, question, self.upper_bound, self.lower_bound, again.agrees_too_well)
        if self.version == __version__:
            differences, notes = [*differing_claims(self, again, verdict_of(*claims)[1])], []
        else:
            claim = judgement(*claims)[1]
            differences = [*unproved_claims(self, again, verdict_of(*claims), claim)]
            notes = [*version_notes(self, again)]
        scope = "table"
        if table is not None:
            differences += differing_tables(self.table, table)
            if self.lower_table is not None and lower_table is not None:
                differences += differing_tables(self.lower_table, lower_table)
            others, unknown, same_rows = compared_digests(self.digests, digests or NO_DIGESTS)
            differences += others
            notes += unknown
            scope = "rows" if same_rows else "counts"
        return Recheck(not differences, tuple(differences), again, scope, tuple(notes))


def _with_draws(document: dict[str, Any]) -> dict[str, Any]:
    """Add the entries that certificates lacked when clusters were drawn from once only."""
    if {"draws", "lower_table", "drawn"} & document.keys():
        return document
    assumptions = document.get("assumptions")
    once = isinstance(assumptions, list) and ONE_OF_EACH in assumptions
    new = {"draws": 1 if once else None, "lower_table": None, "drawn": [0, 0] if once else None}
    return document | new


_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "verdict": lambda x: x is None or x in get_args(Verdict),
    "reason": lambda x: isinstance(x, str),
    "upper_bound": lambda x: is_number(x, 0, 1),
    "lower_bound": lambda x: is_number(x, 0, 1),
    "n": lambda x: is_whole(x, 1),
    "confidence_level": lambda x: is_number(x, 0, 1),
    "max_error": lambda x: x is None or is_number(x, 0, 1),
    "norm": lambda x: isinstance(x, str),
    "target": lambda x: x in get_args(Target),
    "min_bin_mass": lambda x: x is None or x == "learned" or is_number(x, 0, 1),
    "levels": lambda x: x is None or (isinstance(x, list) and all(is_number(e, 0, 1) for e in x)),
    "looks": lambda x: is_whole(x, 1),
    "draws": lambda x: x is None or is_whole(x, 1, MOST_DRAWS),
    "drawn": lambda x: x is None or (isinstance(x, list) and all(map(is_draw, x))),
    "method": lambda x: isinstance(x, str),
    "assumptions": lambda x: isinstance(x, list) and all(isinstance(item, str) for item in x),
    "class_weights": lambda x: isinstance(x, list) and all(is_number(item, 0, 1) for item in x),
    "version": lambda x: is_text(x, 40) and x[:1].isdecimal(),
}
"""Types and ranges of the entries of a document; `recheck` finds whether they are true."""


def certify(
    table: BinTable,
    *,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    target: Target = "population",
    min_bin_mass: MinBinMass = None,
    levels: ArrayLike | None = None,
    looks: int = 1,
    draws: int | None = None,
    class_weight: ClassWeight = None,
    digests: Digests | None = None,
    overlap_unchecked: bool = False,
    lower_table: BinTable | None = None,
    drawn: list[int] | None = None,
) -> Certificate:
    """Certify, refute, or leave undecided that a calibration error is at most `max_error`.

    The parameters are those of `calibrant.certify`; `digests`, for the record, say which rows
    were counted; `overlap_unchecked` adds the assumption that a recalibrator has not seen them. Of
    several `draws`, `table` is the one that gives the upper bound and `lower_table` the one that
    gives the lower, if it is another; `drawn` are their numbers.
    """
    question = Question.of(
        table,
        confidence_level=confidence_level,
        max_error=max_error,
        norm=norm,
        target=target,
        min_bin_mass=min_bin_mass,
        levels=levels,
        looks=looks,
        draws=draws,
        class_weight=class_weight,
    )
    digests = digests or NO_DIGESTS
    return _answer(table, lower_table, drawn, question, digests, overlap_unchecked)


def verified_bounds(
    table: BinTable, question: Question
) -> tuple[float, float, Verdict | None, bool]:
    """Return the upper and the lower bound, the verdict, and whether labels agree too well."""
    upper, lower, _ = bounds_of(table, question)
    verdict = decided(upper, lower, question.max_error)
    too_good = _is_too_good(table, question, upper)
    return upper, lower, "undecided" if too_good and verdict else verdict, too_good


def _is_too_good(table: BinTable, question: Question, upper: float) -> bool:
    if question.power == 2 and upper > smallest_error(table.n):
        return False
    return agrees_too_well(table, question)


def _answer(
    table: BinTable,
    lower_table: BinTable | None,
    drawn: list[int] | None,
    question: Question,
    digests: Digests,
    overlap_unchecked: bool,
) -> Certificate:
    upper, lower, method = bounds_of(table, question)
    check_draws(table, lower_table, drawn, question.draws)
    if lower_table is not None:
        lower = bounds_of(lower_table, question)[1]
    too_good = _is_too_good(table, question, upper)
    verdict, reason = verdict_of(table, question, upper, lower, too_good)
    left_out = None
    if math.isinf(question.power) and table.is_binned_model:
        _, left_out = unseen_of(table, question)
    asked = {name: getattr(question, name) for name in ASKED}
    asked["levels"] = None if question.levels is None else question.levels.tolist()
    return Certificate(
        **asked,
        verdict=verdict,
        reason=reason,
        upper_bound=upper,
        lower_bound=lower,
        n=table.n,
        method=method,
        assumptions=assumptions_of(table, question, overlap_unchecked, left_out),
        class_weights=question.weights.tolist(),
        table=table,
        lower_table=lower_table,
        drawn=drawn,
        digests=digests,
    )
