"""Many files: resumable, in bounded memory, and their sum is the whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant.cli import main
from predictions_on_disk import COLUMNS, LABEL, MANY, run, write

RAW = ("--y-true", "label", "--y-prob", "raw")


@pytest.fixture
def parts(tmp_path):
    """Write five files, of which one has no rows."""
    for i, rows in enumerate((slice(0, 400), slice(400, 410), slice(0, 0), slice(410, 1100),
                              slice(1100, None))):  # fmt: skip
        write(tmp_path / f"part-{i}.parquet", rows=rows)
    return tmp_path


def table_of(path):
    return cb.BinTable.from_json(Path(path).read_bytes())


def assert_same_sums(a, b):
    assert a.bins == b.bins
    assert a.count.tolist() == b.count.tolist()
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(a.level, b.level)


@pytest.mark.parametrize("bins", ["auto", "9", "width:10", "hybrid:4", "distinct"])
@pytest.mark.parametrize(("options", "kind"), [(RAW, "binary"), (MANY, "marginal")])
def test_the_sum_of_the_parts_is_the_table_of_all_rows(parts, bins, options, kind, capsys):
    whole = write(parts / "whole.csv")
    for name, files in (("whole", whole), ("parts", parts / "part-*.parquet")):
        target = parts / f"{name}.json"
        code, _, err = run(
            capsys, "measure", files, *options, "--kind", kind, "--bins", bins, "--table", target
        )
        assert (code, err) == (0, "")
    assert_same_sums(table_of(parts / "parts.json"), table_of(parts / "whole.json"))
    if kind == "binary" and bins in ("auto", "9"):
        rows = cb.tabulate(LABEL, COLUMNS["raw"], bins="auto" if bins == "auto" else 9)
        assert_same_sums(table_of(parts / "parts.json"), rows)
    assert not (parts / "parts.json.progress").exists()


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from calibrant.cli import main, resume

def last_save(save, after):
    def saved(self, *args):
        save(self, *args)
        after.append(args)
        if len(after) == {saves}:
            os.kill(os.getpid(), signal.SIGKILL)
    return saved

resume.TIME_BETWEEN = 0
resume.Checkpoints.{method} = last_save(resume.Checkpoints.{method}, [])
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("bins", "method", "saves", "said"),
    [
        ("width:10", "save_table", 2, "continuing with the files that"),
        ("9", "save_pass", 3, "continuing: pass 1 has read 3 of 5 files"),
        ("9", "save_table", 4, "continuing with the files that"),
    ],
)
def test_a_run_that_was_killed_continues_where_it_stopped(
    parts, bins, method, saves, said, capsys, monkeypatch
):
    argv = ["measure", str(parts / "part-*.parquet"), *RAW, "--bins", bins, "--table"]
    code = KILLED_IN_THE_MIDDLE.format(method=method, saves=saves)
    killed = subprocess.run([sys.executable, "-c", code, *argv, str(parts / "out.json")])
    assert killed.returncode == -signal.SIGKILL
    assert not (parts / "out.json").exists()
    assert (parts / "out.json.progress").is_dir()

    read = []
    from calibrant.sources import files

    original = files.read_chunks
    monkeypatch.setattr(
        files,
        "read_chunks",
        lambda file, *rest: read.append(file.path) or original(file, *rest),
    )
    got, _, err = run(capsys, *argv, parts / "out.json")
    assert (got, said in err) == (0, True)
    expected_reads = {"save_table": 5 - saves, "save_pass": None}[method]
    if method == "save_table":
        finished = {str(parts / f"part-{i}.parquet") for i in range(saves)}
        assert not finished & set(read[1:])
        assert len(set(read[1:]) - finished) == expected_reads
    assert run(capsys, *argv, parts / "again.json")[0] == 0
    assert table_of(parts / "out.json") == table_of(parts / "again.json")
    assert sorted(path.suffix for path in parts.iterdir()) == [".json"] * 2 + [".parquet"] * 5


def stop_after(monkeypatch, saves, method="save_table"):
    """Interrupt the next run after so many finished files, in all passes."""
    from calibrant.cli.resume import Checkpoints

    save, seen = getattr(Checkpoints, method), []

    def saved(self, *args):
        save(self, *args)
        seen.append(args)
        if len(seen) == saves:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, method, saved)


@pytest.mark.parametrize("bins", ["width:10", "9"])
def test_a_changed_file_is_counted_anew_and_said(parts, bins, capsys, monkeypatch):
    argv = [
        "measure",
        parts / "part-*.parquet",
        *RAW,
        "--bins",
        bins,
        "--table",
        parts / "out.json",
    ]
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        code, _, err = run(capsys, *argv)
        assert (code, "run again to continue" in err) == (130, True)
    write(parts / "part-0.parquet", rows=slice(0, 300))
    code, _, err = run(capsys, *argv)
    assert code == 0
    assert "part-0.parquet has changed since it was counted: counting it anew" in err
    rows = np.r_[0:300, 400 : LABEL.size]
    rule = cb.EqualWidth(10) if bins == "width:10" else 9
    assert_same_sums(
        table_of(parts / "out.json"), cb.tabulate(LABEL[rows], COLUMNS["raw"][rows], bins=rule)
    )


def test_a_later_pass_does_not_look_where_rows_that_have_changed_had_sent_it(
    tmp_path, capsys, monkeypatch
):
    """The first pass told the second where quantiles lie; of other rows they lie elsewhere."""

    def part(number, low, high, n):
        p = np.random.default_rng(number).uniform(low, high, size=n)
        np.savez(tmp_path / f"part-{number}.npz", labels=np.arange(n) % 2, probs=p)
        return p

    monkeypatch.setattr("calibrant.cli.resume.TIME_BETWEEN", 0)
    same = [part(number, 0.2, 0.8, 60_000) for number in range(2)]
    part(2, 0.2, 0.8, 60_000)
    argv = ["measure", tmp_path / "part-*.npz", "--bins", "15", "--table", tmp_path / "out.json"]
    with monkeypatch.context() as patch:
        stop_after(patch, 4, "save_pass")
        assert run(capsys, *argv)[0] == 130
    assert (tmp_path / "out.json.progress" / "pass-2.npz").exists()
    p = np.concatenate([*same, part(2, 0.0, 0.3, 200_000)])
    code, _, err = run(capsys, *argv)
    assert (code, "part-2.npz has changed" in err) == (0, True)
    labels = np.concatenate([np.arange(n) % 2 for n in (60_000, 60_000, 200_000)])
    assert_same_sums(table_of(tmp_path / "out.json"), cb.tabulate(labels, p, bins=15))


def test_columns_that_now_stand_in_another_order_are_counted_anew(tmp_path, capsys, monkeypatch):
    """The first file fixes their order, in which the others were counted."""
    classes = np.arange(400) % 3
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=400)

    def part(number, order):
        write(tmp_path / f"part-{number}.csv",
              {"labels": classes, **{f"p{'xyz'[k]}": probs[:, k] for k in order}})  # fmt: skip

    for number in range(3):
        part(number, (0, 1, 2))
    argv = ["measure", tmp_path / "part-*.csv", "--y-prob", "p*", "--kind", "marginal", "--bins",
            "width:10", "--table", tmp_path / "out.json"]  # fmt: skip
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert run(capsys, *argv)[0] == 130
    part(0, (2, 1, 0))
    assert run(capsys, *argv)[0] == 0
    table = cb.tabulate(classes, probs[:, ::-1], kind="marginal", bins=cb.EqualWidth(10))
    assert_same_sums(table_of(tmp_path / "out.json"), table + table + table)


@pytest.mark.parametrize("changed", [("--y-prob", "squared"), ("--bins", "width:5")])
def test_changed_settings_start_over_and_are_said(parts, changed, capsys, monkeypatch):
    files, target = parts / "part-*.parquet", parts / "out.json"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert (
            run(capsys, "measure", files, *RAW, "--bins", "width:10", "--table", target)[0] == 130
        )
    options = (*RAW, "--bins", "width:10", *changed)
    code, _, err = run(capsys, "measure", files, *options, "--table", target)
    assert (code, "the settings have changed" in err) == (0, True)
    run(capsys, "measure", files, *options, "--table", parts / "again.json")
    assert table_of(target) == table_of(parts / "again.json")


def test_a_corrupt_checkpoint_is_ignored(parts, capsys, monkeypatch):
    argv = ["measure", parts / "part-*.parquet", *RAW, "--bins", "9", "--table", parts / "out.json"]
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert run(capsys, *argv)[0] == 130
    for save in (parts / "out.json.progress").iterdir():
        save.write_bytes(save.read_bytes()[:-20])
    assert run(capsys, *argv)[0] == 0
    assert_same_sums(table_of(parts / "out.json"), cb.tabulate(LABEL, COLUMNS["raw"], bins=9))


@pytest.mark.parametrize("bins", ["width:10", "9"])
def test_a_run_whose_checkpoints_another_run_removes_goes_on(parts, bins, capsys, monkeypatch):
    """The other run writes the same table, and ends while a checkpoint of the first is half written."""
    argv = ["measure", parts / "part-*.parquet", *RAW, "--bins", bins, "--table"]
    argv = [*map(str, argv), str(parts / "out.json")]
    replace, ended = os.replace, []

    def other_run_ends_first(source, target):
        if ".progress" in str(source) and not ended:
            ended.append(None)
            ended.append(main(argv))
        replace(source, target)

    monkeypatch.setattr(os, "replace", other_run_ends_first)
    assert run(capsys, *argv)[0] == 0
    assert ended == [None, 0]
    rule = cb.EqualWidth(10) if bins == "width:10" else 9
    assert_same_sums(table_of(parts / "out.json"), cb.tabulate(LABEL, COLUMNS["raw"], bins=rule))
    assert sorted(path.suffix for path in parts.iterdir()) == [".json"] + [".parquet"] * 5


def test_two_runs_that_write_one_table_at_once_both_succeed(parts):
    argv = [sys.executable, "-m", "calibrant", "measure", str(parts / "part-*.parquet"), *RAW,
            "--bins", "9", "--table", str(parts / "out.json"), "--json"]  # fmt: skip
    runs = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(2)]
    results = [(each.communicate()[0], each.returncode) for each in runs]
    assert results[0] == results[1]
    assert results[0][1] == 0
    assert_same_sums(table_of(parts / "out.json"), cb.tabulate(LABEL, COLUMNS["raw"], bins=9))
    assert sorted(path.suffix for path in parts.iterdir()) == [".json"] + [".parquet"] * 5


def test_other_files_in_the_folder_of_checkpoints_are_left_alone(parts, capsys):
    mine = parts / "out.json.progress" / "mine.json"
    mine.parent.mkdir()
    mine.write_text("{}")
    argv = ("measure", parts / "part-*.parquet", *RAW, "--bins", "9", "--table", parts / "out.json")
    assert run(capsys, *argv)[0] == 0
    assert list(mine.parent.iterdir()) == [mine]


def test_files_with_other_columns_are_refused(parts, capsys):
    write(parts / "part-9.parquet", COLUMNS | {"prob_3": np.zeros(LABEL.size)})
    code, _, err = run(
        capsys, "measure", parts / "part-*", "--y-true", "label", "--y-prob", "prob_*"
    )
    assert code == 3
    assert "part-9.parquet has a column 'prob_3', which the rows before have not" in err


PEAK = """
import re, sys
from calibrant.cli import main
code = main(sys.argv[1:])
with open("/proc/self/status") as status:
    print(re.search(r"VmHWM:\\s*(\\d+) kB", status.read())[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".arrow", ".npz"])
