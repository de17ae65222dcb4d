"""Tables of a page: a caption, column heads, and rows whose first cell is their head."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from calibrant.reports.markup import Attribute, Content, Element, element


def table(
    caption: Content,
    heads: Sequence[Element | str],
    rows: Iterable[Sequence[Content]],
    **attributes: Attribute,
) -> Element:
    """Return a table; its caption is for those who do not see the heading above it."""
    return element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", *map(_head, heads))),
        element("tbody", *(_row(*cells) for cells in rows)),
        **attributes,
    )


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


def _head(head: Element | str) -> Element:
    return head if isinstance(head, Element) else element("th", head, scope="col")


def _row(first: Content, *others: Content) -> Element:
    return element(
        "tr", element("th", first, scope="row"), *(element("td", cell) for cell in others)
    )
