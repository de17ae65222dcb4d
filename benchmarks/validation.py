"""A clinical validation beside R, probcal and relplot: same patients, their numbers and times.

Run it where calibrant, ``probcal==0.4.0`` and ``relplot==1.0.3`` are installed, and Rscript with
rms and pROC is on the path. It prints the numbers in the table of docs/recipe-clinical.md; times
are the best of three calls.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import relplot
from probcal import metrics

import calibrant

IN_R = """
suppressMessages({library(rms); library(pROC)})
d <- read.csv(commandArgs(TRUE)[1]); y <- d$y; p <- d$p; d$x <- x <- qlogis(p)
timed <- function(name, call) {
  best <- min(replicate(3, system.time(value <<- call())["elapsed"]))
  cat(sprintf("%-34s %-46s %.3f s\\n", name, paste(sprintf("%.5f", value), collapse = ", "), best))
}
cat(R.version.string, "rms", as.character(packageVersion("rms")),
    "pROC", as.character(packageVersion("pROC")), "\\n")
timed("lrm(y ~ qlogis(p))", function() rev(coef(lrm(y ~ x, data = d))))
timed("glm(y ~ offset(qlogis(p)))", function() coef(glm(y ~ offset(x), family = binomial)))
timed("val.prob", function() val.prob(p, y, pl = FALSE)[c("C (ROC)", "Brier")])
timed("ci.auc", function() as.numeric(ci.auc(roc(y, p, quiet = TRUE)))[c(1, 3)])
timed("loess: ICI, E90, Emax", function() {
  gap <- abs(predict(loess(y ~ p)) - p)
  c(mean(gap), quantile(gap, 0.9), max(gap))
})
"""


def patients(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Return risks, too high and not spread enough, and what happened."""
    rng = np.random.default_rng(0)
    z = rng.normal(-1.3, 1.2, size=n)
    rate = 1 / (1 + np.exp(-(1.15 * z - 0.4)))
    return (rng.uniform(size=n) < rate).astype(int), 1 / (1 + np.exp(-z))


def timed(name: str, call: Callable[[], Any]) -> Any:
    """Print what a call returns, and its time."""
    best = np.inf
    for _ in range(3):
        start = perf_counter()
        value = call()
        best = min(best, perf_counter() - start)
    shown = f"{value:.5f}" if np.isscalar(value) else ""
    print(f"{name:<34} {shown:<46} {best:.3f} s")
    return value


def main() -> None:
    """Print all of it."""
    y, p = patients()
    print(f"{y.size:,} patients, {y.sum():,} events")
    with tempfile.TemporaryDirectory() as folder:
        data, script = Path(folder, "patients.csv"), Path(folder, "validate.R")
        np.savetxt(data, np.column_stack([y, p]), delimiter=",", header="y,p", comments="")
        script.write_text(IN_R)
        subprocess.run(["Rscript", script, data], check=True)
    for name in ("calibration_slope", "calibration_intercept", "ici", "smooth_ece"):
        timed(f"probcal {name}", lambda name=name: getattr(metrics, name)(y, p))
    timed("relplot smECE", lambda: relplot.smECE(p, y))
    table = timed("calibrant validate", lambda: calibrant.validate(y, p))
    for measure in table.measures:
        print(f"  {measure.label:<32} {measure.value:.5f} [{measure.low:.4f}, {measure.high:.4f}]")


if __name__ == "__main__":
    main()
