"""Rows and reports that several tests read; each report is made once."""

from __future__ import annotations

from functools import cache

import numpy as np

from calibrant import report

HOSTILE = [
    "<script>window.harmed = true</script>",
    '"><img src=x onerror="window.harmed = true">',
    "</script><script>window.harmed = true</script>",
    "</title></style><!-- ",
    "\u202eright to left override",
    "\x00\x07\x1b[31m\ud800 control",
    "לפני הכול (right to left)",
    "&amp;lt;b&gt; {{7*7}} ${7*7}",
    "' autofocus onfocus='window.harmed = true",
    "x" * 10_000,
    "a b\n\tc\u2028d",
    "",
]


def class_rows(n: int, n_classes: int, sharper: float, seed: int):
    """Return labels of a model, and its probabilities made sharper than they should be."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, n_classes)).astype(np.float32)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    chance = odds / odds.sum(axis=1, keepdims=True)
    labels = (chance.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(0, n_classes - 1)
    said = odds**sharper
    return labels, said / said.sum(axis=1, keepdims=True)


def event_rows(n: int, power: float, seed: int):
    """Return labels that happen with probability p^power, and p."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 2.5, size=n)
    return rng.uniform(size=n) < p**power, p


@cache
def refuted():
    """Continuous probabilities of one event, far off."""
    return report(*event_rows(4000, 1.5, 1), max_error=0.02, title="An <event>")


@cache
def certified():
    """A model of nine outputs, calibrated."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=20_000) / 10
    return report(rng.uniform(size=p.size) < p, p, max_error=0.04)


@cache
def rare():
    """An event of 1.5%, said to be rarer than it is."""
    rng = np.random.default_rng(3)
    p = rng.beta(0.6, 60, size=20_000)
    return report(rng.uniform(size=p.size) < 1.6 * p, p, max_error=0.005)


@cache
def repaired():
    """Nine outputs before and after a repair."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=4000) / 10
    return report(rng.uniform(size=p.size) < p, p, before=p**3, max_error=0.08)


@cache
def grouped():
    """Groups whose names try to do harm, of which one is wrong."""
    labels, probs = event_rows(6_000, 1.0, 4)
    groups = np.arange(labels.size) % len(HOSTILE)
    labels = np.where(groups == 1, 1 - labels, labels)
    return report(labels, probs, by={HOSTILE[0]: np.array(HOSTILE, object)[groups]}, max_error=0.2)


@cache
def marginal():
    """Six named classes, overconfident."""
    labels, probs = class_rows(3000, 6, 1.4, 2)
    names = ["ant", "bee", "cat", "dog", "eel", "fox"]
    return report(np.take(names, labels), probs, kind="marginal", classes=names)


@cache
def hostile():
    """Twelve classes whose names try to do harm, in the title and the command too."""
    labels, probs = class_rows(2000, len(HOSTILE), 1.4, 3)
    names = np.array(HOSTILE, object)
    return report(
        names[labels], probs, classes=HOSTILE, title=HOSTILE[0] * 50, command="\n".join(HOSTILE)
    )
