"""Predictions written in every format, and a way to run commands on them."""

from __future__ import annotations

import json
import math

import numpy as np

from calibrant.cli import main
from conftest import optional

pa = optional("pyarrow")

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".jsonl", ".arrow", ".npz")
NAMES = np.array(["cat", "dog", "eel"])

rng = np.random.default_rng(51)
N = 1500
SCORE = np.round(rng.uniform(size=N), 1)
LABEL = (rng.uniform(size=N) < SCORE).astype(int)
PROBS = rng.dirichlet(np.ones(3), size=N)
CLASS = (PROBS.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
COLUMNS = {
    "id": np.array([f"{i:05d}" for i in range(N)]),
    "label": LABEL,
    "score": SCORE,
    "raw": np.clip(SCORE + rng.uniform(-0.04, 0.04, size=N), 0, 1),
    "squared": SCORE**2,
    "animal": NAMES[CLASS],
    **{f"prob_{k}": PROBS[:, k] for k in range(3)},
}
ONE = ("--y-true", "label", "--y-prob", "score")
MANY = ("--y-true", "animal", "--y-prob", "prob_*", "--classes", "cat,dog,eel")


def write(path, columns=None, rows=slice(None)):
    """Write columns in the format that the suffix names, and return the path as text."""
    import pyarrow.csv as pa_csv
    import pyarrow.feather as pa_feather
    import pyarrow.parquet as pa_parquet

    chosen = {name: np.asarray(column)[rows] for name, column in (columns or COLUMNS).items()}
    if path.suffix == ".npz":
        np.savez_compressed(path, **chosen)
        return str(path)
    table = pa.table(chosen)
    if ".csv" in path.suffixes or path.suffix == ".tsv":
        options = pa_csv.WriteOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        with pa.output_stream(str(path), compression="detect") as stream:
            pa_csv.write_csv(table, stream, options)
    elif path.suffix == ".parquet":
        pa_parquet.write_table(table, path, row_group_size=max(400, table.num_rows // 100))
    elif path.suffix == ".arrow":
        pa_feather.write_feather(table, path, chunksize=max(400, table.num_rows // 100))
    else:
        lines = (json.dumps(row) for row in table.to_pylist())
        path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def run(capsys, *argv):
    """Run a command in this process and return (exit code, standard output, standard error)."""
    try:
        code = main([str(each) for each in argv])
    except SystemExit as left:
        code = left.code
    captured = capsys.readouterr()
    return code, captured.out.strip(), captured.err.strip()


def same(a, b):
    """Tell whether two documents agree, numbers to nine digits."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return a == b


def refused(capsys, *argv):
    """Return the one line with which a command refuses its input."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (3, ""), err
    assert err.count("\n") == 0
    return err


def n_of(capsys, *argv):
    """Return how many rows `calibrant measure` counts."""
    code, out, err = run(capsys, "measure", *argv, "--json")
    assert code == 0, err
    return json.loads(out)["n"]


def lines_to(path, lines, end="\n"):
    """Write lines of text, and return the path as text."""
    path.write_text(end.join(lines) + end, newline="")
    return str(path)


def one_line(code, out, err, file):
    """Check that a refusal is one line that names the file."""
    assert (code, out) == (3, ""), err
    assert err.count("\n") == 0
    assert str(file) in err
    return err
