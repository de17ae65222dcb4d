"""Where predictions may live: every source on every engine that counts it, behind one call."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.sources import read
from conftest import kernels, optional
from lazy_frames import QUICK, SLOW, lazy_frame
from predictions_on_disk import write

IN_MEMORY = ["numpy", "compiled", "torch"]
FILES = ["csv", "parquet", "jsonl", "arrow", "npz"]
QUICK_HOMES = [*IN_MEMORY, *QUICK, *FILES]
ALL_HOMES = [*QUICK_HOMES, *SLOW]


class Home:
    """Moves arrays to where they are to live, and reads them there."""

    def __init__(self, name, monkeypatch, tmp_path):
        self.name, self.folder = name, tmp_path
        if name in ("numpy", "compiled"):
            if name == "compiled":
                kernels()
            monkeypatch.setenv("CALIBRANT_ENGINE", name)

    def read(self, y, p, *, sample_weight=None, by=None, **options):
        """Return the source of these rows; `by` holds columns, or (column, cuts), by name."""
        y, p = np.asarray(y), np.asarray(p)
        if self.name in ("numpy", "compiled"):
            return read(y, p, sample_weight=sample_weight, by=by, **options)
        if self.name == "torch":
            return self.tensors(y, p, sample_weight, options | {"by": by})
        exotic = {column.dtype for column in (y, p)} & {np.dtype("f2"), np.dtype(">i4")}
        if exotic:
            pytest.skip(f"neither files nor frames have numbers of type {exotic}")
        labels, columns = "y", {"y": y}
        if y.ndim == 2:
            labels = [f"y{k}" for k in range(y.shape[1])]
            columns = {name: y[:, k] for k, name in enumerate(labels)}
        if p.ndim == 1:
            names = "p"
            columns["p"] = p
        else:
            names = [f"p{k}" for k in range(p.shape[1])]
            columns |= {name: p[:, k] for k, name in enumerate(names)}
        if sample_weight is not None:
            columns["w"] = np.asarray(sample_weight, float)
        columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
        if by is not None:
            pairs = {k: v if isinstance(v, tuple) else (v, None) for k, v in by.items()}
            columns |= {name: values for name, (values, _) in pairs.items()}
            options["by"] = {name: cuts for name, (_, cuts) in pairs.items()}
        data = self.files(columns) if self.name in FILES else lazy_frame(self.name, columns)
        weight = None if sample_weight is None else "w"
        return read(labels, names, data=data, sample_weight=weight, **options)

    def files(self, columns):
        """Write the rows in two files, and return the pattern that names both."""
        for name, column in columns.items():
            if column.dtype == np.float32 and self.name == "csv":
                columns[name] = column.astype(float)  # as text, the shortest that is this float32
            if column.dtype == object:
                columns[name] = column.astype(str)  # no pickle is ever read
        n = len(next(iter(columns.values())))
        cuts = [slice(0, -(-n // 3)), slice(-(-n // 3), n)] if n > 1 else [slice(0, n)]
        number = len(list(self.folder.iterdir()))
        for part in cuts:
            name = f"{number}-{part.start:09d}.{self.name}"
            write(self.folder / name, columns, part)
        return str(self.folder / f"{number}-*.{self.name}")

    def tensors(self, y, p, sample_weight, options):
        """Move everything to a GPU where there is one; read as on one where there is none."""
        torch = optional("torch")
        from calibrant.sources.tensors import read_tensors

        if y.dtype.kind not in "biuf":
            pytest.skip("a tensor holds numbers")
        device = "cuda" if torch.cuda.is_available() else "cpu"

        def moved(array):
            array = array.astype(np.float64 if array.dtype == np.longdouble else array.dtype)
            native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
            return torch.from_numpy(native).to(device)

        weights = None if sample_weight is None else moved(np.asarray(sample_weight, float))
        return read_tensors(moved(y), moved(p), sample_weight=weights, **options)
