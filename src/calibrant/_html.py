"""HTML that is safe by construction: a tree whose text can only be written escaped.

There is no node for raw markup. What runs or styles a page, `Embedded`, comes from files of this
package; data for the script is JSON without a single angle bracket. Reports, the page of the
paper's studies and the results shown in notebooks are all built here.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from calibrant._json import json_text

Attribute: TypeAlias = str | float | bool | None

LENGTH = 48
"""Characters of a user's name that are shown; longer ones are cut."""
_JOINERS = "\u200c\u200d"
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*(-[a-zA-Z0-9]+)*")
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "col", "hr", "img", "meta", "wbr"})
_REFUSED_TAGS = frozenset({"script", "style", "iframe", "object", "embed", "base", "link", "form"})
_REFUSED_ATTRIBUTES = frozenset({"style", "src", "srcset", "srcdoc", "action", "formaction"})


@dataclass(frozen=True)
class Element:
    """A tag, its attributes, and what is inside; strings inside are text."""

    tag: str
    attributes: tuple[tuple[str, Attribute], ...]
    children: tuple[Node, ...]

    def parts(self) -> Iterator[str]:
        """Yield the markup, piece by piece."""
        yield f"<{self.tag}{''.join(map(_written, self.attributes))}>"
        if self.tag in _VOID:
            return
        for child in self.children:
            if isinstance(child, str):
                yield escaped(child)
            else:
                yield from child.parts()
        yield f"</{self.tag}>"

    def __str__(self) -> str:
        return "".join(self.parts())


@dataclass(frozen=True)
class Embedded:
    """A style sheet or script of this package, verbatim, or data for the script."""

    tag: Literal["style", "script"]
    source: str
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def __post_init__(self) -> None:
        if "</" in self.source or "<!--" in self.source:
            raise ValueError(f"A {self.tag} must not hold '</' or '<!--'.")

    @property
    def digest(self) -> str:
        """The hash by which a Content-Security-Policy allows this source."""
        sha = hashlib.sha256(self.source.encode()).digest()
        return f"'sha256-{base64.b64encode(sha).decode()}'"

    def parts(self) -> Iterator[str]:
        """Yield the markup, piece by piece."""
        yield f"<{self.tag}{''.join(map(_written, self.attributes))}>{self.source}</{self.tag}>"


Node: TypeAlias = str | Element | Embedded
Content: TypeAlias = Node | Iterable["Content"] | None


def element(tag: str, *children: Content, **attributes: Attribute) -> Element:
    """Return an element; attributes that are None are left out, True stands for a bare name.

    Underscores stand for dashes, and a last one is dropped: ``class_``, ``aria_label``. Tags and
    attributes that run, load or send something are refused, and links stay on the page.

    Examples
    --------
    >>> str(element("p", "1 < 2", class_="note"))
    '<p class="note">1 &lt; 2</p>'
    """
    if not _NAME.fullmatch(tag) or tag.lower() in _REFUSED_TAGS:
        raise ValueError(f"tag not allowed in a report: {tag!r}")
    by_name = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    for name, value in by_name.items():
        lower = name.lower()
        if not _NAME.fullmatch(name) or lower.startswith("on") or lower in _REFUSED_ATTRIBUTES:
            raise ValueError(f"attribute not allowed in a report: {name!r}")
        if lower == "href" and not str(value).startswith("#"):
            raise ValueError(f"link not allowed in a report, it leaves the page: {value!r}")
    present = [pair for pair in by_name.items() if pair[1] is not None and pair[1] is not False]
    return Element(tag, tuple(present), tuple(_flat(children)))


def json_data(name: str, value: Any) -> Embedded:
    """Return data that the script finds by its id; no browser runs it."""
    text = json_text(value, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Embedded("script", text, (("type", "application/json"), ("id", name)))


def png_image(png: bytes, description: str) -> Element:
    """Return a picture that is part of the document, the one exception to `src` being refused."""
    source = f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"
    return Element("img", (("alt", description), ("src", source)), ())


def table(
    caption: Content,
    heads: Sequence[Element | str],
    rows: Iterable[Sequence[Content]],
    **attributes: Attribute,
) -> Element:
    """Return a table whose rows begin with their head.

    The caption is for those who do not see the heading above the table.
    """
    columns = (h if isinstance(h, Element) else element("th", h, scope="col") for h in heads)
    return element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", *columns)),
        element(
            "tbody",
            *(
                element("tr", element("th", head, scope="row"), *(element("td", c) for c in cells))
                for head, *cells in rows
            ),
        ),
        **attributes,
    )


def bullets(lines: Iterable[Content], **attributes: Attribute) -> Element:
    """Return a list with a bullet for each line."""
    return element("ul", *(element("li", line) for line in lines), **attributes)


def scrolling(label: str, content: Element, extra: str = "") -> Element:
    """Return a region that scrolls by itself, also by keyboard, where its content is too wide."""
    return element(
        "div",
        content,
        class_=f"scroll {extra}".strip(),
        role="region",
        aria_label=label,
        tabindex=0,
    )


def section(name: str, heading: Content, *content: Content) -> Element:
    """Return a part of the page under a heading of its own."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, *content, id=name, aria_labelledby=f"{name}-heading")


def short(name: object, length: int = LENGTH) -> str:
    r"""Return a name that users chose, on one line of bounded length, nothing in it invisible.

    Characters that control, reorder or hide text become U+FFFD; the two joiners that Persian,
    Indic scripts and emoji need stay.

    Examples
    --------
    >>> short("a\n\tb" + "c" * 100, 8)
    'a bcccc…'
    """
    text = " ".join(str(name)[: 4 * length].split())
    text = "".join(
        "\ufffd" if unicodedata.category(letter)[0] == "C" and letter not in _JOINERS else letter
        for letter in text
    )
    cut = len(text) > length or len(str(name)) > 4 * length
    return text[: length - 1] + "…" if cut else text or "\u2423"


def shown(name: object, length: int = LENGTH) -> Element:
    """Return a name set apart, so that its direction of writing changes nothing around it."""
    return element("bdi", short(name, length))


def escaped(text: str) -> str:
    """Escape markup, and show characters that no document may hold as U+FFFD."""
    return html.escape(_NO_TEXT.sub("\ufffd", text))


def _flat(children: Iterable[Content]) -> Iterator[Node]:
    for child in children:
        if isinstance(child, str | Element | Embedded):
            yield child
        elif child is not None:
            yield from _flat(child)


def _written(attribute: tuple[str, Attribute]) -> str:
    name, value = attribute
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, int | float) else str(value)
    return f' {name}="{escaped(text)}"'
