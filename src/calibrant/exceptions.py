"""The exceptions of calibrant, each also a builtin exception.

    CalibrantError
    ├── InvalidInputError (ValueError)          the data cannot be read as predictions and labels
    │   ├── InvalidProbabilitiesError           values outside [0, 1], or not numbers
    │   │   ├── LogitsError                     values on both sides of [0, 1]
    │   │   └── NotFiniteError                  NaN or infinite values
    │   ├── InvalidLabelsError                  labels outside the classes, or missing
    │   ├── InvalidWeightsError                 negative, missing or all-zero weights
    │   ├── InvalidGroupsError                  groups that no column tells apart
    │   ├── InvalidShapeError                   a shape that no kind of problem has
    │   ├── LengthMismatchError                 columns of different lengths
    │   ├── EmptyInputError                     no rows
    │   └── SwappedArgumentsError               labels where probabilities belong, and vice versa
    ├── InvalidArgumentError (ValueError)       an option has an invalid value
    │   ├── InvalidBinsError                    edges that do not partition [0, 1]
    │   └── NoSuchEstimatorError                a correction or interval that does not exist
    ├── IncompatibleTablesError (ValueError)    tables of other bins or problems cannot be added
    ├── InvalidDocumentError (ValueError)       a saved file that is damaged or of another version
    └── MissingDependencyError (ImportError)    an optional package is not installed

Messages have three parts: what was required, what came, what to do about it.
"""

from __future__ import annotations


class CalibrantError(Exception):
    """Base of all exceptions that calibrant raises on purpose."""


class InvalidInputError(CalibrantError, ValueError):
    """The data cannot be read as predictions and labels."""


class InvalidProbabilitiesError(InvalidInputError):
    """Predictions must be numbers in [0, 1]."""


class LogitsError(InvalidProbabilitiesError):
    """Predictions lie on both sides of [0, 1], as logits do."""


class NotFiniteError(InvalidProbabilitiesError):
    """Predictions contain NaN or infinite values."""


class InvalidLabelsError(InvalidInputError):
    """Labels are missing or not among the classes."""


class InvalidWeightsError(InvalidInputError):
    """Sample or class weights must be finite, not negative, and not all zero."""


class InvalidGroupsError(InvalidInputError):
    """Groups must be told apart by text, numbers or dates, and numbers lie within their cuts."""


class InvalidShapeError(InvalidInputError):
    """An array has a shape that no kind of problem has."""


class LengthMismatchError(InvalidInputError):
    """Columns have different lengths."""


class EmptyInputError(InvalidInputError):
    """There are no rows."""


class SwappedArgumentsError(InvalidInputError):
    """Labels came where probabilities belong, and vice versa."""


class InvalidArgumentError(CalibrantError, ValueError):
    """An option has an invalid value."""


class InvalidBinsError(InvalidArgumentError):
    """Bin edges must rise strictly from 0 to 1."""


class NoSuchEstimatorError(InvalidArgumentError):
    """The requested correction or interval does not exist for this norm or table."""


class IncompatibleTablesError(CalibrantError, ValueError):
    """Tables of other bins or problems cannot be added."""


class InvalidDocumentError(CalibrantError, ValueError):
    """A saved document is damaged, incomplete, or of another version."""


class MissingDependencyError(CalibrantError, ImportError):
    """An optional package is not installed."""


class UnresolvedWarning(UserWarning):
    """Many rows sit alone in their bin, where the error cannot be told from chance."""
