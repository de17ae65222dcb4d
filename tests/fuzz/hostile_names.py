"""Hostile names of columns, files and classes, on the command line, in reports and data frames.

Names may not change a number, break an output, or leave the folder; what is written must be read
back under the same names, and nothing of them is ever markup or a command to the terminal.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
from child import command, expect

import calibrant as cb
from calibrant.exceptions import CalibrantError

NAMES = (
    "a b", "a,b", 'a"b', "a\nb", "a\r\nb", "a\tb", "'", '"', "<script>alert(1)</script>", "&lt;", "</style>",
    "=cmd()", "+1", "@x", "-1", "--help", "-", "_calibrant_0", "_calibrant_top", "_calibrant_bin", "label",
    "count", "p", "y", "*", "?", "[a]", "prob_*", "{}", "{0}", "%s", "%", "$HOME", "`id`", "\\", "\\n", "..", ".",
    "../x", "/etc/x", "a/b", "\x1b[31mred", "\x07", "\u202eabc", "\u0000", "ü", "é", "日本", "😀", "x" * 300,
    "", " ", "NULL", "None", "nan", "0", "1", "index", "__class__", "SELECT", "a;b", "a--b", "ﬁ", "\ufeff", "^a$", "^.*$",
)  # fmt: skip
FILES = (
    "a b", "a,b", "a'b", 'a"b', "-a", "--help", "[x]", "*", "?", "a\nb", "ü", "=1+1", "<b>", "%s", "{0}", "\x1b[31m",
    "a.b.c", "~", "$HOME", "&", ";", "x" * 200, "\udcff", ".hidden", "..a", "日本", "\u202e",
)  # fmt: skip


def prepare() -> None:
    cb.certify([0, 1] * 20, [0.5] * 40, max_error=0.5)


def run(number: int, folder: Path) -> str:
    rng = random.Random(f"hostile names {number}")
    columns = rng.sample(NAMES, 3)
    file = "./" + rng.choice(FILES)
    note = repr((columns, file))
    (folder / "case.txt").write_text(note)
    return rng.choice(CHECKS)(columns, file, rng)


def rows(rng: random.Random) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(rng.randrange(2**32))
    p = np.round(numbers.uniform(size=60), 1)
    return (numbers.uniform(size=60) < p).astype(int), p


def write(file: str, columns: dict[str, np.ndarray], rng: random.Random) -> tuple[str, bool]:
    """Write a file of this name, and tell whether its format keeps such names of columns."""
    suffix = rng.choice([".csv", ".parquet", ".jsonl", ".arrow", ".npz"])
    path = file + suffix
    if suffix == ".npz":
        safe = all(
            name and "/" not in name and "\0" not in name and name != "file" for name in columns
        )
        safe = safe and not any("\\" in name or name.endswith(".npy") for name in columns)
        with open(path, "wb") as stream:
            np.savez(stream, **(columns if safe else {"y": np.zeros(1)}))
        return path, safe
    table = pa.table(columns)
    if suffix == ".jsonl":
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in table.to_pylist())
        return path, True
    writers = {
        ".csv": pa_csv.write_csv,
        ".parquet": pq.write_table,
        ".arrow": pa_feather.write_feather,
    }
    with open(path, "wb") as stream:
        writers[suffix](table, stream)
    plain = not any(set(name) & set("\0\r\n\ufeff") or name == "" for name in columns)
    return path, plain or suffix != ".csv"


def options(label: str, score: str) -> list[str]:
    return [f"--y-true={label}", f"--y-prob={score}"]


def check_measure(columns: list[str], file: str, rng: random.Random) -> str:
    (label, score, other), (y, p) = columns, rows(rng)
    path, sound = write(file, {label: y, other: np.arange(60) + 5.0, score: p}, rng)
    before = set(os.listdir(".."))
    code, out, said = command("measure", *options(label, score), "--bins", "width:5", "--table", "table.json",
                              rng.choice(["--json", "--plug-in"]), "--", path)  # fmt: skip
    shown = out + said
    expect(
        not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", shown),
        f"control characters are printed: {shown!r:.300}",
    )
    expect(set(os.listdir("..")) == before, "something was written outside the folder")
    if code in (3, 4):
        pattern = any(set(name) & set("*?[") for name in (label, score))
        expect(not sound or pattern or "\0" in label + score, f"refused: {said}")
        return "refused"
    document = json.loads(Path("table.json").read_text())
    expect(np.array(document["count"]).sum() == 60, "not all rows were counted")
    expect(
        abs(np.array(document["sum_p"]).sum() - p.sum()) < 1e-9,
        "another column was read as predictions",
    )
    expect(np.array(document["sum_y"]).sum() == y.sum(), "another column was read as labels")
    return "accepted, numbers right"


def check_apply(columns: list[str], file: str, rng: random.Random) -> str:
    (label, score, other), (y, p) = columns, rows(rng)
    path, sound = write(file, {label: y, score: p, other: np.full(60, "=1+1")}, rng)
    fitted = cb.PlattScaling().fit(p, y)
    fitted.save("cal.json")
    out = rng.choice(["out.csv", "out.jsonl", "out.parquet"])
    code, _, said = command("apply", f"--y-prob={score}", "-o", out, "--", "cal.json", path)
    if code in (3, 4):
        pattern = bool(set(score) & set("*?["))
        expect(not sound or pattern or "\0" in score or out == "out.csv", f"refused: {said}")
        return "refused"
    if not sound:  # the file has other names, of which a pattern may mean one
        return "accepted"
    if out == "out.parquet":
        got = pq.read_table(out).to_pydict()
    elif out == "out.jsonl":
        lines = [json.loads(line) for line in Path(out).read_text("utf-8").splitlines()]
        got = {name: [line[name] for line in lines] for name in lines[0]}
    else:
        with open(out, newline="", encoding="utf-8") as stream:
            lines = list(csv.reader(stream, strict=True))
        got = dict(zip(lines[0], zip(*lines[1:], strict=True), strict=True))
    name = f"{score}_calibrated"
    name = name if name in got else f"'{name}"  # what a spreadsheet would run is escaped
    expect(name in got, f"no column {name!r} among {list(got)!r:.200}")
    values = np.array(got[name], float)
    expect(
        np.allclose(values, fitted.predict_proba(p), atol=1e-9), "other numbers than predict_proba"
    )
    expect(len(got) == 4, f"{len(got)} columns of 4")
    return "accepted, numbers right"


def check_report(columns: list[str], file: str, rng: random.Random) -> str:
    y, p = rows(rng)
    names = rng.sample([name for name in NAMES if "\0" not in name], 3)
    try:
        if rng.random() < 0.5:
            report = cb.report(y, p, title=names[0])
        else:
            probs = np.random.default_rng(1).dirichlet(np.ones(3), size=60)
            report = cb.report(np.array(names, object)[np.arange(60) % 3], probs, classes=names)
    except CalibrantError:
        return "refused"
    report.save("report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    expect("<script>alert(1)" not in page, "a name became a script")
    expect("</style>" not in page.split("</head>")[-1], "a name ended a style")
    return "accepted, no markup"


def check_frame(columns: list[str], file: str, rng: random.Random) -> str:
    import duckdb
    import polars as pl

    (label, score, other), (y, p) = columns, rows(rng)
    data = {label: y, score: p, other: np.arange(60) + 7.0}
    right = cb.tabulate(y, p, bins=cb.EqualWidth(5))
    kind = rng.choice(["pandas", "polars", "lazy", "duckdb"])
    try:
        frame = pd.DataFrame(data)
        if kind == "duckdb":
            frame = duckdb.connect().from_df(frame)
        elif kind != "pandas":
            frame = pl.DataFrame(data) if kind == "polars" else pl.LazyFrame(data)
    except Exception:
        return "no such frame"
    try:
        table = cb.tabulate(label, score, data=frame, bins=cb.EqualWidth(5))
    except CalibrantError as error:
        reserved = any(name.startswith("_calibrant") for name in columns)
        odd = any(set(name) & set('\0"*^') or not name.strip() for name in columns)
        expect(reserved or odd, f"{kind} refused: {error}")
        return "refused"
    for name in ("count", "sum_y", "sum_p"):
        expect(
            np.allclose(getattr(table, name), getattr(right, name)),
            f"{name} is wrong in a {kind} frame",
        )
    return "accepted, numbers right"


CHECKS = (check_measure, check_measure, check_apply, check_report, check_frame)
