"""Damaged prediction files of every format, through the commands that read them.

An accepted file must give the numbers that an independent reader finds in it: Python's csv and
json modules, NumPy's `load`, PyArrow's fully validated table. Anything else must be refused.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import random
import re
import struct
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from child import command, expect

import calibrant as cb

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "stream", "npz", "csv.gz", "jsonl.gz")
NAMES = ("cat", "dog", "eel")
BLANKS = {"", "na", "n/a", "nan", "null", "none"}
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
TEXTS = ("plain", "a, b", 'say "hi"', "two\nlines", "ünï", "=1+1", "", "{}", "\t")
COLUMNS = ("id", "label", "score", "note", "animal", *(f"prob_{name}" for name in NAMES))


class Unreadable(Exception):
    """What an independent reader says of a file."""


def prepare() -> None:
    """Fit what `apply` applies, and load what is loaded lazily before memory is limited."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    calibrator().fit(p, (rng.uniform(size=300) < p).astype(int))
    cb.certify([0, 1] * 20, [0.5] * 40, max_error=0.5)


def calibrator():
    return cb.PlattScaling()


def run(number: int, folder: Path) -> str:
    rng = random.Random(f"damaged files {number}")
    _vary_blocks(rng)
    kind = rng.choice(FORMATS)
    rows = make_rows(rng)
    data, damage = damaged(kind, rows, rng)
    suffix = {"stream": "arrow"}.get(kind, kind)
    (folder / f"in.{suffix}").write_bytes(data)
    (folder / "damage.txt").write_text(f"{kind}: {damage}")
    check = rng.choice(CHECKS)
    return check(f"in.{suffix}", kind, damage == "none", rng)


def _vary_blocks(rng: random.Random) -> None:
    """Read small files in many blocks, as large ones are."""
    from calibrant.sources.files import arrow

    arrow.BLOCK_BYTES = rng.choice([1 << 10, 1 << 20])
    arrow.MOST_ROWS = rng.choice([17, 1 << 17])


# The files


def make_rows(rng: random.Random) -> list[dict]:
    n = rng.choice([1, 3, 40, 200])
    rows = []
    for i in range(n):
        score = round(rng.random(), rng.choice([1, 1, 6]))
        cut = sorted(rng.random() for _ in range(2))
        probs = (cut[0], cut[1] - cut[0], 1 - cut[1])
        rows.append(
            dict(
                zip(
                    COLUMNS,
                    (
                        f"{i:04d}",
                        int(rng.random() < score),
                        score,
                        rng.choice(TEXTS),
                        rng.choices(NAMES, probs)[0],
                        *probs,
                    ),
                    strict=True,
                )
            )
        )
    return rows


