"""Names that users chose, as a page can show them without harm."""

from __future__ import annotations

import unicodedata

from calibrant.reports.markup import Element, element

LENGTH = 48
_JOINERS = "\u200c\u200d"


def short(name: object, length: int = LENGTH) -> str:
    r"""Return a name on one line of bounded length, without invisible characters.

    Characters that control, reorder or hide text become U+FFFD; the two joiners that Persian,
    Indic scripts and emoji need stay.

    Examples
    --------
    >>> short("a\n\tb" + "c" * 100, 8)
    'a bcccc…'
    """
    text = " ".join(str(name)[: 4 * length].split())
    text = "".join("\ufffd" if _is_hidden(letter) else letter for letter in text)
    cut = len(text) > length or len(str(name)) > 4 * length
    return text[: length - 1] + "…" if cut else text or "\u2423"


def shown(name: object, length: int = LENGTH) -> Element:
    """Return a name set apart, so that its direction of writing changes nothing around it."""
    return element("bdi", short(name, length))


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "C" and letter not in _JOINERS
