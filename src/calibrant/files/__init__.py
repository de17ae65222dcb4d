"""Prediction files: CSV, Parquet, JSON lines, Arrow and .npz, read in chunks, never unpickled."""

from __future__ import annotations

from calibrant.files.names import STANDARD_INPUT, expand, format_of, match_columns
from calibrant.files.writing import replaced, write_whole

__all__ = ["STANDARD_INPUT", "expand", "format_of", "match_columns", "replaced", "write_whole"]
