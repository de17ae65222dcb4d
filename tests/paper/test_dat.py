"""The authors' .dat files are converted; hostile and damaged pickles are refused, never run."""

from __future__ import annotations

import builtins
import inspect
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from calibrant.exceptions import InvalidDocumentError, InvalidInputError
from calibrant.paper import dat, read_predictions

PROBS = np.random.default_rng(0).dirichlet(np.ones(3), size=8).astype(np.float32)
LABELS = np.arange(8) % 3


class Call:
    """Pickles as a call of any function."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


def assert_refused(data: bytes, match: str = "two arrays of numbers"):
    with pytest.raises(InvalidDocumentError, match=match) as caught:
        dat.parse_dat(data)
    assert "Nothing in it was run" in str(caught.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], LABELS.astype(np.uint8)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_two_arrays_are_read_whatever_the_protocol_and_layout(protocol, labels, order):
    written = pickle.dumps((np.array(PROBS, order=order), labels), protocol)
    probs, read = dat.parse_dat(written)
    np.testing.assert_array_equal(probs, PROBS)
    np.testing.assert_array_equal(read, LABELS)
    assert probs.dtype == PROBS.dtype


def test_big_endian_arrays_keep_their_values():
    probs, _ = dat.parse_dat(pickle.dumps((PROBS.astype(">f8"), LABELS.astype(">i4")), 3))
    np.testing.assert_array_equal(probs, PROBS.astype(np.float64))


def test_names_of_older_numpy_are_known():
    old = pickle.dumps((PROBS, LABELS), 2).replace(
        b"numpy._core.multiarray", b"numpy.core.multiarray"
    )
    np.testing.assert_array_equal(dat.parse_dat(old)[0], PROBS)


@pytest.mark.parametrize(
    "call",
    [
        Call(os.system, "touch {}"),
        Call(subprocess.check_output, ["touch", "{}"]),
        Call(builtins.eval, "open({!r}, 'w')"),
        Call(builtins.exec, "open({!r}, 'w')"),
        Call(builtins.open, "{}", "w"),
        Call(getattr, "x", "upper"),
        Call(np.fromfile, "/etc/hostname"),
        Call(np.load, "{}"),
    ],
)
@pytest.mark.parametrize("place", ["alone", "beside", "inside"])
def test_a_call_is_refused_and_does_not_happen(call, place, tmp_path):
    trace = tmp_path / "trace"
    function, args = call.call
    args = tuple(
        [part.format(str(trace)) if isinstance(part, str) else part for part in arg]
        if isinstance(arg, list)
        else arg.format(str(trace))
        for arg in args
    )
    hostile = Call(function, *args)
    written = {"alone": hostile, "beside": (PROBS, LABELS, hostile), "inside": (hostile, LABELS)}
    for protocol in (0, 2, 3, 4, 5):
        assert_refused(pickle.dumps(written[place], protocol))
    assert not trace.exists()


def test_arrays_of_objects_are_refused():
    assert_refused(pickle.dumps((np.array([[object()]], dtype=object), LABELS)))
    assert_refused(pickle.dumps((PROBS, np.array(["a", "b"], dtype=object))))


def test_records_and_strings_are_refused():
    assert_refused(pickle.dumps((np.zeros(2, [("a", "f4")]), LABELS)))
    assert_refused(pickle.dumps((np.array([["a"]]), LABELS)))


def test_an_object_type_with_forged_bytes_is_refused():
    forged = pickle.dumps((PROBS, LABELS), 3).replace(b"\x02\x00\x00\x00f4", b"\x02\x00\x00\x00O8")
    assert_refused(forged, "type 'O8'")


def test_a_giant_shape_is_refused_before_memory_is_asked_for():
    written = pickle.dumps((PROBS, LABELS), 3)
    for shape in (b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86", b"K\x08K\x04\x86"):
        assert_refused(written.replace(b"K\x08K\x03\x86", shape), "does not match its bytes")


def test_a_negative_shape_is_refused():
    written = pickle.dumps((PROBS, LABELS), 3)
    assert_refused(
        written.replace(b"K\x08K\x03\x86", b"J\xff\xff\xff\xffJ\xe8\xff\xff\xff\x86"), "no table"
    )


class FakeDtype:
    """Pickles as numpy.ndarray called with a shape: an allocation, if it were obeyed."""

    def __reduce__(self):
        return np.ndarray, ((1 << 40,),)


class Subtype:
    """Pickles as _reconstruct of another class than an array."""

    def __reduce__(self):
        from numpy._core.multiarray import _reconstruct

        return _reconstruct, (np.dtype, (0,), b"b")


def test_reconstruct_and_ndarray_do_only_what_arrays_need():
    assert_refused(pickle.dumps((FakeDtype(), LABELS), 3), "calls ndarray")
    assert_refused(pickle.dumps((Subtype(), LABELS), 3), "calls _reconstruct")


def test_a_known_name_cannot_be_changed():
    build = b"\x80\x03cnumpy\ndtype\n(K\x01K\x02tb."
    assert_refused(build, "changes dtype")


def test_a_giant_memo_address_is_refused_before_memory_is_asked_for():
    assert_refused(b"\x80\x02Nr\xff\xff\xff\x7f.")


def test_endless_programs_are_refused():
    assert_refused(b"\x80\x02" + b"N0" * 3 + b"N.", "POP")
    assert_refused(b"\x80\x02" + b"N" * 5000 + b".", "steps")


@pytest.mark.parametrize("size", [0, 1, 10, 100, -1])
def test_damaged_files_are_refused(size):
    assert_refused(pickle.dumps((PROBS, LABELS), 3)[:size])


@pytest.mark.parametrize(
    "found",
    [PROBS, (PROBS,), (PROBS, LABELS, LABELS), (LABELS, LABELS), (PROBS, PROBS), ("a", "b")],
)
def test_anything_but_probabilities_and_labels_is_refused(found):
    assert_refused(pickle.dumps(found, 3))


def test_random_changes_of_a_file_never_do_more_than_fail():
    rng = np.random.default_rng(1)
    written = pickle.dumps((PROBS, LABELS), 3)
    for _ in range(500):
        changed = bytearray(written)
        for place in rng.integers(len(changed), size=2):
            changed[place] = rng.integers(256)
        try:
            probs, labels = dat.parse_dat(bytes(changed))
        except InvalidDocumentError:
            continue
        assert probs.dtype.kind == "f"
        assert labels.dtype.kind in "iu"


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "a.dat"
    path.write_bytes(pickle.dumps((PROBS, LABELS)))
    monkeypatch.setattr(dat, "LARGEST_FILE", 10)
    with pytest.raises(InvalidDocumentError, match="more than the 10"):
        dat.read_dat(path)


def test_a_converted_file_is_read_by_the_studies(tmp_path):
    (tmp_path / "a.dat").write_bytes(pickle.dumps((PROBS, LABELS)))
    with pytest.raises(InvalidInputError, match="python -m calibrant.paper.dat .*a.dat .*a.npz"):
        read_predictions(tmp_path / "a.dat")
    command = [sys.executable, "-m", "calibrant.paper.dat"]
    subprocess.run([*command, tmp_path / "a.dat", tmp_path / "a.npz"], check=True)
    data = read_predictions(tmp_path / "a.npz")
    np.testing.assert_array_equal(data.probs, PROBS)
    np.testing.assert_array_equal(data.labels, LABELS)


def test_the_converter_does_not_import_pickle_s_reader():
    assert "import pickle\n" not in inspect.getsource(dat)