def test_the_peak_of_memory_does_not_grow_with_the_rows(tmp_path, suffix):
    """8,400,000 rows more are 134 MB; a run that holds them takes that, and sorting them 470 MB.

    The bound is half of it. Where a reader works ahead of the counting, how far (30 blocks of a
    MB) is the scheduler's choice: up to 45 MB between two runs of the same. Allocators and occupied
    cells have levelled off by the smaller size. The pages of a mapped Arrow file are the system's
    to take back at any time, and so not counted. Other formats are slower to read, and read once; the
    search for bins, which reads it several times, is that of every format.
    """
    bins = "50" if suffix in (".parquet", ".npz") else "width:50"
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, size=1_200_000)
    y = (rng.uniform(size=len(p)) < p).astype(int)
    peaks = []
    for times in (1, 8):
        file = tmp_path / f"{times}{suffix}"
        if suffix == ".jsonl":
            pairs = zip(y.tolist(), p.tolist(), strict=True)
            file.write_text(times * "".join(f'{{"label": {a}, "raw": {b}}}\n' for a, b in pairs))
        else:
            write(file, {"label": np.tile(y, times), "raw": np.tile(p, times)})
        argv = [sys.executable, "-c", PEAK, "measure", str(file), *RAW, "--bins", bins]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        mapped = file.stat().st_size if suffix == ".arrow" else 0
        peaks.append((1024 * int(done.stderr) - mapped) / 1e6)
    print(suffix, [round(peak) for peak in peaks])
    assert peaks[1] < peaks[0] + 67
