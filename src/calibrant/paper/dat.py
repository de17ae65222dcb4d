"""Convert the authors' ``.dat`` files to ``.npz``, without loading a pickle.

``python -m calibrant.paper.dat cifar10.dat cifar10.npz``

The paper's authors publish predictions as ``pickle.dump((probs, labels))``: a tuple of an (n, K)
array of floats and an (n,) or (n, 1) array of whole numbers. A pickle is a program for a small
machine. `pickletools` lists its instructions without obeying them, and here they are followed on
paper only: a name stays a name, and a call becomes a record of what was to be called with what.
That record must be the one of two arrays of plain numbers whose sizes match their bytes.
"""

from __future__ import annotations

import math
import os
import pickletools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._types import AnyArray
from calibrant._writing import replaced
from calibrant.exceptions import InvalidDocumentError

# Far above what such files need (0.2 GB, 80 instructions): limits of the work on a hostile one.
LARGEST_FILE = 1 << 32
MOST_INSTRUCTIONS = 1000

LITERALS = frozenset({
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
    "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8",
})  # fmt: skip
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
NUMBERS = frozenset({"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"})
NAMES = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy.core.multiarray _reconstruct": "_reconstruct",
    "numpy._core.multiarray _reconstruct": "_reconstruct",
    "numpy.core.numeric _frombuffer": "_frombuffer",
    "numpy._core.numeric _frombuffer": "_frombuffer",
    "_codecs encode": "encode",
}


@dataclass(frozen=True)
class _Name:
    """A name that the pickle looks up."""

    name: str


@dataclass
class _Call:
    """A call in the pickle, and the state that it sets on the result."""

    function: str
    arguments: tuple[Any, ...]
    state: Any = None


_MARK = object()


def read_dat(path: str | os.PathLike[str]) -> tuple[AnyArray, AnyArray]:
    """Return (probs, labels) from a file that the paper's authors published.

    Anything but two arrays of numbers raises InvalidDocumentError.
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
        return _pair(_record(data))
    except Exception as error:  # of any kind: the bytes may be hostile
        raise InvalidDocumentError(
            f"{name} must be a pickle of exactly two arrays of numbers, (probs, labels), as the "
            f"paper's authors publish; {str(error) or type(error).__name__}. Nothing in it was "
            "run. Convert other pickles where they were made: np.savez(file, probs=probs, "
            "labels=labels)."
        ) from None


def _record(data: bytes) -> Any:
    """Follow the instructions of a pickle on paper, and return what they leave."""
    stack: list[Any] = []
    memo: dict[Any, Any] = {}
    for count, (opcode, argument, position) in enumerate(pickletools.genops(data)):
        if count >= MOST_INSTRUCTIONS:
            raise InvalidDocumentError(f"it has more than {MOST_INSTRUCTIONS:,} steps")
        match opcode.name:
            case "PROTO" | "FRAME" | "STOP":
                continue
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "MARK":
                stack.append(_MARK)
            case "TUPLE":
                start = len(stack) - stack[::-1].index(_MARK)
                stack[start - 1 :] = [tuple(stack[start:])]
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                length = int(opcode.name[-1])
                stack[-length:] = [tuple(stack[-length:])]
            case "GLOBAL":
                stack.append(_known(str(argument)))
            case "STACK_GLOBAL":
                stack[-2:] = [_known(" ".join(stack[-2:]))]
            case "REDUCE":
                function, arguments = stack[-2:]
                stack[-2:] = [_Call(function.name, tuple(arguments))]
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], _Call):
                    raise InvalidDocumentError(f"it changes {getattr(stack[-1], 'name', 'values')}")
                stack[-1].state = state
            case name if name in LITERALS:
                stack.append(argument)
            case name if name in CONSTANTS:
                stack.append(CONSTANTS[name])
            case name:
                raise InvalidDocumentError(f"it uses {name} at byte {position:,}")
    return stack.pop()


def _known(name: str) -> _Name:
    if name not in NAMES:
        raise InvalidDocumentError(f"it asks for {name.replace(' ', '.')}")
    return _Name(NAMES[name])


def _pair(record: Any) -> tuple[AnyArray, AnyArray]:
    good = isinstance(record, tuple) and len(record) == 2
    if not good or not all(isinstance(part, _Call) for part in record):
        raise InvalidDocumentError("it holds something else")
    probs, labels = (_array(part) for part in record)
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


def _array(call: _Call) -> AnyArray:
    """Return the array of a record, if its shape and type account for exactly its bytes."""
    match call:
        case _Call("_reconstruct", (_Name("ndarray"), _, _), (_, shape, kind, is_fortran, content)):
            pass
        case _Call("_frombuffer", (content, kind, shape, order)):
            is_fortran = order == "F"
        case _:
            raise InvalidDocumentError(f"it calls {call.function} in a way that arrays do not")
    whole = isinstance(shape, tuple) and 1 <= len(shape) <= 2
    if not whole or not all(type(length) is int and length >= 0 for length in shape):
        raise InvalidDocumentError("it has an array that is no column and no table")
    dtype, data = _dtype(kind), _bytes(content)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise InvalidDocumentError("it has an array whose shape does not match its bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if is_fortran else "C")


def _dtype(record: Any) -> np.dtype[Any]:
    match record:
        case _Call("dtype", (str(code), *_), (_, "<" | ">" | "|" | "=" as order, *others)):
            if code not in NUMBERS:
                raise InvalidDocumentError(f"it has an array of type {code[:20]!r}")
            if others[:3] == [None, None, None]:  # no parts, no names, no fields
                return np.dtype(code).newbyteorder("=" if order == "|" else order)
    raise InvalidDocumentError("it has an array of records or objects")


def _bytes(content: Any) -> bytes | bytearray:
    match content:
        case bytes() | bytearray():
            return content
        case str() | _Call("encode", (str(), "latin1")):  # protocols 0 to 2 have no bytes
            text = content if isinstance(content, str) else content.arguments[0]
            return bytes(text, "latin1")
    raise InvalidDocumentError("it has an array without contents")


def main(source: str, target: str) -> None:
    """Write the two arrays to an ``.npz`` file that `read_predictions` reads."""
    probs, labels = read_dat(source)
    with replaced(target) as stream:
        np.savez(stream, probs=probs, labels=labels)


if __name__ == "__main__":
    main(*sys.argv[1:])
