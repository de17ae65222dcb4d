"""The authors' ``.dat`` files: pickled arrays, read without ever running what a pickle asks for.

The paper's authors publish predictions as ``pickle.dump((probs, labels))``: a tuple of an (n, K)
array of floats and an (n,) or (n, 1) array of whole numbers, written by Python 3. A pickle is
a program for a small machine, and an ordinary reader obeys it. This one does not:

1. the program is listed first, without being run; opcodes that array files do not need, long
   programs and large memo addresses are refused;
2. the only names that may be looked up are those with which NumPy pickles arrays, and each
   gives a stand-in that writes down what it was told and calls nothing of NumPy;
3. what was written down must be two arrays of plain numbers whose sizes match their bytes.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidDocumentError

LARGEST_FILE = 1 << 32
MOST_OPCODES = 1000
OPCODES = frozenset({
    "PROTO", "FRAME", "STOP", "MARK", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD",
    "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET",
    "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1",
    "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "STRING", "BINSTRING", "SHORT_BINSTRING",
    "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
})  # fmt: skip
MEMO = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
NUMBERS = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"})
NAMES = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("numpy.core.multiarray", "_reconstruct"): "_reconstruct",
    ("numpy._core.multiarray", "_reconstruct"): "_reconstruct",
    ("numpy.core.numeric", "_frombuffer"): "_frombuffer",
    ("numpy._core.numeric", "_frombuffer"): "_frombuffer",
    ("_codecs", "encode"): "encode",
}


def read_dat(path: str | os.PathLike[str]) -> tuple[AnyArray, AnyArray]:
    """Return (probs, labels) from a file that the paper's authors published.

    Nothing in the file is executed; anything but two arrays of numbers raises
    InvalidDocumentError.
    """
    size = Path(path).stat().st_size
    if size > LARGEST_FILE:
        raise InvalidDocumentError(
            f"{path} has {size:,} bytes, more than the {LARGEST_FILE:,} that are read."
        )
    return parse_dat(Path(path).read_bytes(), str(path))


def parse_dat(data: bytes, name: str = "this file") -> tuple[AnyArray, AnyArray]:
    """Return (probs, labels) from the bytes of such a file."""
    try:
        _check_program(data)
        found = _ArrayReader(io.BytesIO(data), encoding="latin1").load()
        return _pair(found)
    except InvalidDocumentError as error:
        raise _refusal(name, error) from None
    except Exception as error:
        # A damaged program can fail in any of the reader's steps; the answer is the same.
        raise _refusal(name, error) from error


def _refusal(name: str, error: Exception) -> InvalidDocumentError:
    return InvalidDocumentError(
        f"{name} must be a pickle of exactly two arrays of numbers, (probs, labels), as the "
        f"paper's authors publish; {str(error) or type(error).__name__}. Nothing in it was run. "
        "Convert other pickles where they were made: np.savez(file, probs=probs, labels=labels)."
    )


def _check_program(data: bytes) -> None:
    """Refuse programs that no pickle of two arrays needs, before any of it is run."""
    for count, (opcode, argument, position) in enumerate(pickletools.genops(data)):
        if count >= MOST_OPCODES:
            raise InvalidDocumentError(f"it has more than {MOST_OPCODES:,} steps")
        if opcode.name not in OPCODES:
            raise InvalidDocumentError(f"it uses {opcode.name} at byte {position:,}")
        if opcode.name in MEMO and int(argument or 0) >= MOST_OPCODES:
            raise InvalidDocumentError(f"it uses the memo address {argument:,}")


class _ArrayReader(pickle.Unpickler):
    """A machine that knows the names of NumPy's arrays, and nothing behind them."""

    def find_class(self, module: str, name: str) -> Any:
        known = NAMES.get((module, name))
        if known is None:
            raise InvalidDocumentError(f"it asks for {module}.{name}")
        return _StandIn(known)

    def persistent_load(self, pid: Any) -> NoReturn:
        raise InvalidDocumentError("it refers to objects outside the file")


class _StandIn:
    """One of the known names: answers a call with a record of what was asked."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        if self.name == "_reconstruct" and len(args) == 3 and _is(args[0], "ndarray"):
            return _ArrayRecord()
        if self.name == "dtype" and args and isinstance(args[0], str):
            return _TypeRecord(args[0])
        if self.name == "_frombuffer" and len(args) == 4:
            buffer, dtype, shape, order = args
            return _ArrayRecord((1, shape, dtype, order == "F", buffer))
        if self.name == "encode" and len(args) == 2 and args[1] == "latin1":
            return args[0].encode("latin1")
        raise InvalidDocumentError(f"it calls {self.name} in a way that arrays do not")

    def __setstate__(self, state: Any) -> NoReturn:
        raise InvalidDocumentError(f"it changes {self.name}")


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _StandIn) and value.name == name


class _TypeRecord:
    """What a pickle says of a dtype."""

    __slots__ = ("code", "order")

    def __init__(self, code: str) -> None:
        self.code, self.order = code, "="

    def __setstate__(self, state: Any) -> None:
        plain = isinstance(state, tuple) and len(state) >= 5 and state[2:5] == (None, None, None)
        if not plain or state[1] not in ("<", ">", "|", "="):
            raise InvalidDocumentError("it has an array of records or objects")
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        if self.code not in NUMBERS:
            raise InvalidDocumentError(f"it has an array of type {self.code[:20]!r}")
        return np.dtype(self.code).newbyteorder("=" if self.order == "|" else self.order)  # type: ignore[arg-type]


class _ArrayRecord:
    """What a pickle says of an array."""

    __slots__ = ("state",)

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> AnyArray:
        """Return the array, if its shape and type account for exactly its bytes."""
        if not isinstance(self.state, tuple) or len(self.state) != 5:
            raise InvalidDocumentError("it has an array without contents")
        _, shape, kind, is_fortran, buffer = self.state
        whole = isinstance(shape, tuple) and 1 <= len(shape) <= 2
        if not whole or not all(type(length) is int and length >= 0 for length in shape):
            raise InvalidDocumentError("it has an array that is no column and no table")
        if not isinstance(kind, _TypeRecord):
            raise InvalidDocumentError("it has an array without a type")
        data = buffer.encode("latin1") if isinstance(buffer, str) else buffer
        dtype = kind.dtype()
        if not isinstance(data, bytes | bytearray) or math.prod(shape) * dtype.itemsize != len(
            data
        ):
            raise InvalidDocumentError("it has an array whose shape does not match its bytes")
        flat = np.frombuffer(data, dtype)
        return flat.reshape(shape, order="F" if is_fortran else "C")


def _pair(found: Any) -> tuple[AnyArray, AnyArray]:
    good = isinstance(found, tuple) and len(found) == 2
    if not good or not all(isinstance(part, _ArrayRecord) for part in found):
        raise InvalidDocumentError("it holds something else")
    probs, labels = (part.array() for part in found)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if (
        probs.ndim != 2
        or probs.dtype.kind != "f"
        or labels.ndim != 1
        or labels.dtype.kind not in "iu"
    ):
        raise InvalidDocumentError(
            f"its arrays have the shapes {probs.shape} and {labels.shape} and the types "
            f"{probs.dtype} and {labels.dtype}"
        )
    return probs, labels
