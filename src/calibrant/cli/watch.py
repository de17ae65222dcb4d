"""calibrant watch, and the numbers of a monitor as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._clock import now
from calibrant.cli import OK, REFUTED
from calibrant.cli.input import predictions, read_document
from calibrant.cli.output import about, emit, name_of, say
from calibrant.cli.parser import (
    DATA,
    add_command,
    add_option,
    add_options,
    named,
    read_bins,
    share,
    unicode_text,
)
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.monitor import CalibrationMonitor

EXAMPLES = """
calibrant watch churn.json day.parquet --y-true label --y-prob score --max-error 0.02
calibrant watch churn.json 'day/*.parquet' --y-true label --y-prob score --name 2026-03-01
calibrant watch churn.json day.csv --reference held-out.json --metrics churn.prom --page churn.html
calibrant watch churn.json --page churn.html
calibrant watch churn.json day.parquet --restart
"""
NOTES = """
The first run makes STATE and needs --max-error (alarm when the l2 error exceeds it) or --reference
(alarm when event rates leave those of a table); later runs add one batch each. However often it
runs, the probability that there is ever a false alarm is at most 1 minus the confidence level.

Exit codes: 0 no alarm, 1 alarm; it stays at 1 until --restart, after a repair. Rows seen
before are refused (exit code 3), so running a job twice does no harm. Without files nothing is
added: the state is shown, and --metrics and --page are written again. Files come right after
STATE.

A table in the bins of the monitor can be given instead of rows.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "watch",
        run,
        "add a batch to a monitor; alarm if calibration is lost",
        EXAMPLES,
        NOTES,
    )
    command.add_argument(
        "state", metavar="STATE", type=named, help="the file that holds the monitor"
    )
    add_option(command, "files", nargs="*")
    add_options(command, *DATA[1:], bins="bins, chosen by the first batch (default 10)")
    largest = "the largest error without an alarm, such as 0.02; 0 for perfect calibration"
    add_option(command, "--max-error", type=share, help=largest)
    command.add_argument(
        "--reference",
        metavar="FILE",
        type=named,
        help="a table of held-out rows, from `measure --table`",
    )
    level = "1 minus the probability of a false alarm, ever (default 0.95)"
    add_option(command, "--confidence-level", type=share, default=None, help=level)
    command.add_argument(
        "--name",
        metavar="TEXT",
        type=unicode_text,
        help="of the batch, such as its day (default the name of the file)",
    )
    command.add_argument(
        "--allow-repeat", action="store_true", help="count rows again that were seen before"
    )
    command.add_argument(
        "--restart", action="store_true", help="after a repair: forget the evidence, then add"
    )
    metrics = "write OpenMetrics text for Prometheus"
    command.add_argument("--metrics", metavar="FILE", type=named, help=metrics)
    command.add_argument("--page", metavar="FILE", type=named, help="write a page of HTML")
    add_options(command, "--json", json="print the batch as JSON")


def run(args: argparse.Namespace) -> int:
    """Add a batch, save the state, write the other outputs, and exit by the alarm."""
    from calibrant._json import json_text
    from calibrant._writing import held, write_whole

    with held(args.state):
        monitor, batch = _monitor(args), None
        if args.files:
            batch_name = args.name or _free_name(monitor, args.files[0])
            with predictions(args) as inputs:
                rows = {x: inputs[x] for x in ("y_true", "y_prob", "data") if x in inputs}
                batch = monitor.update(**rows, name=batch_name, allow_repeat=args.allow_repeat)
        if batch is not None or args.restart:
            monitor.save(args.state)
    name = Path(args.state).stem
    if args.metrics:
        write_whole(args.metrics, metrics_of(monitor, name))
    if args.page:
        from calibrant.reports.page import monitor_page

        write_whole(args.page, monitor_page(monitor, name_of(name)))
    status = {"alarm": monitor.alarm, "since": monitor.since, "change": monitor.change}
    if args.json:
        emit(json_text({**({} if batch is None else batch.to_dict()), **status}))
    else:
        # one line each time: a log is searched line by line
        say(monitor._summary() if batch is None or monitor.alarm else f"{batch}: no alarm")
    return REFUTED if monitor.alarm else OK


