"""The calibration report: one HTML page that loads nothing, the verdict first."""

from __future__ import annotations

from calibrant.report.findings import Findings
from calibrant.report.making import report
from calibrant.report.result import Report

__all__ = ["Findings", "Report", "report"]
