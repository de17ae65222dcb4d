"""ReliabilityDisplay: what happened beside what was said, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from calibrant._options import check_flag, check_word
from calibrant.bins import BinsLike, Distinct
from calibrant.curves import smooth_curve
from calibrant.display import drawing
from calibrant.display.axes import FINE, Scale
from calibrant.display.curves import DisplayedCurve, Limits, displayed_curve, worst_panels
from calibrant.display.drawing import Band, PlotOptions
from calibrant.display.grid import ReliabilityGrid
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import shown_key
from calibrant.problem import Input, Kind, Label
from calibrant.sources import read
from calibrant.stats.curves import CurveMethod
from calibrant.stats.intervals import check_level
from calibrant.table import BinTable
from calibrant.tables import Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class ReliabilityDisplay:
    """A reliability diagram: event rates against predictions, with honest limits.

    Make one with `from_predictions`, `from_estimator` or `from_table`, which compute and draw, or
    `grid` for one panel per class. With ``draw=False`` they only compute, without matplotlib.

    Parameters
    ----------
    curves : iterable of DisplayedCurve

    Attributes
    ----------
    curves : tuple of DisplayedCurve
        All the numbers of the picture.
    ax_, figure_ : matplotlib Axes and Figure
        Where the diagram was drawn.
    counts_ax_ : matplotlib Axes or None
        Where the numbers of rows were drawn.
    lines_ : list of matplotlib Line2D
        One for each curve.

    See Also
    --------
    reliability_curve : the numbers alone.
    report : a page with the diagram and the verdict.

    Examples
    --------
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.6, 0.8, 0.9], bins=2, draw=False
    ... )
    >>> display.curves[0].curve.event_rate.round(2)
    array([0.33, 0.67])
    """

    ax_: Axes
    figure_: Figure
    counts_ax_: Axes | None
    lines_: list[Line2D]

    def __init__(self, curves: Iterable[DisplayedCurve]) -> None:
        try:
            self.curves = tuple(curves)
        except TypeError:
            self.curves = ()
        if not self.curves or not all(isinstance(curve, DisplayedCurve) for curve in self.curves):
            raise InvalidArgumentError(
                f"A display needs at least one curve, and nothing but curves; got {curves!r:.60}. "
                "Make it with from_predictions, from_estimator or from_table."
            )

    def __repr__(self) -> str:
        curves = (
            f"{curve.name}: {curve.error_line}" if curve.name else curve.error_line
            for curve in self.curves
        )
        return f"<{type(self).__name__}: {'; '.join(curves)}>"

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        draw: bool = True,
        kind: Kind | None = None,
        bins: BinsLike = "auto",
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
        pos_label: Label | None = None,
        class_label: Label | None = None,
        confidence_level: float = 0.95,
        simultaneous: bool = True,
        method: CurveMethod = "bins",
        isotonic: bool = False,
        data: Any = None,
        input: Input = "probabilities",
        by: Any = None,
        **options: Unpack[PlotOptions],
    ) -> ReliabilityDisplay:
        """Compute and draw the diagram of predictions.

        Parameters
        ----------
        y_prob : array_like, or dict of them
            Probabilities, or several models' as ``{name: y_prob}``, also before and after.
        name : str, optional
            How the legend calls the curve; of a dict, its keys do.
        ax : matplotlib Axes, optional
            Where to draw. The axes of an earlier display get one more curve.
        draw : bool
            False computes only.
        confidence_level, simultaneous : float, bool
            Of the Clopper-Pearson limits of event rates: in all bins at once, or in each by itself.
        method : {"bins", "isotonic", "spline", "loess"}
            What curve is drawn; see `calibrant.reliability_curve`. The l2 error is that of bins.
        isotonic : bool
            Whether to add the isotonic (CORP) curve with its decomposition of the Brier score.
        y_true, kind, bins, sample_weight, classes, pos_label, data, input
            As in `calibrant.calibration_error`.
        class_label : label, optional
            Which class of a marginal problem; see `grid` for all of them.
        by : optional
            What puts rows into groups, as in `calibrant.calibration_error`: one curve for each, of
            their bins; see `grid` for a panel for each, the worst first.
        **options
            As in `plot`: band, consistency, counts, error, legend, line_kw, scale, zoom,
            climatology.
        """
        check_flag("isotonic", isotonic)
        check_word("method", method, get_args(CurveMethod))
        models = y_prob if isinstance(y_prob, Mapping) else {_name(name): y_prob}
        limits = Limits(class_label, confidence_level, simultaneous)
        if by is not None:
            if isinstance(y_prob, Mapping) or method != "bins" or isotonic:
                raise InvalidArgumentError(
                    "With by=, the bins of one model's groups are drawn; got several models, "
                    "method= or isotonic=. Leave them out, or pass one group's rows without by=."
                )
            reading = (kind, input, classes, pos_label, sample_weight, data, by)
            tables = read(y_true, y_prob, *reading).tabulate_by(bins)
            return cls.from_table(tables, ax=ax, draw=draw, **limits._asdict(), **options)
        curves: list[DisplayedCurve] = []
        for model, probs in models.items():
            source = read(y_true, probs, kind, input, classes, pos_label, sample_weight, data)
            curve = displayed_curve(
                source.tabulate(bins),
                model,
                limits,
                distinct=source.tabulate(Distinct()) if isotonic else None,
                fine=source.tabulate(FINE) if source.has_rows else None,
                smooth=None if method == "bins" else smooth_curve(source, method, *limits),
            )
            curves.append(curve)
        return cls(curves)._drawn(draw, ax, options)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,  # noqa: N803
        y: Any,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        draw: bool = True,
        **options: Any,
    ) -> ReliabilityDisplay:
        """Compute and draw the diagram of a fitted classifier, or of several as a dict.

        Two classes are a binary problem whose event is ``pos_label``, the second class by
        default; more classes are a top-label problem unless ``kind="marginal"`` is asked for.

        Parameters
        ----------
        estimator : fitted classifier, or dict of them
        X, y : array_like
            Features and labels.
        name, ax, draw, **options
            As in `from_predictions`.
        """
        named = {_name(name) or type(estimator).__name__: estimator}
        models = estimator if isinstance(estimator, Mapping) else named
        plotting: Any = {k: options.pop(k) for k in PlotOptions.__annotations__ if k in options}
        curves: list[DisplayedCurve] = []
        for label, model in models.items():
            if not hasattr(model, "predict_proba"):
                raise InvalidArgumentError(
                    "from_estimator needs an estimator with predict_proba; "
                    f"{type(model).__name__} has none. Wrap it in a calibrated classifier, or pass "
                    "probabilities to from_predictions."
                )
            reading = dict(options)
            if reading.get("classes") is None and hasattr(model, "classes_"):
                reading["classes"] = list(model.classes_)
            probs = model.predict_proba(X)
            curves += cls.from_predictions(y, probs, name=label, draw=False, **reading).curves
        return cls(curves)._drawn(draw, ax, plotting)

    @classmethod
    def from_table(
        cls,
        table: BinTable | Tables | Mapping[str, BinTable],
        *,
        name: str | None = None,
        ax: Axes | None = None,
        draw: bool = True,
        class_label: Label | None = None,
        confidence_level: float = 0.95,
        simultaneous: bool = True,
        isotonic: bool = False,
        **options: Unpack[PlotOptions],
    ) -> ReliabilityDisplay:
        """Compute and draw the diagram of a table, or of several as ``{name: table}`` or `Tables`.

        The isotonic curve is exact if each bin of the table holds one distinct prediction,
        else that of the binned predictions.

        Parameters
        ----------
        table : BinTable, Tables, or dict of tables
        name, ax, draw, class_label, confidence_level, simultaneous, isotonic, **options
            As in `from_predictions`.
        """
        check_flag("isotonic", isotonic)
        tables = table if isinstance(table, Mapping) else {_name(name): table}
        if isinstance(table, Tables):
            tables = {shown_key(labels): table.at(i) for i, labels in enumerate(table.labels)}
        limits = Limits(class_label, confidence_level, simultaneous)
        curves = [
            displayed_curve(counted, label, limits, distinct=counted if isotonic else None)
            for label, counted in tables.items()
        ]
        return cls(curves)._drawn(draw, ax, options)

    @classmethod
    def grid(
        cls,
        y_true: Any,
        y_prob: Any = None,
        *,
        n_max: int = 9,
        draw: bool = True,
        bins: BinsLike = "auto",
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
        confidence_level: float = 0.95,
        simultaneous: bool = True,
        data: Any = None,
        input: Input = "probabilities",
        kind: Kind | None = None,
        pos_label: Label | None = None,
        by: Any = None,
        **options: Unpack[PlotOptions],
    ) -> ReliabilityGrid:
        """Compute and draw one panel for each class, or for each group, the worst first.

        Panels are ordered by their debiased l2 error. The worst of many look bad by chance alone,
        so with ``simultaneous=True`` limits hold in all bins of all panels at once, shown or not,
        and so do the intervals of their errors (Bonferroni over panels).

        Parameters
        ----------
        y_true, y_prob
            As in `calibrant.calibration_error` with ``kind="marginal"``; or a marginal
            `BinTable` alone. With `by`, of any kind that has one event; or `Tables` alone.
        n_max : int
            How many classes or groups to show at most.
        by : optional
            What puts rows into groups, as in `calibrant.calibration_error`.
        kind, pos_label
            As there, of a problem with groups.
        bins, sample_weight, classes, confidence_level, simultaneous, data, input, draw, **options
            As in `from_predictions`; ``counts`` is False here unless asked for.
        """
        check_level(confidence_level)
        check_flag("simultaneous", simultaneous)
        check_flag("draw", draw)
        table: BinTable | Tables | None = y_true if isinstance(y_true, BinTable | Tables) else None
        if table is None:
            kind = kind if kind is not None or by is not None else "marginal"
            source = read(y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by)
            table = source.tabulate(bins) if by is None else source.tabulate_by(bins)
        panels = len(table) if isinstance(table, Tables) else table.n_groups
        level = 1 - (1 - confidence_level) / (panels if simultaneous else 1)
        displays = tuple(
            cls([displayed_curve(part, name, Limits(label, level, simultaneous))])
            for part, name, label in worst_panels(table, n_max)
        )
        columns = table.described_by if isinstance(table, Tables) else table.problem.parts
        grid = ReliabilityGrid(displays, panels, confidence_level, simultaneous, columns)
        return grid.plot(**options) if draw else grid

    def plot(
        self,
        ax: Axes | None = None,
        *,
        band: Band = True,
        consistency: bool = False,
        counts: bool | Literal["outcome"] = True,
        error: bool = True,
        legend: bool = True,
        line_kw: Mapping[str, Any] | None = None,
        scale: Scale = "probability",
        zoom: bool = True,
        climatology: bool = False,
    ) -> ReliabilityDisplay:
        """Draw the numbers; nothing is computed here.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; without it a new pyplot figure is made.
        band : bool, "ribbon" or "bars"
            The limits of event rates, as a ribbon with a bar at each point, or one of the two.
        consistency : bool
            Grey bars on the diagonal: where a calibrated model's event rates would lie.
        counts : bool or "outcome"
            The histogram of predictions on small axes below; "outcome" draws events upwards and
            the others downwards.
        error : bool
            Whether the legend has the l2 error with its interval; "≥" marks a lower bound.
        legend : bool
            A legend above the axes, which also says what the limits are.
        line_kw : dict, optional
            Passed to ``Axes.plot`` for every curve, over the default style.
        scale : {"probability", "logit"}
            Of both axes: on logits, risks of one in a thousand are as readable as others.
        zoom : bool
            Whether a probability axis ends where predictions and event rates do, if all are small.
        climatology : bool
            Lines of forecasters: the event rate, which no resolution would predict, and half way
            between it and the diagonal the line of no skill, beyond which a point lowers the Brier
            skill score (Hsu, Murphy, 1986).
        """
        drawing.check_options(
            {
                "band": band,
                "consistency": consistency,
                "counts": counts,
                "error": error,
                "legend": legend,
                "line_kw": line_kw,
                "scale": scale,
                "zoom": zoom,
                "climatology": climatology,
            }
        )
        size = (drawing.WIDTH, drawing.WIDTH)  # until `arrange` fits the figure around the drawing
        self.ax_ = drawing.axes_or_new(ax, figsize=size, layout="none")
        self.figure_ = self.ax_.figure  # type: ignore[assignment]
        if ax is None:
            self.figure_.set_gid(drawing.FIGURE)
        before = len(drawing.drawn_lines(self.ax_))
        if before == 0:
            drawing.prepare(self.ax_, self.curves, scale, zoom)
        if climatology:
            drawing.draw_climatology(self.ax_, self.curves[0].histogram.base_rate)
        self.counts_ax_ = drawing.counts_axes(self.ax_) if counts else None
        self.lines_ = []
        for i, displayed in enumerate(self.curves, start=before):
            style = drawing.style_of(self.ax_, i, line_kw)
            if consistency:
                drawing.draw_consistency(self.ax_, displayed)
            self.lines_.append(drawing.draw_curve(self.ax_, displayed, style, band, error))
            if self.counts_ax_ is not None:
                alone = before + len(self.curves) == 1
                split = counts == "outcome"
                drawing.draw_counts(self.counts_ax_, displayed, style, split, alone)
        if legend:
            options = (band, consistency, climatology, counts == "outcome")
            note = drawing.limits_note(self.curves[0].curve, *options)
            drawing.draw_legend(self.ax_, note)
        drawing.arrange(self.ax_)
        return self

    def _drawn(self, draw: bool, ax: Axes | None, options: PlotOptions) -> ReliabilityDisplay:
        check_flag("draw", draw)
        return self.plot(ax, **options) if draw else self


def _name(name: Any) -> str | None:
    """Return how the legend calls a curve."""
    if name is None or isinstance(name, str):
        return name
    raise InvalidArgumentError(f"name must be text for the legend; got {name!r:.60}.")
