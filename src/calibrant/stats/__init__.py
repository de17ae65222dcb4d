"""What the counts mean: every measure takes a `BinTable` and returns numbers.

Names are listed in ``__init__.pyi``. They are imported on first access: measuring an error
does not load certificates, audits and comparisons.
"""

from calibrant._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