def encode(kind: str, rows: list[dict], rng: random.Random) -> bytes:
    if kind.endswith(".gz"):
        return gzip.compress(encode(kind.removesuffix(".gz"), rows, rng), mtime=0)
    if kind in ("csv", "tsv"):
        stream = io.StringIO()
        writer = csv.writer(stream, delimiter="," if kind == "csv" else "\t", lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows(row.values() for row in rows)
        return stream.getvalue().encode()
    if kind == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    out = io.BytesIO()
    if kind == "npz":
        np.savez(out, **{name: np.array(column) for name, column in columns.items()})
        return out.getvalue()
    table = pa.table(columns)
    if kind == "parquet":
        codec, pages = rng.choice(["none", "snappy", "zstd"]), rng.choice([True, False])
        pq.write_table(
            table, out, row_group_size=64, compression=codec, write_page_checksum=pages,
            use_dictionary=rng.choice([True, False]),
        )  # fmt: skip
        return out.getvalue()
    new = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    codec = rng.choice([None, None, "lz4", "zstd"])
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        for batch in table.to_batches(64):
            writer.write_batch(batch)
    return out.getvalue()


# The damage


def damaged(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    if rng.random() < 0.06:
        return encode(kind, rows, rng), "none"
    if kind.endswith(".gz") and rng.random() < 0.5:
        data, damage = damaged(kind.removesuffix(".gz"), rows, rng)
        return gzip.compress(data, mtime=0), f"inside, {damage}"
    choices = [damage_bytes]
    if kind in ("csv", "tsv"):
        choices += [damage_text, damage_text, damage_rows]
    elif kind == "jsonl":
        choices += [damage_json, damage_json, damage_rows]
    elif kind == "npz":
        choices += [damage_member, damage_member, damage_rows]
    else:
        choices += [damage_bytes, damage_rows]
    return rng.choice(choices)(kind, rows, rng)


def damage_bytes(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    """Flip, cut, insert, repeat, splice, and put extreme lengths."""
    data, names = bytearray(encode(kind, rows, rng)), []
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        size = rng.choice([1, 2, 8, 64, 500])
        name = rng.choice(
            ["flip", "cut", "truncate", "insert", "repeat", "splice", "length", "zero"]
        )
        if name == "flip":
            for _ in range(size):
                if data:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif name == "cut":
            del data[at : at + size]
        elif name == "truncate":
            del data[at:]
        elif name == "insert":
            data[at:at] = rng.randbytes(size)
        elif name == "repeat":
            data[at:at] = data[max(0, at - size) : at]
        elif name == "splice":
            other = encode(kind, make_rows(rng), rng)
            data[at:] = other[rng.randrange(len(other)) :]
        elif name == "length":
            value = rng.choice([0, 1, -1, 7, 2**31 - 1, -(2**31), 2**15, 10**9])
            data[at : at + 4] = struct.pack("<i", value)
            if rng.random() < 0.3:
                data[at : at + 8] = struct.pack("<q", rng.choice([2**63 - 1, -1, 2**40, 2**32]))
        else:
            data[at : at + size] = bytes(len(data[at : at + size]))
        names.append(f"{name} at {at}")
    return bytes(data), ", ".join(names)


CELLS = (
    "", "NA", "nan", "inf", "-0.1", "1.0000001", "1e-320", "-0.0", "0,5", "0.5.5", "90%", "1e999",
    '"0.5"', '"', '""', "'0.5'", "0x1p-1", "1_0", "٠", "+0.5", " 0.5 ", "true", "\x00", "0.5\r",
    "9" * 400, "[0.5]", "{}", "null", "0.5;", "\ufeff0.5", "=0.5", "-", "e", ".", "1e",
)  # fmt: skip


def damage_text(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    """Put stray quotes, other cells, other numbers of fields, other ends of lines."""
    separator = b"," if kind == "csv" else b"\t"
    lines = encode(kind, rows, rng).split(b"\n")
    at = rng.randrange(len(lines))
    name = rng.choice(["cell", "cell", "quote", "bytes", "field", "drop", "blank", "swap", "header",
                       "repeat name", "returns", "bom", "join", "wide"])  # fmt: skip
    cells = lines[at].split(separator)
    which = rng.randrange(len(cells))
    if name == "cell":
        cells[which] = rng.choice(CELLS).encode()
        lines[at] = separator.join(cells)
    elif name == "quote":
        place = rng.randrange(len(lines[at]) + 1)
        lines[at] = lines[at][:place] + b'"' + lines[at][place:]
    elif name == "bytes":
        lines[at] += rng.choice(
            [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\x1b[31m", b"\xe2\x80\xa8"]
        )
    elif name == "field":
        lines[at] += separator + b"1"
    elif name == "drop":
        lines[at] = separator.join(cells[:which] + cells[which + 1 :])
    elif name == "blank":
        lines[at:at] = [rng.choice([b"", b"   ", separator * 3, b"\r", b"#"])] * rng.choice([1, 3])
    elif name == "swap":
        other = rng.randrange(len(cells))
        cells[which], cells[other] = cells[other], cells[which]
        lines[at] = separator.join(cells)
    elif name == "header":
        lines[at:at] = [lines[0]]
    elif name == "repeat name":
        header = lines[0].split(separator)
        header[rng.randrange(len(header))] = rng.choice(
            [b"score", b"label", b"Score", b" score", b'"score"']
        )
        lines[0] = separator.join(header)
    elif name == "returns":
        return rng.choice([b"\r\n", b"\r", b"\n\r", b"\n\n"]).join(lines), name
    elif name == "bom":
        lines[0] = rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"]) + lines[0]
    elif name == "join":
        lines[at : at + 2] = [b" ".join(lines[at : at + 2])]
    else:
        cells[which] = b"x" * rng.choice([2_000, 70_000])
        lines[at] = separator.join(cells)
    return b"\n".join(lines), f"{name} at line {at + 1}"


VALUES = (
    "null", "NaN", "Infinity", "-0.0", "1e999", '"0.5"', '"x"', "true", "[0.5]", "[]", "{}", "1.7",
    '{"a": [1, {"b": null}]}', "-1", "0.5e", "05", "0.5.5", "'0.5'", "undefined", '"\\ud800"', "1e-400",
    "[" * 5_000, "[" * 5_000 + "]" * 5_000, '{"a":' * 3_000, '"\\u0000"', "123456789012345678901234567890",
)  # fmt: skip


def damage_json(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    """Put other values, keys, orders, ends of lines and things that are not objects."""
    lines = encode(kind, rows, rng).split(b"\n")
    at = rng.randrange(len(rows))
    row = rows[at]
    key = rng.choice([*row, "label", "score"])
    name = rng.choice(["value", "value", "delete", "rename", "repeat key", "order", "line", "newline",
                       "two", "bytes", "bom", "pretty", "text", "other keys"])  # fmt: skip
    parts = {name: json.dumps(value) for name, value in row.items()}
    if name == "value":
        parts[key] = rng.choice(VALUES)
    elif name == "delete":
        del parts[key]
    elif name == "rename":
        parts = {
            (rng.choice(["Score", "", "scor\\u0065", "lábel"]) if k == key else k): v
            for k, v in parts.items()
        }
    elif name == "order":
        for i in range(at, len(rows)):
            mixed = list(rows[i].items())
            rng.shuffle(mixed)
            lines[i] = json.dumps(dict(mixed)).encode()
        return b"\n".join(lines), f"{name} from row {at + 1}"
    elif name == "other keys":
        for i in range(at, len(rows)):
            lines[i] = json.dumps({"new": i, **rows[i]}).encode()
        return b"\n".join(lines), f"{name} from row {at + 1}"
    text = "{" + ", ".join(f'"{k}": {v}' for k, v in parts.items()) + "}"
    if name == "repeat key":
        text = text[:-1] + f', "{key}": {rng.choice(VALUES)}}}'
    elif name == "line":
        text = rng.choice([*VALUES, "[1, 2]", "0", '"text"', "", "  ", "{", "}", "//", "{}"])
    elif name == "newline":
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["\n", "\r", "\r\n", "\u2028"]) + text[place:]
    elif name == "two":
        text += rng.choice(["", " ", ","]) + text
    elif name == "pretty":
        text = json.dumps(row, indent=2)
    elif name == "text":
        text = text.replace(": ", rng.choice([":", " :\t", "=", ": \x00", ":\u00a0"]), 1)
    lines[at] = text.encode("utf-8", "surrogatepass")
    if name == "bytes":
        place = rng.randrange(len(lines[at]))
        lines[at] = (
            lines[at][:place] + rng.choice([b"\xff", b"\xc3", b"\x00", b'"']) + lines[at][place:]
        )
    elif name == "bom":
        lines[0] = b"\xef\xbb\xbf" + lines[0]
    return b"\n".join(lines), f"{name} in row {at + 1}"


def damage_rows(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    """Write a whole file of other columns, types and values: nothing is wrong with the bytes."""
    name = rng.choice(["nulls", "text scores", "lists", "other order", "missing column", "bad values",
                       "text labels", "no rows", "small floats"])  # fmt: skip
    rows = [dict(row) for row in rows]
    for row in rows:
        if name == "text scores":
            row["score"] = str(row["score"])
        elif name == "lists":
            row["score"] = [row["score"], 1 - row["score"]]
        elif name == "missing column":
            del row["score"]
        elif name == "text labels":
            row["label"] = str(row["label"])
        elif name == "small floats":
            row["score"] = row["score"] * 1e-310
    chosen = rng.choice(rows)
    if name == "nulls" and kind != "npz":
        chosen[rng.choice(["score", "label", "note"])] = None
    elif name == "bad values":
        chosen[rng.choice(["score", "label"])] = rng.choice([1.5, -0.25, math.nan, math.inf, 2, -1])
    elif name == "other order":
        order = list(rows[0])
        rng.shuffle(order)
        rows = [{key: row[key] for key in order} for row in rows]
    if name == "no rows" and kind in ("csv", "tsv"):
        return encode(kind, rows, rng).split(b"\n")[0] + b"\n", name
    if kind in ("csv", "tsv") and name == "lists":
        return encode(kind, [{**row, "score": json.dumps(row["score"])} for row in rows], rng), name
    try:
        return encode(kind, rows, rng), name
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError):
        return b"", "empty"


def damage_member(kind: str, rows: list[dict], rng: random.Random) -> tuple[bytes, str]:
    """Change what an array in an archive says of itself, with a checksum that is right."""
    name = rng.choice(
        ["header", "header", "bytes", "twice", "short", "long", "object", "wide", "columns", "text"]
    )
    arrays = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    target = rng.choice(["label", "score"])
    if name == "object":
        arrays[target] = arrays[target].astype(object)
    elif name == "wide":
        arrays[target] = np.stack([arrays[target]] * rng.choice([1, 2]), axis=1)
    elif name == "columns":
        arrays[target] = np.asfortranarray(np.stack([arrays[target]] * 2, axis=1))
    elif name == "text":
        arrays[target] = arrays[target].astype(rng.choice(["U8", "S8"]))
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    ) as zipped:
        for key, array in arrays.items():
            stream = io.BytesIO()
            np.lib.format.write_array(stream, array, allow_pickle=True)
            data = stream.getvalue()
            if key == target:
                data = _other_member(name, data, rng)
            zipped.writestr(f"{key}.npy", data)
            if key == target and name == "twice":
                import warnings

                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    zipped.writestr(rng.choice([f"{key}.npy", key]), data[:-8] + bytes(8))
    return out.getvalue(), f"{name} of {target}"


def _other_member(name: str, data: bytes, rng: random.Random) -> bytes:
    if name == "header":
        old, new = rng.choice([
            (b"False", b"True "), (b"'<f8'", b"'>f8'"), (b"'<f8'", b"'<i8'"), (b"'<i8'", b"'<f8'"),
            (b"'<i8'", b"'<u8'"), (b"'<f8'", b"'<m8'"), (b"'<f8'", b"'|O' "), (b"(", b"(9"), (b",)", b"0)"),
            (b"(", b"(-"), (b"'<f8'", b"'|V8'"), (b"'<f8'", b"'<c8'"), (b"{", b"["), (b"'descr'", b"'desc' "),
            (b"\x93NUMPY\x01", b"\x93NUMPY\x03"), (b"\x93NUMPY\x01", b"\x93NUMPY\x09"), (b",)", b",2)"),
        ])  # fmt: skip
        return data.replace(old, new, 1)
    if name == "bytes":
        changed = bytearray(data)
        for _ in range(rng.choice([1, 4, 30])):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        return bytes(changed)
    return {"short": data[:-8], "long": data + bytes(8)}.get(name, data)


# What an independent reader finds


def read(path: str, kind: str, names: tuple[str, ...]) -> list[tuple]:
    """Return the values of some columns, row by row, as they stand there."""
    data = Path(path).read_bytes()
    try:
        if kind.endswith(".gz"):
            data, kind = gzip.decompress(data), kind.removesuffix(".gz")
        if kind in ("csv", "tsv"):
            return read_csv(data, "," if kind == "csv" else "\t", names)
        if kind == "jsonl":
            return read_json(data, names)
        if kind == "npz":
            return read_npz(data, names)
        return read_arrow(data, kind, names)
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error


def read_csv(data: bytes, separator: str, names: tuple[str, ...]) -> list[tuple]:
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    csv.field_size_limit(10**9)
    lines = csv.reader(io.StringIO(text + "\nthe end", newline=""), delimiter=separator)
    rows = [row for row in lines if row]
    if rows.pop() != ["the end"]:
        raise Unreadable("a quote that is never closed")
    header, rows = rows[0], rows[1:]
    if any(header.count(name) != 1 for name in names):
        raise Unreadable("a column that is there twice, or not at all")
    uneven = [i for i, row in enumerate(rows) if len(row) != len(header)]
    if uneven:
        raise Unreadable(f"row {uneven[0] + 1} has another number of fields")
    places = [header.index(name) for name in names]
    return [tuple(row[i] for i in places) for row in rows]


def read_json(data: bytes, names: tuple[str, ...]) -> list[tuple]:
    """Read one object after the other, wherever lines end."""

    def unique(pairs):
        keys = [key for key, _ in pairs]
        if any(keys.count(name) > 1 for name in names):
            raise Unreadable("a key twice")
        return dict(pairs)

    decoder, rows, at = json.JSONDecoder(object_pairs_hook=unique), [], 0
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    while match := re.compile(r"[^ \t\r\n]").search(text, at):
        value, at = decoder.raw_decode(text, match.start())
        if not isinstance(value, dict):
            raise Unreadable("not an object")
        rows.append(tuple(value.get(name) for name in names))
    return rows


def read_npz(data: bytes, names: tuple[str, ...]) -> list[tuple]:
    with zipfile.ZipFile(io.BytesIO(data)) as zipped:
        infos = [(info.filename.removesuffix(".npy"), info) for info in zipped.infolist()]
        if any([name for name, _ in infos].count(name) != 1 for name in names):
            raise Unreadable("an array that is there twice, or not at all")
        # member by member: np.load looks at the first, which may be damaged and not wanted
        members = [io.BytesIO(zipped.read(dict(infos)[name])) for name in names]
    columns = [np.load(member, allow_pickle=False) for member in members]
    shapes = [column.shape for column in columns]
    if any(len(shape) not in (1, 2) or shape[0] != shapes[0][0] for shape in shapes):
        raise Unreadable("arrays of other shapes")
    return list(zip(*(c.tolist() for c in columns), strict=True))


def read_arrow(data: bytes, kind: str, names: tuple[str, ...]) -> list[tuple]:
    if kind == "parquet":
        file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
        if any(file.schema_arrow.names.count(name) != 1 for name in names):
            raise Unreadable("a column that is there twice, or not at all")
        table = file.read(columns=list(names))
        if table.num_rows != file.metadata.num_rows:
            raise Unreadable("another number of rows than announced")
    else:
        opened = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
        table = opened(io.BytesIO(data)).read_all()
        if any(table.schema.names.count(name) != 1 for name in names):
            raise Unreadable("a column that is there twice, or not at all")
        table = table.select(list(names))
    table.validate(full=True)
    return list(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def number(value: object) -> float | None:
    """Return what a cell says, None where it is missing."""
    if isinstance(value, str | bytes):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        text = text.strip()
        if text.lower() in BLANKS:
            return None
        if text.lower() in ("true", "false"):
            return float(text.lower() == "true")
        if not NUMBER.fullmatch(text):
            raise Unreadable(f"not a number: {text[:60]!r}")
        return float(text)
    if isinstance(value, bool | int | float | Decimal):
        return None if math.isnan(value) else float(value)
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 1:
        return number(value[0])
    raise Unreadable(f"not a number: {value!r:.60}")


def event(value: object) -> float | None:
    """Return the prediction of the event: of two columns it is the second."""
    if isinstance(value, str) and value.startswith("["):  # a list in a CSV
        value = json.loads(value)
    if isinstance(value, list) and len(value) == 2:
        first, second = map(number, value)
        return None if first is None or not 0 <= first <= 1 else second
    return number(value)


# The commands


def pairs(path: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and scores that a file holds, or say why it holds none."""
    rows = [(number(a), event(b)) for a, b in read(path, kind, ("label", "score"))]
    if not rows:
        raise Unreadable("no rows")
    bad = [i for i, (a, b) in enumerate(rows) if a not in (0, 1) or b is None or not 0 <= b <= 1]
    if bad:
        raise Unreadable(f"row {bad[0] + 1} is {rows[bad[0]]}")
    y, p = np.array(rows).T
    return y, p


def judge(code: int, said: str, whole: bool, truth: object, why: str) -> bool:
    """Return whether a command accepted the file; fail where it should not have, or should."""
    if code in (3, 4):
        expect(not whole, f"a file without damage was refused: {said}")
        return False
    expect(truth is not None, f"exit {code}: accepted a file that cannot be read: {why}")
    return True


def truth_of(reader, *args):
    try:
        return reader(*args), ""
    except (Unreadable, RecursionError) as error:
        return None, str(error)


def same_table(document: dict, y: np.ndarray, p: np.ndarray) -> None:
    edges = np.array(document["bins"][0]["edges"])
    bins = np.maximum(np.searchsorted(edges, p, side="left") - 1, 0)
    for name, terms in (("count", np.ones_like(p)), ("sum_y", y), ("sum_p", p), ("sum_pp", p * p)):
        sums = np.bincount(bins, terms, minlength=edges.size - 1)
        got = np.array(document[name][0])
        expect(
            np.allclose(got, sums, rtol=1e-9, atol=1e-12),
            f"{name} is {got.tolist()} where the file has {sums.tolist()}",
        )


def check_measure(path: str, kind: str, whole: bool, rng: random.Random) -> str:
    bins = rng.choice(["width:5", "3", "distinct", "hybrid:4"])
    code, _, said = command("measure", path, "--y-true", "label", "--y-prob", "score",
                            "--bins", bins, "--table", "table.json", "--json")  # fmt: skip
    truth, why = truth_of(pairs, path, kind)
    if not judge(code, said, whole, truth, why):
        return "refused"
    same_table(json.loads(Path("table.json").read_text()), *truth)
    return "accepted, numbers right"


def check_certify(path: str, kind: str, whole: bool, rng: random.Random) -> str:
    code, out, said = command("certify", path, "--y-true", "label", "--y-prob", "score",
                              "--max-error", rng.choice(["0.01", "0.4"]), "--json")  # fmt: skip
    truth, why = truth_of(pairs, path, kind)
    if not judge(code, said, whole, truth, why):
        return "refused"
    certificate = json.loads(out)
    expect(certificate["n"] == len(truth[0]), f"n = {certificate['n']} of {len(truth[0])} rows")
    same_table(certificate["table"], *truth)
    return "accepted, numbers right"


def classes(path: str, kind: str, by_pattern: bool) -> tuple[np.ndarray, np.ndarray]:
    names = class_columns(path, kind) if by_pattern else [f"prob_{name}" for name in NAMES]
    known = [name.removeprefix("prob_") for name in names]
    if len(names) != len(NAMES) or any(
        a != b and a in NAMES for a, b in zip(known, NAMES, strict=True)
    ):
        raise Unreadable("other columns, or in another order")
    rows = read(path, kind, ("animal", *names))
    if not rows:
        raise Unreadable("no rows")
    labels = [row[0].decode() if isinstance(row[0], bytes) else row[0] for row in rows]
    if any(label not in NAMES for label in labels):  # which may be a list
        raise Unreadable("other labels")
    probs = [[number(value) for value in row[1:]] for row in rows]
    if any(value is None or not 0 <= value <= 1 for row in probs for value in row):
        raise Unreadable("a prediction that is none")
    return np.array([NAMES.index(label) for label in labels]), np.array(probs)


def check_classes(path: str, kind: str, whole: bool, rng: random.Random) -> str:
    probs = rng.choice([["prob_*"], ["prob_cat", "prob_dog", "prob_eel"]])
    code, _, said = command("measure", path, "--y-true", "animal", "--y-prob", *probs, "--kind", "marginal",
                            "--classes", ",".join(NAMES), "--bins", "width:4", "--table", "table.json")  # fmt: skip
    truth, why = truth_of(classes, path, kind, probs == ["prob_*"])
    if not judge(code, said, whole, truth, why):
        return "refused"
    document = json.loads(Path("table.json").read_text())
    for group in range(3):
        part = {name: [document[name][group]] for name in ("count", "sum_y", "sum_p", "sum_pp")} | {
            "bins": document["bins"]
        }
        same_table(part, (truth[0] == group).astype(float), truth[1][:, group])
    return "accepted, numbers right"


def class_columns(path: str, kind: str) -> list[str]:
    """Return the columns that a pattern means, in the order of the file's first row."""
    try:
        names = column_names(Path(path).read_bytes(), kind)
    except Exception as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return [name for name in names if name.startswith("prob_")]


def column_names(data: bytes, kind: str) -> list[str]:
    if kind.endswith(".gz"):
        data, kind = gzip.decompress(data), kind.removesuffix(".gz")
    if kind == "npz":
        with np.load(io.BytesIO(data)) as arrays:
            return list(arrays.files)
    if kind == "parquet":
        return pq.read_schema(io.BytesIO(data)).names
    if kind in ("arrow", "stream"):
        opened = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
        return opened(io.BytesIO(data)).schema.names
    if kind == "jsonl":
        text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").lstrip()
        return list(json.JSONDecoder().raw_decode(text)[0])
    text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter="," if kind == "csv" else "\t")
    return next(row for row in rows if row)


def scores(path: str, kind: str) -> list[float | None]:
    return [event(row[0]) for row in read(path, kind, ("score",))]


def check_apply(path: str, kind: str, whole: bool, rng: random.Random) -> str:
    known = np.linspace(0, 1, 200)
    fitted = calibrator().fit(known, (np.arange(200) * 7 % 11 < 11 * known).astype(int))
    fitted.save("cal.json")
    out = rng.choice(["csv", "jsonl", "parquet", "arrow"])
    code, _, said = command("apply", "cal.json", path, "--y-prob", "score", "-o", f"out.{out}")
    truth, why = truth_of(scores, path, kind)
    if not judge(code, said, whole, truth, why):
        expect(not Path(f"out.{out}").exists(), "a refused file left an output behind")
        return "refused"
    got = [event(row[0]) for row in read(f"out.{out}", out, ("score_calibrated",))]
    expect(len(got) == len(truth), f"{len(got)} rows of {len(truth)} were written")
    for i, (before, after) in enumerate(zip(truth, got, strict=True)):
        usable = before is not None and 0 <= before <= 1
        right = fitted.predict_proba(np.array([before]))[0] if usable else None
        expect(
            after is None if right is None else after is not None and abs(after - right) < 1e-9,
            f"row {i + 1}: {before} became {after}, not {right}",
        )
    return "accepted, numbers right"


def check_other(path: str, kind: str, whole: bool, rng: random.Random) -> str:
    columns = ("--y-true", "label", "--y-prob", "score")
    code, _, said = command(*rng.choice([
        ("fit", path, *columns, "--method", "platt", "-o", "fitted.json"),
        ("compare", path, path, *columns, "--json"),
        ("report", path, *columns, "-o", "report.html"),
        ("measure", path, *columns, "--sample-weight", "prob_cat", "--json"),
    ]))  # fmt: skip
    truth, why = truth_of(pairs, path, kind)
    few = truth is not None and (len(truth[0]) < 40 or len(set(truth[0])) < 2)
    return "accepted" if judge(code, said, whole and not few, truth, why) else "refused"


CHECKS = (check_measure, check_measure, check_certify, check_classes, check_apply, check_other)
