"""Certificates: verdicts, reasons, documents, refusals."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.verdicts import EARLIER_WORDING

RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


@pytest.mark.parametrize(
    ("y", "max_error", "verdict", "words"),
    [
        (GOOD, 0.08, "certified", "is at most 0.0"),
        (BAD, 0.05, "refuted", "> 0.05"),
        (GOOD, 0.005, "undecided", "more would do"),
        (BAD, 0.11, "undecided", "no number of rows is sure to certify it"),
    ],
)
def test_there_are_three_verdicts_with_reasons(y, max_error, verdict, words):
    certificate = cb.certify(y, LEVELS, max_error=max_error)
    assert certificate.verdict == verdict
    printed = str(certificate)
    assert max(map(len, printed.splitlines())) < 80
    heading = "The bounds hold if" if verdict == "undecided" else "It holds if"
    statement, assumptions = " ".join(printed.split()).split(f" {heading} - ")
    assert words in statement
    period = "." if ". " in certificate.reason else ""  # one sentence stands without
    assert statement == f"{verdict}: {certificate.reason}{period}"
    assert repr(certificate) == f"<Certificate: {statement}>"
    assert assumptions == " - ".join(certificate.assumptions)


@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
@pytest.mark.parametrize("looks", [2, 20, 1_000_000])
def test_looks_divide_the_error_probability(norm, looks):
    planned = cb.certify(GOOD, LEVELS, norm=norm, looks=looks)
    once = cb.certify(GOOD, LEVELS, norm=norm, confidence_level=1 - 0.05 / looks)
    assert planned.upper_bound == pytest.approx(once.upper_bound, rel=1e-9)
    assert planned.lower_bound == pytest.approx(once.lower_bound, rel=1e-9)
    assert planned.upper_bound > cb.certify(GOOD, LEVELS, norm=norm).upper_bound
    assert planned.confidence_level == 0.95


def test_looks_are_said_and_kept_and_checked():
    planned = cb.certify(GOOD, LEVELS, max_error=0.08, looks=np.int64(3))
    assert "with 95% confidence over 3 looks" in planned.reason
    assert any("At most 3 certificates are asked of these rows" in a for a in planned.assumptions)
    again = cb.Certificate.from_json(planned.to_json())
    assert again.looks == 3
    assert again.recheck()
    document = json.loads(planned.to_json()) | {"looks": 1}
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()
    alone = cb.certify(GOOD, LEVELS, max_error=0.08)
    assert any("the only certificate asked of these rows" in each for each in alone.assumptions)


@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
def test_an_undecided_certificate_says_that_a_second_look_must_be_planned(norm):
    unplanned = cb.certify(GOOD, LEVELS, max_error=0.003, norm=norm)
    assert "looks=k at each of k looks, or looks=i*(i+1)" in unplanned.reason
    planned = cb.certify(GOOD, LEVELS, max_error=0.003, norm=norm, looks=5)
    assert "only as planned, at the next of these 5 looks" in planned.reason


def test_without_a_tolerance_there_are_bounds_and_no_verdict():
    certificate = cb.certify(GOOD, LEVELS)
    assert certificate.verdict is None
    assert 0 <= certificate.lower_bound < certificate.upper_bound < 0.1
    assert certificate.n == 4000


def test_a_continuous_model_can_be_refuted_but_never_certified():
    refuted = cb.certify(RNG.uniform(size=4000) < SCORES**2, SCORES, max_error=0.05)
    assert refuted.verdict == "refuted"
    assert refuted.upper_bound == 1.0
    calibrated = cb.certify(RNG.uniform(size=4000) < SCORES, SCORES, max_error=0.9)
    assert calibrated.verdict == "undecided"
    assert "can be refuted, never certified" in calibrated.reason
    assert any("Proposition 3.2" in each for each in calibrated.assumptions)


@pytest.mark.parametrize("bins", [cb.EqualWidth(5), cb.EqualMass(5)])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_bins_that_mix_predictions_never_certify(bins, norm):
    certificate = cb.certify(SCORES > 2, SCORES, max_error=0.99, bins=bins, norm=norm)
    assert certificate.verdict != "certified"


@pytest.mark.parametrize("bins", [5, cb.EqualWidth(5)])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_a_continuous_model_is_judged_on_the_target_that_was_asked_for(bins, target):
    assert cb.certify(GOOD, SCORES, bins=bins, target=target).target == target


def test_norms_are_ordered():
    bounds = [cb.certify(BAD, LEVELS, norm=norm).upper_bound for norm in ("l1", "l2", "max")]
    assert bounds == sorted(bounds)


def test_knowing_outputs_and_masses_sharpens_the_bound_of_confident_models():
    rng, outputs = np.random.default_rng(5), np.array([0.002, 0.004, 0.01, 0.99, 0.998])
    p = rng.choice(outputs, p=[0.3, 0.1, 0.05, 0.1, 0.45], size=50_000)
    y = rng.uniform(size=p.size) < p
    free = cb.certify(y, p).upper_bound
    declared = cb.certify(y, p, levels=outputs).upper_bound
    known = cb.certify(y, p, levels=outputs, min_bin_mass=0.05).upper_bound
    sample = cb.certify(y, p, target="sample").upper_bound
    assert max(sample, known, declared) < 0.5 * free
    assert free < 0.0095  # no bound without masses can lie below sqrt(3 / n) = 0.0077 for sure


def test_levels_must_be_all_outputs_of_the_rows():
    whole = np.arange(1, 10) / 10
    declared = cb.certify(GOOD, LEVELS, levels=whole)
    assert declared.levels == whole.tolist()
    assert any("no outputs but the 9 that were declared" in x for x in declared.assumptions)
    assert cb.Certificate.from_json(declared.to_json()).recheck()
    more = cb.certify(GOOD, LEVELS, levels=[*whole, 0.95])
    assert more.n == 4000
    with pytest.raises(ex.InvalidArgumentError, match="1 of the rows' 9 outputs are not among"):
        cb.certify(GOOD, LEVELS, levels=whole[:-1])
    with pytest.raises(ex.InvalidArgumentError, match="one by one.*looks=3 for all to hold"):
        cb.certify(np.arange(9) % 3, np.full((9, 3), 1 / 3), kind="marginal", levels=[1 / 3])
    with pytest.raises(ex.InvalidArgumentError, match="bins that mix"):
        cb.certify(GOOD, SCORES, levels=whole)
    for nonsense in ([], [0.1, np.nan], [1.2], "all", [[0.1]], 0.5):
        with pytest.raises(ex.InvalidArgumentError, match="levels must be all outputs"):
            cb.certify(GOOD, LEVELS, levels=nonsense)


def test_a_mask_hides_no_level_from_the_check():
    levels = np.ma.array([0.1, 0.3, 0.9], mask=[False, True, False])
    with pytest.raises(ex.InvalidArgumentError, match="one or more probabilities"):
        cb.certify([0, 1, 1], [0.1, 0.3, 0.9], levels=levels)


def test_levels_that_are_forged_are_noticed():
    document = json.loads(cb.certify(GOOD, LEVELS, levels=np.arange(1, 10) / 10).to_json())
    document["levels"] = [0.1, 0.9]
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()
    document["levels"] = None
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()


def test_three_classes_are_bounded_one_by_one():
    rng = np.random.default_rng(6)
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])[
        rng.integers(3, size=5000)
    ]
    y = (rng.uniform(size=(5000, 1)) > np.cumsum(probs, axis=1)).sum(axis=1)
    found = cb.certify(y, probs, kind="marginal")
    assert "class by class" in found.method
    alone = [
        cb.certify(y == k, probs[:, k], confidence_level=1 - 0.05 / 3).upper_bound for k in range(3)
    ]
    assert found.upper_bound == pytest.approx(np.sqrt(np.mean(np.square(alone))))


def test_learned_masses_assume_that_all_outputs_are_in_the_table():
    learned = cb.certify(GOOD, LEVELS, min_bin_mass="learned")
    assert any("no outputs besides" in each for each in learned.assumptions)
    empty = cb.certify(GOOD, LEVELS, min_bin_mass="learned", bins=cb.EqualWidth(100))
    free = cb.certify(GOOD, LEVELS, bins=cb.EqualWidth(100))
    assert free.upper_bound < empty.upper_bound < 1.4 * free.upper_bound, "an empty bin: no gain"


def test_top_label_and_marginal_are_certified():
    probs = np.round(RNG.dirichlet(np.ones(3), size=4000), 1)
    y = (probs.cumsum(axis=1) / probs.sum(axis=1)[:, None] < RNG.uniform(size=(4000, 1))).sum(
        axis=1
    )
    for kind in ("top-label", "marginal"):
        assert cb.certify(y, probs, kind=kind, max_error=0.1).verdict == "certified"
        assert cb.certify((y + 1) % 3, probs, kind=kind, max_error=0.1).verdict == "refuted"
    one = cb.certify(y, probs, kind="marginal", class_weight={0: 1})
    alone = cb.certify(y == 0, probs[:, 0])
    assert one.upper_bound == pytest.approx(alone.upper_bound, abs=1e-4)


def test_a_certificate_is_a_document_that_can_be_checked_again():
    before = cb.certify(GOOD, LEVELS, max_error=0.05)
    after = cb.Certificate.from_json(before.to_json())
    assert after.to_json() == before.to_json()
    check = after.recheck()
    assert check
    assert "agrees" in str(check)
    document = json.loads(before.to_json())
    assert document["version"] == cb.__version__
    assert document["table"]["count"] == before.table.count.tolist()


def tampered(**changes):
    document = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())
    for path, value in changes.items():
        target = document
        *parents, last = path.split("__")
        for parent in parents:
            target = target[parent]
        target[last] = value
    return cb.Certificate.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "certified"}, "verdict is 'certified' in the document and 'refuted'"),
        ({"upper_bound": 0.01}, "upper_bound is 0.01"),
        ({"lower_bound": 0.0}, "lower_bound is 0.0"),
        ({"max_error": 0.5}, "verdict is 'refuted' in the document and 'certified'"),
        ({"confidence_level": 0.5}, "bound is"),
        ({"assumptions": []}, "assumptions"),
        ({"norm": "l9"}, "cannot be computed"),
        ({"confidence_level": 1.0}, "cannot be computed"),
        ({"reason": "certified by me"}, "reason is 'certified by me' in the document"),
        ({"n": 4001}, "n is 4001 in the document and 4000 from its table"),
        ({"norm": "l1"}, "bound is"),
        ({"norm": "2"}, "cannot be computed"),
        ({"target": "sample"}, "bound is"),
        ({"min_bin_mass": 1 / 18}, "assumptions is"),
        ({"min_bin_mass": 0.5}, "cannot be computed"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"assumptions": ["None at all."]}, "assumptions"),
        ({"class_weights": [0.5]}, "class_weights is [0.5]"),
        ({"class_weights": []}, "class_weights is []"),
        ({"confidence_level": 1e-320}, "cannot be computed"),
    ],
)
def test_tampering_is_noticed(changes, words):
    check = tampered(**changes).recheck()
    assert not check
    assert words in str(check)


BOUNDS = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "certified"},
        {"verdict": "undecided"},
        {"upper_bound": BOUNDS["upper_bound"] - 1e-4},
        {"lower_bound": BOUNDS["lower_bound"] + 1e-4},
        {"max_error": 0.06},
        {"confidence_level": 0.96},
        {"n": 4001},
        {"looks": 2},
        {"norm": "l1"},
        {"min_bin_mass": 1 / 18},
        {"levels": [0.5]},
        {"class_weights": [0.5]},
        {"assumptions": BOUNDS["assumptions"][1:]},
        {"assumptions": [*BOUNDS["assumptions"][:-1], "None at all."]},
        {"reason": BOUNDS["reason"].replace("at least", "surely at least")},
        {"reason": BOUNDS["reason"].replace("95%", "99%")},
        {"reason": BOUNDS["reason"] + ". It is 0.001"},
    ],
    ids=str,
)
def test_a_document_of_another_version_may_claim_no_more_than_its_table_proves(changes):
    assert not tampered(version="0.0.9", **changes).recheck()


def test_a_certificate_of_a_version_that_proved_less_stays_valid():
    said = round(BOUNDS["lower_bound"], 4)
    looser = {
        "upper_bound": BOUNDS["upper_bound"] + 0.01,
        "lower_bound": said - 0.01,
        "reason": BOUNDS["reason"].replace(f"{said:.4f}", f"{said - 0.01:.4f}"),
        "method": "an older theorem",
    }
    assert not tampered(**looser).recheck(), "this version has not proved less"
    check = tampered(version="0.0.9", **looser).recheck()
    assert check
    printed = " ".join(str(check).split())
    assert f"this version proves {BOUNDS['upper_bound']!r}" in printed
    assert "worded otherwise by this version: reason, method" in printed


def test_a_verdict_of_another_version_follows_from_its_own_bounds():
    undecided = {"lower_bound": 0.04, "verdict": "undecided", "version": "0.0.9"}
    upper = f"{BOUNDS['upper_bound']:.4f}"
    reason = (
        f"the binary error lies between 0.0400 and {upper}, each with 95% confidence (n = 4,000, "
        "9 distinct-value bins): more rows are needed to tell it from 0.05; advice of that time"
    )
    check = tampered(**undecided, reason=reason).recheck()
    assert check, str(check)
    assert "verdict is 'undecided' in the document; this version proves 'refuted'" in str(check)
    assert not tampered(**undecided, reason=reason.replace("0.0400", "0.0300")).recheck()
    assert not tampered(**{**undecided, "lower_bound": 0.06}, reason=reason).recheck()


def test_a_sentence_is_accepted_in_an_earlier_wording_only_where_it_is_known(monkeypatch):
    first = "Rows are drawn independently from the population of the statement."
    texts = [first, *BOUNDS["assumptions"][1:]]
    assert not tampered(version="0.0.9", assumptions=texts).recheck()
    wording = ((first, BOUNDS["assumptions"][0]),)
    monkeypatch.setattr("calibrant.stats.verdicts.EARLIER_WORDING", wording)
    check = tampered(version="0.0.9", assumptions=texts).recheck()
    assert check
    assert check.certificate.assumptions == BOUNDS["assumptions"]
    assert "worded otherwise by this version: assumptions" in str(check)
    assert not tampered(assumptions=texts).recheck(), "this version never wrote that"


def test_known_wordings_hold_no_number():
    assert not re.search(r"\d", "".join(map("".join, EARLIER_WORDING)))


def test_a_tampered_table_is_noticed():
    document = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())
    table = document["table"]
    table["sum_y"] = table["sum_p"]
    table["sum_py"] = table["sum_pp"]
    with pytest.raises(ex.InvalidDocumentError, match="event counts must be whole"):
        cb.Certificate.from_json(json.dumps(document))
    table["sum_y"] = [[float(round(x)) for x in table["sum_p"][0]]]
    table["sum_py"] = [[p * y for p, y in zip(table["level"][0], table["sum_y"][0], strict=True)]]
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "valid JSON"),
        ("{}", '"format"'),
        ('{"format": "calibrant.certificate", "schema": 9}', "schema 3, .* the document has 9"),
        ('{"format": "calibrant.certificate", "schema": true}', "the document has True"),
        ('{"format": "calibrant.certificate", "schema": 3}', "needs 'verdict'"),
        ("[" * 100_000, "nests 100,000 deep"),
        ('{"format": 1, "format": "calibrant.certificate"}', "'format' is there twice"),
        ('{"n": NaN}', "NaN is not a number"),
        ('{"n": 1e999}', "beyond the range"),
        (b"\xff\xfe{}", "valid JSON"),
    ],
)
def test_damaged_certificates_are_refused(text, words):
    with pytest.raises(ex.InvalidDocumentError, match=words):
        cb.Certificate.from_json(text)


def test_a_certificate_without_a_field_is_refused():
    document = json.loads(cb.certify(GOOD, LEVELS).to_json())
    del document["method"]
    with pytest.raises(ex.InvalidDocumentError, match="needs 'method'"):
        cb.Certificate.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "perfect"},
        {"verdict": ["certified"]},
        {"reason": 3},
        {"upper_bound": "0.01"},
        {"upper_bound": True},
        {"lower_bound": -1},
        {"n": 4000.0},
        {"n": True},
        {"n": 10**30},
        {"confidence_level": "high"},
        {"max_error": [0.05]},
        {"norm": 2},
        {"target": "everything"},
        {"min_bin_mass": "guessed"},
        {"min_bin_mass": 7},
        {"looks": 0},
        {"looks": True},
        {"looks": 1.5},
        {"looks": "two"},
        {"assumptions": "none"},
        {"assumptions": [1]},
        {"class_weights": ["1"]},
        {"version": {}},
        {"version": "x"},
        {"digests": None},
        {"digests__rows": "sha256:" + "0" * 64},
        {"digests__rows": 5},
        {"digests": {}},
        {"signed_by": "a notary"},
    ],
    ids=str,
)
def test_entries_that_a_certificate_cannot_have_are_refused(changes):
    with pytest.raises(ex.InvalidDocumentError):
        tampered(**changes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_error": 2}, "max_error must lie between 0 and 1"),
        ({"max_error": 0}, "max_error must lie between 0 and 1"),
        ({"norm": 3}, "Certificates exist for"),
        ({"confidence_level": 95}, "Write 0.95"),
        ({"target": "all"}, "target must be"),
        ({"min_bin_mass": 2}, "min_bin_mass must be"),
        ({"min_bin_mass": "guessed"}, "min_bin_mass must be"),
        ({"min_bin_mass": True}, "min_bin_mass must be"),
        ({"looks": 0}, "looks must be a whole number from 1 to 1,000,000; got 0"),
        ({"looks": 2.0}, "looks must be a whole number"),
        ({"looks": True}, "looks must be a whole number"),
        ({"looks": 10**7}, "looks must be a whole number"),
        ({"looks": "two"}, "1 for once"),
        ({"looks": 100, "confidence_level": 1 - 2e-15}, "by more than rounding"),
        ({"min_bin_mass": 0.2}, "cannot exceed 1 / 9 with 9 outputs"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, words):
    with pytest.raises(ex.InvalidArgumentError, match=words):
        cb.certify(GOOD, LEVELS, **options)


def test_a_least_mass_that_the_rows_contradict_is_refused():
    p = np.where(np.arange(4000) < 5, 0.9, 0.1)
    with pytest.raises(ex.InvalidArgumentError, match="only 5 of 4,000 have the rarest output"):
        cb.certify(GOOD, p, min_bin_mass=0.1)


def test_weighted_rows_are_refused():
    table = cb.tabulate(GOOD, LEVELS, bins=cb.Distinct(), sample_weight=LEVELS)
    with pytest.raises(ex.InvalidWeightsError, match="counts independent rows"):
        cb.stats.certify(table)


def test_tables_of_parts_are_certified_together():
    bins = cb.EqualWidth(10)
    parts = [cb.tabulate(GOOD[i::4], LEVELS[i::4], bins=bins) for i in range(4)]
    whole = cb.certify(GOOD, LEVELS, bins=bins, max_error=0.08)
    assert cb.stats.certify(sum(parts), max_error=0.08).upper_bound == pytest.approx(
        whole.upper_bound
    )


@pytest.mark.parametrize("max_error", [0.05, None])
@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
def test_labels_that_agree_too_well_do_not_pass(norm, max_error):
    levels = np.arange(1, 10) / 10
    p = np.repeat(levels, 100)
    y = np.concatenate([np.arange(100) < round(100 * level) for level in levels])
    certificate = cb.certify(y, p, max_error=max_error, norm=norm)
    assert certificate.agrees_too_well
    assert certificate.verdict == (None if max_error is None else "undecided")
    assert "were not used before" in certificate.reason
    assert cb.Certificate.from_json(certificate.to_json()).recheck()


def test_rare_events_of_which_none_happened_do_not_agree_too_well():
    """No bin expected a whole event; that none happened is no agreement but a lower rate."""
    p = np.repeat(np.arange(1, 51) / 10_000, 100)
    certificate = cb.certify(np.zeros(p.size), p, norm="max", target="sample")
    assert not certificate.agrees_too_well


def test_the_largest_error_of_the_sample_is_for_one_class_at_a_time():
    probs = np.column_stack([1 - LEVELS, LEVELS])
    with pytest.raises(ex.NoSuchEstimatorError, match="one class at a time"):
        cb.certify(GOOD.astype(int), probs, kind="marginal", target="sample", norm="max")


def test_the_one_line_bound_is_the_plug_in_error_and_a_radius():
    table = cb.tabulate(GOOD, LEVELS, bins=cb.Distinct())
    plug_in = cb.stats.calibration_error(table, norm="l1", debias=False).value
    radius = np.sqrt(np.log(20) / (2 * 4000))
    assert cb.stats.one_line_ece_bound(table, target="sample") == pytest.approx(plug_in + radius)
    assert cb.stats.one_line_ece_bound(table) == pytest.approx(plug_in + 2 * radius)
    assert cb.certify(GOOD, LEVELS, norm="l1").upper_bound < cb.stats.one_line_ece_bound(table)
    with pytest.raises(ex.NoSuchEstimatorError, match="no upper bound exists"):
        cb.stats.one_line_ece_bound(cb.tabulate(GOOD, SCORES, bins=5))
