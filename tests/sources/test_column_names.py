"""Names of columns: patterns, and an order that is refused by every door where names say another."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError, InvalidInputError, InvalidLabelsError
from calibrant.sources.column_names import (
    check_class_order,
    check_label_order,
    is_pattern,
    match_columns,
    matching,
    names_of,
    paired,
    shown_names,
)


def test_a_column_may_be_called_like_a_pattern():
    assert is_pattern("p_*", ["p_a", "p_b"])
    assert not is_pattern("p_*", ["p_*", "p_a"])
    assert not is_pattern("p", ["p_a"])
    assert not is_pattern(3, [3])


def test_a_pattern_stands_for_columns_in_their_order():
    assert matching("p_?", ["p_b", 7, "q", "p_a", "p_10"]) == ["p_b", "p_a"]
    with pytest.raises(InvalidArgumentError, match=r"no column is like 'r_\*' among p_b, 7"):
        matching("r_*", ["p_b", 7])


def test_labels_and_predictions_are_paired_by_what_the_star_stands_for():
    assert paired(["y_b", "y_a"], ["p_a_1", "p_b_1"], "y_*", "p_*_1") == ["p_b_1", "p_a_1"]
    with pytest.raises(InvalidArgumentError, match=r"1 have only one of the two \(first: 'c'\)"):
        paired(["y_a", "y_c"], ["p_a"], "y_*", "p_*")
    for pattern in ("p_*_*", "p_?", "p_[ab]*"):
        with pytest.raises(InvalidArgumentError, match="one \\* each"):
            paired(["y_a"], ["p_a"], "y_*", pattern)


def test_names_of_several_labels_are_shown_as_one():
    assert shown_names(["y_a", "y_b"], ("p_a", "p_b")) == ("y_a, y_b", "p_a", "p_b")
    assert shown_names("y", "p") == ("y", "p")


RNG = np.random.default_rng(7)
P = RNG.dirichlet(np.ones(3), 60)
Y = RNG.integers(0, 3, 60)
ANIMALS = ["cat", "dog", "emu"]
FRAMES = ["pandas", "polars", "pyarrow"]


def frame_of(library, columns):
    module = pytest.importorskip(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def named(library, names, columns=(0, 1, 2)):
    return frame_of(library, {name: P[:, k] for name, k in zip(names, columns, strict=True)})


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["dog", "cat", "emu"], ANIMALS),
        (["prob_dog", "prob_cat", "prob_emu"], ANIMALS),
        (["dog (p)", "cat (p)", "emu (p)"], ANIMALS),
        (["p_car", "p_cat"], ["cat", "car"]),
        (["prob_dog", "prob_t", "prob_emu"], ANIMALS),
        (["dog", "emu", "cat?"], ANIMALS),
        (["p1", "p10", "p2"], None),
        (["prob_0_raw", "prob_10_raw", "prob_1_raw"], None),
        (["1", "0"], None),
        (["2", "1"], [1, 2]),
        (["p_10", "p_9"], [9, 10]),
    ],
)
def test_names_in_another_order_than_the_classes_are_refused(names, classes):
    with pytest.raises(InvalidInputError, match="must stand in the order of the classes; got"):
        check_class_order(names, classes)
    check_class_order(names, [f"class {name}" for name in names])


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ((), None),
        (["p"], None),
        (["p"], ["no", "yes"]),
        (["a", "b"], None),
        (["c0", "c1", "c10"], None),
        (["p_10", "p_11", "p_12"], None),
        (["p", "p1"], None),
        (["x", "x"], None),
        (["x", "x"], ["x", "y"]),
        (ANIMALS, ANIMALS),
        (["p_cat", "p_dog"], ["cat", "dog"]),
        (["p_b", "p_a"], ["cat", "dog"]),
        (["p_cat", "p_car"], ["cat", "car"]),
        (["p_t", "p_dog", "p_emu"], ANIMALS),
        (["p1", "p2", "p3"], [0, 1, 2]),
        (["x", "x", "y"], ["x", "y", "z"]),
        (["²", "¹"], None),
        (["", "a"], None),
    ],
)
def test_other_names_say_nothing(names, classes):
    check_class_order(names, classes)


def test_labels_and_predictions_are_paired_by_their_own_parts():
    check_label_order(["y_b", "y_a"], ["p_b", "p_a"])
    check_label_order(["y_1", "y_2"], ["first", "second"])
    with pytest.raises(InvalidLabelsError, match="one order"):
        check_label_order(["y_b", "y_a"], ["p_a", "p_b"])


def test_only_frames_have_names():
    class Odd:
        columns = property(lambda self: 3)

    for value in (P, P.tolist(), Y, Odd(), type("O", (), {"columns": lambda self: 1})()):
        assert names_of(value) == ()


@pytest.mark.parametrize("library", FRAMES)
def test_frames_in_memory_are_refused_by_measuring(library):
    given = named(library, ["dog", "cat", "emu"], (1, 0, 2))
    labels = np.take(ANIMALS, Y)
    with pytest.raises(InvalidInputError, match="order of the classes; got dog, cat, emu"):
        cb.calibration_error(labels, given, classes=ANIMALS)
    right = cb.calibration_error(labels, named(library, ANIMALS), classes=ANIMALS)
    assert right.value == cb.calibration_error(Y, P).value
    other = cb.calibration_error(labels, given, classes=["dog", "cat", "emu"])
    assert other.value == pytest.approx(right.value)


@pytest.mark.parametrize(
    ("library", "lazy"), [("pandas", False), ("polars", False), ("polars", True)]
)
def test_columns_of_a_frame_are_refused_by_measuring(library, lazy):
    data = frame_of(library, {"y": Y, "p_0": P[:, 0], "p_2": P[:, 2], "p_1": P[:, 1]})
    data = data.lazy() if lazy else data
    with pytest.raises(InvalidInputError, match="got p_0, p_2, p_1 for classes in the order of"):
        cb.calibration_error("y", "p_*", data=data)
    right = cb.calibration_error("y", ["p_0", "p_1", "p_2"], data=data)
    assert right.value == pytest.approx(cb.calibration_error(Y, P).value)


def test_classes_that_are_none_are_refused_as_they_are_for_arrays():
    for classes in (5, "cat", {"cat": 1}, object()):
        with pytest.raises(cb.exceptions.InvalidArgumentError, match="classes must be a sequence"):
            cb.calibration_error(Y, named("pandas", ANIMALS), classes=classes)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "npz", "parquet"])
def test_columns_of_files_are_refused_by_measuring(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    from predictions_on_disk import write

    columns = {"y": Y, **{f"p_{k}": P[:, k] for k in (2, 0, 1)}}
    columns |= {"y_0": Y % 2, "y_2": Y // 2}
    path = write(tmp_path / f"rows.{suffix}", columns)
    with pytest.raises(InvalidInputError, match="got p_2, p_0, p_1"):
        cb.calibration_error("y", "p_*", data=path)
    with pytest.raises(InvalidLabelsError, match="one order"):
        cb.calibration_error(["y_2", "y_0"], ["p_0", "p_2"], data=path, kind="multi-label")
    right = cb.calibration_error("y", ["p_0", "p_1", "p_2"], data=path)
    assert right.value == pytest.approx(cb.calibration_error(Y, P).value)


@pytest.mark.parametrize("library", FRAMES)
@pytest.mark.parametrize(
    "method",
    [
        cb.VectorScaling(),
        cb.TemperatureScaling(),
        cb.OneVsRest(cb.PlattScaling()),
        cb.TopLabel(cb.PlattScaling()),
    ],
    ids=str,
)
def test_a_recalibrator_knows_its_columns_again(tmp_path, library, method):
    fitted = method.fit(named(library, ["a", "b", "c"]), Y)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    fitted.save(tmp_path / "r.json")
    given = named(library, ["b", "a", "c"], (1, 0, 2))
    for own in (fitted, cb.load(tmp_path / "r.json")):
        for call in (
            own.predict_proba,
            own.predict,
            lambda x, own=own: own.score(x, Y),
            lambda x, own=own: own.certify(x, Y),
        ):
            with pytest.raises(InvalidInputError, match="order of the fit, a, b, c; got b, a, c"):
                call(given)
        with pytest.raises(InvalidInputError, match="those of the fit, a, b, c; got a, b, d"):
            own.predict_proba(named(library, ["a", "b", "d"]))
        expected = own.predict_proba(P)
        assert np.array_equal(own.predict_proba(named(library, ["a", "b", "c"])), expected)
        assert np.array_equal(own.predict_proba(named(library, ["0", "1", "2"])), expected)
    assert not hasattr(fitted.fit(P, Y), "feature_names_in_")


def test_a_recalibrator_of_arrays_knows_the_order_of_its_classes():
    fitted = cb.VectorScaling().fit(P, np.take(ANIMALS, Y), classes=ANIMALS)
    with pytest.raises(InvalidInputError, match="order of the classes"):
        fitted.predict_proba(named("pandas", ["dog", "cat", "emu"]))
    counted = cb.VectorScaling().fit(P, Y)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="order of the classes"):
        counted.predict_proba(pandas.DataFrame(P)[[2, 1, 0]])
    counted.predict_proba(pandas.DataFrame(P))


def test_two_columns_of_one_event_and_one_column():
    pandas = pytest.importorskip("pandas")
    both = pandas.DataFrame({"no": 1 - P[:, 0], "yes": P[:, 0]})
    fitted = cb.PlattScaling().fit(both, Y == 0)
    with pytest.raises(InvalidInputError, match="order of the fit, no, yes"):
        fitted.predict_proba(both[["yes", "no"]])
    one = fitted.predict_proba(both["yes"])
    assert np.array_equal(one, fitted.predict_proba(both)[:, 1])
    assert np.array_equal(one, fitted.predict_proba(both[["yes"]])[:, 0])
    with pytest.raises(InvalidInputError, match="the second is the event's, .* the first, no. Pa"):
        fitted.predict_proba(both[["no"]])
    unnamed = pandas.DataFrame(both.to_numpy())
    alone = cb.PlattScaling().fit(unnamed, Y == 0).predict_proba(pandas.DataFrame(P[:, 0]))
    assert np.array_equal(alone[:, 0], one), "one column of a frame without names is the event's"


def test_groups_labels_and_the_chosen_one_keep_names_too():
    group = np.arange(60) % 2
    given, other = named("pandas", ["a", "b", "c"]), named("pandas", ["b", "a", "c"])
    by_group = cb.ByGroup(cb.TemperatureScaling()).fit(given, Y, by=group)
    with pytest.raises(InvalidInputError, match="order of the fit"):
        by_group.predict_proba(other, by=group)
    marks = (RNG.uniform(size=P.shape) < P).astype(int)
    labels = cb.MultiLabel(cb.PlattScaling()).fit(given, marks)
    with pytest.raises(InvalidInputError, match="order of the fit"):
        labels.predict_proba(other)
    candidates = (cb.Identity(), cb.TemperatureScaling())
    best = cb.best_recalibrator(Y, given, candidates)
    with pytest.raises(InvalidInputError, match="order of the fit"):
        best.predict_proba(other)
    frame = given.assign(y=Y)
    named_best = cb.best_recalibrator("y", ["a", "b", "c"], candidates, data=frame)
    with pytest.raises(InvalidInputError, match="order of the fit"):
        named_best.predict_proba(other)


@pytest.mark.parametrize("columns", ["p", [1, 2, 3], ["a", "b"], ["a", None, "c"], {"a": 1}, None])
def test_damaged_names_in_a_document_are_refused(columns):
    import json

    from calibrant.recalibrators.saving import from_json, to_json

    fitted = cb.VectorScaling().fit(named("pandas", ["a", "b", "c"]), Y)
    document = json.loads(to_json(fitted))
    assert document["columns"] == ["a", "b", "c"]
    with pytest.raises(cb.exceptions.InvalidDocumentError, match='"columns" must be a list'):
        from_json(json.dumps(document | {"columns": columns}))


def test_commands_do_not_take_the_other_column_for_that_of_the_event(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    from calibrant.cli import main
    from predictions_on_disk import write

    columns = {"y": (Y == 0).astype(int), "no": 1 - P[:, 0], "yes": P[:, 0]}
    rows, cal = str(write(tmp_path / "rows.csv", columns)), str(tmp_path / "cal.json")
    assert main(["fit", rows, "--y-true", "y", "--y-prob", "no", "yes", "-o", cal]) == 0
    apply = ["apply", cal, rows, "-o", str(tmp_path / "out.csv"), "--y-prob"]
    assert main([*apply, "yes"]) == 0
    assert main([*apply, "no"]) == 3
    assert "got the first, no. Pass yes, or both" in capsys.readouterr().err


def test_commands_know_the_columns_again(tmp_path, capsys):
    pytest.importorskip("pyarrow")
    from calibrant.cli import main
    from predictions_on_disk import write

    columns = {"y": Y, "a": P[:, 0], "b": P[:, 1], "c": P[:, 2]}
    rows = write(tmp_path / "rows.csv", columns)
    swapped = write(tmp_path / "swapped.csv", {n: columns[n] for n in ("y", "b", "a", "c")})
    cal, out = str(tmp_path / "cal.json"), str(tmp_path / "out.csv")
    fit = ["fit", str(rows), "--y-true", "y", "--y-prob", "[abc]", "--method", "vector"]
    assert main([*fit, "-o", cal]) == 0
    apply = ["apply", cal, str(swapped), "-o", out, "--y-prob"]
    assert main([*apply, "[abc]"]) in (3, 4)
    assert "order of the fit, a, b, c; got b, a, c" in capsys.readouterr().err
    assert main([*apply, "a", "b", "c"]) == 0
    certify = ["certify", str(swapped), "--y-true", "y", "--calibrator", cal, "--y-prob", "[abc]"]
    assert main([*certify, "--max-error", "0.5"]) in (3, 4)
    assert "order of the fit, a, b, c; got b, a, c" in capsys.readouterr().err


def test_a_name_is_itself_before_it_is_a_pattern():
    names = ["p[0]", "p0", "p1"]
    assert match_columns(names, ["p[0]"], "f") == ["p[0]"]
    assert match_columns(names, ["p?", "p1"], "f") == ["p0", "p1"]
    with pytest.raises(InvalidInputError, match="f has no column 'q'; its columns are 'p\\[0\\]'"):
        match_columns(names, ["q"], "f")


def test_a_column_that_is_named_twice_is_a_slip():
    """Taken once, two columns of classes would be one, of an event that nobody named."""
    with pytest.raises(InvalidInputError, match="named once; 'no' is named twice"):
        match_columns(["no", "yes"], ["no", "no"], "f")
