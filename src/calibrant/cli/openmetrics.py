"""The numbers of a monitor as OpenMetrics text, which Prometheus reads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibrant._clock import now

if TYPE_CHECKING:
    from calibrant.monitor import CalibrationMonitor


def metrics_of(monitor: CalibrationMonitor, name: str) -> str:
    """Return the metrics of a monitor with batches, each with the label ``monitor="name"``."""
    last = monitor.batches[-1] if monitor.batches else None
    rows = sum(batch.n for batch in monitor.batches)
    gauges = {
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
    counters = {"batches": len(monitor.batches), "rows": rows}
    label = f'{{monitor="{_escaped(name)}"}}'
    lines = []
    for metric, (text, value) in gauges.items():
        if value is not None:
            lines += _heading(metric, "gauge", text)
            lines.append(f"calibrant_monitor_{metric}{label} {value!r}")
    for metric, count in counters.items():
        lines += _heading(metric, "counter", f"{metric} counted so far")
        lines.append(f"calibrant_monitor_{metric}_total{label} {count}")
    return "\n".join([*lines, "# EOF", ""])


def _heading(metric: str, kind: str, text: str) -> list[str]:
    return [
        f"# TYPE calibrant_monitor_{metric} {kind}",
        f"# HELP calibrant_monitor_{metric} {text}.",
    ]


def _escaped(name: str) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in name)
    return text.replace("\\", "\\\\").replace('"', '\\"')
