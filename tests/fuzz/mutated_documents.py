"""Mutated JSON documents: tables, certificates, recalibrators, monitors and the state of a metric.

A document may be refused. One that is accepted must be possible (sums that rows can have), give the
same after it is written and read again, and answer every question without an accident. A certificate
with which `recheck` agrees must say what its own table proves, found here by certifying it anew.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from functools import cache
from pathlib import Path

import numpy as np
from child import command, expect

import calibrant as cb
from calibrant.exceptions import CalibrantError

GRID = np.linspace(0, 1, 23)
SAID = (
    "verdict", "reason", "upper_bound", "lower_bound", "confidence_level", "max_error", "norm",
    "target", "method", "assumptions", "n", "min_bin_mass",
)  # fmt: skip


def prepare() -> None:
    documents()


@cache
def documents() -> dict[str, list[str]]:
    """Return the documents that are mutated, by kind."""
    rng = np.random.default_rng(5)
    p = np.round(rng.uniform(size=400), 1)
    y = (rng.uniform(size=400) < p).astype(int)
    raw = np.clip(p + rng.uniform(-0.04, 0.04, size=400), 0, 1)
    probs = rng.dirichlet(np.ones(3), size=400)
    k = (probs.cumsum(axis=1) < rng.uniform(size=(400, 1))).sum(axis=1)
    width = cb.EqualWidth(5)
    tables = [
        cb.tabulate(y, p, bins=cb.Distinct()),
        cb.tabulate(y, raw, bins=width),
        cb.tabulate(y, raw, bins=4, sample_weight=rng.uniform(size=400)),
        cb.tabulate(np.array(["no", "yes"])[y], raw, bins=width, pos_label="yes"),
        cb.tabulate(k, probs, bins=width),
        cb.tabulate(
            np.array(["a", "b", "c"])[k], probs, bins=3, kind="marginal", classes=["a", "b", "c"]
        ),
    ]
    certificates = [
        cb.certify(y, p, max_error=0.3),
        cb.certify(y, p, max_error=0.01, norm="l1", confidence_level=0.9),
        cb.certify(y, p, max_error=0.2, norm="max"),
        cb.certify(y, raw, max_error=0.05),
        cb.certify(y, p, max_error=0.2, min_bin_mass="learned"),
        cb.certify(k, np.round(probs, 1), max_error=0.4, kind="marginal"),
    ]
    binary = [
        cb.PlattScaling(), cb.BetaScaling(), cb.QuadraticScaling(), cb.HistogramBinning(bins=5),
        cb.ScalingBinning(bins=5), cb.IsotonicCalibration(), cb.VennAbers(), cb.Identity(),
        cb.TemperatureScaling(), cb.PriorShift(target_mean=0.3), cb.SplineCalibration(knots=4),
    ]  # fmt: skip
    multiclass = [
        cb.TemperatureScaling(), cb.VectorScaling(), cb.MatrixScaling(), cb.DirichletScaling(), cb.JointBetaScaling(), cb.TopLabel(cb.HistogramBinning(bins=5)),
        cb.OneVsRest(cb.PlattScaling()), cb.OneVsRest(cb.ScalingBinning(bins=5)),
    ]  # fmt: skip
    saved = []
    for recalibrator, scores, labels in [(r, raw, y) for r in binary] + [
        (r, probs, k) for r in multiclass
    ]:
        recalibrator.fit(scores, labels).save("base.json")
        saved.append(Path("base.json").read_text())
    metric = cb.CalibrationMetric(bins=width)
    metric.update(y, raw)
    monitors = [cb.CalibrationMonitor(0.02), cb.CalibrationMonitor(reference=tables[1])]
    for monitor in monitors:
        monitor.update(y[:200], raw[:200], name="Monday")
        monitor.update(1 - y[200:], raw[200:], name="Tuesday")
    monitors[0].restart()
    return {
        "table": [table.to_json() for table in tables],
        "certificate": [certificate.to_json() for certificate in certificates],
        "recalibrator": saved,
        "state": [json.dumps(metric.state_dict())],
        "monitor": [monitor.to_json() for monitor in monitors],
    }


def run(number: int, folder: Path) -> str:
    rng = random.Random(f"mutated documents {number}")
    kind = rng.choice(["table", "certificate", "certificate", "recalibrator", "state", "monitor"])
    base = rng.choice(documents()[kind])
    text = base if rng.random() < 0.03 else mutate(base, rng)
    (folder / "in.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    return CHECKS[kind]("in.json", text == base, rng)


# The mutations


def mutate(text: str, rng: random.Random) -> str:
    name = rng.choice(["tree", "tree", "tree", "tree", "text"])
    if name == "text":
        return mutate_text(text, rng)
    document = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        document = mutate_tree(document, rng)
    return json.dumps(document)


def mutate_text(text: str, rng: random.Random) -> str:
    """Break the JSON, repeat a key, or nest it without end."""
    at = rng.randrange(len(text))
    name = rng.choice(
        ["flip", "truncate", "repeat", "nest", "digits", "spaces", "bom", "twice", "nan"]
    )
    if name == "flip":
        return text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
    if name == "truncate":
        return text[:at]
    if name == "repeat":
        document = json.loads(text)
        key = rng.choice(list(document))
        value = json.dumps(
            rng.choice([document[key], strange(rng), rng.choice(list(document.values()))])
        )
        new = f'"{key}": {value}'
        return (
            "{" + new + ", " + text[1:] if rng.random() < 0.5 else text.rstrip()[:-1] + f", {new}}}"
        )
    if name == "nest":
        depth = rng.choice([100, 3_000, 200_000])
        return text[:at] + "[" * depth + text[at:] + "]" * rng.choice([0, depth])
    if name == "digits":
        return text.replace("1", "1" * rng.choice([5, 30, 5_000]), rng.choice([1, 3]))
    if name == "spaces":
        return text.replace(", ", " \n,\t")
    if name == "bom":
        return "\ufeff" + text
    if name == "twice":
        return text + text
    return text.replace("0.", rng.choice(["NaN", "Infinity", "-0.", "1e400"]), 1)


def strange(rng: random.Random) -> object:
    """Return a value that hardly belongs anywhere."""
    return rng.choice([
        None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, -1e308, 1e15, 1e9, 100_000_000, 10**25, math.nan,
        math.inf, 5e-324, "", "x", "0.5", "population", "l2", "data", "distinct", "\ud800", "a" * 10_000, [],
        {}, [[]], [None], [0.5, 0.5], {"a": 1}, [[[[1]]]], "<script>", "\x1b[31m", "certified", "__class__",
    ])  # fmt: skip


def places(document: object, path: tuple = ()) -> list[tuple]:
    """Return the paths of all values of a document."""
    inner = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def mutate_tree(document: object, rng: random.Random) -> object:
    """Change one value: its type, its size, its place, its name; or forge what it claims."""
    document = copy.deepcopy(document)
    found = [place for place in places(document) if place]
    if not found:
        return strange(rng)
    # shallow ones are few among thousands of numbers, and matter as much
    shallow = [place for place in found if len(place) <= 2]
    place = rng.choice(shallow if rng.random() < 0.5 else found)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    key = place[-1]
    value = parent[key]
    name = rng.choice(
        ["number", "number", "number", "strange", "delete", "rename", "swap", "copy", "forge"]
    )
    if name == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = rng.choice([
            value + 1, value - 1, value * 2, value * 1.001, value / 2, -value, value * 1e15, value * 1e-9,
            value + 1e-7, float(value), value // 1, value + 0.5, 1 - value,
        ])  # fmt: skip
    elif name == "delete":
        del parent[key]
    elif name == "rename" and isinstance(parent, dict):
        parent[rng.choice([f"{key} ", key.upper(), "x", f"_{key}"])] = parent.pop(key)
    elif name in ("swap", "copy"):
        siblings = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        other = rng.choice(siblings)
        if name == "swap":
            parent[key], parent[other] = parent[other], parent[key]
        else:
            parent[key] = copy.deepcopy(parent[other])
    elif name == "forge":
        forge(document, rng)
    else:
        parent[key] = strange(rng)
    return document


def forge(document: object, rng: random.Random) -> None:
    """Make a claim better than its table, or a table better than its rows."""
    if not isinstance(document, dict):
        return
    table = document.get("table") if isinstance(document.get("table"), dict) else document
    name = rng.choice(["claim", "count", "level", "events", "reason", "n"])
    if name == "claim":
        document |= {"verdict": "certified", "upper_bound": 0.0001, "lower_bound": 0.0}
    elif name == "reason":
        document["reason"] = str(document.get("reason", "")).replace("0.", "0.0")
    elif name == "n":
        document["n"] = 1_000_000
    elif name == "count":
        factor = rng.choice([10, 1000, 1e15])
        for key in ("count", "sum_y", "sum_p", "sum_pp", "sum_py"):
            rows = table.get(key)
            if isinstance(rows, list) and all(isinstance(row, list) for row in rows):
                table[key] = [
                    [x * factor if isinstance(x, int | float) else x for x in row] for row in rows
                ]
    elif isinstance(table.get("level"), list) and isinstance(table.get("sum_y"), list):
        rows = table["level"]
        try:
            if name == "level":
                table["level"] = [[min(1.0, (x or 0) + 0.02) for x in row] for row in rows]
            else:
                table["sum_y"] = [
                    [c * (x or 0) for c, x in zip(counts, row, strict=True)]
                    for counts, row in zip(table["count"], rows, strict=True)
                ]
        except (TypeError, KeyError, ValueError):
            table["level"] = [[0.5]]


# What an accepted document must be


def check_possible(table: cb.BinTable) -> None:
    """Fail where no rows can have the sums of a table."""
    count, y, p, pp, py, w = (
        getattr(table, name) for name in ("count", "sum_y", "sum_p", "sum_pp", "sum_py", "sum_w")
    )
    slack = 1e-6
    expect(np.isfinite([count, y, p, pp, py, w]).all(), "sums that are not finite")
    expect(np.all(count == np.floor(count)) and np.all(count >= 0), "rows in parts")
    expect(np.all(count.sum(axis=1) == count.sum(axis=1)[0]), "classes with other numbers of rows")
    if not table.is_weighted:
        expect(np.all(np.abs(y - np.round(y)) <= 1e-9 * (1 + y)), "events in parts")
    expect(np.all(y >= 0) and np.all(y <= w * (1 + slack)), "more events than rows")
    for group, bins in enumerate(table.bins):
        edges, n = bins.edges, len(bins)
        low, high = edges[:-1], edges[1:]
        here = (group, slice(n))
        expect(
            np.all(p[here] >= low * w[here] * (1 - slack) - slack), "predictions below their bin"
        )
        expect(
            np.all(p[here] <= high * w[here] * (1 + slack) + slack), "predictions above their bin"
        )
        level = table.level[here]
        known = ~np.isnan(level) & (count[here] > 0)
        expect(np.all((level >= low)[known] & (level <= high)[known]), "a level outside its bin")
        expect(
            np.all(np.abs(level * w[here] - p[here])[known] <= slack * (1 + w[here][known])),
            "a level that is not the mean of its rows",
        )
    expect(np.all(pp <= p * (1 + slack) + slack) and np.all(pp * w >= p * p * (1 - slack) - slack),
           "squares that no predictions have")  # fmt: skip
    expect(np.all(py <= np.minimum(p, y) * (1 + slack) + slack), "sum_py that no rows have")


def check_table(path: str, whole: bool, rng: random.Random) -> str:
    text = Path(path).read_bytes()
    try:
        table = cb.BinTable.from_json(text)
    except CalibrantError as error:
        expect(not whole, f"a good table was refused: {error}")
        code, _, _ = command("merge", path, "-o", "out.json")
        expect(code in (3, 4), f"from_json refuses what merge accepts (exit {code})")
        return "refused"
    check_possible(table)
    expect(cb.BinTable.from_json(table.to_json()) == table, "another table after a round trip")
    answered = 0
    for question in (
        lambda: (table + table).n,
        lambda: str(cb.stats.calibration_error(table)),
        lambda: cb.stats.calibration_error(table, norm="l1").confidence_interval(),
        lambda: cb.stats.certify(table, max_error=0.1).to_json(),
    ):
        try:
            question()
            answered += 1
        except CalibrantError:
            pass
    code, _, said = command("merge", path, path, "-o", "out.json")
    expect(code == 0 or answered < 4, f"a table that was read is not merged: {said}")
    return "accepted, possible"


def agrees(a: object, b: object) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-8)
    return a == b


def check_certificate(path: str, whole: bool, rng: random.Random) -> str:
    code, out, said = command("recheck", path)
    if code in (1, 3, 4):
        expect(not whole, f"exit {code}: a good certificate was not believed: {out}{said}")
        return "refused" if code > 1 else "disbelieved"
    document = json.loads(Path(path).read_bytes())
    table = cb.BinTable.from_dict(document["table"])
    check_possible(table)
    again = cb.stats.certify(
        table,
        max_error=document["max_error"],
        norm=document["norm"],
        confidence_level=document["confidence_level"],
        target=document["target"],
        min_bin_mass=document["min_bin_mass"],
        class_weight=document["class_weights"] if table.n_groups > 1 else None,
    )
    for name in SAID:
        proved = getattr(again, name)
        expect(
            agrees(document[name], proved),
            f"{name} is {document[name]!r:.200}; proved is {proved!r:.200}",
        )
    return "believed, proved anew"


def check_recalibrator(path: str, whole: bool, rng: random.Random) -> str:
    try:
        loaded = cb.load(path)
    except CalibrantError as error:
        expect(not whole, f"a good document was refused: {error}")
        return "refused"
    inputs = [GRID, np.stack([GRID, (1 - GRID) / 2, (1 - GRID) / 2], axis=1)]
    answers = []
    for scores in inputs:
        try:
            answer = loaded.predict_proba(scores)
        except CalibrantError:
            continue
        expect(np.isfinite(answer).all() and answer.min() >= 0 and answer.max() <= 1 + 1e-12,
               f"predictions outside [0, 1]: {answer.tolist()!r:.300}")  # fmt: skip
        answers.append((scores, answer))
    expect(answers or not whole, "a good recalibrator answers nothing")
    loaded.save("again.json")
    again = cb.load("again.json")
    for scores, answer in answers:
        expect(
            np.array_equal(again.predict_proba(scores), answer), "other answers after a round trip"
        )
    for export in ("to_sql", "to_expression"):
        with contextlib.suppress(CalibrantError, AttributeError, NotImplementedError, TypeError):
            getattr(loaded, export)("score")
    return "accepted, answers probabilities"


def check_state(path: str, whole: bool, rng: random.Random) -> str:
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(5))
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):
        return "refused"  # by the user's own reading
    try:
        metric.load_state_dict(state)
    except CalibrantError as error:
        expect(not whole, f"a good state was refused: {error}")
        return "refused"
    if metric.state_dict()["table"] is None:
        return "accepted, empty"
    check_possible(metric.table)
    metric.merge(copy.deepcopy(metric))
    metric.update([0, 1], [0.2, 0.9])
    expect(0 <= metric.compute().value <= 1, "an error outside [0, 1]")
    return "accepted, possible"


def check_monitor(path: str, whole: bool, rng: random.Random) -> str:
    try:
        monitor = cb.CalibrationMonitor.from_json(Path(path).read_bytes())
    except CalibrantError as error:
        expect(not whole, f"a good monitor was refused: {error}")
        return "refused"
    again = cb.CalibrationMonitor.from_json(monitor.to_json())
    expect(again.to_json() == monitor.to_json(), "another monitor after a round trip")
    with contextlib.suppress(CalibrantError):
        monitor.update([0, 1], [0.2, 0.9], name="Wednesday")
    expect(str(monitor).startswith(("no alarm", "ALARM")), "a monitor that says nothing")
    expect(monitor.evidence >= 0, "evidence that is not a number")
    return "accepted, answers"


CHECKS = {
    "monitor": check_monitor,
    "table": check_table,
    "certificate": check_certificate,
    "recalibrator": check_recalibrator,
    "state": check_state,
}