def _monitor(args: argparse.Namespace) -> CalibrationMonitor:
    """Return the monitor of the state, or a new one."""
    from calibrant.monitor import CalibrationMonitor
    from calibrant.table import BinTable

    reference = None
    if args.reference:
        with about(args.reference):
            reference = BinTable.from_json(read_document(args.reference))
    if not os.path.exists(args.state):
        if not args.files:
            raise InvalidArgumentError(
                f"{args.state} does not exist yet: name a file of rows, and --max-error or "
                "--reference."
            )
        settings = {name: getattr(args, name) for name in _SETTINGS}
        settings = {name: value for name, value in settings.items() if value is not None}
        if args.bins is not None:
            settings["bins"] = read_bins(args.bins)
        monitor = CalibrationMonitor(reference=reference, **settings)
        _check_bins(monitor, args)
        return monitor
    with about(args.state):
        monitor = CalibrationMonitor.from_json(read_document(args.state))
    _check_settings(monitor, args)
    if reference is not None and not args.restart and reference != monitor.reference:
        raise InvalidArgumentError(
            f"--reference {args.reference} is not the table that {args.state} began with. Leave "
            "the option out, or begin anew with --restart."
        )
    if args.restart:
        monitor.restart(reference)
    _check_bins(monitor, args)
    return monitor


_SETTINGS = ("max_error", "confidence_level", "kind", "input", "classes", "pos_label")


def _check_settings(monitor: CalibrationMonitor, args: argparse.Namespace) -> None:
    """Refuse options that differ from what the monitor began with."""
    for name in _SETTINGS:
        requested, current = getattr(args, name), getattr(monitor, name)
        current = list(current) if isinstance(current, tuple) else current
        if requested is not None and requested != current:
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} must stay as it was when {args.state} began, "
                f"{current}; got {requested}. Leave the option out, or begin another state."
            )


def _check_bins(monitor: CalibrationMonitor, args: argparse.Namespace) -> None:
    """Refuse bins other than those of the first batch or the reference."""
    from calibrant._bins_argument import as_bin_rule
    from calibrant.bins import Bins, Distinct, EqualMass

    first = monitor.reference or next(iter(monitor.batches), None)
    if args.bins is None or first is None:
        return
    bins = Bins.from_dict(monitor.to_dict()["bins"])
    rule: Any = as_bin_rule(read_bins(args.bins), first.n)
    if isinstance(rule, Bins):
        agrees = rule == bins
    elif isinstance(rule, Distinct):
        agrees = bins.rule == "distinct-value"
    else:
        name = "uniform-mass" if isinstance(rule, EqualMass) else "hybrid"
        agrees = (bins.rule, bins.requested) == (name, rule.n_bins)
    if not agrees:
        raise InvalidArgumentError(
            f"--bins must stay as they were when {args.state} began, {bins}; got {args.bins:.60}. "
            "Leave the option out, or begin another state."
        )


def _free_name(monitor: CalibrationMonitor, path: str) -> str:
    """Return the name of the file, with a number if a batch has it already."""
    name = name_of(os.path.basename(path) if path != "-" else "standard input", 150)
    taken, number, free = {batch.name for batch in monitor.batches}, 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def metrics_of(monitor: CalibrationMonitor, name: str) -> str:
    """Return the metrics of a monitor with batches, each with the label ``monitor="name"``."""
    last = monitor.batches[-1] if monitor.batches else None
    rows = sum(batch.n for batch in monitor.batches)
    gauges: dict[str, tuple[str, Any]] = {
        "alarm": ("1 from an alarm until a restart", float(monitor.alarm)),
        "evidence_log10": (
            "logarithm of the evidence", math.log10(max(monitor.evidence, 1e-300))
        ),
        "threshold_log10": ("logarithm of the evidence that is an alarm",
                            math.log10(monitor.threshold)),
        "error": ("l2 calibration error of the last batch", last and last.error),
        "error_low": ("lower end of its interval", last and last.low),
        "error_high": ("upper end of its interval", last and last.high),
        "max_error": ("the error that is tolerated", monitor.max_error),
        "event_rate": ("share of events in the last batch", last and last.events / last.n),
        "mean_prediction": ("mean prediction of the last batch", last and last.mean_prediction),
        "last_update_timestamp_seconds": ("when this was written", now().timestamp()),
    }  # fmt: skip
    metrics = [(metric, "gauge", text, "", value) for metric, (text, value) in gauges.items()]
    for metric, count in (("batches", len(monitor.batches)), ("rows", rows)):
        metrics.append((metric, "counter", f"{metric} counted so far", "_total", count))
    shown = "".join(letter if letter.isprintable() else "?" for letter in name)
    shown = shown.replace("\\", "\\\\").replace('"', '\\"')
    lines = []
    for metric, kind, text, ending, value in metrics:
        if value is not None:
            full = f"calibrant_monitor_{metric}"
            lines += [f"# TYPE {full} {kind}", f"# HELP {full} {text}."]
            lines.append(f'{full}{ending}{{monitor="{shown}"}} {value!r}')
    return "\n".join([*lines, "# EOF", ""])
