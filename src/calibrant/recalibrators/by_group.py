"""Repair by group: one recalibrator for each group, pulled towards the one of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._options import is_integer, is_real
from calibrant._types import AnyArray, BoolArray, FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import GroupColumn, GroupLabel, read_labels
from calibrant.problem import Input, Label
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.certifying import certify_groups
from calibrant.recalibrators.foreign import is_foreign, weights_name
from calibrant.recalibrators.formulas import log_odds
from calibrant.recalibrators.pooling import GroupedRows, Pool, Repair, chosen, repair_of
from calibrant.recalibrators.reading import (
    NO_GROUPS,
    SEVERAL,
    Choices,
    Reads,
    groups_again,
    groups_of_fit,
    groups_of_rows,
    in_shape,
    keep_names,
    places,
    read_again,
    read_labelled,
    read_unlabelled,
    unless_it_fails,
)
from calibrant.recalibrators.saving import parts_as_steps
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.scores import FitResult
from calibrant.sources.column_names import names_of

Own: TypeAlias = Literal["auto", "shift", "map"]

MOST_POOLED = 1e12
"""More rows than any group has: everything is pooled, and nothing overflows."""

MOST_FOLDS = 100
"""Folds; a larger number is a mistake, and would take hours in silence."""


def _refused(reason: str) -> Any:
    """Return a method that raises, in place of one that has no answer for groups."""

    def refuse(self: ByGroup, *args: Any, **options: Any) -> NoReturn:
        """Refuse: this has no answer for groups."""
        raise InvalidArgumentError(reason)

    return refuse


class ByGroup(Recalibrator):
    """Repair each group by its own rows where they are many, and like all rows elsewhere.

    Every group is pulled towards the repair that was fitted on all rows. What is its own is a
    shift of the log-odds of the pooled answers, or a whole map: the recalibrator fitted on its
    rows together with all rows, which count as `pool` rows then (a penalised likelihood, see
    `calibrant.recalibrators.pooling`). A group of n rows gets the weight ``n / (n + pool)``, so
    large groups are repaired by their own rows and small ones like all others.

    What is a group's own is decided by a cross-validation of the log loss whose folds are always
    the same: shifts if they are better than nothing by one standard error, and maps if they are
    better than that by two. So the answer is never worse there than one repair for all, and groups
    that are alike are pooled. How much is pooled is chosen along with maps, and estimated by
    empirical Bayes for shifts.

    **A group that the fit has not seen, and a row that lacks a value in a column, get the pooled
    repair**; `has_own_repair` tells which rows do not.

    Parameters
    ----------
    recalibrator : recalibrator
        A fresh copy of it is fitted on all rows, and one for each group. Of one event any
        will do; of several classes those that take all columns, such as `TemperatureScaling`,
        `VectorScaling`, or `TopLabel` and `OneVsRest` of another.
    pool : "auto" or float
        How many rows the rows of all groups count for in the repair of each: 0 fits every group
        by itself (for a shift at least 1 row is pooled, so that groups of one label have one).
    own : {"auto", "shift", "map"}
        What a group may have of its own; of several classes always a map.
    cv : int
        The number of folds that decide what is left at "auto".

    Attributes
    ----------
    groups_ : list of tuple
        The labels of the groups that have a repair, one of each column.
    sizes_ : ndarray
        The number of rows of each.
    own_ : {"nothing", "shift", "map"}
        What groups have of their own; with "nothing" all answers are the pooled ones.
    pool_ : float or None
        How many rows the pool counts for; None where everything is pooled.
    pooled_ : recalibrator
        Fitted on all rows.
    recalibrators_ : list
        That of each group, where it has a map of its own.
    shifts_ : ndarray
        That of each group, where it has a shift.
    cv_loss_, cv_loss_pooled_ : float or None
        The cross-validated log loss, and that of one repair for all; None where nothing was left to
        choose.

    See Also
    --------
    audit : for whom is it wrong?

    Notes
    -----
    In the fit of a group, its n rows have the weight ``n / (n + pool)`` and all rows together
    ``pool / (n + pool)``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p, site = rng.uniform(size=4000), rng.choice(["east", "north", "west"], size=4000)
    >>> y = rng.uniform(size=4000) < np.where(site == "north", p**2, p)
    >>> from calibrant.recalibrators import PlattScaling
    >>> repair = ByGroup(PlattScaling()).fit(p, y, by={"site": site})
    >>> repair.groups_, repair.cv_loss_ < repair.cv_loss_pooled_
    ([('east',), ('north',), ('west',)], True)
    >>> repair.predict_proba([0.5, 0.5, 0.5], by=["north", "west", "south"]).round(2)
    array([0.28, 0.5 , 0.41])
    """

    _learned: ClassVar[dict[str, str]] = {
        "by_": "group columns",
        "groups_": "groups",
        "sizes_": "vector",
        "pooled_": "recalibrator",
        "recalibrators_": "recalibrators",
        "shifts_": "vector",
        "pool_": "number?",
        "cv_loss_": "number?",
        "cv_loss_pooled_": "number?",
    }
    _choices: ClassVar[Choices] = {"own": ("auto", "shift", "map")}
    by_: tuple[GroupColumn, ...]
    groups_: list[tuple[GroupLabel, ...]]
    sizes_: FloatArray
    pooled_: Recalibrator
    recalibrators_: list[Recalibrator]
    shifts_: FloatArray
    pool_: float | None
    cv_loss_: float | None
    cv_loss_pooled_: float | None

    def __init__(
        self,
        recalibrator: Any,
        pool: float | Literal["auto"] = "auto",
        own: Own = "auto",
        cv: int = 5,
    ) -> None:
        self.recalibrator = recalibrator
        self.pool = pool
        self.own = own
        self.cv = cv

    as_steps = parts_as_steps

    @property
    def input(self) -> Input:  # type: ignore[override]
        """What the predictions are: what the recalibrator takes."""
        return getattr(self.recalibrator, "input", "probabilities")

    @property
    def _reads(self) -> Reads:  # type: ignore[override]
        return getattr(self.recalibrator, "_reads", "one event")

    @property
    def own_(self) -> Literal["nothing", "shift", "map"]:
        """What groups have of their own."""
        if self.recalibrators_:
            return "map"
        return "shift" if self.shifts_.size else "nothing"

    def fit(
        self,
        y_prob: Any,
        y_true: Any,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
        *,
        by: Any = None,
    ) -> Self:
        """Learn from predictions, labels and groups, and return self.

        Parameters
        ----------
        by
            The group of each row, as in `calibrant.calibration_error`: one column, several, a data
            frame, or a dict by name, ``{"age": (age, [0, 40, 65, 120])}`` for a number to be
            cut. Rows that lack a value in a column are in no group: they shape the pooled repair.
        y_prob, y_true, sample_weight, classes
            As of every recalibrator.
        """
        self._check_parameters()
        with unless_it_fails(self):
            keep_names(self, names_of(y_prob))
            rows = read_labelled(self, y_prob, y_true, sample_weight, classes)
            groups = groups_of_rows(by, len(rows))
            self.by_, (self.groups_, self.sizes_) = groups.by, groups_of_fit(groups, rows.weights)
            self.classes_ = np.array(rows.problem.class_names)
            grouped = GroupedRows.of(rows, places(groups, self.groups_), len(self.groups_))
            pool = Pool(self.recalibrator, self.classes_, grouped)
            k = None if self.pool == "auto" else float(self.pool)
            choice = chosen(pool, self.own, k, self.cv)
            repair = repair_of(pool, choice.own, choice.k)
            self.pooled_, self.recalibrators_ = repair.pooled, repair.maps or []
            self.shifts_ = np.empty(0) if repair.shifts is None else repair.shifts
            self.pool_ = choice.k if np.isfinite(choice.k) else None
            self.cv_loss_, self.cv_loss_pooled_ = choice.loss, choice.loss_pooled
            pooled = self.pooled_.fit_result_
            parts = FitResult.of_all([pooled, *(part.fit_result_ for part in self.recalibrators_)])
            self.fit_result_ = replace(pooled, converged=parts.converged, flags=parts.flags)
            self._remember(rows.predictions, rows.codes(), rows.weights)
        return self

    @property
    def _repair(self) -> Repair:
        shifts = self.shifts_ if self.shifts_.size else None
        return Repair(self.pooled_, shifts, self.recalibrators_ or None)

    def predict_proba(self, y_prob: Any, by: Any = None) -> FloatArray:
        """Return recalibrated probabilities in the shape of `y_prob`.

        Parameters
        ----------
        by
            The group of each row, in the columns of the fit: by name where they have names, else in
            the same order. Numbers are cut where the fit cut them.
        """
        probs, shape = read_unlabelled(self, y_prob)
        place = places(groups_again(self, by, len(probs)), self.groups_)
        return in_shape(self._repair.answers(probs, place), shape)

    def predict(self, y_prob: Any, by: Any = None) -> AnyArray:
        """Return the most probable class of each row; ties go to the first."""
        return self._most_probable(self.predict_proba(y_prob, by))

    def score(self, y_prob: Any, y_true: Any, sample_weight: Any = None, by: Any = None) -> float:
        """Return the negative Brier score of the recalibrated probabilities: higher is better.

        Parameters
        ----------
        y_prob, y_true, sample_weight, by
            As in `fit`.
        """
        rows = read_again(self, y_prob, y_true, sample_weight)
        place = places(groups_again(self, by, len(rows)), self.groups_)
        return self._score_of(rows, self._repair.answers(rows.predictions, place))

    def has_own_repair(self, by: Any) -> BoolArray:
        """Return for each row whether the fit has seen its group; others get the pooled repair.

        Examples
        --------
        >>> from calibrant.recalibrators import PlattScaling
        >>> repair = ByGroup(PlattScaling()).fit([0.2, 0.4, 0.6], [0, 1, 0], by=["a", "b", "a"])
        >>> int((~repair.has_own_repair(["a", "c", None])).sum())
        2
        """
        check_is_fitted(self, "classes_")
        return places(groups_again(self, by, None), self.groups_) >= 0

    certify = certify_groups  # type: ignore[assignment]
    fit_table = _refused(
        "A repair by group is fitted on rows with their groups; a table has none. Use fit with "
        "by=, or fit_table of the recalibrator itself."
    )
    inverse = _refused(
        "Every group has an inverse of its own; inverse takes probabilities and no groups. Use "
        "that of a part: pooled_ or one of recalibrators_."
    )
    recheck = _refused(
        "The certificate of a group is checked against its own repaired rows; ByGroup holds "
        "all groups. Pass what predict_proba gives for the rows of the group, and their "
        "labels, to calibrant.recheck."
    )
    to_torch = to_onnx = _refused(
        "An export to torch or ONNX has the predictions as its one input; the answers of ByGroup "
        "depend on groups too. Use to_sql, apply_to_frame or predict_proba, or export the "
        "parts: pooled_ and recalibrators_."
    )
    _learn = _refused(
        "ByGroup learns from rows with their groups, and can stand in no other recalibrator. "
        "Put it outermost, as in ByGroup(TopLabel(PlattScaling()))."
    )
    _apply = _refused(NO_GROUPS)

    def _formula(self, ops: Any, x: Any, learned: Any) -> Any:
        """Return the answers by operations that know the columns of groups."""
        pooled = ops.pooled
        if pooled is None:
            pooled = self.pooled_._formula(ops, x, self.pooled_)
        if self.own_ == "nothing":
            return pooled
        if self.own_ == "shift":
            return ops.shifted_by_group(self, log_odds(ops, pooled), pooled)
        parts = [part._formula(ops, x, part) for part in self.recalibrators_]
        return ops.by_group(self, parts, pooled)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (is_integer(self.cv) and 2 <= self.cv <= MOST_FOLDS):
            raise InvalidArgumentError(
                f"cv must be from 2 to {MOST_FOLDS} folds; got {self.cv!r:.60}. Each is a fit of "
                "every candidate: 5 to 10 choose as well as more."
            )
        pool, inner = self.pool, self.recalibrator
        named = isinstance(pool, str) and pool == "auto"
        if not named and not (is_real(pool) and 0 <= float(pool) <= MOST_POOLED):
            raise InvalidArgumentError(
                f'pool must be "auto" or a number of rows from 0 to 1e12; got {pool!r:.60}. To '
                "pool everything, fit the recalibrator itself."
            )
        weighted = inner
        if not is_foreign(inner):
            if not isinstance(inner, Recalibrator) or isinstance(inner, ByGroup):
                raise InvalidArgumentError(
                    "recalibrator must be what repairs all groups, such as PlattScaling() or "
                    f"TopLabel(ScalingBinning()); got {inner!r:.100}. Cross several columns of "
                    "groups in by=."
                )
            inner._check_parameters()
            if inner._reads == "labels":
                raise InvalidArgumentError(
                    "ByGroup repairs one event or classes of which a row has one; got "
                    f"{inner!r:.60}. Fit a ByGroup on the column of each label."
                )
            if self.own == "shift" and inner._reads in SEVERAL:
                raise InvalidArgumentError(
                    'own="shift" shifts the log-odds of one event; the recalibrator repairs all '
                    f'classes: {inner!r:.60}. Use own="map".'
                )
            weighted = getattr(inner, "recalibrator", inner)
            if isinstance(weighted, ScalingBinning):
                if weighted.split is not None:
                    raise InvalidArgumentError(
                        "Groups are pooled by weights, and a split deals out rows; got split="
                        f"{weighted.split!r:.60}. Use split=None."
                    )
                weighted = weighted.scaler
        pools_rows = self.own != "shift" and pool != 0
        if pools_rows and is_foreign(weighted) and weights_name(weighted) is None:
            raise InvalidArgumentError(
                f"Groups are pooled by weights, and the fit of {type(weighted).__name__} takes no "
                "sample_weight or makes no use of it. Use one of calibrant's recalibrators, such "
                'as PlattScaling(), or what needs no weights: own="shift", or pool=0.'
            )

    def _check_learned(self) -> None:
        self.groups_ = read_labels(self.groups_, self.by_)
        if any(None in labels for labels in self.groups_):
            raise ValueError("rows of which a column says nothing are in no group")
        n = len(self.groups_)
        sizes = (len(self.sizes_) == n, len(self.recalibrators_) in (0, n))
        # only where pooling left groups nothing of their own do they have neither
        lost = not self.recalibrators_ and not self.shifts_.size and self.pool_ is not None
        if not all(sizes) or self.shifts_.size not in (0, n) or lost or None in self.recalibrators_:
            raise ValueError("there must be a size and a repair for each group")
        if self.shifts_.size and self.recalibrators_:
            raise ValueError("groups have shifts or maps of their own, not both")
