"""Archives of arrays: checked before they are read."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from calibrant.exceptions import InvalidDocumentError, LengthMismatchError
from calibrant.sources.files.npz import npz_chunks
from predictions_on_disk import LABEL, ONE, SCORE, N, one_line, run


def archive(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in members.items():
            zipped.writestr(f"{name}.npy", content)
    return str(path)


def saved(array, shape=None):
    """Return an array as .npy, with a header that announces another shape if one is given."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    content = buffer.getvalue()
    if shape is not None:
        size = content.index(b"\n") + 1
        header = repr({"descr": array.dtype.str, "fortran_order": False, "shape": shape})
        content = content[:10] + header.ljust(size - 11).encode() + b"\n" + content[size:]
    return content


BAD_ARCHIVES = {
    "pickled objects": ({"a": saved(np.array([{"x": 1}], object))}, "pickled objects never"),
    "records": ({"a": saved(np.zeros(3, "f8,i4"))}, "numbers and text are read"),
    "a bomb by its header": ({"a": saved(np.zeros(3), (10**12,))}, "does not fit its"),
    "a negative shape": ({"a": saved(np.zeros(3), (-3,))}, "does not fit its"),
    "a single number": ({"a": saved(np.float64(3))}, "does not fit its"),
    "no array": ({"a": b"GIF89a" + b"x" * 100}, "is not an array"),
    "a cut header": ({"a": saved(np.zeros(3))[:20]}, "is not an array"),
    "cut values": ({"a": saved(np.zeros(30))[:-8]}, "does not fit its"),
    "a long header": ({"a": b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535}, "is not an array"),
    "an endless row": ({"a": saved(np.zeros((1, 1000)))}, "a row of 'a' has 8,000 bytes"),
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_archives_that_are_not_what_they_say_are_refused(tmp_path, case, monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.npz.LARGEST_ROW", 4000)
    members, words = BAD_ARCHIVES[case]
    path = archive(tmp_path / "bad.npz", members)
    with pytest.raises(InvalidDocumentError, match=words):
        list(npz_chunks(path, lambda names: ["a"], "bad.npz"))


def test_an_archive_that_is_damaged_is_refused(tmp_path):
    path = archive(tmp_path / "bad.npz", {"a": saved(np.arange(9000.0))})
    content = bytearray((tmp_path / "bad.npz").read_bytes())
    content[200:260] = b"\xff" * 60
    (tmp_path / "bad.npz").write_bytes(content)
    with pytest.raises(InvalidDocumentError, match="cannot be read as .npz"):
        list(npz_chunks(path, lambda names: ["a"], "bad.npz"))
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    with pytest.raises(InvalidDocumentError, match="not a zip file"):
        list(npz_chunks(path, lambda names: ["a"], "bad.npz"))


def test_arrays_of_other_lengths_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.zeros(3), b=np.zeros(4))
    with pytest.raises(LengthMismatchError, match="'a': 3, 'b': 4"):
        list(npz_chunks(str(tmp_path / "a.npz"), lambda names: ["a", "b"], "a.npz"))


def test_a_bomb_is_read_in_bounded_memory(tmp_path):
    """200 MB of zeros in 200 KB are read without being held."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            header, {"descr": "<f8", "fortran_order": False, "shape": (25_000_000,)}
        )
        with zipped.open("a.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(200):
                member.write(bytes(1_000_000))
    tracemalloc.start()
    try:
        chunks = npz_chunks(str(path), lambda names: ["a"], "bomb.npz")
        assert sum(next(chunks)[0]["a"].size for _ in range(100)) > 10_000_000
        chunks.close()
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path.read_bytes()


def test_a_large_array_in_columns_is_read_and_one_that_only_claims_to_be_large_is_not(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("calibrant.sources.files.npz.HARMLESS_BYTES", 1 << 20)
    file, argv = tmp_path / "a.npz", ("--y-true", "label", "--y-prob", "probs")
    probs = np.asfortranarray(np.random.default_rng(0).dirichlet(np.ones(10), 40_000))
    labels = probs.argmax(axis=1)
    npz(file, label=labels, probs=probs)
    assert run(capsys, "measure", file, *argv)[0] == 0
    npz(file, label=labels, probs=np.zeros_like(probs))
    err = one_line(*run(capsys, "measure", file, *argv), file)
    assert "bytes unpack to 3,200,128" in err
    npz(file, label=labels, probs=np.ascontiguousarray(np.full_like(probs, 0.1)))
    assert run(capsys, "measure", file, *argv)[0] == 0


def header(text):
    text = text.ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8 * N)


def member(path, content, kind=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", kind) as archive:
        for name, array in (("label.npy", LABEL), ("score.npy", content)):
            buffer = io.BytesIO()
            if isinstance(array, bytes):
                buffer.write(array)
            else:
                np.save(buffer, array)
            archive.writestr(name, buffer.getvalue())
    return path.read_bytes()


TEXTS = np.array(["0.5"] * N)

ARRAYS = {
    "text": TEXTS,
    "text beyond Unicode": np.frombuffer(np.full(N, 0x11FFFF, np.uint32).tobytes(), "<U1"),
    "three dimensions": np.zeros((N, 2, 2)),
    "a header that is no Python": header("{'descr': '<f8', 'fortran_order': False, 'shape': (10"),
    "a header that calls": header("{'descr': __import__('os').system('true')}"),
    "a header without a type": header("{'descr': 7, 'fortran_order': False, 'shape': (1500,)}"),
    "a header with a wild type": header("{'descr': '<f9', 'fortran_order': 1, 'shape': (1500,)}"),
    "a shape of no numbers": header("{'descr': '<f8', 'fortran_order': False, 'shape': ('a',)}"),
    "a shape that is huge": header("{'descr': '<f8', 'fortran_order': False, 'shape': (9**99,)}"),
    "version nine": b"\x93NUMPY\x09\x00" + header("")[8:],
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_are_no_predictions_are_refused(tmp_path, case, calibrator, capsys):
    file = tmp_path / "preds.npz"
    member(file, ARRAYS[case])
    one_line(*run(capsys, "measure", file, *ONE), file)
    argv = ("apply", calibrator, file, "--y-prob", "score", "-o", tmp_path / "out.csv")
    code, _, err = run(capsys, *argv)
    assert code == 3 or (code, case) == (0, "text"), err


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f2", "longdouble"])
def test_numbers_of_any_size_and_order_are_read(tmp_path, kind, calibrator, capsys):
    file = tmp_path / "preds.npz"
    member(file, SCORE.astype(kind))
    assert run(capsys, "measure", file, *ONE)[0] == 0
    argv = ("apply", calibrator, file, "--y-prob", "score", "-o", tmp_path / "out.parquet")
    assert run(capsys, *argv)[0] == 0
